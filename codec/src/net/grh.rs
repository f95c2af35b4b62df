//! The global route header: what routes InfiniBand packets between subnets, and RoCE v1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---------------+---------------------------------------+
//! |IPVer 6| Traffic class |              Flow label               |
//! +-------+---------------+-------+---------------+---------------+
//! |        Payload length         |  Next header  |   Hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                      Source GID (16 bytes)                    |
//! +---------------------------------------------------------------+
//! |                   Destination GID (16 bytes)                  |
//! +---------------------------------------------------------------+
//! ```
//!
//! 40 bytes. IBTA Vol. 1, 8.3: IPv6's header under other names; a GID is an IPv6 address. The
//! payload length counts what follows up to and with the ICRC. In the ICRC the traffic class, the
//! flow label and the hop limit count as ones.

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Gid;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct GrhWire {
    version_class_flow: U32<BE>,
    pay_len: U16<BE>,
    pub(crate) next_header: u8,
    hop_limit: u8,
    sgid: [u8; 16],
    dgid: [u8; 16],
}

/// A global route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header, the ICRC included and the VCRC not.
    pub pay_len: u16,
    /// What follows; [`Grh::IBA`] is a BTH.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source.
    pub sgid: Gid,
    /// Destination.
    pub dgid: Gid,
}

impl Grh {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// The next header that is an InfiniBand transport.
    pub const IBA: u8 = 0x1b;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], and [`ParseError::GrhVersion`] if the version is not 6.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<GrhWire>(bytes, Layer::Grh)?;
        wire.check_version()?;
        Ok(wire.value())
    }

    /// Writes the header at the front of `out`. Bits of the flow label above 20 are dropped.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | (self.flow_label & 0x000f_ffff);
        let wire = GrhWire {
            version_class_flow: word.into(),
            pay_len: self.pay_len.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            sgid: self.sgid.0,
            dgid: self.dgid.0,
        };
        put(&wire, out)
    }
}

impl GrhWire {
    fn check_version(&self) -> Result<(), ParseError> {
        let [first, ..] = self.version_class_flow.to_bytes();
        if first >> 4 == 6 { Ok(()) } else { Err(ParseError::GrhVersion(first >> 4)) }
    }

    /// Version and next header.
    pub(crate) fn check(&self) -> Result<(), ParseError> {
        self.check_version()?;
        if self.next_header == Grh::IBA {
            Ok(())
        } else {
            Err(ParseError::NotRoce { layer: Layer::Grh, found: u16::from(self.next_header) })
        }
    }

    /// Bytes after this header.
    pub(crate) fn pay_len(&self) -> usize {
        usize::from(self.pay_len.get())
    }

    pub(crate) fn value(&self) -> Grh {
        let [first, second, ..] = self.version_class_flow.to_bytes();
        Grh {
            traffic_class: first << 4 | second >> 4,
            flow_label: self.version_class_flow.get() & 0x000f_ffff,
            pay_len: self.pay_len.get(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            sgid: Gid(self.sgid),
            dgid: Gid(self.dgid),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv6Addr;

    use super::*;

    #[test]
    fn fields_by_hand() {
        let grh = Grh {
            traffic_class: 0x2a,
            flow_label: 0x3_4567,
            pay_len: 0x1234,
            next_header: Grh::IBA,
            hop_limit: 64,
            sgid: Ipv6Addr::new(0xfe80, 0, 0, 0, 2, 0xc902, 0x24, 0xf636).into(),
            dgid: Ipv6Addr::new(0xff12, 0x401b, 0xffff, 0, 0, 0, 0xffff, 0xffff).into(),
        };
        let mut out = [0; 40];
        grh.emit(&mut out).unwrap();
        assert_eq!(out[..8], [0x62, 0xa3, 0x45, 0x67, 0x12, 0x34, 27, 64]);
        assert_eq!(out[8..24], [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 2, 0, 0x24, 0xf6, 0x36]);
        assert_eq!(out[24..30], [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff]);
        assert_eq!(Grh::parse(&out), Ok(grh));
        for len in 0..40 {
            assert!(Grh::parse(&out[..len]).is_err());
            assert!(grh.emit(&mut [0; 40][..len]).is_err());
        }
        out[0] = 0x82;
        assert_eq!(Grh::parse(&out), Err(ParseError::GrhVersion(8)));
    }
}
