//! What carries a client's exchange with `-R`: a connection of RDMA CM's, and others for the queue
//! pairs. See [`Server`](super::super::Server) for who says what when.

use core::net::IpAddr;

use heapless::{Deque, Vec};
use roce_codec::cm::{PortSpace, RdmaCmServiceId, RejReason, Timeout};
use roce_codec::ib::Qpn;
use roce_engine::{Event, Instant, Wc, WcOpcode, WcStatus};

use super::super::control::{Control, MAX_LEN};
use super::super::session::MAX_QPS;
use super::error::ClientError;
use super::job::Job;
use super::session::Client;
use crate::service::cm::{
    CmServiceError, Connection, ConnectionAttr, Gsi, GsiCounters, Notice, What,
};
use crate::service::{Context, Platform, Reply};

/// Messages of the server's that wait for their turn: it has no reason for more than one.
const MESSAGES: usize = 8;
/// A server of perftest 25.01 says that it is ready for the queue pairs' connections, and begins
/// to listen then; until it does, it rejects them.
const AGAIN_NS: u64 = 100_000_000;
const MOST_TIMES_AGAIN: u32 = 30;
/// The session of our work requests; queue pair 1 has 0, and the run's go by their queue pairs.
const NUMBER: u32 = 1;

/// What carries a client's exchange with `-R`, and connects its queue pairs. It is to be ended with
/// [`ByCm::close`].
#[derive(Debug)]
pub struct ByCm<'s> {
    gsi: Gsi<'s>,
    server: IpAddr,
    ports: (u16, u16),
    control: Option<Control>,
    is_connected: bool,
    is_closed: bool,
    connections: Vec<Connection, MAX_QPS>,
    /// Of these, those that the server has accepted.
    accepted: u32,
    /// When to ask again for those that are missing.
    again: Option<Instant>,
    times: u32,
    come: Deque<Vec<u8, MAX_LEN>, MESSAGES>,
}

