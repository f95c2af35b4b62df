//! The server's side: sends back what comes.
//!
//! A message is sent back from where it was received, and its place is lent again only when that
//! has been acknowledged: a retransmission has to find what was sent the first time.

use roce_codec::ib::{PathMtu, Qpn};
use roce_engine::{Event, Instant, Wc, WcOpcode, WcStatus};

use super::endpoint::Endpoint;
use super::error::SessionError;
use super::{Address, DONE, Options, PAGE, Transport};
use crate::service::memory::{SharedRegion, read};
use crate::service::{Context, Gid, Platform, Progress, Reply, low_of, wr_id};

/// Messages that may be on their way back; a client sends the next one when it has the last.
const SLOTS: u32 = 4;
/// How long a client may be silent before it is taken to be done: it does not say so.
const IDLE_NS: u64 = 10_000_000_000;
/// The same when it has sent as many messages as it was to. It may still ask for the last answer.
const LINGER_NS: u64 = 1_000_000_000;

/// Where the exchange over TCP is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Address,
    Done,
    /// There is no more to say.
    Silent,
}

/// One client. End it with [`Session::close`], whatever has happened.
#[derive(Debug)]
pub struct Session {
    id: u32,
    options: Options,
    phase: Phase,
    endpoint: Option<Endpoint>,
    received: u64,
    returned: u64,
    /// When the session is over, should nothing happen.
    ends: Option<Instant>,
    over: bool,
}

impl Session {
    /// A session for a client that has just connected. `id` is in the upper half of its work
    /// requests' ids.
    #[must_use]
    pub const fn new(id: u32, options: Options) -> Self {
        Self {
            id,
            options,
            phase: Phase::Address,
            endpoint: None,
            received: 0,
            returned: 0,
            ends: None,
            over: false,
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Bytes of the client's next message over TCP; 0 when there is none to come.
    #[must_use]
    pub const fn next_len(&self) -> usize {
        match self.phase {
            Phase::Address => Address::LEN,
            Phase::Done => DONE.len(),
            Phase::Silent => 0,
        }
    }

    /// Whether the client may close its TCP connection now. The session goes on.
    #[must_use]
    pub fn may_end(&self) -> bool {
        self.is_running()
    }

    /// Whether the client sends messages.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.phase != Phase::Address
    }

    /// Whether the client is done, as far as can be told.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// The path MTU that both sides use.
    #[must_use]
    pub const fn path_mtu(&self) -> PathMtu {
        self.options.path_mtu
    }

    /// Messages that have come.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.received
    }

    /// Its queue pair with the memory behind it.
    pub fn regions(&self) -> impl Iterator<Item = SharedRegion> {
        self.endpoint.iter().map(|endpoint| SharedRegion {
            qpn: endpoint.qpn,
            exposed: endpoint.exposed,
            receives: endpoint.slots(),
        })
    }

    /// Whether a queue pair serves this client.
    #[must_use]
    pub fn owns(&self, qpn: Qpn) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.qpn == qpn)
    }

    /// Takes a message of [`Session::next_len`] bytes from TCP and appends the answer, if there
    /// is one, to `reply`.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_message<P: Platform>(
        &mut self,
        bytes: &[u8],
        reply: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Progress, SessionError> {
        match self.phase {
            Phase::Address => {
                let peer = bytes.first_chunk().and_then(Address::parse);
                let address = self.connect(&peer.ok_or(SessionError::Address)?, context)?;
                // An answer is shorter than those of perftest.
                let _ = reply.extend_from_slice(&address.emit());
                self.phase = Phase::Done;
                Ok(Progress::Started)
            }
            Phase::Done if bytes == DONE => {
                self.phase = Phase::Silent;
                Ok(Progress::Continues)
            }
            Phase::Done | Phase::Silent => Err(SessionError::Done),
        }
    }

    /// Answers a client's queue pair with one of ours.
    fn connect<P: Platform>(
        &mut self,
        peer: &Address,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Address, SessionError> {
        if peer.gid == Gid([0; 16]) {
            return Err(SessionError::NoGid);
        }
        let Options { transport, size, .. } = self.options;
        let size = if transport == Transport::Ud {
            // The program sends what its port can.
            self.options.path_mtu = context.path_mtu;
            size.min(context.path_mtu.bytes())
        } else {
            size
        };
        let endpoint = Endpoint::new(transport, SLOTS, size, context)?;
        // From here on `close` cleans up.
        let endpoint = self.endpoint.insert(endpoint);
        let route = endpoint.connect(peer, self.options.path_mtu, context)?;
        for slot in 0..SLOTS {
            endpoint.post_receive(slot, wr_id(self.id, slot), context)?;
        }
        self.ends = Some(context.now.add_ns(IDLE_NS));
        Ok(endpoint.address(Gid::from(route.src)))
    }

    /// Takes a completion whose `wr_id` is one of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
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
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let slot = low_of(wc.wr_id);
        if wc.opcode == WcOpcode::Recv {
            let len = endpoint.message_len(wc.byte_len);
            if self.options.check {
                self.check(endpoint, slot, len, context)?;
            }
            endpoint.post_send(slot, len, wc.wr_id, context)?;
            self.received += 1;
        } else {
            endpoint.post_receive(slot, wc.wr_id, context)?;
            self.returned += 1;
        }
        let all = self.options.iterations.is_some_and(|count| self.returned >= count);
        self.ends = Some(context.now.add_ns(if all { LINGER_NS } else { IDLE_NS }));
        Ok(())
    }

    /// Looks at what a client with `-c` sets: the first byte of each page is 0.
    fn check<P: Platform>(
        &self,
        endpoint: &Endpoint,
        slot: u32,
        len: u32,
        context: &Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let mut offset = 0;
        while offset < len {
            let mut byte = [0];
            read(context.platform.memory(), endpoint.place(slot, offset), &mut byte);
            let [found] = byte;
            if found != 0 {
                let message = self.received;
                return Err(SessionError::Byte { message, offset, found, expected: 0 });
            }
            offset = offset.saturating_add(PAGE);
        }
        Ok(())
    }

    /// Takes an event about a queue pair of this client's.
    ///
    /// # Errors
    /// [`SessionError`]: close the session and the connection.
    pub fn handle_event(&mut self, event: &Event) -> Result<(), SessionError> {
        match event {
            Event::RequestRefused { code, .. } => Err(SessionError::Refused(*code)),
            Event::RequestFailed { status, .. } => Err(SessionError::Failed(*status)),
            _ => Ok(()),
        }
    }

    /// When [`Session::handle_timeout`] is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.ends
    }

    /// Ends it when the client has been silent for long enough.
    pub fn handle_timeout<P: Platform>(&mut self, context: &Context<'_, '_, P>) {
        if self.ends.is_some_and(|end| end <= context.now) {
            self.ends = None;
            self.over = true;
        }
    }

    /// Destroys its queue pair and takes its memory back.
    pub fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        self.endpoint.into_iter().for_each(|endpoint| endpoint.close(context));
    }
}
