//! SIDR_REP: the response to a service ID resolution request.
//!
//! ```text
//!  byte                                      byte
//!    0  request ID 32                         11  vendor ID, low 8
//!    4  status 8                              12  service ID 64
//!    5  additional information length 8       20  Q_Key 32
//!    6  vendor ID, high 16                    24  additional information, 72 bytes
//!    8  QPN 24                                96  private data, 136 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.11.2.

use core::fmt;

use zerocopy::byteorder::{BE, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, MAD_DATA_LEN, ServiceId};
use crate::ib::{QKey, Qpn};
use crate::wire::{to_u24, u24};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SidrRepWire {
    request_id: U32<BE>,
    status: u8,
    info_len: u8,
    vendor_id_high: [u8; 2],
    qpn: [u8; 3],
    vendor_id_low: u8,
    service_id: U64<BE>,
    qkey: U32<BE>,
    info: [u8; SidrRep::INFO_LEN],
    private_data: [u8; SidrRep::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<SidrRepWire>() == MAD_DATA_LEN);

/// What became of a service ID resolution request, 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// QPN and Q_Key are valid.
    pub const VALID: Self = Self(0);
    /// The service is not supported.
    pub const SERVICE_ID_NOT_SUPPORTED: Self = Self(1);
    /// The service provider refuses.
    pub const REJECTED: Self = Self(2);
    /// No QP is available.
    pub const NO_QP: Self = Self(3);
    /// Another connection manager must be asked; the information is its
    /// [`ClassPortInfo`](super::ClassPortInfo).
    pub const REDIRECT: Self = Self(4);
    /// The class version is not supported.
    pub const VERSION_NOT_SUPPORTED: Self = Self(5);

    /// In words; `None` if reserved.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::VALID => "valid",
            Self::SERVICE_ID_NOT_SUPPORTED => "service ID not supported",
            Self::REJECTED => "rejected by the service provider",
            Self::NO_QP => "no QP available",
            Self::REDIRECT => "redirected",
            Self::VERSION_NOT_SUPPORTED => "class version not supported",
            _ => return None,
        })
    }
}

impl fmt::Display for SidrStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "SIDR status {}", self.0),
        }
    }
}

/// The datagram QP that serves a service, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SidrRep<'a> {
    /// The request's ID.
    pub request_id: u32,
    /// What became of the request.
    pub status: SidrStatus,
    /// Bytes of `info` that mean something.
    pub info_len: u8,
    /// Vendor whose options are in the MAD's attribute modifier, 24 bits, in two pieces on the
    /// wire; 0 for none.
    pub vendor_id: u32,
    /// The QP that serves.
    pub qpn: Qpn,
    /// The service.
    pub service_id: ServiceId,
    /// The Q_Key of that QP.
    pub qkey: QKey,
    /// The field of additional information, up to 72 bytes; [`info_bytes`](Self::info_bytes) is
    /// the part that counts. Emitting adds zeroes.
    pub info: &'a [u8],
    /// What the consumers say to each other, up to 136 bytes. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> SidrRep<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 136;

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
        let wire = view::<SidrRepWire>(data)?;
        let [high, middle] = wire.vendor_id_high;
        Ok(Self {
            request_id: wire.request_id.get(),
            status: SidrStatus(wire.status),
            info_len: wire.info_len,
            vendor_id: u24([high, middle, wire.vendor_id_low]),
            qpn: Qpn::new(u24(wire.qpn)),
            service_id: ServiceId(wire.service_id.get()),
            qkey: QKey(wire.qkey.get()),
            info: &wire.info,
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data or information.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<SidrRepWire>(data)?;
        fill(&mut wire.info, self.info)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.request_id.set(self.request_id);
        wire.status = self.status.0;
        wire.info_len = self.info_len;
        let [high, middle, low] = to_u24(self.vendor_id);
        wire.vendor_id_high = [high, middle];
        wire.vendor_id_low = low;
        wire.qpn = to_u24(self.qpn.get());
        wire.service_id.set(self.service_id.0);
        wire.qkey.set(self.qkey.0);
        Ok(())
    }
}
