//! LAP: load an alternate path.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  Resv32
//!   12  remote QPN or EECN 24
//!   15  remote CM response timeout 5, Resv3
//!   16  Resv32
//!   20  alternate path, 44 bytes
//!   64  private data, 168 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.8.1.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::path::{Order, PathWire};
use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN, Path, Timeout};
use crate::ib::Qpn;
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LapWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    resv32_8: U32<BE>,
    remote_qpn: [u8; 3],
    timeout: u8,
    resv32_16: U32<BE>,
    alternate: PathWire,
    private_data: [u8; Lap::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<LapWire>() == MAD_DATA_LEN);

/// The path that the connection shall migrate to when its own fails, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lap<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// Reserved, the 32 bits at byte 8.
    pub resv32_8: u32,
    /// The receiver's QP; its end-to-end context for reliable datagrams.
    pub remote_qpn: Qpn,
    /// How soon the receiver's connection manager shall answer.
    pub remote_cm_response_timeout: Timeout,
    /// Reserved, 3 bits.
    pub resv3: u8,
    /// Reserved, the 32 bits at byte 16.
    pub resv32_16: u32,
    /// The path.
    pub alternate: Path,
    /// What the consumers say to each other, up to 168 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Lap<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 168;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<LapWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            resv32_8: wire.resv32_8.get(),
            remote_qpn: Qpn::new(u24(wire.remote_qpn)),
            remote_cm_response_timeout: Timeout::new(wire.timeout >> 3),
            resv3: wire.timeout & 7,
            resv32_16: wire.resv32_16.get(),
            alternate: wire.alternate.value(Order::Lap),
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<LapWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.resv32_8.set(self.resv32_8);
        wire.remote_qpn = to_u24(self.remote_qpn.get());
        wire.timeout = self.remote_cm_response_timeout.code() << 3 | self.resv3 & 7;
        wire.resv32_16.set(self.resv32_16);
        wire.alternate.set(&self.alternate, Order::Lap);
        Ok(())
    }
}
