//! DREQ: a request for communication release.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  remote QPN or EECN 24
//!   11  Resv8
//!   12  private data, 220 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.10.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN};
use crate::ib::Qpn;
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DreqWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    remote_qpn: [u8; 3],
    resv8: u8,
    private_data: [u8; Dreq::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<DreqWire>() == MAD_DATA_LEN);

/// A request to end a connection, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Dreq<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// The receiver's QP; its end-to-end context for reliable datagrams.
    pub remote_qpn: Qpn,
    /// Reserved, 8 bits.
    pub resv8: u8,
    /// What the consumers say to each other, up to 220 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Dreq<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 220;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<DreqWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            remote_qpn: Qpn::new(u24(wire.remote_qpn)),
            resv8: wire.resv8,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<DreqWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.remote_qpn = to_u24(self.remote_qpn.get());
        wire.resv8 = self.resv8;
        Ok(())
    }
}
