//! MRA: a message receipt acknowledgement.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  message MRAed 2, Resv6
//!    9  service timeout 5, Resv3
//!   10  private data, 222 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.6.6.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN, Timeout};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MraWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    message: u8,
    timeout: u8,
    private_data: [u8; Mra::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<MraWire>() == MAD_DATA_LEN);

/// The message that an MRA acknowledges, 2 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MraedMessage {
    /// 0: a REQ.
    #[default]
    Req,
    /// 1: a REP.
    Rep,
    /// 2: a LAP.
    Lap,
    /// 3: reserved.
    Reserved,
}

impl MraedMessage {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Req,
            1 => Self::Rep,
            2 => Self::Lap,
            _ => Self::Reserved,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Req => 0,
            Self::Rep => 1,
            Self::Lap => 2,
            Self::Reserved => 3,
        }
    }
}

/// The message has come, the answer will take a while: stop sending it again. Every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mra<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// The message that has come.
    pub message: MraedMessage,
    /// Reserved, 6 bits.
    pub resv6: u8,
    /// How long the answer may take.
    pub service_timeout: Timeout,
    /// Reserved, 3 bits.
    pub resv3: u8,
    /// What the consumers say to each other, up to 222 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Mra<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 222;

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<MraWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            message: MraedMessage::from_bits(wire.message >> 6),
            resv6: wire.message & 0x3f,
            service_timeout: Timeout::new(wire.timeout >> 3),
            resv3: wire.timeout & 7,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<MraWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.message = self.message.bits() << 6 | self.resv6 & 0x3f;
        wire.timeout = self.service_timeout.code() << 3 | self.resv3 & 7;
        Ok(())
    }
}
