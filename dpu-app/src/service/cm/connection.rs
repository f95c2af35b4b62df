//! A queue pair and the connection it is for, on either side.

use roce_codec::cm::{CommunicationId, RejReason, ServiceId, Timeout, TransportType};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::net::{flow_label_from_cm_ports, source_port_from_flow_label};
use roce_engine::cm::{Accept, Connect, QpAttributes};
use roce_engine::{Access, Entropy, ModifyQp, Path, Pd, QpInit};

use super::{CmServiceError, Gsi, Request};
use crate::service::{Context, Platform, Route};

/// 0.64 ms, as Linux's RDMA CM has it.
const MIN_RNR_TIMER: RnrTimer = RnrTimer::new(12);

/// What a session wants of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionAttr {
    /// Its protection domain.
    pub pd: Pd,
    /// What the peer may do by way of it.
    pub access: Access,
    /// Send work requests.
    pub max_send_wr: u32,
    /// Receive work requests.
    pub max_recv_wr: u32,
    /// READs and atomics of the peer's that are served at a time; no more than the engine keeps.
    pub responder_resources: u8,
    /// READs and atomics of ours outstanding.
    pub initiator_depth: u8,
    /// Whether whole WRITEs are told.
    pub observe_writes: bool,
    /// How long to wait for an acknowledgement, on both sides; who asks for the connection says so.
    pub ack_timeout: Timeout,
}

impl ConnectionAttr {
    /// 16 work requests each way, one READ or atomic each way, no access, and Linux's 2.1 s to
    /// acknowledge.
    #[must_use]
    pub const fn new(pd: Pd) -> Self {
        Self {
            pd,
            access: Access::NONE,
            max_send_wr: 16,
            max_recv_wr: 16,
            responder_resources: 1,
            initiator_depth: 1,
            observe_writes: false,
            ack_timeout: Timeout::new(19),
        }
    }
}

/// A queue pair with its connection. It is to be ended with [`Connection::close`].
#[derive(Debug)]
pub struct Connection {
    id: CommunicationId,
    qpn: Qpn,
    route: Route,
    path: Path,
    attr: ConnectionAttr,
    psn: Psn,
    path_mtu: PathMtu,
    dest_qpn: Qpn,
    ack_timeout: Timeout,
}

impl Connection {
    /// For a peer that asks: a queue pair in INIT, so that receives can be posted before
    /// [`Connection::accept`].
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept. The request still has to be rejected.
    pub fn requested<P: Platform>(
        id: CommunicationId,
        request: &Request,
        attr: &ConnectionAttr,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let service = match request.transport {
            TransportType::Uc => Service::Uc,
            _ => Service::Rc,
        };
        let mut connection = Self::new(request.path, service, attr, context)?;
        connection.id = id;
        Ok(connection)
    }

