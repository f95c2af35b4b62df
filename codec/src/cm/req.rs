//! REQ: a request for communication.
//!
//! ```text
//!  byte                                      byte
//!    0  local communication ID 32             40  remote EECN 24
//!    4  Resv8                                 43  remote CM response timeout 5,
//!    5  vendor ID 24                              transport service type 2, flow control 1
//!    8  service ID 64                         44  starting PSN 24
//!   16  local CA GUID 64                      47  local CM response timeout 5, retry count 3
//!   24  Resv32                                48  partition key 16
//!   28  local Q_Key 32                        50  path MTU 4, RDC exists 1, RNR retry count 3
//!   32  local QPN 24                          51  max CM retries 4, SRQ 1, extended transport 3
//!   35  responder resources 8                 52  primary path, 44 bytes
//!   36  local EECN 24                         96  alternate path, 44 bytes
//!   39  initiator depth 8                    140  private data, 92 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.5.

use zerocopy::byteorder::{BE, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::path::{Order, PathWire};
use super::wire::{fill, view, view_mut};
use super::{
    CaGuid, CmEmitError, CmError, CommunicationId, Eecn, IpCmHeader, MAD_DATA_LEN, Path, ServiceId,
    Timeout, ip_cm,
};
use crate::ib::{PKey, PathMtu, Psn, QKey, Qpn, Service};
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReqWire {
    local_comm_id: U32<BE>,
    resv8: u8,
    vendor_id: [u8; 3],
    service_id: U64<BE>,
    local_ca_guid: U64<BE>,
    resv32: U32<BE>,
    local_qkey: U32<BE>,
    local_qpn: [u8; 3],
    responder_resources: u8,
    local_eecn: [u8; 3],
    initiator_depth: u8,
    remote_eecn: [u8; 3],
    remote_timeout_transport_flow: u8,
    starting_psn: [u8; 3],
    local_timeout_retry: u8,
    pkey: U16<BE>,
    mtu_rdc_rnr: u8,
    retries_srq_extended: u8,
    primary: PathWire,
    alternate: PathWire,
    private_data: [u8; Req::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<ReqWire>() == MAD_DATA_LEN);

/// The uppermost of the alternate path's last 3 reserved bits.
const SAP_SUPPORTED: u8 = 0x04;

/// The transport service a REQ asks for, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TransportType {
    /// 0: reliable connection.
    #[default]
    Rc,
    /// 1: unreliable connection.
    Uc,
    /// 2: reliable datagram.
    Rd,
    /// 3: see [`Req::extended_transport`].
    Extended,
}

impl TransportType {
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Rc,
            1 => Self::Uc,
            2 => Self::Rd,
            _ => Self::Extended,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Rc => 0,
            Self::Uc => 1,
            Self::Rd => 2,
            Self::Extended => 3,
        }
    }
}

