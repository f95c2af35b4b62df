//! The RDMA IP CM Service's header, in front of the private data of REQ and SIDR_REQ.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-------+-------+-------------------------------+
//! | MajV  | MinV  |  IPV  | Resv4 |          Source port          |
//! +-------+-------+-------+-------+-------------------------------+
//! |                Source IP address, 16 bytes                    |
//! +---------------------------------------------------------------+
//! |              Destination IP address, 16 bytes                 |
//! +---------------------------------------------------------------+
//! ```
//!
//! 36 bytes. IBTA Vol. 1, Annex A11. An IPv4 address is the last four bytes of its field, the
//! rest 0. The destination port is in the service ID. A REP has no such header: all of its
//! private data is the consumer's.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::wire::{view, view_mut};
use super::{CmEmitError, CmError, RdmaCmServiceId, ServiceId};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IpCmWire {
    version: u8,
    ip_version: u8,
    src_port: U16<BE>,
    src: [u8; 16],
    dst: [u8; 16],
}

const _: () = assert!(size_of::<IpCmWire>() == IpCmHeader::LEN);

/// Who asks for a connection, in terms of IP; every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IpCmHeader {
    /// Major version, 4 bits; 0 is the only one.
    pub major_version: u8,
    /// Minor version, 4 bits; 0 is the only one.
    pub minor_version: u8,
    /// IP version, 4 bits: 4 or 6.
    pub ip_version: u8,
    /// Reserved, 4 bits.
    pub resv4: u8,
    /// The port of who asks.
    pub src_port: u16,
    /// The address field of who asks; [`src_ip`](Self::src_ip) reads it.
    pub src: [u8; 16],
    /// The address field of who is asked; [`dst_ip`](Self::dst_ip) reads it.
    pub dst: [u8; 16],
}

impl IpCmHeader {
    /// Bytes of the header.
    pub const LEN: usize = 36;

    /// A header with IPv4 addresses.
    #[must_use]
    pub fn v4(src: Ipv4Addr, src_port: u16, dst: Ipv4Addr) -> Self {
        let [src, dst] = [src, dst].map(|ip| {
            let [a, b, c, d] = ip.octets();
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        });
        Self { ip_version: 4, src_port, src, dst, ..Self::default() }
    }

    /// A header with IPv6 addresses.
    #[must_use]
    pub fn v6(src: Ipv6Addr, src_port: u16, dst: Ipv6Addr) -> Self {
        Self { ip_version: 6, src_port, src: src.octets(), dst: dst.octets(), ..Self::default() }
    }

    /// The address of who asks; `None` unless the version is 4 or 6.
    #[must_use]
    pub fn src_ip(&self) -> Option<IpAddr> {
        self.ip(self.src)
    }

    /// The address of who is asked; `None` unless the version is 4 or 6.
    #[must_use]
    pub fn dst_ip(&self) -> Option<IpAddr> {
        self.ip(self.dst)
    }

    fn ip(&self, field: [u8; 16]) -> Option<IpAddr> {
        let [.., a, b, c, d] = field;
        match self.ip_version {
            4 => Some(Ipv4Addr::new(a, b, c, d).into()),
            6 => Some(Ipv6Addr::from(field).into()),
            _ => None,
        }
    }

    /// Parses the header at the front of private data.
    ///
    /// # Errors
    /// [`CmError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, CmError> {
        let wire = view::<IpCmWire>(bytes)?;
        Ok(Self {
            major_version: wire.version >> 4,
            minor_version: wire.version & 0x0f,
            ip_version: wire.ip_version >> 4,
            resv4: wire.ip_version & 0x0f,
            src_port: wire.src_port.get(),
            src: wire.src,
            dst: wire.dst,
        })
    }

    /// Writes the header at the front of `out`. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`CmEmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), CmEmitError> {
        let wire = view_mut::<IpCmWire>(out)?;
        *wire = IpCmWire {
            version: self.major_version << 4 | self.minor_version & 0x0f,
            ip_version: self.ip_version << 4 | self.resv4 & 0x0f,
            src_port: self.src_port.into(),
            src: self.src,
            dst: self.dst,
        };
        Ok(())
    }
}

/// The header and the consumer's private data behind it, if the service is one of the RDMA IP CM
/// Service.
pub(super) fn split(service_id: ServiceId, private_data: &[u8]) -> Option<(IpCmHeader, &[u8])> {
    RdmaCmServiceId::from_service_id(service_id)?;
    let header = IpCmHeader::parse(private_data).ok()?;
    Some((header, private_data.get(IpCmHeader::LEN..)?))
}
