//! IPv4, without options.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |  4    |  IHL  |   DSCP    |ECN|         Total length          |
//! +-------+-------+-----------+---+-----+-------------------------+
//! |        Identification         |0|D|M|     Fragment offset     |
//! +---------------+---------------+-----+-------------------------+
//! |      TTL      |   Protocol    |        Header checksum        |
//! +---------------+---------------+-------------------------------+
//! |                        Source address                         |
//! +---------------------------------------------------------------+
//! |                      Destination address                      |
//! +---------------------------------------------------------------+
//! ```
//!
//! 20 bytes. RFC 791; IBTA Annex A17 forbids options on RoCEv2. In the ICRC the type of service,
//! the time to live and the header checksum count as ones.

use core::net::Ipv4Addr;

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Udp;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// Version 4, five words.
const VERSION_IHL: u8 = 0x45;

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Ipv4Wire {
    pub(crate) version_ihl: u8,
    pub(crate) dscp_ecn: u8,
    pub(crate) total_len: U16<BE>,
    identification: U16<BE>,
    pub(crate) flags_fragment: U16<BE>,
    ttl: u8,
    pub(crate) protocol: u8,
    checksum: U16<BE>,
    pub(crate) src: [u8; 4],
    pub(crate) dst: [u8; 4],
}

/// An IPv4 header of 20 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ipv4 {
    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub dscp_ecn: u8,
    /// Bytes of the packet, this header included.
    pub total_len: u16,
    /// Identification.
    pub identification: u16,
    /// Three flag bits (reserved, don't fragment, more fragments) and the fragment offset.
    pub flags_fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// What follows; 17 is UDP.
    pub protocol: u8,
    /// Header checksum, as found or as [`Ipv4::computed_checksum`] says.
    pub checksum: u16,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Ipv4 {
    /// Bytes of the header.
    pub const LEN: usize = 20;
    /// `flags_fragment` of a packet that must not be fragmented.
    pub const DONT_FRAGMENT: u16 = 0x4000;

    /// A header as RoCEv2 senders write it: UDP follows, never fragmented, time to live 64, traffic
    /// class and identification 0. Length and checksum are for [`Ip::set_payload_len`](super::Ip::set_payload_len) or
    /// [`FrameBuilder::set_payload_len`](crate::FrameBuilder::set_payload_len).
    #[must_use]
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr) -> Self {
        Self {
            dscp_ecn: 0,
            total_len: 0,
            identification: 0,
            flags_fragment: Self::DONT_FRAGMENT,
            ttl: 64,
            protocol: Udp::PROTOCOL,
            checksum: 0,
            src,
            dst,
        }
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], [`ParseError::NotRoce`] if the version is not 4,
    /// [`ParseError::Ipv4HeaderLength`] and [`ParseError::Ipv4Options`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<Ipv4Wire>(bytes, Layer::Ipv4)?;
        wire.check()?;
        Ok(wire.value())
    }

    /// Sets the length for `len` bytes after this header, and the checksum.
    ///
    /// # Errors
    /// [`EmitError::TooLong`] if the field cannot hold it.
    #[inline]
    pub fn set_payload_len(&mut self, len: usize) -> Result<(), EmitError> {
        let total = Self::LEN.saturating_add(len);
        self.total_len = u16::try_from(total).map_err(|_| EmitError::TooLong(total))?;
        self.checksum = self.computed_checksum();
        Ok(())
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&self.wire(), out)
    }

    /// The header checksum that belongs to the other fields (RFC 1071).
    #[inline]
    #[must_use]
    pub fn computed_checksum(&self) -> u16 {
        let high = |byte: u8| u32::from(byte) << 8;
        let address = |[a, b, c, d]: [u8; 4]| high(a) + u32::from(b) + high(c) + u32::from(d);
        // From the values, byte by byte: bytes that lie together were perhaps just written one by
        // one, and would have to reach memory before they can be read as a word.
        let mut sum = high(VERSION_IHL)
            + high(self.ttl)
            + u32::from(self.total_len)
            + u32::from(self.dscp_ecn)
            + u32::from(self.identification)
            + u32::from(self.protocol)
            + u32::from(self.flags_fragment)
            + address(self.src.octets())
            + address(self.dst.octets());
        // Nine 16-bit words overflow 16 bits by less than 4 bits: two folds suffice.
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        let [_, _, high, low] = sum.to_be_bytes();
        !u16::from_be_bytes([high, low])
    }

    #[inline]
    fn wire(&self) -> Ipv4Wire {
        Ipv4Wire {
            version_ihl: VERSION_IHL,
            dscp_ecn: self.dscp_ecn,
            total_len: self.total_len.into(),
            identification: self.identification.into(),
            flags_fragment: self.flags_fragment.into(),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: self.checksum.into(),
            src: self.src.octets(),
            dst: self.dst.octets(),
        }
    }
}

impl Ipv4Wire {
    /// Whether this is IPv4 without options, no fragment, and UDP follows.
    #[inline]
    pub(crate) fn is_bare_udp(&self) -> bool {
        self.version_ihl == 0x45
            && self.flags_fragment.get() & 0x3fff == 0
            && self.protocol == Udp::PROTOCOL
    }

    /// Version and header length.
    #[inline]
    fn check(&self) -> Result<(), ParseError> {
        match self.version_ihl {
            0x45 => Ok(()),
            other if other >> 4 != 4 => {
                Err(ParseError::NotRoce { layer: Layer::Ipv4, found: u16::from(other >> 4) })
            }
            other if other & 15 < 5 => Err(ParseError::Ipv4HeaderLength),
            _ => Err(ParseError::Ipv4Options),
        }
    }

    pub(crate) fn value(&self) -> Ipv4 {
        Ipv4 {
            dscp_ecn: self.dscp_ecn,
            total_len: self.total_len.get(),
            identification: self.identification.get(),
            flags_fragment: self.flags_fragment.get(),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: self.checksum.get(),
            src: self.src.into(),
            dst: self.dst.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the header checksum that everyone publishes.
    const KNOWN: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn known_header() {
        let header = Ipv4::parse(&KNOWN).unwrap();
        assert_eq!(header.total_len, 115);
        assert_eq!(header.protocol, 17);
        assert_eq!(header.flags_fragment, Ipv4::DONT_FRAGMENT);
        assert_eq!(header.dst, Ipv4Addr::new(192, 168, 0, 199));
        assert_eq!(header.computed_checksum(), 0xb861);
        let mut out = [0; 20];
        header.emit(&mut out).unwrap();
        assert_eq!(out, KNOWN);
    }

    #[test]
    fn options_and_short_headers_are_named() {
        let mut bytes = KNOWN;
        bytes[0] = 0x46;
        assert_eq!(Ipv4::parse(&bytes), Err(ParseError::Ipv4Options));
        bytes[0] = 0x44;
        assert_eq!(Ipv4::parse(&bytes), Err(ParseError::Ipv4HeaderLength));
        bytes[0] = 0x65;
        assert_eq!(Ipv4::parse(&bytes), Err(ParseError::NotRoce { layer: Layer::Ipv4, found: 6 }));
        for len in 0..20 {
            assert!(Ipv4::parse(&KNOWN[..len]).is_err());
        }
    }
}