impl<'s> ByCm<'s> {
    /// Asks the server at a port of RDMA CM's for a connection; `src_port` is what our user names.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect<P: Platform>(
        server: IpAddr,
        (src_port, port): (u16, u16),
        job: &Job,
        mut gsi: Gsi<'s>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, ClientError> {
        let ports = (src_port, port);
        let attr = |attr| ConnectionAttr { ack_timeout: Timeout::new(job.timeout), ..attr };
        let control = Control::connect(NUMBER, server, ports, attr, &mut gsi, context)?;
        Ok(Self {
            gsi,
            server,
            ports,
            control: Some(control),
            is_connected: false,
            is_closed: false,
            connections: Vec::new(),
            accepted: 0,
            again: None,
            times: 0,
            come: Deque::new(),
        })
    }

    /// Whether the server has accepted the connection: what is to be said can be.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether the server has ended a connection.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// SENDs a message.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn send<P: Platform>(
        &mut self,
        message: &[u8],
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        match &mut self.control {
            Some(control) if !message.is_empty() => Ok(control.send(message, context)?),
            _ => Ok(()),
        }
    }

    /// The next message of the server's.
    pub fn poll_message(&mut self) -> Option<Vec<u8, MAX_LEN>> {
        self.come.pop_front()
    }

    /// Connects the queue pairs, as [`ClientProgress::Connects`](super::ClientProgress::Connects)
    /// says.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect_pairs<P: Platform>(
        &mut self,
        client: &mut Client,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let (src_port, port) = self.ports;
        let service = RdmaCmServiceId { port_space: PortSpace::TCP, port }.into();
        let wanted = usize::try_from(client.job().qps).unwrap_or(MAX_QPS).min(MAX_QPS);
        while self.connections.len() < wanted {
            // Each is of another user, as far as the server sees.
            let number = u16::try_from(self.connections.len()).unwrap_or(0);
            let ports = (src_port.wrapping_add(number).wrapping_add(1), port);
            let attr = client.connection_attr(context);
            let (server, gsi) = (self.server, &mut self.gsi);
            let connection = Connection::connect(server, service, ports, &[], &attr, gsi, context)?;
            // There is room: it was looked at.
            let _ = self.connections.push(connection);
        }
        Ok(())
    }

    /// Takes a completion; says whether it was of a queue pair here, not of the run's.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        context: &mut Context<'_, '_, P>,
    ) -> Result<bool, ClientError> {
        if wc.qp == Qpn::GSI {
            self.gsi.handle_completion(wc, context);
            return Ok(true);
        }
        let Some(control) = self.control.as_ref().filter(|control| control.qpn() == wc.qp) else {
            return Ok(false);
        };
        match wc.status {
            WcStatus::Success if wc.opcode == WcOpcode::Recv => {
                let message = control.received(wc, context)?;
                self.come.push_back(message).map_err(|_| CmServiceError::Protocol)?;
            }
            WcStatus::Success | WcStatus::WrFlush => {}
            // Once the server has gone, it acknowledges nothing.
            _ if self.is_closed => {}
            status => return Err(CmServiceError::Failed(status).into()),
        }
        Ok(true)
    }

    /// Takes an event; one about a queue pair of the run's is left alone.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn handle_event(&self, event: &Event) -> Result<(), ClientError> {
        match (event, &self.control) {
            (Event::RequestRefused { code, .. }, Some(control))
                if event.qp() == Some(control.qpn()) =>
            {
                Err(CmServiceError::Refused(*code).into())
            }
            _ => Ok(()),
        }
    }

    /// Serves the connection manager. Once all queue pairs are connected, `out` has what is to be said
    /// next. Says whether there was anything.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn poll<P: Platform>(
        &mut self,
        client: &mut Client,
        out: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<bool, ClientError> {
        let mut any = false;
        while let Some(notice) = self.gsi.poll_notice() {
            any = true;
            self.handle_notice(&notice, client, out, context)?;
        }
        if self.again.is_some_and(|due| due <= context.now) {
            self.again = None;
            self.connect_pairs(client, context)?;
        }
        Ok(self.gsi.poll(context) || any)
    }

    /// When [`ByCm::poll`] is due even if nothing has come.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.gsi.poll_timeout().into_iter().chain(self.again).min()
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        client: &mut Client,
        out: &mut Reply,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        let Self { gsi, control, connections, .. } = self;
        if let Some(control) = control.as_mut().filter(|control| control.id() == notice.id) {
            match notice.what {
                What::ConnectResponse(agreed) => {
                    control.ready(&agreed, gsi, context)?;
                    self.is_connected = true;
                }
                What::DisconnectRequest | What::Disconnected => self.is_closed = true,
                what => what.check()?,
            }
            return Ok(());
        }
        let Some(index) = connections.iter().position(|connection| connection.id() == notice.id)
        else {
            return Ok(());
        };
        let Some(connection) = connections.get_mut(index) else { return Ok(()) };
        let is_accepted = connection.dest_qpn() != Qpn::new(0);
        match notice.what {
            What::ConnectResponse(agreed) => {
                if client.job().test.reads() && agreed.max_rd_atomic == 0 {
                    return Err(ClientError::NoReads(client.job().test));
                }
                connection.ready(&agreed, gsi, context)?;
                client.join((connection.qpn(), connection.dest_qpn()), context)?;
                self.accepted += 1;
                if self.accepted == client.job().qps {
                    client.joined(out, context);
                }
            }
            What::DisconnectRequest | What::Disconnected => self.is_closed = true,
            // A connection that was there may be rejected, too: then the server has gone.
            What::Rejected(RejReason::INVALID_SERVICE_ID)
                if self.times < MOST_TIMES_AGAIN && !is_accepted =>
            {
                connections.swap_remove(index).close(gsi, context);
                if self.again.is_none() {
                    self.again = Some(context.now.add_ns(AGAIN_NS));
                    self.times += 1;
                }
            }
            what => what.check()?,
        }
        Ok(())
    }

    /// What came to queue pair 1 and left it.
    #[must_use]
    pub const fn counters(&self) -> &GsiCounters {
        self.gsi.counters()
    }

    /// Whether the server has still to answer that it is disconnected.
    #[must_use]
    pub fn is_disconnecting(&self) -> bool {
        self.gsi.is_disconnecting()
    }

    /// Disconnects. The client is to be closed, too; what is to be sent goes out with
    /// [`ByCm::poll`].
    pub fn close<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) {
        self.again = None;
        while let Some(connection) = self.connections.pop() {
            connection.close(&mut self.gsi, context);
        }
        if let Some(control) = self.control.take() {
            control.close(&mut self.gsi, context);
        }
    }
}
