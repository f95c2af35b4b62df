//! One connection, at either side.

use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId};
use roce_codec::ib::Qpn;
use roce_engine::{Instant, Wc, WcOpcode};

use super::messages::Messages;
use super::{PATIENCE_NS, Traffic};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, Request, What,
};
use crate::service::{Context, Platform};

/// Which side we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

/// Either side of one connection.
#[derive(Debug)]
pub struct Session {
    role: Role,
    connection: Connection,
    messages: Messages,
    traffic: Traffic,
    sent: u32,
    received: u32,
    patience: Instant,
    over: bool,
}

impl Session {
    /// As server: accepts a connection. `number` is the session's.
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
        let mut session =
            Self::new(Role::Server, number, traffic, gsi, context, |attr, _, context| {
                Connection::requested(id, request, attr, context)
            })?;
        session.messages.fill(context);
        match session.connection.accept(&[], gsi, context) {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close(gsi, context);
                Err(error)
            }
        }
    }

    /// As client: asks `peer` for a connection, at one port of RDMA CM's from the other. `number` is
    /// the session's.
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
        let service = RdmaCmServiceId { port_space: PortSpace::TCP, port }.into();
        let ports = (src_port, port);
        Self::new(Role::Client, number, traffic, gsi, context, |attr, gsi, context| {
            Connection::connect(peer, service, ports, &[], attr, gsi, context)
        })
    }

    /// With receives for all messages, on the queue pair that `make` has made.
    fn new<'g, 'c, 's, P: Platform>(
        role: Role,
        number: u32,
        traffic: Traffic,
        gsi: &mut Gsi<'g>,
        context: &mut Context<'c, 's, P>,
        make: impl FnOnce(
            &ConnectionAttr,
            &mut Gsi<'g>,
            &mut Context<'c, 's, P>,
        ) -> Result<Connection, CmServiceError>,
    ) -> Result<Self, CmServiceError> {
        let pd = context.engine.alloc_pd();
        let messages = Messages::new(number, pd, traffic, context)?;
        let Traffic { count, .. } = traffic;
        let attr =
            ConnectionAttr { max_send_wr: count, max_recv_wr: count, ..ConnectionAttr::new(pd) };
        let connection = match make(&attr, gsi, context) {
            Ok(connection) => connection,
            Err(error) => {
                messages.withdraw(context);
                return Err(error);
            }
        };
        let posted = messages.post_receives(connection.qpn(), context);
        let patience = context.now.add_ns(PATIENCE_NS);
        let (sent, received, over) = (0, 0, false);
        let session = Self { role, connection, messages, traffic, sent, received, patience, over };
        match posted {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close(gsi, context);
                Err(error)
            }
        }
    }

    /// Takes a message, in order; says whether it is the last one.
    fn receive<P: Platform>(
        &mut self,
        wc: &Wc,
        context: &Context<'_, '_, P>,
    ) -> Result<bool, CmServiceError> {
        self.messages.check_len(wc)?;
        if self.role == Role::Client && self.received == 0 {
            self.messages.take_over(wc, context)?;
        } else {
            self.messages.compare(wc, self.received.into(), context)?;
        }
        self.received += 1;
        Ok(self.received == self.traffic.count)
    }
}

impl CmSession for Session {
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
            What::Established => {
                self.patience = context.now.add_ns(PATIENCE_NS);
                self.messages.post_sends(self.connection.qpn(), context)?;
            }
            // The server disconnects when it has what it wanted. A client may at any time.
            What::DisconnectRequest | What::Disconnected
                if self.role == Role::Client && self.received < self.traffic.count =>
            {
                return Err(CmServiceError::Protocol);
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
        self.patience = context.now.add_ns(PATIENCE_NS);
        let last_received = if wc.opcode == WcOpcode::Recv {
            self.receive(wc, context)?
        } else {
            self.sent += 1;
            false
        };
        match self.role {
            Role::Client if last_received => {
                self.messages.post_sends(self.connection.qpn(), context)
            }
            Role::Server if [self.sent, self.received] == [self.traffic.count; 2] => {
                Ok(gsi.cm().disconnect(context.now, self.connection.id(), &[])?)
            }
            _ => Ok(()),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.patience)
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        if self.patience <= context.now { Err(CmServiceError::Unreachable) } else { Ok(()) }
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connection.close(gsi, context);
        self.messages.withdraw(context);
    }
}
