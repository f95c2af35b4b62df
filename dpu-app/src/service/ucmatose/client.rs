//! The client's side.

use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId};
use roce_codec::ib::Qpn;
use roce_engine::{Instant, Wc, WcOpcode};

use super::messages::Messages;
use super::{PATIENCE_NS, Traffic};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, What,
};
use crate::service::{Context, Platform};

/// A client with its connection.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    messages: Messages,
    traffic: Traffic,
    received: u32,
    sent: u32,
    patience: Option<Instant>,
    over: bool,
}

impl Client {
    /// Asks `peer` for a connection, at one port of RDMA CM's from the other. `number` is the
    /// session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn connect<P: Platform>(
        number: u32,
        traffic: Traffic,
        peer: IpAddr,
        (src_port, port): (u16, u16),
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let messages = Messages::new(number, pd, traffic, context)?;
        let Traffic { count, .. } = traffic;
        let attr =
            ConnectionAttr { max_send_wr: count, max_recv_wr: count, ..ConnectionAttr::new(pd) };
        let service = RdmaCmServiceId { port_space: PortSpace::TCP, port }.into();
        let ports = (src_port, port);
        let connection = match Connection::connect(peer, service, ports, &[], &attr, gsi, context) {
            Ok(connection) => connection,
            Err(error) => {
                messages.withdraw(context);
                return Err(error);
            }
        };
        let posted = messages.post_receives(connection.qpn(), context);
        let patience = Some(context.now.add_ns(PATIENCE_NS));
        let client =
            Self { connection, messages, traffic, received: 0, sent: 0, patience, over: false };
        match posted {
            Ok(()) => Ok(client),
            Err(error) => {
                client.close(gsi, context);
                Err(error)
            }
        }
    }

    /// Whether it has received and sent everything.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.received == self.traffic.count && self.sent == self.traffic.count
    }
}

impl CmSession for Client {
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
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match notice.what {
            What::ConnectResponse(agreed) => self.connection.ready(&agreed, gsi, context)?,
            // The server has what it wanted, or has given up before.
            What::DisconnectRequest | What::Disconnected if self.received == self.traffic.count => {
                self.over = true;
            }
            What::DisconnectRequest | What::Disconnected => return Err(CmServiceError::Protocol),
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
        self.patience = Some(context.now.add_ns(PATIENCE_NS));
        if wc.opcode != WcOpcode::Recv {
            self.sent += 1;
            return Ok(());
        }
        self.messages.check_len(wc)?;
        if self.received == 0 {
            self.messages.take_over(wc, context)?;
        } else {
            self.messages.compare(wc, self.received.into(), context)?;
        }
        self.received += 1;
        if self.received == self.traffic.count {
            self.messages.post_sends(self.connection.qpn(), context)?;
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