    fn new<P: Platform>(
        path: Path,
        service: Service,
        attr: &ConnectionAttr,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let route = context.platform.route(path.dst)?;
        let init = QpInit {
            max_send_wr: attr.max_send_wr,
            max_recv_wr: attr.max_recv_wr,
            observe_writes: attr.observe_writes,
            ..QpInit::new(service, attr.pd, context.queues.send, context.queues.recv)
        };
        let most = context.engine.max_dest_rd_atomic();
        let made = context.engine.create_qp(&init, context.platform.random()).and_then(|qpn| {
            let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: attr.access };
            context.engine.modify_qp(qpn, &init).map(|()| qpn)
        });
        match made {
            Ok(qpn) => Ok(Self {
                id: CommunicationId(0),
                qpn,
                route,
                path: Path { next_hop: route.next_hop, ..path },
                attr: ConnectionAttr {
                    responder_resources: attr.responder_resources.min(most),
                    ..*attr
                },
                psn: Psn::new(context.platform.random().next_u32()),
                path_mtu: context.path_mtu,
                dest_qpn: Qpn::new(0),
                ack_timeout: attr.ack_timeout,
            }),
            Err(error) => {
                context.platform.release_route(route);
                Err(error.into())
            }
        }
    }

    /// Accepts what the peer asks: the queue pair goes to RTS, the REP on its way.
    ///
    /// # Errors
    /// [`CmServiceError`].
    pub fn accept<P: Platform>(
        &mut self,
        private_data: &[u8],
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let accept = Accept {
            responder_resources: self.attr.responder_resources,
            initiator_depth: self.attr.initiator_depth,
            private_data,
            ..Accept::new(self.qpn, self.psn)
        };
        let agreed = gsi.cm().accept(context.now, self.id, &accept)?;
        self.connect_qp(&agreed, context)
    }

    /// Asks a peer for a connection, as Linux's RDMA CM does: a queue pair in INIT, the REQ on its
    /// way. `src_port` is what our user names, no UDP port.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept.
    pub fn connect<P: Platform>(
        peer: core::net::IpAddr,
        service_id: ServiceId,
        (src_port, dst_port): (u16, u16),
        private_data: &[u8],
        attr: &ConnectionAttr,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let route = context.platform.route(peer)?;
        let flow_label = flow_label_from_cm_ports(src_port, dst_port);
        let path = Path {
            src: route.src,
            dst: peer,
            next_hop: route.next_hop,
            src_port: source_port_from_flow_label(flow_label),
            flow_label,
            ..Path::EMPTY
        };
        context.platform.release_route(route);
        let mut connection = Self::new(path, Service::Rc, attr, context)?;
        let connect = Connect {
            ip_src_port: src_port,
            private_data,
            responder_resources: connection.attr.responder_resources,
            initiator_depth: connection.attr.initiator_depth,
            path_mtu: context.path_mtu,
            local_ack_timeout: attr.ack_timeout,
            ..Connect::new(service_id, connection.path, connection.qpn, connection.psn)
        };
        match gsi.cm().connect(context.now, &connect) {
            Ok(id) => {
                connection.id = id;
                Ok(connection)
            }
            Err(error) => {
                connection.destroy(context);
                Err(error.into())
            }
        }
    }

    /// The peer has accepted: the queue pair goes to RTS, the RTU on its way.
    ///
    /// # Errors
    /// [`CmServiceError`].
    pub fn ready<P: Platform>(
        &mut self,
        agreed: &QpAttributes,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.connect_qp(agreed, context)?;
        Ok(gsi.cm().ready(context.now, self.id, &[])?)
    }

    fn connect_qp<P: Platform>(
        &mut self,
        agreed: &QpAttributes,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let path = Path { next_hop: self.route.next_hop, ..agreed.path };
        (self.path_mtu, self.dest_qpn) = (agreed.path_mtu, agreed.dest_qpn);
        self.ack_timeout = agreed.timeout;
        let agreed = QpAttributes { path, ..*agreed };
        let changes = [ModifyQp::Rtr(agreed.rtr(MIN_RNR_TIMER)), ModifyQp::Rts(agreed.rts())];
        for change in &changes {
            context.engine.modify_qp(self.qpn, change)?;
        }
        Ok(())
    }

    /// What the connection is called.
    #[must_use]
    pub const fn id(&self) -> CommunicationId {
        self.id
    }

    /// Our queue pair.
    #[must_use]
    pub const fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The peer's queue pair, once it is connected.
    #[must_use]
    pub const fn dest_qpn(&self) -> Qpn {
        self.dest_qpn
    }

    /// How long either side waits for an acknowledgement, about.
    #[must_use]
    pub const fn ack_timeout(&self) -> Timeout {
        self.ack_timeout
    }

    /// Our address.
    #[must_use]
    pub const fn source(&self) -> core::net::IpAddr {
        self.path.src
    }

    /// The peer.
    #[must_use]
    pub const fn peer(&self) -> core::net::IpAddr {
        self.path.dst
    }

    /// The path MTU agreed on, or that would be.
    #[must_use]
    pub const fn path_mtu(&self) -> PathMtu {
        self.path_mtu
    }

    /// Ends it: tells the peer as its state calls for, and destroys the queue pair.
    pub fn close<P: Platform>(self, gsi: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        let (now, id, cm) = (context.now, self.id, gsi.cm());
        // Established or asked to disconnect, or else not yet that far. Where the state takes
        // neither, there is nothing to be told.
        if cm.disconnect(now, id, &[]).is_err() {
            let _ = cm.reject(now, id, RejReason::CONSUMER_REJECT, &[], &[]);
        }
        self.destroy(context);
    }

    fn destroy<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // It is there: nobody else destroys it.
        let _ = context.engine.destroy_qp(self.qpn);
        context.platform.release_route(self.route);
    }
}
