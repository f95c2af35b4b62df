//! SAP: suggest an alternate path.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  the body, 224 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.8.
//!
//! Nothing we have seen sends this message, and its layout behind the communication IDs, which
//! every message of a connection begins with, could not be checked against an implementation. So
//! the rest stays bytes.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SapWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    body: [u8; Sap::BODY_LEN],
}

const _: () = assert!(size_of::<SapWire>() == MAD_DATA_LEN);

/// A suggestion of the passive side that the active side load an alternate path
/// ([`Lap`](super::Lap)), every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sap<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// What follows the communication IDs, as it is, up to 224 bytes. Emitting adds zeroes.
    pub body: &'a [u8],
}

impl<'a> Sap<'a> {
    /// Bytes of the body.
    pub const BODY_LEN: usize = 224;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<SapWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            body: &wire.body,
        })
    }

    /// Writes the data of a MAD.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too long a body.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<SapWire>(data)?;
        fill(&mut wire.body, self.body)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        Ok(())
    }
}
