//! SIDR_REQ: a service ID resolution request.
//!
//! ```text
//!  byte
//!    0  request ID 32
//!    4  partition key 16
//!    6  Resv16
//!    8  service ID 64
//!   16  private data, 216 bytes
//! ```
//!
//! 232 bytes. IBTA Vol. 1, 12.11.1.

use zerocopy::byteorder::{BE, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{fill, view, view_mut};
use super::{CmEmitError, CmError, IpCmHeader, MAD_DATA_LEN, ServiceId, ip_cm};
use crate::ib::PKey;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SidrReqWire {
    request_id: U32<BE>,
    pkey: U16<BE>,
    resv16: U16<BE>,
    service_id: U64<BE>,
    private_data: [u8; SidrReq::PRIVATE_DATA_LEN],
}

const _: () = assert!(size_of::<SidrReqWire>() == MAD_DATA_LEN);

/// Which datagram QP serves a service? Every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SidrReq<'a> {
    /// What the answer is known by.
    pub request_id: u32,
    /// Partition key of the datagrams to come.
    pub pkey: PKey,
    /// Reserved, 16 bits.
    pub resv16: u16,
    /// The service asked for.
    pub service_id: ServiceId,
    /// What the consumers say to each other, up to 216 bytes; behind an [`IpCmHeader`] where the
    /// service is one of the RDMA IP CM Service. Emitting adds zeroes.
    pub private_data: &'a [u8],
}

impl<'a> SidrReq<'a> {
    /// Bytes of private data.
    pub const PRIVATE_DATA_LEN: usize = 216;

    /// The RDMA IP CM Service's header and the 180 bytes of the consumer behind it; `None` if the
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
        let wire = view::<SidrReqWire>(data)?;
        Ok(Self {
            request_id: wire.request_id.get(),
            pkey: PKey(wire.pkey.get()),
            resv16: wire.resv16.get(),
            service_id: ServiceId(wire.service_id.get()),
            private_data: &wire.private_data,
        })
    }

    /// Writes the data of a MAD.
    ///
    /// # Errors
    /// [`CmEmitError`]: too small a buffer, too much private data.
    pub fn emit(&self, data: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<SidrReqWire>(data)?;
        fill(&mut wire.private_data, self.private_data)?;
        wire.request_id.set(self.request_id);
        wire.pkey.set(self.pkey.0);
        wire.resv16.set(self.resv16);
        wire.service_id.set(self.service_id.0);
        Ok(())
    }
}
