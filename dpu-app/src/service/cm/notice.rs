//! What the connection manager tells, in values that outlive the next call to it.

use heapless::Vec;
use roce_codec::cm::{
    CommunicationId, RdmaCmServiceId, RejReason, ServiceId, SidrStatus, TransportType,
};
use roce_codec::ib::{PathMtu, QKey, Qpn};
use roce_engine::Path;
use roce_engine::cm::{CmEvent, QpAttributes};

use super::CmServiceError;

/// The longest private data of any message.
const PRIVATE_DATA_LEN: usize = 224;

/// An event of the connection manager's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The connection or resolution.
    pub id: CommunicationId,
    /// What happened.
    pub what: What,
    /// What the peer's consumer said: the whole field, with the zeroes behind what it gave, and
    /// without the header of the RDMA IP CM Service.
    pub private_data: Vec<u8, PRIVATE_DATA_LEN>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A peer asks for a connection.
    ConnectRequest(Request),
    /// The peer accepts ours.
    ConnectResponse(QpAttributes),
    /// The peer is ready.
    Established,
    /// The peer refuses, or has given up.
    Rejected(RejReason),
    /// Nobody answers.
    Unreachable,
    /// The peer has forgotten the connection.
    Stale,
    /// The peer wants to disconnect.
    DisconnectRequest,
    /// It is disconnected.
    Disconnected,
    /// No packet of it is under way any more.
    TimewaitExit,
    /// A peer looks for a datagram service.
    SidrRequest(Request),
    /// What a datagram service answers.
    SidrResponse {
        /// Whether there is one.
        status: SidrStatus,
        /// Its queue pair.
        qpn: Qpn,
        /// Its key.
        qkey: QKey,
    },
}

impl What {
    /// Whether the connection may still come about, or go on.
    ///
    /// # Errors
    /// Why not: the peer refuses, does not answer, or has forgotten it.
    pub const fn check(&self) -> Result<(), CmServiceError> {
        match *self {
            Self::Rejected(reason) => Err(CmServiceError::Rejected(reason)),
            Self::Unreachable => Err(CmServiceError::Unreachable),
            Self::Stale => Err(CmServiceError::Stale),
            _ => Ok(()),
        }
    }
}

/// What a peer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The service.
    pub service_id: ServiceId,
    /// The way back to who asks.
    pub path: Path,
    /// The port that its user named, of RDMA CM's services; no UDP port.
    pub src_port: u16,
    /// Reliable or unreliable connection; unreliable where datagrams are looked for.
    pub transport: TransportType,
    /// The path MTU it asks for, where it asks for one.
    pub path_mtu: Option<PathMtu>,
}

impl Request {
    /// The port that it asks for, of RDMA CM's services.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        RdmaCmServiceId::from_service_id(self.service_id).map(|service| service.port)
    }
}

impl Notice {
    /// Takes an event over; `None` of a kind that this does not know.
    #[must_use]
    pub fn of(event: &CmEvent<'_>) -> Option<Self> {
        let (id, what, private_data): (_, _, &[u8]) = match *event {
            CmEvent::ConnectRequest { id, path, ref req } => {
                let (src_port, consumer) = match req.ip_cm() {
                    Some((header, consumer)) => (header.src_port, consumer),
                    None => (0, req.private_data),
                };
                let request = Request {
                    service_id: req.service_id,
                    path,
                    src_port,
                    transport: req.transport,
                    path_mtu: req.path_mtu(),
                };
                (id, What::ConnectRequest(request), consumer)
            }
            CmEvent::ConnectResponse { id, qp, rep } => {
                (id, What::ConnectResponse(qp), rep.private_data)
            }
            CmEvent::Established { id, private_data } => (id, What::Established, private_data),
            CmEvent::Rejected { id, reason, private_data, .. } => {
                (id, What::Rejected(reason), private_data)
            }
            CmEvent::Unreachable { id } => (id, What::Unreachable, &[]),
            CmEvent::Stale { id } => (id, What::Stale, &[]),
            CmEvent::DisconnectRequest { id, private_data } => {
                (id, What::DisconnectRequest, private_data)
            }
            CmEvent::Disconnected { id, private_data } => (id, What::Disconnected, private_data),
            CmEvent::TimewaitExit { id } => (id, What::TimewaitExit, &[]),
            CmEvent::SidrRequest { id, path, ref req } => {
                let (src_port, consumer) = match req.ip_cm() {
                    Some((header, consumer)) => (header.src_port, consumer),
                    None => (0, req.private_data),
                };
                let request = Request {
                    service_id: req.service_id,
                    path,
                    src_port,
                    transport: TransportType::Uc,
                    path_mtu: None,
                };
                (id, What::SidrRequest(request), consumer)
            }
            CmEvent::SidrResponse { id, rep } => {
                let (status, qpn, qkey) = (rep.status, rep.qpn, rep.qkey);
                (id, What::SidrResponse { status, qpn, qkey }, rep.private_data)
            }
            _ => return None,
        };
        // No field is longer.
        let private_data = Vec::from_slice(private_data).unwrap_or_default();
        Some(Self { id, what, private_data })
    }
}
