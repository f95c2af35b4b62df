//! The connection manager's messages around a connection, each agreeing with what follows it.

use std::net::IpAddr;

use roce_codec::cm::{
    CmEmitError, CommunicationId, Drep, Dreq, IpCmHeader, MAD_LEN, Message, Path, PortSpace,
    RdmaCmServiceId, Rep, Req, Rtu, SidrRep, SidrReq, Timeout, TransportType,
};
use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, Service};

use super::host::{DATA_TRAFFIC_CLASS, Host};
use super::planned::Side;

/// The port that the passive side listens at.
pub(super) const LISTEN_PORT: u16 = 7471;

/// What one end says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Party {
    pub(super) host: Host,
    pub(super) qpn: Qpn,
    /// The first PSN that it sends with.
    pub(super) psn: Psn,
    pub(super) comm_id: CommunicationId,
    /// READs and atomics that it serves at a time.
    pub(super) resources: u8,
}

/// What both ends agree on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreement {
    pub(super) service: Service,
    pub(super) parties: [Party; 2],
    pub(super) v6: bool,
    pub(super) mtu: PathMtu,
    pub(super) pkey: PKey,
    pub(super) flow_label: u32,
    /// The port of who asks.
    pub(super) port: u16,
    /// Whether acknowledgements carry credits.
    pub(super) credits: bool,
    pub(super) transaction_id: u64,
}

/// A message of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Req,
    Rep,
    Rtu,
    Dreq,
    Drep,
    SidrReq,
    SidrRep,
}

/// The Q_Key that RDMA CM gives datagram queue pairs.
pub(super) const RDMA_CM_QKEY: QKey = QKey(0x0123_4567);

impl Agreement {
    fn party(&self, side: Side) -> &Party {
        let [active, passive] = &self.parties;
        match side {
            Side::Active => active,
            Side::Passive => passive,
        }
    }

    /// The MAD of a step that `from` sends.
    ///
    /// # Errors
    /// None: every message fits; the codec asks.
    pub(super) fn mad(&self, step: Step, from: Side) -> Result<Box<[u8; MAD_LEN]>, CmEmitError> {
        let mut mad = Box::new([0; MAD_LEN]);
        let [own, peer] = [self.party(from), self.party(from.other())];
        let ids = (own.comm_id, peer.comm_id);
        let mut header = [0; IpCmHeader::LEN];
        self.ip_cm(own, peer).emit(&mut header)?;
        let message = match step {
            Step::Req => Message::Req(Req { private_data: &header, ..self.req(own, peer) }),
            Step::Rep => Message::Rep(Self::rep(own, peer, self.credits)),
            Step::Rtu => {
                Message::Rtu(Rtu { local_comm_id: ids.0, remote_comm_id: ids.1, private_data: &[] })
            }
            Step::Dreq => Message::Dreq(Dreq {
                local_comm_id: ids.0,
                remote_comm_id: ids.1,
                remote_qpn: peer.qpn,
                ..Dreq::default()
            }),
            Step::Drep => Message::Drep(Drep {
                local_comm_id: ids.0,
                remote_comm_id: ids.1,
                private_data: &[],
            }),
            Step::SidrReq => Message::SidrReq(SidrReq {
                request_id: own.comm_id.0,
                pkey: self.pkey,
                service_id: service_id(PortSpace::UDP),
                private_data: &header,
                ..SidrReq::default()
            }),
            Step::SidrRep => Message::SidrRep(SidrRep {
                request_id: peer.comm_id.0,
                qpn: own.qpn,
                service_id: service_id(PortSpace::UDP),
                qkey: RDMA_CM_QKEY,
                ..SidrRep::default()
            }),
        };
        // A disconnection is a transaction of its own.
        let apart = u64::from(matches!(step, Step::Dreq | Step::Drep));
        message.emit(self.transaction_id.wrapping_add(apart), &mut *mad)?;
        Ok(mad)
    }

    fn ip_cm(&self, own: &Party, peer: &Party) -> IpCmHeader {
        match (own.host.ip(self.v6), peer.host.ip(self.v6)) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => IpCmHeader::v4(src, self.port, dst),
            _ => IpCmHeader::v6(own.host.v6, self.port, peer.host.v6),
        }
    }

    fn req(&self, own: &Party, peer: &Party) -> Req<'static> {
        Req {
            local_comm_id: own.comm_id,
            service_id: service_id(PortSpace::TCP),
            local_ca_guid: own.host.guid(),
            local_qpn: own.qpn,
            responder_resources: own.resources,
            initiator_depth: peer.resources,
            remote_cm_response_timeout: Timeout::new(20),
            transport: match self.service {
                Service::Uc => TransportType::Uc,
                _ => TransportType::Rc,
            },
            end_to_end_flow_control: self.credits,
            // What the receiver of this message is to send with.
            starting_psn: peer.psn,
            local_cm_response_timeout: Timeout::new(20),
            retry_count: 7,
            pkey: self.pkey,
            path_mtu_code: self.mtu.code(),
            rnr_retry_count: 7,
            max_cm_retries: 15,
            primary: Path {
                local_lid: 0xffff,
                remote_lid: 0xffff,
                local_gid: own.host.gid(self.v6),
                remote_gid: peer.host.gid(self.v6),
                flow_label: self.flow_label,
                packet_rate: 7,
                traffic_class: DATA_TRAFFIC_CLASS,
                hop_limit: 64,
                local_ack_timeout: Timeout::new(18),
                ..Path::NONE
            },
            ..Req::default()
        }
    }

    fn rep(own: &Party, peer: &Party, credits: bool) -> Rep<'static> {
        Rep {
            local_comm_id: own.comm_id,
            remote_comm_id: peer.comm_id,
            local_qpn: own.qpn,
            starting_psn: peer.psn,
            responder_resources: own.resources,
            initiator_depth: peer.resources,
            target_ack_delay: Timeout::new(15),
            end_to_end_flow_control: credits,
            rnr_retry_count: 7,
            local_ca_guid: own.host.guid(),
            ..Rep::default()
        }
    }
}

fn service_id(port_space: PortSpace) -> roce_codec::cm::ServiceId {
    RdmaCmServiceId { port_space, port: LISTEN_PORT }.to_service_id()
}
