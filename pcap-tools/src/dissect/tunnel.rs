//! The tunnels that RoCE is found in: overlays of data centres, and what switches mirror.
//!
//! | tunnel | known by | inner packet |
//! |---|---|---|
//! | VXLAN (RFC 7348) | UDP port 4789, or Linux's old 8472 | Ethernet |
//! | VXLAN-GPE | UDP port 4790 | Ethernet, IP, MPLS |
//! | GENEVE (RFC 8926) | UDP port 6081 | Ethernet, IP |
//! | GRE (RFC 2784, 2890), NVGRE | IP protocol 47 | Ethernet, IP, MPLS |
//! | ERSPAN types I, II, III | GRE protocols 0x88be, 0x22eb | Ethernet, IP |
//! | IP in IP (RFC 2003, 2473, 4213) | IP protocols 4 and 41 | IP |
//! | Ethernet in IP (SRv6) | IP protocol 143 | Ethernet |
//! | MPLS | EtherTypes 0x8847 and 0x8848, IP protocol 137, UDP port 6635 | IP, Ethernet |
//!
//! Lengths are believed only where they make the inner packet shorter: a capture may have cut it.

use std::fmt;

use roce_codec::net::EtherType;

use crate::capture::First;

/// A tunnel around a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tunnel {
    /// VXLAN or VXLAN-GPE: the network identifier, of 24 bits.
    Vxlan(u32),
    /// GENEVE: the network identifier, of 24 bits.
    Geneve(u32),
    /// GRE, its key if it has one (NVGRE: network and flow).
    Gre(Option<u32>),
    /// A switch's mirror: the session, of 10 bits (0 in type I, which has none).
    Erspan(u16),
    /// IP in IP.
    Ip,
    /// Ethernet in IP.
    Ethernet,
    /// MPLS: the outermost label, of 20 bits.
    Mpls(u32),
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vxlan(vni) => write!(f, "VXLAN {vni}"),
            Self::Geneve(vni) => write!(f, "GENEVE {vni}"),
            Self::Gre(None) => f.write_str("GRE"),
            Self::Gre(Some(key)) => write!(f, "GRE {key:#x}"),
            Self::Erspan(session) => write!(f, "ERSPAN {session}"),
            Self::Ip => f.write_str("IP"),
            Self::Ethernet => f.write_str("Ethernet"),
            Self::Mpls(label) => write!(f, "MPLS {label}"),
        }
    }
}

/// The tunnels around a packet, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Outer([Option<Tunnel>; Self::MOST]);

impl Outer {
    /// As many as are looked through.
    pub const MOST: usize = 4;

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Each of them.
    pub fn tunnels(&self) -> impl Iterator<Item = Tunnel> {
        self.0.into_iter().flatten()
    }

    /// Adds one within; false if there are too many.
    pub(super) fn push(&mut self, tunnel: Tunnel) -> bool {
        let slot = self.0.iter_mut().find(|slot| slot.is_none());
        slot.map(|slot| *slot = Some(tunnel)).is_some()
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, tunnel) in self.tunnels().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{tunnel}")?;
        }
        Ok(())
    }
}

/// A tunnel, and what the packet in it starts with.
type Opened<'a> = (Tunnel, First, &'a [u8]);

const ETHERNET_BRIDGING: EtherType = EtherType(0x6558);
const MPLS: [EtherType; 2] = [EtherType(0x8847), EtherType(0x8848)];
const ERSPAN_1_2: EtherType = EtherType(0x88be);
const ERSPAN_3: EtherType = EtherType(0x22eb);

/// Headers and tags of one kind in a row that are stepped over.
const MOST_IN_A_ROW: usize = 8;

/// The tunnel that a packet is; `None` if it is none.
pub(super) fn open(first: First, bytes: &[u8]) -> Option<Opened<'_>> {
    match first {
        First::Ip => in_ip(bytes),
        First::Ethernet => {
            let mut at = 12;
            for _ in 0..MOST_IN_A_ROW {
                let protocol = ether_type(bytes, at)?;
                if !protocol.is_tag() {
                    return match protocol {
                        EtherType::IPV4 | EtherType::IPV6 => in_ip(bytes.get(at + 2..)?),
                        protocol if MPLS.contains(&protocol) => in_mpls(bytes.get(at + 2..)?),
                        _ => None,
                    };
                }
                at += 4;
            }
            None
        }
        First::Lrh | First::Grh => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn ether_type(bytes: &[u8], at: usize) -> Option<EtherType> {
    u16_at(bytes, at).map(EtherType)
}

/// At most `len` of the bytes.
fn limit(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}

/// Whether there is an EtherType of interest where Ethernet has it.
fn is_ethernet(bytes: &[u8]) -> bool {
    ether_type(bytes, 12).is_some_and(|protocol| {
        protocol.is_tag() || first_of(protocol).is_some() || protocol == EtherType::ROCE_V1
    })
}

/// What an EtherType says that a packet starts with.
fn first_of(protocol: EtherType) -> Option<First> {
    match protocol {
        ETHERNET_BRIDGING => Some(First::Ethernet),
        EtherType::IPV4 | EtherType::IPV6 => Some(First::Ip),
        _ => None,
    }
}

/// By IP protocol, behind options and extension headers. Of a fragmented packet the first one.
fn in_ip(bytes: &[u8]) -> Option<Opened<'_>> {
    let (protocol, payload) = match bytes.first()? >> 4 {
        4 => ipv4_payload(bytes)?,
        6 => ipv6_payload(bytes)?,
        _ => return None,
    };
    match protocol {
        4 | 41 => Some((Tunnel::Ip, First::Ip, payload)),
        17 => in_udp(payload),
        47 => in_gre(payload),
        137 => in_mpls(payload),
        143 => Some((Tunnel::Ethernet, First::Ethernet, payload)),
        _ => None,
    }
}

