//! The server's side.

use core::net::IpAddr;

use roce_codec::cm::CommunicationId;
use roce_codec::ib::Qpn;
use roce_engine::{Access, Wc, WcOpcode, WrOpcode};

use super::buffers::Buffers;
use super::{Advert, MAX_PING};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, Request, What,
};
use crate::service::{Context, Platform};

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The client says where its ping is.
    Source,
    /// The READ of this many bytes.
    Reading(u32),
    /// The client says where the ping is to be; it has this many bytes.
    Sink(u32),
}

/// One client of the server's.
#[derive(Debug)]
pub struct Server {
    connection: Connection,
    buffers: Buffers,
    step: Step,
    pings: u64,
    over: bool,
}

impl Server {
    /// Accepts a client. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn accept<P: Platform>(
        number: u32,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let buffers = Buffers::new(number, pd, Access::NONE, context)?;
        let attr = ConnectionAttr::new(pd);
        let mut connection = match Connection::requested(id, request, &attr, context) {
            Ok(connection) => connection,
            Err(error) => {
                buffers.withdraw(context);
                return Err(error);
            }
        };
        let accepted = buffers
            .post_receives(connection.qpn(), context)
            .and_then(|()| connection.accept(&[], gsi, context));
        let server = Self { connection, buffers, step: Step::Source, pings: 0, over: false };
        match accepted {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close(gsi, context);
                Err(error)
            }
        }
    }

    fn handle_advert<P: Platform>(
        &mut self,
        advert: &Advert,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let Advert { va, rkey, len } = *advert;
        let qpn = self.connection.qpn();
        match self.step {
            Step::Source if len <= MAX_PING => {
                self.step = Step::Reading(len);
                self.buffers.post(qpn, WrOpcode::RdmaRead { va, rkey }, 0, len, context)
            }
            Step::Sink(read) => {
                let string = self.string_len(read, context)?.min(len);
                self.buffers.post(qpn, WrOpcode::RdmaWrite { va, rkey }, 0, string, context)?;
                self.step = Step::Source;
                self.pings += 1;
                // Behind the WRITE, so that it is there when this comes.
                self.buffers.send(qpn, &Advert::default(), context)
            }
            _ => Err(CmServiceError::Protocol),
        }
    }

    /// Bytes of the string that the ping is, its zero byte included; all of it if it has none.
    fn string_len<P: Platform>(
        &self,
        read: u32,
        context: &Context<'_, '_, P>,
    ) -> Result<u32, CmServiceError> {
        let mut len = read;
        self.buffers.for_each_piece(read, context, |offset, piece| {
            match piece.iter().position(|byte| *byte == 0) {
                Some(zero) => {
                    len = offset + u32::try_from(zero).unwrap_or(0) + 1;
                    false
                }
                None => true,
            }
        })?;
        Ok(len)
    }
}

impl CmSession for Server {
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
        self.over
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        _: &mut Gsi<'_>,
        _: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match notice.what {
            What::DisconnectRequest | What::Disconnected => self.over = true,
            what => what.check()?,
        }
        Ok(())
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match (wc.opcode, self.step) {
            (WcOpcode::Recv, _) => {
                let advert = self.buffers.received(wc, context)?;
                self.handle_advert(&advert, context)
            }
            (WcOpcode::RdmaRead, Step::Reading(len)) => {
                self.step = Step::Sink(len);
                self.buffers.send(self.connection.qpn(), &Advert::default(), context)
            }
            _ => Ok(()),
        }
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connection.close(gsi, context);
        self.buffers.withdraw(context);
    }
}
