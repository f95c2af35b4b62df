//! What a service of the connection manager is, and which there are.

use core::fmt;
use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, PortSpace, RdmaCmServiceId, ServiceId};
use roce_codec::ib::Qpn;
use roce_engine::{Event, Instant, Wc};

use super::{CmServiceError, Gsi, Notice, Request};
use crate::service::memory::SharedRegion;
use crate::service::{Context, Platform, perftest, rping, ucmatose, udaddy};

/// One connection of a service, from the request that began it to its end; or several that belong
/// together.
///
/// The table calls a session with what is its own, and closes it when a call fails or
/// [`CmSession::is_over`] says that it is over. Its work requests carry its number in the upper half of
/// their ids ([`wr_id`](crate::service::wr_id)).
pub trait CmSession: Sized {
    /// Whether a connection or resolution is its own.
    fn has(&self, id: CommunicationId) -> bool;

    /// The connection of a queue pair of its own.
    fn connection_of(&self, qpn: Qpn) -> Option<CommunicationId>;

    /// Whether a queue pair is its own.
    fn owns(&self, qpn: Qpn) -> bool {
        self.connection_of(qpn).is_some()
    }

    /// Who is at the other end.
    fn peer(&self) -> IpAddr;

    /// Rounds, messages, or what the service counts.
    fn count(&self) -> u64;

    /// Whether it is over.
    fn is_over(&self) -> bool;

    /// Whether a request is for a further connection of its own.
    fn wants(&self, request: &Request) -> bool {
        let _ = request;
        false
    }

    /// Accepts the request for a further connection, which it wants. The request still has to be rejected
    /// if this fails.
    ///
    /// # Errors
    /// [`CmServiceError`]: close it.
    fn join<P: Platform>(
        &mut self,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let _ = (id, request, gsi, context);
        Err(CmServiceError::Protocol)
    }

    /// Takes what the connection manager tells of its connections, but for the requests that began
    /// them.
    ///
    /// # Errors
    /// [`CmServiceError`]: close it.
    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError>;

    /// Takes a completion of its work requests that succeeded.
    ///
    /// # Errors
    /// [`CmServiceError`]: close it.
    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError>;

    /// Takes an event about its queue pair; that the first packet has come
    /// ([`Event::CommunicationEstablished`]) the table has told the connection manager.
    ///
    /// # Errors
    /// [`CmServiceError`]: close it.
    fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let _ = (gsi, context);
        match event {
            Event::RequestRefused { code, .. } => Err(CmServiceError::Refused(*code)),
            Event::RequestFailed { status, .. } => Err(CmServiceError::Failed(*status)),
            _ => Ok(()),
        }
    }

    /// When [`CmSession::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Does what has waited for its time.
    ///
    /// # Errors
    /// [`CmServiceError`]: close it.
    fn handle_timeout<P: Platform>(
        &mut self,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let _ = (gsi, context);
        Ok(())
    }

    /// Its queue pairs with the memory behind them that the peer may have changed.
    fn for_each_region(&self, each: &mut dyn FnMut(SharedRegion)) {
        let _ = each;
    }

    /// Ends its connections, whatever their state, and gives everything back.
    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>);
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// What it was of.
    pub service: &'static str,
    /// Who was at the other end.
    pub peer: IpAddr,
    /// What it counted.
    pub count: u64,
    /// Whether the peer was served: not if its request could not be accepted, nor if it is perftest's
    /// and got no queue pair for its run.
    pub was_served: bool,
    /// Why it ended before its time, if it did.
    pub error: Option<CmServiceError>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.service, self.peer)?;
        match &self.error {
            None => write!(f, "done, {} rounds", self.count),
            Some(error) => write!(f, "{error}, after {} rounds", self.count),
        }
    }
}

/// A service that peers may ask for, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmService {
    /// The server of `rping`, at a port.
    Rping {
        /// The port of RDMA CM's; no UDP port.
        port: u16,
    },
    /// The server of `ucmatose`, at a port.
    Ucmatose {
        /// The port of RDMA CM's.
        port: u16,
        /// What is sent each way.
        traffic: ucmatose::Traffic,
    },
    /// The server of `udaddy`, at a port.
    Udaddy {
        /// The port of RDMA CM's.
        port: u16,
    },
    /// A server of perftest for clients with `-R`, at a port.
    Perftest {
        /// The port of RDMA CM's.
        port: u16,
        /// The test.
        test: perftest::Test,
        /// How it is served.
        options: perftest::Options,
    },
}

