//! RTU: ready to use.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  private data, 224 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.9.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RtuWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    private_data: [u8; Rtu::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<RtuWire>() == MAD_DATA_LEN);

/// Ready to use: the answer to a REP, every bit of it. The first packet on the connection says
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rtu<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// What the consumers say to each other, up to 224 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Rtu<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 224;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<RtuWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<RtuWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        Ok(())
    }
}