/// A request for communication, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Req<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// Reserved, 8 bits.
    pub resv8: u8,
    /// Vendor whose options are in the MAD's attribute modifier, 24 bits; 0 for none.
    pub vendor_id: u32,
    /// The service asked for.
    pub service_id: ServiceId,
    /// The sender's channel adapter.
    pub local_ca_guid: CaGuid,
    /// Reserved, 32 bits.
    pub resv32: u32,
    /// Queue key of the sender's QP; RD only.
    pub local_qkey: QKey,
    /// The sender's QP.
    pub local_qpn: Qpn,
    /// How many READs and atomics the sender will serve at a time.
    pub responder_resources: u8,
    /// The sender's end-to-end context; RD only.
    pub local_eecn: Eecn,
    /// How many READs and atomics the sender would like to have outstanding.
    pub initiator_depth: u8,
    /// The receiver's end-to-end context; RD only.
    pub remote_eecn: Eecn,
    /// How soon the receiver's connection manager shall answer.
    pub remote_cm_response_timeout: Timeout,
    /// The transport service.
    pub transport: TransportType,
    /// The sender's requester heeds the credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// The PSN that the *receiver* of this message must send with.
    pub starting_psn: Psn,
    /// How soon the sender's connection manager answers.
    pub local_cm_response_timeout: Timeout,
    /// Times the receiver shall retry for want of an acknowledgement or after a sequence NAK, 3
    /// bits.
    pub retry_count: u8,
    /// Partition key of the connection.
    pub pkey: PKey,
    /// Path MTU as a code, 4 bits; [`path_mtu`](Self::path_mtu) reads it.
    pub path_mtu_code: u8,
    /// A reliable datagram channel exists already.
    pub rdc_exists: bool,
    /// Times the receiver shall retry after an RNR NAK, 3 bits; 7 is without end.
    pub rnr_retry_count: u8,
    /// Times either connection manager sends a message again, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's QP has a shared receive queue.
    pub srq: bool,
    /// Transport where [`TransportType::Extended`], 3 bits: 1 is XRC (Annex A14).
    pub extended_transport: u8,
    /// The path of the connection.
    pub primary: Path,
    /// The path to migrate to; [`Path::NONE`] if there is none.
    pub alternate: Path,
    /// The sender understands [`Sap`](super::Sap).
    pub sap_supported: bool,
    /// What the consumers say to each other, up to 92 bytes; behind an [`IpCmHeader`] where the
    /// service is one of the RDMA IP CM Service. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Req<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 92;

    /// The value of `extended_transport` that means XRC.
    pub const EXTENDED_TRANSPORT_XRC: u8 = 1;

    /// The path MTU; `None` if the code is none of the five.
    #[must_use]
    pub const fn path_mtu(&self) -> Option<PathMtu> {
        PathMtu::from_code(self.path_mtu_code)
    }

    /// The transport service; `None` if it is an extended one that is unknown.
    #[must_use]
    pub const fn service(&self) -> Option<Service> {
        match (self.transport, self.extended_transport) {
            (TransportType::Rc, _) => Some(Service::Rc),
            (TransportType::Uc, _) => Some(Service::Uc),
            (TransportType::Rd, _) => Some(Service::Rd),
            (TransportType::Extended, Self::EXTENDED_TRANSPORT_XRC) => Some(Service::Xrc),
            (TransportType::Extended, _) => None,
        }
    }

    /// The RDMA IP CM Service's header and the 56 bytes of the consumer behind it; `None` if the
    /// service is not one of that Service.
    #[must_use]
    pub fn ip_cm(&self) -> Option<(IpCmHeader, &'a [u8])> {
        ip_cm::split(self.service_id, self.private_data)
    }

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<ReqWire>(data)?;
        let mut alternate = wire.alternate.value(Order::Req);
        let sap_supported = alternate.resv3_timeout & SAP_SUPPORTED != 0;
        alternate.resv3_timeout &= !SAP_SUPPORTED;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            resv8: wire.resv8,
            vendor_id: u24(wire.vendor_id),
            service_id: ServiceId(wire.service_id.get()),
            local_ca_guid: CaGuid(wire.local_ca_guid.get()),
            resv32: wire.resv32.get(),
            local_qkey: QKey(wire.local_qkey.get()),
            local_qpn: Qpn::new(u24(wire.local_qpn)),
            responder_resources: wire.responder_resources,
            local_eecn: Eecn::new(u24(wire.local_eecn)),
            initiator_depth: wire.initiator_depth,
            remote_eecn: Eecn::new(u24(wire.remote_eecn)),
            remote_cm_response_timeout: Timeout::new(wire.remote_timeout_transport_flow >> 3),
            transport: TransportType::from_bits(wire.remote_timeout_transport_flow >> 1),
            end_to_end_flow_control: wire.remote_timeout_transport_flow & 1 != 0,
            starting_psn: Psn::new(u24(wire.starting_psn)),
            local_cm_response_timeout: Timeout::new(wire.local_timeout_retry >> 3),
            retry_count: wire.local_timeout_retry & 7,
            pkey: PKey(wire.pkey.get()),
            path_mtu_code: wire.mtu_rdc_rnr >> 4,
            rdc_exists: wire.mtu_rdc_rnr & 8 != 0,
            rnr_retry_count: wire.mtu_rdc_rnr & 7,
            max_cm_retries: wire.retries_srq_extended >> 4,
            srq: wire.retries_srq_extended & 8 != 0,
            extended_transport: wire.retries_srq_extended & 7,
            primary: wire.primary.value(Order::Req),
            alternate,
            sap_supported,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<ReqWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.resv8 = self.resv8;
        wire.vendor_id = to_u24(self.vendor_id);
        wire.service_id.set(self.service_id.0);
        wire.local_ca_guid.set(self.local_ca_guid.0);
        wire.resv32.set(self.resv32);
        wire.local_qkey.set(self.local_qkey.0);
        wire.local_qpn = to_u24(self.local_qpn.get());
        wire.responder_resources = self.responder_resources;
        wire.local_eecn = to_u24(self.local_eecn.get());
        wire.initiator_depth = self.initiator_depth;
        wire.remote_eecn = to_u24(self.remote_eecn.get());
        wire.remote_timeout_transport_flow = self.remote_cm_response_timeout.code() << 3
            | self.transport.bits() << 1
            | u8::from(self.end_to_end_flow_control);
        wire.starting_psn = to_u24(self.starting_psn.get());
        wire.local_timeout_retry =
            self.local_cm_response_timeout.code() << 3 | self.retry_count & 7;
        wire.pkey.set(self.pkey.0);
        wire.mtu_rdc_rnr =
            self.path_mtu_code << 4 | u8::from(self.rdc_exists) << 3 | self.rnr_retry_count & 7;
        wire.retries_srq_extended =
            self.max_cm_retries << 4 | u8::from(self.srq) << 3 | self.extended_transport & 7;
        wire.primary.set(&self.primary, Order::Req);
        let mut alternate = self.alternate;
        alternate.resv3_timeout &= !SAP_SUPPORTED;
        if self.sap_supported {
            alternate.resv3_timeout |= SAP_SUPPORTED;
        }
        wire.alternate.set(&alternate, Order::Req);
        Ok(())
    }
}
