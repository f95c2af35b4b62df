//! Either IP header, and what both share.

use core::net::IpAddr;

use super::{EtherType, Ipv4, Ipv6};
use crate::EmitError;

/// The two ECN bits (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Ecn {
    /// 00: not ECN-capable.
    NotEct = 0,
    /// 01: ECN-capable, codepoint 1.
    Ect1 = 1,
    /// 10: ECN-capable, codepoint 0.
    Ect0 = 2,
    /// 11: congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The lower two bits of a traffic class.
    #[inline]
    #[must_use]
    pub const fn of_traffic_class(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// An IPv4 or IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Ip {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Ip {
    /// Bytes of the header.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        match self {
            Self::V4(_) => Ipv4::LEN,
            Self::V6(_) => Ipv6::LEN,
        }
    }

    /// The EtherType that announces it.
    #[must_use]
    pub const fn ethertype(&self) -> EtherType {
        match self {
            Self::V4(_) => EtherType::IPV4,
            Self::V6(_) => EtherType::IPV6,
        }
    }

    /// Source address.
    #[must_use]
    pub const fn src(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(ip.src),
            Self::V6(ip) => IpAddr::V6(ip.src),
        }
    }

    /// Destination address.
    #[must_use]
    pub const fn dst(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(ip.dst),
            Self::V6(ip) => IpAddr::V6(ip.dst),
        }
    }

    /// DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.dscp_ecn,
            Self::V6(ip) => ip.traffic_class,
        }
    }

    /// Hop limit or time to live.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.ttl,
            Self::V6(ip) => ip.hop_limit,
        }
    }

    /// Sets the length field for `len` bytes after this header and, on IPv4, the checksum.
    ///
    /// # Errors
    /// [`EmitError::TooLong`] if the field cannot hold it.
    pub fn set_payload_len(&mut self, len: usize) -> Result<(), EmitError> {
        match self {
            Self::V4(ip) => ip.set_payload_len(len),
            Self::V6(ip) => ip.set_payload_len(len),
        }
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        match self {
            Self::V4(ip) => ip.emit(out),
            Self::V6(ip) => ip.emit(out),
        }
    }
}
