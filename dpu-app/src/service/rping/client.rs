//! The client's side.

use core::fmt::Write as _;
use core::net::IpAddr;

use heapless::String;
use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId};
use roce_codec::ib::Qpn;
use roce_engine::{Access, Wc, WcOpcode};

use super::buffers::Buffers;
use super::{Advert, MAX_PING};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, What,
};
use crate::service::{Context, Platform};

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// The server.
    pub peer: IpAddr,
    /// The port of RDMA CM's that it is asked for by.
    pub port: u16,
    /// The port that our user would have; no UDP port.
    pub src_port: u16,
    /// Pings.
    pub count: u64,
    /// Bytes of a ping, 16 to [`MAX_PING`].
    pub size: u32,
    /// Whether what comes back is looked at.
    pub verify: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Connecting,
    /// The server has the ping.
    Read,
    /// The server has written it back.
    Written,
    Disconnecting,
    Over,
}

/// A client with its connection.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    connection: Connection,
    /// Where the ping comes from, and the SENDs.
    source: Buffers,
    /// Where it goes.
    sink: Buffers,
    step: Step,
    pings: u64,
}

impl Client {
    /// Asks a server for a connection. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn connect<P: Platform>(
        number: u32,
        options: &ClientOptions,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        if !(16..=MAX_PING).contains(&options.size) {
            return Err(CmServiceError::Protocol);
        }
        let pd = context.engine.alloc_pd();
        let source = Buffers::new(number, pd, Access::REMOTE_READ, context)?;
        let sink = match Buffers::new(number, pd, Access::REMOTE_WRITE, context) {
            Ok(sink) => sink,
            Err(error) => {
                source.withdraw(context);
                return Err(error);
            }
        };
        let attr = ConnectionAttr {
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
            ..ConnectionAttr::new(pd)
        };
        let ClientOptions { peer, port, src_port, .. } = *options;
        let service = RdmaCmServiceId { port_space: PortSpace::TCP, port }.into();
        let ports = (src_port, port);
        let connection = match Connection::connect(peer, service, ports, &[], &attr, gsi, context) {
            Ok(connection) => connection,
            Err(error) => {
                source.withdraw(context);
                sink.withdraw(context);
                return Err(error);
            }
        };
        let client =
            Self { options: *options, connection, source, sink, step: Step::Connecting, pings: 0 };
        match client.source.post_receives(client.connection.qpn(), context) {
            Ok(()) => Ok(client),
            Err(error) => {
                client.close(gsi, context);
                Err(error)
            }
        }
    }

    /// Bytes from `offset` on of the ping of a round: as `rping` has it, `rdma-ping-7: ` and letters
    /// that begin with another one each time, and a zero byte at the end.
    fn ping(&self, round: u64, offset: u32, out: &mut [u8]) {
        let mut head = String::<32>::new();
        // There is room for any number.
        let _ = write!(head, "rdma-ping-{round}: ");
        let head = head.as_bytes();
        for (byte, at) in out.iter_mut().zip(offset..) {
            let index = usize::try_from(at).unwrap_or(usize::MAX);
            *byte = if at + 1 == self.options.size {
                0
            } else if let Some(letter) = head.get(index) {
                *letter
            } else {
                let letter = round + u64::from(at) - u64::try_from(head.len()).unwrap_or(0);
                b'A' + u8::try_from(letter % 58).unwrap_or(0)
            };
        }
    }

    fn send_source<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let mut piece = [0; 256];
        let mut offset = 0;
        while offset < self.options.size {
            let left = usize::try_from(self.options.size - offset).unwrap_or(piece.len());
            let part = piece.get_mut(..left.min(256)).unwrap_or_default();
            self.ping(self.pings, offset, part);
            self.source.write(offset, part, context)?;
            // What was there before must not pass for what comes back.
            self.sink.write(offset, &[0xff; 256][..part.len()], context)?;
            offset += 256;
        }
        self.step = Step::Read;
        self.send(&self.source, context)
    }

    /// Tells the server of the ping's memory in one of ours.
    fn send<P: Platform>(
        &self,
        which: &Buffers,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let advert = Advert {
            va: which.exposed.region.va,
            rkey: which.exposed.mr.rkey,
            len: self.options.size,
        };
        self.source.send(self.connection.qpn(), &advert, context)
    }

    /// Whether the ping has come back as it was.
    fn verify<P: Platform>(&self, context: &Context<'_, '_, P>) -> Result<(), CmServiceError> {
        let mut same = true;
        self.sink.for_each_piece(self.options.size, context, |offset, piece| {
            let mut expected = [0; 256];
            let expected = expected.get_mut(..piece.len()).unwrap_or_default();
            self.ping(self.pings, offset, expected);
            same &= expected == piece;
            same
        })?;
        if same { Ok(()) } else { Err(CmServiceError::Content { round: self.pings }) }
    }

    fn handle_go_ahead<P: Platform>(
        &mut self,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match self.step {
            Step::Read => {
                self.step = Step::Written;
                self.send(&self.sink, context)
            }
            Step::Written => {
                if self.options.verify {
                    self.verify(context)?;
                }
                self.pings += 1;
                if self.pings < self.options.count {
                    return self.send_source(context);
                }
                self.step = Step::Disconnecting;
                Ok(gsi.cm().disconnect(context.now, self.connection.id(), &[])?)
            }
            _ => Err(CmServiceError::Protocol),
        }
    }
}

impl CmSession for Client {
    fn has(&self, id: CommunicationId) -> bool {
        self.connection.id() == id
    }

    fn connection_of(&self, qpn: Qpn) -> Option<CommunicationId> {
        (self.connection.qpn() == qpn).then_some(self.connection.id())
    }

    fn peer(&self) -> IpAddr {
        self.connection.peer()
    }

    fn count(&self) -> u64 {
        self.pings
    }

    fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match notice.what {
            What::ConnectResponse(agreed) => {
                self.connection.ready(&agreed, gsi, context)?;
                self.send_source(context)
            }
            What::Disconnected if self.step == Step::Disconnecting => {
                self.step = Step::Over;
                Ok(())
            }
            What::DisconnectRequest | What::Disconnected => Err(CmServiceError::Stale),
            what => what.check(),
        }
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        if wc.opcode != WcOpcode::Recv {
            return Ok(());
        }
        self.source.received(wc, context)?;
        self.handle_go_ahead(gsi, context)
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connection.close(gsi, context);
        self.source.withdraw(context);
        self.sink.withdraw(context);
    }
}
