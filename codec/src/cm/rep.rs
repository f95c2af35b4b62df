//! REP: the reply to a request for communication.
//!
//! ```text
//!  byte                                      byte
//!    0  local communication ID 32             23  vendor ID, low 8
//!    4  remote communication ID 32            24  responder resources 8
//!    8  local Q_Key 32                        25  initiator depth 8
//!   12  local QPN 24                          26  target ACK delay 5, failover accepted 2,
//!   15  vendor ID, high 8                         end-to-end flow control 1
//!   16  local EECN 24                         27  RNR retry count 3, SRQ 1, Resv4
//!   19  vendor ID, middle 8                   28  local CA GUID 64
//!   20  starting PSN 24                       36  private data, 196 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.8.

use zerocopy::byteorder::{BE, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CaGuid, CmEmitError, CmError, CommunicationId, Eecn, MAD_DATA_LEN, Timeout};
use crate::ib::{Psn, QKey, Qpn};
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RepWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    local_qkey: U32<BE>,
    local_qpn: [u8; 3],
    vendor_id_high: u8,
    local_eecn: [u8; 3],
    vendor_id_middle: u8,
    starting_psn: [u8; 3],
    vendor_id_low: u8,
    responder_resources: u8,
    initiator_depth: u8,
    delay_failover_flow: u8,
    rnr_srq: u8,
    local_ca_guid: U64<BE>,
    private_data: [u8; Rep::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<RepWire>() == MAD_DATA_LEN);

/// What became of a REQ's alternate path, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Failover {
    /// 0: accepted, if there was one.
    #[default]
    Accepted,
    /// 1: failover is not supported.
    NotSupported,
    /// 2: failover is supported, but not to that port.
    Rejected,
    /// 3: reserved.
    Reserved,
}

impl Failover {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Accepted,
            1 => Self::NotSupported,
            2 => Self::Rejected,
            _ => Self::Reserved,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::NotSupported => 1,
            Self::Rejected => 2,
            Self::Reserved => 3,
        }
    }
}

/// The reply to a request for communication, every bit of it. No header of the RDMA IP CM Service
/// precedes its private data: all of that is the consumer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rep<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it: the REQ's local communication ID.
    pub remote_comm_id: CommunicationId,
    /// Queue key of the sender's QP; RD only.
    pub local_qkey: QKey,
    /// The sender's QP.
    pub local_qpn: Qpn,
    /// The sender's end-to-end context; RD only.
    pub local_eecn: Eecn,
    /// Vendor whose options are in the MAD's attribute modifier, 24 bits, in three pieces on the
    /// wire; 0 for none.
    pub vendor_id: u32,
    /// The PSN that the *receiver* of this message must send with.
    pub starting_psn: Psn,
    /// How many READs and atomics the sender will serve at a time.
    pub responder_resources: u8,
    /// How many READs and atomics the sender will have outstanding.
    pub initiator_depth: u8,
    /// The longest the sender's QP takes to acknowledge.
    pub target_ack_delay: Timeout,
    /// What became of the alternate path.
    pub failover: Failover,
    /// The sender's requester heeds the credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// Times the receiver shall retry after an RNR NAK, 3 bits; 7 is without end.
    pub rnr_retry_count: u8,
    /// The sender's QP has a shared receive queue.
    pub srq: bool,
    /// Reserved, 4 bits.
    pub resv4: u8,
    /// The sender's channel adapter.
    pub local_ca_guid: CaGuid,
    /// What the consumers say to each other, up to 196 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Rep<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 196;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<RepWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            local_qkey: QKey(wire.local_qkey.get()),
            local_qpn: Qpn::new(u24(wire.local_qpn)),
            local_eecn: Eecn::new(u24(wire.local_eecn)),
            vendor_id: u24([wire.vendor_id_high, wire.vendor_id_middle, wire.vendor_id_low]),
            starting_psn: Psn::new(u24(wire.starting_psn)),
            responder_resources: wire.responder_resources,
            initiator_depth: wire.initiator_depth,
            target_ack_delay: Timeout::new(wire.delay_failover_flow >> 3),
            failover: Failover::from_bits(wire.delay_failover_flow >> 1),
            end_to_end_flow_control: wire.delay_failover_flow & 1 != 0,
            rnr_retry_count: wire.rnr_srq >> 5,
            srq: wire.rnr_srq & 0x10 != 0,
            resv4: wire.rnr_srq & 0x0f,
            local_ca_guid: CaGuid(wire.local_ca_guid.get()),
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<RepWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.local_qkey.set(self.local_qkey.0);
        wire.local_qpn = to_u24(self.local_qpn.get());
        wire.local_eecn = to_u24(self.local_eecn.get());
        let [high, middle, low] = to_u24(self.vendor_id);
        wire.vendor_id_high = high;
        wire.vendor_id_middle = middle;
        wire.vendor_id_low = low;
        wire.starting_psn = to_u24(self.starting_psn.get());
        wire.responder_resources = self.responder_resources;
        wire.initiator_depth = self.initiator_depth;
        wire.delay_failover_flow = self.target_ack_delay.code() << 3
            | self.failover.bits() << 1
            | u8::from(self.end_to_end_flow_control);
        wire.rnr_srq = self.rnr_retry_count << 5 | u8::from(self.srq) << 4 | self.resv4 & 0x0f;
        wire.local_ca_guid.set(self.local_ca_guid.0);
        Ok(())
    }
}
