//! The server's side.

use core::net::IpAddr;

use roce_codec::cm::CommunicationId;
use roce_codec::ib::Qpn;
use roce_engine::{Instant, Wc, WcOpcode};

use super::messages::Messages;
use super::{PATIENCE_NS, Traffic};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, Request, What,
};
use crate::service::{Context, Platform};

/// One connection of the server's.
#[derive(Debug)]
pub struct Server {
    connection: Connection,
    messages: Messages,
    traffic: Traffic,
    sent: u32,
    received: u32,
    patience: Option<Instant>,
    over: bool,
}

impl Server {
    /// Accepts a connection. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn accept<P: Platform>(
        number: u32,
        traffic: Traffic,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let messages = Messages::new(number, pd, traffic, context)?;
        messages.fill(context);
        let Traffic { count, .. } = traffic;
        let attr =
            ConnectionAttr { max_send_wr: count, max_recv_wr: count, ..ConnectionAttr::new(pd) };
        let mut connection = match Connection::requested(id, request, &attr, context) {
            Ok(connection) => connection,
            Err(error) => {
                messages.withdraw(context);
                return Err(error);
            }
        };
        let accepted = messages
            .post_receives(connection.qpn(), context)
            .and_then(|()| connection.accept(&[], gsi, context));
        let patience = Some(context.now.add_ns(PATIENCE_NS));
        let server =
            Self { connection, messages, traffic, sent: 0, received: 0, patience, over: false };
        match accepted {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close(gsi, context);
                Err(error)
            }
        }
    }
}

impl CmSession for Server {
    fn id(&self) -> CommunicationId {
        self.connection.id()
    }

    fn owns(&self, qpn: Qpn) -> bool {
        self.connection.qpn() == qpn
    }

    fn peer(&self) -> IpAddr {
        self.connection.peer()
    }

    fn count(&self) -> u64 {
        self.received.into()
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match notice.what {
            What::Established => {
                self.patience = Some(context.now.add_ns(PATIENCE_NS));
                self.messages.post_sends(self.connection.qpn(), context)?;
            }
            What::DisconnectRequest | What::Disconnected => self.over = true,
            what => what.check()?,
        }
        Ok(())
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        if wc.opcode == WcOpcode::Recv {
            self.messages.check_len(wc)?;
            self.messages.compare(wc, self.received.into(), context)?;
            self.received += 1;
        } else {
            self.sent += 1;
        }
        self.patience = Some(context.now.add_ns(PATIENCE_NS));
        if [self.sent, self.received] == [self.traffic.count; 2] {
            gsi.cm().disconnect(context.now, self.connection.id(), &[])?;
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.patience
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match self.patience {
            Some(end) if end <= context.now => Err(CmServiceError::Unreachable),
            _ => Ok(()),
        }
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connection.close(gsi, context);
        self.messages.withdraw(context);
    }
}
