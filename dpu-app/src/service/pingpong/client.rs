//! The client's side: sends a message, waits for it to come back, and begins again.

use core::net::IpAddr;

use roce_codec::ib::Qpn;
use roce_engine::{Backing, Entropy, Event, Instant, SeededEntropy, Wc, WcOpcode, WcStatus};

use super::endpoint::Endpoint;
use super::error::SessionError;
use super::{Address, FILL, Options, PAGE, Transport};
use crate::service::memory::read;
use crate::service::{Context, Gid, Platform, Route, wr_id};

/// What we send from, and where what comes back is placed.
const OUT: u32 = 0;
const BACK: u32 = 1;
const SLOTS: u32 = 2;
/// How long an answer may take; a message that UC loses never comes.
const PATIENCE_S: u64 = 10;

/// One client's queue pair and how far it has come. End it with [`Client::close`], whatever has
/// happened.
#[derive(Debug)]
pub struct Client {
    id: u32,
    options: Options,
    iterations: u64,
    local: IpAddr,
    endpoint: Endpoint,
    sent: u64,
    completed: u64,
    answered: u64,
    patience: Option<Instant>,
}

impl Client {
    /// A client that has the address `local` and is not connected. `id` is in the upper half of
    /// its work requests' ids. Without a count of iterations it makes 1,000.
    ///
    /// # Errors
    /// [`SessionError`]; nothing is kept.
    pub fn new<P: Platform>(
        id: u32,
        options: Options,
        local: IpAddr,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, SessionError> {
        let (size, most) = (options.size, options.path_mtu);
        if options.transport == Transport::Ud && size > most.bytes() {
            return Err(SessionError::Datagram { size, most });
        }
        let endpoint = Endpoint::new(options.transport, SLOTS, size, context)?;
        let client = Self {
            id,
            options,
            iterations: options.iterations.unwrap_or(1000),
            local,
            endpoint,
            sent: 0,
            completed: 0,
            answered: 0,
            patience: None,
        };
        client.fill(None, context);
        Ok(client)
    }

    /// What to tell the server over TCP.
    #[must_use]
    pub fn address(&self) -> Address {
        self.endpoint.address(Gid::from(self.local))
    }

    /// Connects to the server's queue pair, which is ready; says by which way.
    ///
    /// # Errors
    /// [`SessionError`]: close it.
    pub fn connect<P: Platform>(
        &mut self,
        server: &Address,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Route, SessionError> {
        if server.gid == Gid([0; 16]) {
            return Err(SessionError::NoGid);
        }
        let theirs = server.gid.address();
        if theirs.is_ipv4() != self.local.is_ipv4() {
            return Err(SessionError::Kind { ours: self.local, theirs });
        }
        let route = self.endpoint.connect(server, self.options.path_mtu, context)?;
        if route.src != self.local {
            // The server would answer to another address than it was told.
            return Err(SessionError::Kind { ours: self.local, theirs });
        }
        Ok(route)
    }

    /// Sends the first message.
    ///
    /// # Errors
    /// [`SessionError`]: close it.
    pub fn start<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.next(context)
    }

    /// Bytes of a message.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.options.size
    }

    /// Messages that have come back.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether all have, and the server has acknowledged the last one.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.answered >= self.iterations && self.completed >= self.iterations
    }

    /// Whether a queue pair is its own.
    #[must_use]
    pub fn owns(&self, qpn: Qpn) -> bool {
        self.endpoint.qpn == qpn
    }

    /// Takes a completion whose `wr_id` is of this client.
    ///
    /// # Errors
    /// [`SessionError`]: close it.
    pub fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        match wc.status {
            WcStatus::Success => {}
            WcStatus::WrFlush => return Ok(()),
            status => return Err(SessionError::Failed(status)),
        }
        if wc.opcode == WcOpcode::Recv {
            let (message, sent) = (self.answered, self.options.size);
            let found = self.endpoint.message_len(wc.byte_len);
            if found != sent {
                return Err(SessionError::Length { message, found, sent });
            }
            if self.options.check {
                self.compare(message, context)?;
            }
            self.answered += 1;
        } else {
            self.completed += 1;
        }
        self.next(context)
    }

    /// Sends the next message once the last one is back and acknowledged.
    fn next<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        if self.is_done() {
            self.patience = None;
            return Ok(());
        }
        if self.answered < self.sent || self.completed < self.sent {
            return Ok(());
        }
        self.patience = Some(context.now.add_ns(PATIENCE_S * 1_000_000_000));
        if self.options.check {
            self.fill(Some(self.sent), context);
        }
        self.endpoint.post_receive(BACK, wr_id(self.id, BACK), context)?;
        self.endpoint.post_send(OUT, self.options.size, wr_id(self.id, OUT), context)?;
        self.sent += 1;
        Ok(())
    }

    /// Writes what is sent: noise of a message, or what the programs send; either passes their
    /// `-c`.
    fn fill<P: Platform>(&self, message: Option<u64>, context: &mut Context<'_, '_, P>) {
        self.pieces(message, |offset, piece| {
            let place = self.endpoint.place(OUT, offset);
            // Inside our own region.
            let _ = context.platform.memory().write(place, [piece, &[]]);
            Ok(())
        })
        .unwrap_or(());
    }

    /// Compares what came back with what was sent.
    fn compare<P: Platform>(
        &self,
        message: u64,
        context: &Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.pieces(Some(message), |offset, piece| {
            let mut back = [0; 256];
            let back = back.get_mut(..piece.len()).unwrap_or_default();
            read(context.platform.memory(), self.endpoint.place(BACK, offset), back);
            match (offset..).zip(piece.iter().zip(back)).find(|(_, (sent, back))| sent != back) {
                None => Ok(()),
                Some((offset, (expected, found))) => {
                    Err(SessionError::Byte { message, offset, found: *found, expected: *expected })
                }
            }
        })
    }

    /// A message in pieces of up to 256 bytes.
    fn pieces(
        &self,
        message: Option<u64>,
        mut each: impl FnMut(u32, &[u8]) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let mut noise = message.map(SeededEntropy::new);
        let mut offset = 0;
        while offset < self.options.size {
            let mut piece = [FILL; 256];
            if let Some(noise) = &mut noise {
                for word in piece.chunks_exact_mut(4) {
                    word.copy_from_slice(&noise.next_u32().to_le_bytes());
                }
            }
            if offset % PAGE == 0 {
                piece[0] = 0;
            }
            let len = usize::try_from(self.options.size - offset).map_or(256, |len| len.min(256));
            each(offset, piece.get(..len).unwrap_or_default())?;
            offset += 256;
        }
        Ok(())
    }

    /// Takes an event about its queue pair.
    ///
    /// # Errors
    /// [`SessionError`]: close it.
    pub fn handle_event(&mut self, event: &Event) -> Result<(), SessionError> {
        match event {
            Event::RequestRefused { code, .. } => Err(SessionError::Refused(*code)),
            Event::RequestFailed { status, .. } => Err(SessionError::Failed(*status)),
            _ => Ok(()),
        }
    }

    /// When [`Client::handle_timeout`] is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.patience
    }

    /// Gives up when the answer has taken too long.
    ///
    /// # Errors
    /// [`SessionError::NoAnswer`]: close it.
    pub fn handle_timeout<P: Platform>(
        &mut self,
        context: &Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if self.patience.is_some_and(|end| end <= context.now) {
            return Err(SessionError::NoAnswer { answered: self.answered, waited_s: PATIENCE_S });
        }
        Ok(())
    }

    /// Destroys its queue pair and takes its memory back.
    pub fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.endpoint.close(context);
    }
}
