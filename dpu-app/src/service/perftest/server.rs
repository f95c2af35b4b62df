//! A client that came by RDMA CM (`-R`): its exchange by SENDs over a connection of its own, and a
//! connection for each of its queue pairs.
//!
//! ```text
//!  client                              server
//!            control connection
//!  version, sizes, path MTU       ↔    the same
//!  barrier                        ↔
//!            a connection for each queue pair
//!  barrier                        ↔
//!  key messages                   ↔    as over TCP, and what follows
//!            all connections end, whoever begins
//! ```
//!
//! With `-z` there are neither the barriers nor the connections between: queue pairs are connected by
//! what the key messages say.
//!
//! A request for a connection does not say what it is for. It is taken for a queue pair's if it
//! comes from a client at this service that is about to connect some: of two clients of one host at one
//! port, the second must not begin at that very moment. perftest's own server has one client.

use core::net::IpAddr;

use heapless::Vec;
use roce_codec::cm::{CaGuid, CommunicationId, ServiceId, Timeout};
use roce_codec::ib::Qpn;
use roce_engine::cm::CmConfig;
use roce_engine::{Event, Instant, Wc, WcOpcode};

use super::connect::TIMEOUT;
use super::control::Control;
use super::message::{ExchangeError, Form};
use super::pair::{RECEIVES, SENDS};
use super::session::{MAX_QPS, Options, Session};
use super::{SessionError, Test};
use crate::service::cm::{
    CmServiceError, CmSession, Connection, ConnectionAttr, Gsi, Notice, Request, What,
};
use crate::service::memory::SharedRegion;
use crate::service::{Context, Platform, Progress, Reply};

/// How long a client may be silent before and after its run.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long no packet of its run may come and none of ours be acknowledged: the host of a client that
/// has gone without a word tells nothing else. It is looked at as often, so up to twice as long passes.
/// A READ counts when it is asked for: its answer must not take longer than this.
const RUN_PATIENCE_NS: u64 = 120_000_000_000;
/// How long it may take to disconnect when all is said; then we do. Some wait for that.
const FAREWELL_NS: u64 = 300_000_000;
/// A client of `write_lat` does not say that it is done. perftest 25.01 waits for us to disconnect
/// then, who can't know either, unless told after how many messages. A client that does not answer a
/// WRITE for as many of its timeouts is done: after a loss it sends again within one to four of them.
const QUIET_TIMEOUTS: u64 = 16;
/// What our connection manager says of us; the client's timeout allows for it.
const ACK_DELAY: Timeout = CmConfig::new(CaGuid(0)).ack_delay;

/// One client with `-R`: its connections, and the [`Session`] they are of.
#[derive(Debug)]
pub struct Server {
    service: ServiceId,
    control: Control,
    connections: Vec<Connection, MAX_QPS>,
    session: Session,
    /// When silence is too long; when all is over, once all is said, or done.
    due: Instant,
    finished: bool,
    over: bool,
}

impl Server {
    /// Accepts a client. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn accept<P: Platform>(
        number: u32,
        (test, options): (Test, Options),
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        Ok(Self {
            service: request.service_id,
            control: Control::accept(number, id, request, gsi, context)?,
            connections: Vec::new(),
            session: Session::of(number, test, options, Form::Binary),
            due: context.now.add_ns(PATIENCE_NS),
            finished: false,
            over: false,
        })
    }

    /// What it is a session of.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.session.test().service_name()
    }

    fn handle_message<P: Platform>(
        &mut self,
        message: &[u8],
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let mut reply = Reply::new();
        let progress = self.session.handle_message(message, &mut reply, context)?;
        self.finished |= progress == Progress::Finished;
        self.due = context.now.add_ns(match progress {
            Progress::Started => RUN_PATIENCE_NS,
            Progress::Finished => FAREWELL_NS,
            Progress::Continues | Progress::Over => PATIENCE_NS,
        });
        if reply.is_empty() { Ok(()) } else { self.control.send(&reply, context) }
    }

    /// Whether it pings, and would not say that it is done.
    fn pings(&self) -> bool {
        let session = &self.session;
        session.is_running() && session.test() == Test::WriteLat && session.messages() > 0
    }

    /// Its run goes on.
    fn runs<P: Platform>(&mut self, context: &Context<'_, '_, P>) {
        if self.pings() {
            // With -z, no connection tells the client's timeout: it is taken for ours.
            let ours = Timeout::new(TIMEOUT);
            let timeout = self.connections.first().map_or(ours, Connection::ack_timeout);
            let quiet_ns = match self.session.options().iterations {
                Some(iterations) if iterations <= self.session.messages() => FAREWELL_NS,
                _ => timeout.ns().max(ACK_DELAY.ns()).saturating_mul(QUIET_TIMEOUTS),
            };
            self.due = context.now.add_ns(quiet_ns);
        }
    }

    fn disconnected(&mut self) -> Result<(), CmServiceError> {
        self.over = self.session.may_end();
        if self.over { Ok(()) } else { Err(CmServiceError::Gone) }
    }
}

