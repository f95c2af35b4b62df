//! IPv6, without extension headers.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---------------+---------------------------------------+
//! |  6    | Traffic class |              Flow label               |
//! +-------+---------------+-------+---------------+---------------+
//! |        Payload length         |  Next header  |   Hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                    Source address (16 bytes)                  |
//! +---------------------------------------------------------------+
//! |                 Destination address (16 bytes)                |
//! +---------------------------------------------------------------+
//! ```
//!
//! 40 bytes. RFC 8200. In the ICRC the traffic class, the flow label and the hop limit count as
//! ones.

use core::net::Ipv6Addr;

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Udp;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Ipv6Wire {
    version_class_flow: U32<BE>,
    pub(crate) payload_len: U16<BE>,
    pub(crate) next_header: u8,
    hop_limit: u8,
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
}

/// An IPv6 header of 40 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ipv6 {
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header.
    pub payload_len: u16,
    /// What follows; 17 is UDP.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ipv6 {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// A header as RoCEv2 senders write it: UDP follows, hop limit 64, traffic class and flow label
    /// 0. The length is for [`FrameBuilder::set_payload_len`](crate::FrameBuilder::set_payload_len).
    #[must_use]
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr) -> Self {
        Self {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: Udp::PROTOCOL,
            hop_limit: 64,
            src,
            dst,
        }
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], and [`ParseError::NotRoce`] if the version is not 6.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<Ipv6Wire>(bytes, Layer::Ipv6)?;
        wire.check()?;
        Ok(wire.value())
    }

    /// Sets the length for `len` bytes after this header.
    ///
    /// # Errors
    /// [`EmitError::TooLong`] if the field cannot hold it.
    #[inline]
    pub fn set_payload_len(&mut self, len: usize) -> Result<(), EmitError> {
        self.payload_len = u16::try_from(len).map_err(|_| EmitError::TooLong(len))?;
        Ok(())
    }

    /// Writes the header at the front of `out`. Bits of the flow label above 20 are dropped.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | (self.flow_label & 0x000f_ffff);
        let wire = Ipv6Wire {
            version_class_flow: word.into(),
            payload_len: self.payload_len.into(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        put(&wire, out)
    }
}

/// The name of an extension header that may stand before UDP (IANA's list of RFC 7045).
#[must_use]
pub(crate) const fn extension_name(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "hop-by-hop options",
        43 => "routing",
        44 => "fragment",
        51 => "authentication",
        60 => "destination options",
        135 => "mobility",
        139 => "host identity",
        140 => "shim6",
        _ => return None,
    })
}

impl Ipv6Wire {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), ParseError> {
        let [first, ..] = self.version_class_flow.to_bytes();
        if first >> 4 == 6 {
            Ok(())
        } else {
            Err(ParseError::NotRoce { layer: Layer::Ipv6, found: u16::from(first >> 4) })
        }
    }

    #[inline]
    pub(crate) fn traffic_class(&self) -> u8 {
        let [first, second, ..] = self.version_class_flow.to_bytes();
        first << 4 | second >> 4
    }

    pub(crate) fn value(&self) -> Ipv6 {
        Ipv6 {
            traffic_class: self.traffic_class(),
            flow_label: self.version_class_flow.get() & 0x000f_ffff,
            payload_len: self.payload_len.get(),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.into(),
            dst: self.dst.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_land_where_the_rfc_puts_them() {
        let header = Ipv6 {
            traffic_class: 0x2a,
            flow_label: 0x34567,
            payload_len: 28,
            next_header: 17,
            hop_limit: 64,
            src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        };
        let mut out = [0; 40];
        header.emit(&mut out).unwrap();
        assert_eq!(out[..8], [0x62, 0xa3, 0x45, 0x67, 0, 28, 17, 64]);
        assert_eq!(out[8..10], [0x20, 0x01]);
        assert_eq!(out[39], 2);
        assert_eq!(Ipv6::parse(&out), Ok(header));
        out[0] = 0x45;
        assert!(matches!(Ipv6::parse(&out), Err(ParseError::NotRoce { found: 4, .. })));
        for len in 0..40 {
            assert!(Ipv6::parse(&out[..len]).is_err());
            assert!(header.emit(&mut [0; 40][..len]).is_err());
        }
    }
}