impl CmService {
    /// What peers ask for it by.
    #[must_use]
    pub fn service_id(&self) -> ServiceId {
        let (port_space, port) = match *self {
            Self::Rping { port } | Self::Ucmatose { port, .. } | Self::Perftest { port, .. } => {
                (PortSpace::TCP, port)
            }
            Self::Udaddy { port } => (PortSpace::UDP, port),
        };
        RdmaCmServiceId { port_space, port }.into()
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rping { .. } => "rping",
            Self::Ucmatose { .. } => "ucmatose",
            Self::Udaddy { .. } => "udaddy",
            Self::Perftest { test, .. } => test.service_name(),
        }
    }

    /// Connections of it that may be not established yet: those of one client, or of some.
    pub(super) const fn backlog(&self) -> u32 {
        match self {
            Self::Rping { .. } | Self::Ucmatose { .. } | Self::Udaddy { .. } => 16,
            #[expect(clippy::cast_possible_truncation, reason = "128")]
            Self::Perftest { .. } => perftest::MAX_QPS as u32,
        }
    }

    /// A session for a peer that asks. The request still has to be rejected if this fails.
    pub(super) fn open<P: Platform>(
        &self,
        number: u32,
        notice: &Notice,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<AnySession, CmServiceError> {
        match self {
            Self::Rping { .. } => {
                let server = rping::Server::accept(number, notice.id, request, gsi, context)?;
                Ok(AnySession::Rping(server))
            }
            Self::Ucmatose { traffic, .. } => {
                let id = notice.id;
                let server =
                    ucmatose::Session::accept(number, *traffic, id, request, gsi, context)?;
                Ok(AnySession::Ucmatose(server))
            }
            Self::Udaddy { .. } => {
                let server = udaddy::Server::accept(number, notice.id, request, gsi, context)?;
                Ok(AnySession::Udaddy(server))
            }
            Self::Perftest { test, options, .. } => {
                let (id, what) = (notice.id, (*test, *options));
                let server = perftest::Server::accept(number, what, id, request, gsi, context)?;
                Ok(AnySession::Perftest(server))
            }
        }
    }
}

impl fmt::Display for CmService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rping { port } => write!(f, "rping:{port}"),
            Self::Ucmatose { port, .. } => write!(f, "ucmatose:{port}"),
            Self::Udaddy { port } => write!(f, "udaddy:{port}"),
            Self::Perftest { port, test, .. } => write!(f, "perftest:{test}:{port}"),
        }
    }
}

/// A session of any service.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "what is lent has room for the largest anyway")]
pub enum AnySession {
    /// A server of `rping`.
    Rping(rping::Server),
    /// A client of `rping`.
    RpingClient(rping::Client),
    /// Either side of `ucmatose`.
    Ucmatose(ucmatose::Session),
    /// A server of `udaddy`.
    Udaddy(udaddy::Server),
    /// A client of `udaddy`.
    UdaddyClient(udaddy::Client),
    /// A server of perftest.
    Perftest(perftest::Server),
}

/// The same for each kind of session.
macro_rules! each {
    ($self:expr, $session:ident => $what:expr) => {
        match $self {
            AnySession::Rping($session) => $what,
            AnySession::RpingClient($session) => $what,
            AnySession::Ucmatose($session) => $what,
            AnySession::Udaddy($session) => $what,
            AnySession::UdaddyClient($session) => $what,
            AnySession::Perftest($session) => $what,
        }
    };
}

impl AnySession {
    /// The service's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Rping(_) | Self::RpingClient(_) => "rping",
            Self::Ucmatose(_) => "ucmatose",
            Self::Udaddy(_) | Self::UdaddyClient(_) => "udaddy",
            Self::Perftest(server) => server.name(),
        }
    }

    /// Whether its peer has what the service is about.
    pub(super) fn is_served(&self) -> bool {
        let Self::Perftest(server) = self else { return true };
        let mut has_region = false;
        server.for_each_region(&mut |_| has_region = true);
        has_region
    }
}

impl CmSession for AnySession {
    fn has(&self, id: CommunicationId) -> bool {
        each!(self, session => session.has(id))
    }

    fn connection_of(&self, qpn: Qpn) -> Option<CommunicationId> {
        each!(self, session => session.connection_of(qpn))
    }

    fn owns(&self, qpn: Qpn) -> bool {
        each!(self, session => session.owns(qpn))
    }

    fn peer(&self) -> IpAddr {
        each!(self, session => session.peer())
    }

    fn count(&self) -> u64 {
        each!(self, session => session.count())
    }

    fn is_over(&self) -> bool {
        each!(self, session => session.is_over())
    }

    fn wants(&self, request: &Request) -> bool {
        each!(self, session => session.wants(request))
    }

    fn join<P: Platform>(
        &mut self,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        each!(self, session => session.join(id, request, gsi, context))
    }

    fn handle_notice<P: Platform>(
        &mut self,
        notice: &Notice,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        each!(self, session => session.handle_notice(notice, gsi, context))
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        each!(self, session => session.handle_completion(wc, gsi, context))
    }

    fn handle_event<P: Platform>(
        &mut self,
        event: &Event,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        each!(self, session => session.handle_event(event, gsi, context))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        each!(self, session => session.poll_timeout())
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        each!(self, session => session.handle_timeout(gsi, context))
    }

    fn for_each_region(&self, each: &mut dyn FnMut(SharedRegion)) {
        each!(self, session => session.for_each_region(each));
    }

    fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        each!(self, session => session.close(gsi, context));
    }
}