impl CmSession for Server {
    fn has(&self, id: CommunicationId) -> bool {
        self.control.id() == id || self.connections.iter().any(|connection| connection.id() == id)
    }

    fn connection_of(&self, qpn: Qpn) -> Option<CommunicationId> {
        if self.control.qpn() == qpn {
            return Some(self.control.id());
        }
        self.connections.iter().find(|connection| connection.qpn() == qpn).map(Connection::id)
    }

    fn owns(&self, qpn: Qpn) -> bool {
        // With -z there are queue pairs without a connection.
        self.connection_of(qpn).is_some() || self.session.owns(qpn)
    }

    fn peer(&self) -> IpAddr {
        self.control.peer()
    }

    fn count(&self) -> u64 {
        self.session.reported_iterations().unwrap_or(self.session.messages())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn wants(&self, request: &Request) -> bool {
        self.session.exchange().is_joining()
            && (request.service_id, request.path.dst, request.path.src)
                == (self.service, self.control.peer(), self.control.source())
    }

    fn join<P: Platform>(
        &mut self,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let (attr, memory) = self.session.lend(context)?;
        let resources = if attr.reads() { context.engine.max_dest_rd_atomic() } else { 0 };
        let wanted = ConnectionAttr {
            access: attr.access,
            max_send_wr: SENDS,
            max_recv_wr: RECEIVES,
            responder_resources: resources,
            initiator_depth: 0,
            observe_writes: attr.test == Test::WriteLat,
            ..ConnectionAttr::new(attr.pd)
        };
        let mut connection = match Connection::requested(id, request, &wanted, context) {
            Ok(connection) => connection,
            Err(error) => {
                memory.withdraw(context);
                return Err(error);
            }
        };
        if let Err(error) = connection.accept(&[], gsi, context) {
            connection.close(gsi, context);
            memory.withdraw(context);
            return Err(error);
        }
        self.due = context.now.add_ns(PATIENCE_NS);
        let ours = (connection.qpn(), connection.source());
        let peer_qpn = connection.dest_qpn();
        // There is room: the session has as much, and looked.
        let _ = self.connections.push(connection);
        Ok(self.session.join(ours, peer_qpn, (attr, memory), context)?)
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        _: &mut Gsi<'_>,
        _: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        match notice.what {
            What::DisconnectRequest | What::Disconnected => self.disconnected(),
            what => what.check(),
        }
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        if wc.qp != self.control.qpn() {
            self.session.handle_completion(wc, context)?;
            self.runs(context);
            return Ok(());
        }
        if wc.opcode != WcOpcode::Recv {
            return Ok(());
        }
        let message = self.control.received(wc, context)?;
        if self.finished {
            return Err(SessionError::from(ExchangeError::Done).into());
        }
        self.handle_message(&message, context)
    }

    fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.session.handle_event(event, context)?;
        self.runs(context);
        Ok(())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout().into_iter().chain([self.due]).min()
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        if self.due > context.now {
            return Ok(self.session.handle_timeout(context)?);
        }
        if self.session.is_running() && !self.pings() && self.session.has_moved(context) {
            self.due = context.now.add_ns(RUN_PATIENCE_NS);
            return Ok(());
        }
        self.over = self.finished || self.pings();
        if self.over { Ok(()) } else { Err(CmServiceError::Silent) }
    }

    fn for_each_region(&self, each: &mut dyn FnMut(SharedRegion)) {
        self.session.regions().for_each(each);
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.connections.into_iter().for_each(|connection| connection.close(gsi, context));
        self.session.close(context);
        self.control.close(gsi, context);
    }
}
