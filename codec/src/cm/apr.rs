//! APR: the response to a load of an alternate path.
//!
//! ```text
//!  byte
//!    0  local communication ID 32
//!    4  remote communication ID 32
//!    8  additional information length 8
//!    9  AP status 8
//!   10  Resv16
//!   12  additional information, 72 bytes
//!   84  private data, 148 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.8.2.

use core::fmt;

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, CommunicationId, MAD_DATA_LEN};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AprWire {
    local_comm_id: U32<BE>,
    remote_comm_id: U32<BE>,
    info_len: u8,
    status: u8,
    resv16: U16<BE>,
    info: [u8; Apr::INFO_LEN],
    private_data: [u8; Apr::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<AprWire>() == MAD_DATA_LEN);

/// What became of an alternate path, 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ApStatus(pub u8);

impl ApStatus {
    /// The path is loaded.
    pub const LOADED: Self = Self(0);
    /// The communication IDs and the QPN name no connection.
    pub const INVALID_COMM_INSTANCE: Self = Self(1);
    /// Alternate paths are not supported.
    pub const NOT_SUPPORTED: Self = Self(2);
    /// Failover to that port is rejected.
    pub const FAILOVER_PORT_REJECTED: Self = Self(3);
    /// Another connection manager must be asked; the information is its
    /// [`ClassPortInfo`](super::ClassPortInfo).
    pub const REDIRECT: Self = Self(4);
    /// It is the path in use.
    pub const IS_CURRENT_PATH: Self = Self(5);
    /// The QPN or EECN is not that of the connection.
    pub const QPN_MISMATCH: Self = Self(6);
    /// The remote port's LID is rejected.
    pub const REMOTE_LID_REJECTED: Self = Self(7);
    /// The remote port's GID is rejected.
    pub const REMOTE_GID_REJECTED: Self = Self(8);
    /// The flow label is rejected.
    pub const FLOW_LABEL_REJECTED: Self = Self(9);
    /// The traffic class is rejected.
    pub const TRAFFIC_CLASS_REJECTED: Self = Self(10);
    /// The hop limit is rejected.
    pub const HOP_LIMIT_REJECTED: Self = Self(11);
    /// The packet rate is rejected.
    pub const PACKET_RATE_REJECTED: Self = Self(12);
    /// The service level is rejected.
    pub const SL_REJECTED: Self = Self(13);

    /// In words; `None` if reserved.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::LOADED => "alternate path loaded",
            Self::INVALID_COMM_INSTANCE => "invalid communication instance",
            Self::NOT_SUPPORTED => "alternate paths not supported",
            Self::FAILOVER_PORT_REJECTED => "failover port rejected",
            Self::REDIRECT => "redirected",
            Self::IS_CURRENT_PATH => "the path is the one in use",
            Self::QPN_MISMATCH => "QPN or EECN does not match",
            Self::REMOTE_LID_REJECTED => "remote port LID rejected",
            Self::REMOTE_GID_REJECTED => "remote port GID rejected",
            Self::FLOW_LABEL_REJECTED => "flow label rejected",
            Self::TRAFFIC_CLASS_REJECTED => "traffic class rejected",
            Self::HOP_LIMIT_REJECTED => "hop limit rejected",
            Self::PACKET_RATE_REJECTED => "packet rate rejected",
            Self::SL_REJECTED => "service level rejected",
            _ => return None,
        })
    }
}

impl fmt::Display for ApStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "AP status {}", self.0),
        }
    }
}

/// What became of a [`Lap`](super::Lap), every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Apr<'a> {
    /// What the sender calls the connection.
    pub local_comm_id: CommunicationId,
    /// What the receiver calls it.
    pub remote_comm_id: CommunicationId,
    /// Bytes of `info` that mean something.
    pub info_len: u8,
    /// What became of the path.
    pub status: ApStatus,
    /// Reserved, 16 bits.
    pub resv16: u16,
    /// The field of additional information, up to 72 bytes; [`info_bytes`](Self::info_bytes) is
    /// the part that counts. Emitting adds zeroes.
    pub info: &'a [u8],
    /// What the consumers say to each other, up to 148 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> Apr<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 148;

    /// Bytes of the field of additional information.
    pub const INFO_LEN: usize = 72;

    /// The additional information: as much of the field as `info_len` says, or all.
    #[must_use]
    pub fn info_bytes(&self) -> &'a [u8] {
        self.info.get(..usize::from(self.info_len)).unwrap_or(self.info)
    }

    /// Parses the data of a MAD.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(data: &'a [u8]) -> Result<Self, CmError> {
        let wire = view::<AprWire>(data)?;
        Ok(Self {
            local_comm_id: CommunicationId(wire.local_comm_id.get()),
            remote_comm_id: CommunicationId(wire.remote_comm_id.get()),
            info_len: wire.info_len,
            status: ApStatus(wire.status),
            resv16: wire.resv16.get(),
            info: &wire.info,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data or information.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<AprWire>(data)?;
        fill(&mut wire.info, self.info)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.local_comm_id.set(self.local_comm_id.0);
        wire.remote_comm_id.set(self.remote_comm_id.0);
        wire.info_len = self.info_len;
        wire.status = self.status.0;
        wire.resv16.set(self.resv16);
        Ok(())
    }
}
