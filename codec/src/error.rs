//! What can be wrong with bytes (or with values that are to become bytes).

use core::fmt;

use crate::ib::{HeaderKind, LinkNextHeader};
use crate::net::extension_name;

/// The layer an error speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Layer {
    /// Ethernet, from the destination MAC to the last EtherType.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// An Ethernet MAC control frame.
    MacControl,
    /// UDP.
    Udp,
    /// The local route header of native InfiniBand.
    Lrh,
    /// The global route header.
    Grh,
    /// The base transport header.
    Bth,
    /// One of the extended transport headers.
    Ext(HeaderKind),
    /// Payload and pad bytes.
    Payload,
    /// The invariant CRC.
    Icrc,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet => f.write_str("Ethernet"),
            Self::Vlan => f.write_str("VLAN"),
            Self::Ipv4 => f.write_str("IPv4"),
            Self::Ipv6 => f.write_str("IPv6"),
            Self::MacControl => f.write_str("MAC control"),
            Self::Udp => f.write_str("UDP"),
            Self::Lrh => f.write_str("LRH"),
            Self::Grh => f.write_str("GRH"),
            Self::Bth => f.write_str("BTH"),
            Self::Ext(kind) => write!(f, "{kind}"),
            Self::Payload => f.write_str("payload"),
            Self::Icrc => f.write_str("ICRC"),
        }
    }
}

/// Why bytes are not the packet or header they were taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the layer does.
    Truncated {
        /// The layer that is cut.
        layer: Layer,
        /// Bytes the layer needs.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// Well-formed, but another protocol: EtherType, IP version or protocol, UDP port, or the
    /// GRH's next header.
    NotRoce {
        /// The layer whose selector says so.
        layer: Layer,
        /// The selector found.
        found: u16,
    },
    /// An IPv4 header with options (IHL above 5); IBTA Annex A17 forbids them on RoCEv2.
    Ipv4Options,
    /// An IPv4 header whose length field is below 5 words.
    Ipv4HeaderLength,
    /// An IPv6 extension header stands where UDP belongs; carries its next-header number.
    Ipv6Extension(u8),
    /// An IP fragment: RoCEv2 packets are never fragmented.
    Fragment,
    /// A raw packet of native InfiniBand, which has no InfiniBand transport.
    RawPacket(LinkNextHeader),
    /// A GRH whose version is not 6.
    GrhVersion(u8),
    /// A MAC control frame that is neither PAUSE nor PFC; carries its opcode.
    MacControlOpcode(u16),
    /// A MAC control frame with a VLAN tag.
    TaggedMacControl,
    /// More VLAN tags than [`crate::net::VlanStack::MAX`].
    TooManyVlanTags,
    /// A length field contradicts another one or its own layer's header.
    Length {
        /// The layer whose length field is wrong.
        layer: Layer,
        /// What the field says, in bytes.
        field: usize,
        /// What it would have to be, or be at least.
        expected: usize,
    },
    /// Headers do not all lie in the first of two segments.
    SplitHeaders,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { layer, needed, available } => {
                write!(f, "{layer} needs {needed} bytes, {available} are left")
            }
            Self::NotRoce { layer: Layer::Udp, found } => {
                write!(f, "UDP destination port {found} is not RoCEv2's 4791")
            }
            Self::NotRoce { layer: Layer::Grh, found } => {
                write!(f, "GRH next header {found:#x} is not InfiniBand's 0x1b")
            }
            Self::NotRoce { layer, found } => {
                write!(f, "{layer} carries protocol {found:#x}, which is not RoCEv2")
            }
            Self::Ipv4Options => f.write_str("IPv4 options, which RoCEv2 forbids"),
            Self::Ipv4HeaderLength => f.write_str("IPv4 header length below 20 bytes"),
            Self::Ipv6Extension(number) => match extension_name(number) {
                Some(name) => write!(f, "IPv6 {name} header ({number})"),
                None => write!(f, "IPv6 extension header {number}"),
            },
            Self::Fragment => f.write_str("an IP fragment"),
            Self::RawPacket(LinkNextHeader::RawIpv6) => f.write_str("a raw IPv6 packet (LNH 1)"),
            Self::RawPacket(_) => f.write_str("a raw EtherType packet (LNH 0)"),
            Self::GrhVersion(found) => write!(f, "GRH version {found} is not 6"),
            Self::MacControlOpcode(opcode) => {
                write!(f, "MAC control opcode {opcode:#06x} is neither PAUSE nor PFC")
            }
            Self::TaggedMacControl => {
                f.write_str("a MAC control frame with a VLAN tag, which 802.3 forbids")
            }
            Self::TooManyVlanTags => f.write_str("more VLAN tags than three"),
            Self::Length { layer, field, expected } => {
                write!(f, "{layer} length field says {field}, {expected} expected")
            }
            Self::SplitHeaders => f.write_str("headers run over into the second segment"),
        }
    }
}

impl core::error::Error for ParseError {}

/// Why values cannot be written as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is too short.
    NoRoom {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// The opcode calls for a header that was not given.
    MissingHeader(HeaderKind),
    /// The packet would be longer than the length field of its IP, GRH or LRH can say.
    TooLong(usize),
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoRoom { needed, available } => {
                write!(f, "{needed} bytes needed, the buffer has {available}")
            }
            Self::MissingHeader(kind) => write!(f, "the opcode needs a {kind}"),
            Self::TooLong(len) => {
                write!(f, "a packet of {len} bytes is too long for its length field")
            }
        }
    }
}

impl core::error::Error for EmitError {}