fn ipv4_payload(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let header = usize::from(bytes.first()? & 0x0f) * 4;
    if header < 20 || u16_at(bytes, 6)? & 0x1fff != 0 {
        return None;
    }
    let packet = limit(bytes, usize::from(u16_at(bytes, 2)?));
    Some((*bytes.get(9)?, packet.get(header..)?))
}

fn ipv6_payload(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let packet = limit(bytes, 40 + usize::from(u16_at(bytes, 4)?));
    let (mut protocol, mut rest) = (*bytes.get(6)?, packet.get(40..)?);
    for _ in 0..MOST_IN_A_ROW {
        let units = usize::from(*rest.get(1).unwrap_or(&0));
        let len = match protocol {
            // Hop by hop, routing, destination options, mobility.
            0 | 43 | 60 | 135 => (units + 1) * 8,
            44 if u16_at(rest, 2)? >> 3 == 0 => 8,
            51 => (units + 2) * 4,
            _ => return Some((protocol, rest)),
        };
        protocol = *rest.first()?;
        rest = rest.get(len..)?;
    }
    None
}

fn in_udp(bytes: &[u8]) -> Option<Opened<'_>> {
    let payload = limit(bytes, usize::from(u16_at(bytes, 4)?)).get(8..)?;
    match u16_at(bytes, 2)? {
        4789 | 8472 => in_vxlan(payload),
        4790 => in_vxlan_gpe(payload),
        6081 => in_geneve(payload),
        6635 => in_mpls(payload),
        _ => None,
    }
}

/// The flag that says that there is a network identifier.
const VXLAN_I: u8 = 0x08;

fn in_vxlan(bytes: &[u8]) -> Option<Opened<'_>> {
    if bytes.first()? & VXLAN_I == 0 {
        return None;
    }
    Some((Tunnel::Vxlan(u32_at(bytes, 4)? >> 8), First::Ethernet, bytes.get(8..)?))
}

fn in_vxlan_gpe(bytes: &[u8]) -> Option<Opened<'_>> {
    let rest = bytes.get(8..)?;
    let first = match bytes.get(3)? {
        1 | 2 => First::Ip,
        3 => First::Ethernet,
        5 => return in_mpls(rest),
        _ => return None,
    };
    Some((Tunnel::Vxlan(u32_at(bytes, 4)? >> 8), first, rest))
}

fn in_geneve(bytes: &[u8]) -> Option<Opened<'_>> {
    let &version_len = bytes.first()?;
    if version_len >> 6 != 0 {
        return None;
    }
    let first = first_of(ether_type(bytes, 2)?)?;
    let header = 8 + usize::from(version_len & 0x3f) * 4;
    Some((Tunnel::Geneve(u32_at(bytes, 4)? >> 8), first, bytes.get(header..)?))
}

/// The flags in front of GRE that say what follows: checksum, routing (which nobody uses), key,
/// sequence number; and its version.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_VERSION: u16 = 0x0007;

fn in_gre(bytes: &[u8]) -> Option<Opened<'_>> {
    let flags = u16_at(bytes, 0)?;
    if flags & (GRE_ROUTING | GRE_VERSION) != 0 {
        return None;
    }
    let len = |flag| if flags & flag == 0 { 0 } else { 4 };
    let key_at = 4 + len(GRE_CHECKSUM);
    let key = if flags & GRE_KEY == 0 { None } else { Some(u32_at(bytes, key_at)?) };
    let rest = bytes.get(key_at + len(GRE_KEY) + len(GRE_SEQUENCE)..)?;
    match ether_type(bytes, 2)? {
        // Type I has neither sequence number nor header.
        ERSPAN_1_2 if flags & GRE_SEQUENCE == 0 => Some((Tunnel::Erspan(0), First::Ethernet, rest)),
        ERSPAN_1_2 => Some((session(rest)?, First::Ethernet, rest.get(8..)?)),
        ERSPAN_3 => in_erspan_3(rest),
        protocol if MPLS.contains(&protocol) => in_mpls(rest),
        protocol => Some((Tunnel::Gre(key), first_of(protocol)?, rest)),
    }
}

fn session(header: &[u8]) -> Option<Tunnel> {
    u16_at(header, 2).map(|word| Tunnel::Erspan(word & 0x03ff))
}

/// Type III: the last 16 bits of the header have the frame's type at 10 and, at 0, whether eight
/// bytes of the platform's follow.
fn in_erspan_3(bytes: &[u8]) -> Option<Opened<'_>> {
    let word = u16_at(bytes, 10)?;
    let first = match word >> 10 & 0x1f {
        0 => First::Ethernet,
        2 => First::Ip,
        _ => return None,
    };
    let header = if word & 1 == 0 { 12 } else { 20 };
    Some((session(bytes)?, first, bytes.get(header..)?))
}

/// A stack of labels. What follows the last one nothing says: IP by its version, else Ethernet,
/// in front of which a control word may be, whose first four bits are zero, as many an address's.
fn in_mpls(bytes: &[u8]) -> Option<Opened<'_>> {
    let label = Tunnel::Mpls(u32_at(bytes, 0)? >> 12);
    let mut rest = bytes;
    for _ in 0..MOST_IN_A_ROW {
        let is_last = rest.get(2)? & 1 != 0;
        rest = rest.get(4..)?;
        if is_last {
            return Some(match rest.first()? >> 4 {
                4 | 6 => (label, First::Ip, rest),
                0 if !is_ethernet(rest) => (label, First::Ethernet, rest.get(4..)?),
                _ => (label, First::Ethernet, rest),
            });
        }
    }
    None
}
