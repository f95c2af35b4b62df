//! REJ: a rejection.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  message rejected 2, Resv6
//!    9  reject information length 7, Resv1
//!   10  reason 16
//!   12  additional reject information (ARI), 72 bytes
//!   84  private data, 148 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.7.

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN, RejReason};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RejWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    rejected: u8,
    ari_len: u8,
    reason: U16<BE>,
    ari: [u8; Rej::ARI_LEN],
    private_data: [u8; Rej::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<RejWire>() == MAD_DATA_LEN);

/// The message that a REJ rejects, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RejectedMessage {
    /// 0: a REQ.
    #[default]
    Req,
    /// 1: a REP.
    Rep,
    /// 2: another message, or none (a timeout).
    Other,
    /// 3: reserved.
    Reserved,
}

impl RejectedMessage {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Req,
            1 => Self::Rep,
            2 => Self::Other,
            _ => Self::Reserved,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Req => 0,
            Self::Rep => 1,
            Self::Other => 2,
            Self::Reserved => 3,
        }
    }
}

/// No connection, and why; every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rej<'a> {
    /// What the sender calls the connection; 0 if it has no name for it.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it; 0 if the sender does not know.
    pub remote_comm_id: CommunicationId,
    /// The message rejected.
    pub rejected: RejectedMessage,
    /// Reserved, 6 bits.
    pub resv6: u8,
    /// Bytes of `ari` that mean something, 7 bits.
    pub ari_len: u8,
    /// Reserved, 1 bit.
    pub resv1: bool,
    /// Why.
    pub reason: RejReason,
    /// The field of additional reject information, up to 72 bytes; what it is depends on the
    /// reason ([`RejReason::ari`]). [`ari_bytes`](Self::ari_bytes) is the part that counts.
    /// Emitting adds zeroes.
    pub ari: &'a [u8],
    /// What the consumers say to each other, up to 148 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Rej<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 148;

    /// Bytes of the field of additional reject information.
    pub const ARI_LEN: usize = 72;

    /// The additional reject information: as much of the field as `ari_len` says, or all.
    #[must_use]
    pub fn ari_bytes(&self) -> &'a [u8] {
        self.ari.get(..usize::from(self.ari_len)).unwrap_or(self.ari)
    }

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<RejWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            rejected: RejectedMessage::from_bits(wire.rejected >> 6),
            resv6: wire.rejected & 0x3f,
            ari_len: wire.ari_len >> 1,
            resv1: wire.ari_len & 1 != 0,
            reason: RejReason(wire.reason.get()),
            ari: &wire.ari,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data or information.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<RejWire>(data)?;
        fill(&mut wire.ari, self.ari)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.rejected = self.rejected.bits() << 6 | self.resv6 & 0x3f;
        wire.ari_len = self.ari_len << 1 | u8::from(self.resv1);
        wire.reason.set(self.reason.0);
        Ok(())
    }
}
