//! Link-layer types: how a captured packet starts, and where what the codec reads is in it.

mod erf;

use std::fmt;

use roce_codec::net::EtherType;

/// A link-layer type as capture files number them (<https://www.tcpdump.org/linktypes.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD's loopback: the address family in the byte order of the machine.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without any link header.
    pub const RAW: Self = Self(101);
    /// OpenBSD's loopback: the address family, most significant byte first.
    pub const LOOP: Self = Self(108);
    /// Endace's records, which hold Ethernet, InfiniBand and others.
    pub const ERF: Self = Self(197);
    /// IPv4 without any link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without any link header.
    pub const IPV6: Self = Self(229);
    /// Native InfiniBand, from the LRH on; there is no IP header in it to be located.
    pub const INFINIBAND: Self = Self(247);
    /// Linux cooked capture, 16 bytes (`tcpdump -i any`).
    pub const LINUX_SLL: Self = Self(113);
    /// Linux cooked capture, second version, 20 bytes.
    pub const LINUX_SLL2: Self = Self(276);

    /// The bytes that the codec can parse, and what they start with.
    ///
    /// # Errors
    /// [`LinkError`]: a link type that is not read here, a header that is cut, or one that says
    /// that something else than IP or RoCE follows.
    #[inline]
    pub fn locate(self, data: &[u8]) -> Result<(First, &[u8]), LinkError> {
        match self {
            Self::ETHERNET => Ok((First::Ethernet, data)),
            // 12 and 14 are raw IP's numbers in memory, which some tools write to files.
            Self::RAW | Self::IPV4 | Self::IPV6 | Self(12 | 14) => Ok((First::Ip, data)),
            Self::LINUX_SLL => cooked(data, 14, 16),
            Self::LINUX_SLL2 => cooked(data, 0, 20),
            Self::INFINIBAND => Ok((First::Lrh, data)),
            Self::ERF => erf::locate(data),
            Self::NULL | Self::LOOP => loopback(data),
            other => Err(LinkError::Unsupported(other)),
        }
    }
}

/// What a packet starts with, behind whatever its link type puts in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum First {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
    /// Native InfiniBand's local route header.
    Lrh,
    /// The global route header of RoCE v1.
    Grh,
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ETHERNET => f.write_str("Ethernet"),
            Self::RAW | Self::IPV4 | Self::IPV6 => f.write_str("raw IP"),
            Self::INFINIBAND => f.write_str("InfiniBand"),
            Self::ERF => f.write_str("ERF"),
            Self::NULL | Self::LOOP => f.write_str("loopback"),
            Self::LINUX_SLL => f.write_str("Linux cooked"),
            Self::LINUX_SLL2 => f.write_str("Linux cooked v2"),
            Self(other) => write!(f, "link type {other}"),
        }
    }
}

/// Why nothing is looked for in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkError {
    /// A link type that is not read here.
    Unsupported(LinkType),
    /// The link header is cut.
    Truncated,
    /// The packet carries another protocol than IP or RoCE.
    NotIp(EtherType),
    /// The packet is of another address family than IPv4's or IPv6's.
    Family(u32),
    /// An ERF record of a type that holds neither Ethernet, InfiniBand nor IP.
    ErfType(u8),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(link) => write!(f, "{link} is not read here"),
            Self::Truncated => f.write_str("the link header is cut"),
            Self::NotIp(EtherType(found)) => write!(f, "protocol {found:#06x} is not IP"),
            Self::Family(found) => write!(f, "address family {found} is not IP's"),
            Self::ErfType(found) => write!(f, "ERF type {found} is not read here"),
        }
    }
}

impl std::error::Error for LinkError {}

/// A cooked header of `len` bytes whose protocol stands at `at`; VLAN tags may follow it.
fn cooked(data: &[u8], at: usize, len: usize) -> Result<(First, &[u8]), LinkError> {
    let word = |bytes: &[u8], at: usize| {
        let raw = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
        raw.map(|raw| EtherType(u16::from_be_bytes(raw))).ok_or(LinkError::Truncated)
    };
    let mut protocol = word(data, at)?;
    let mut rest = data.get(len..).ok_or(LinkError::Truncated)?;
    while protocol.is_tag() {
        protocol = word(rest, 2)?;
        rest = rest.get(4..).ok_or(LinkError::Truncated)?;
    }
    match protocol {
        EtherType::IPV4 | EtherType::IPV6 => Ok((First::Ip, rest)),
        EtherType::ROCE_V1 => Ok((First::Grh, rest)),
        other => Err(LinkError::NotIp(other)),
    }
}

/// Four bytes of address family, in whichever byte order makes it a small number.
fn loopback(data: &[u8]) -> Result<(First, &[u8]), LinkError> {
    let (raw, rest) = data.split_first_chunk().ok_or(LinkError::Truncated)?;
    let family = u32::from_le_bytes(*raw).min(u32::from_be_bytes(*raw));
    match family {
        // IPv6 has another number on Linux, NetBSD, FreeBSD and macOS each.
        2 | 10 | 24 | 28 | 30 => Ok((First::Ip, rest)),
        other => Err(LinkError::Family(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooked_headers_lead_to_ip() {
        let mut sll = vec![0; 14];
        sll.extend([0x08, 0x00, 0x45, 1, 2]);
        assert_eq!(LinkType::LINUX_SLL.locate(&sll), Ok((First::Ip, &[0x45, 1, 2][..])));

        let mut sll2 = vec![0x86, 0xdd];
        sll2.extend([0; 18]);
        sll2.extend([0x60, 7]);
        assert_eq!(LinkType::LINUX_SLL2.locate(&sll2), Ok((First::Ip, &[0x60, 7][..])));

        let mut tagged = vec![0; 14];
        tagged.extend([0x81, 0x00, 0x00, 0x05, 0x08, 0x00, 0x45]);
        assert_eq!(LinkType::LINUX_SLL.locate(&tagged), Ok((First::Ip, &[0x45][..])));
    }

    #[test]
    fn cooked_roce_v1_starts_with_its_grh() {
        let mut sll = vec![0; 14];
        sll.extend([0x89, 0x15, 0x60, 1]);
        assert_eq!(LinkType::LINUX_SLL.locate(&sll), Ok((First::Grh, &[0x60, 1][..])));
    }

    #[test]
    fn loopback_has_either_byte_order() {
        for (family, link) in [
            ([2, 0, 0, 0], LinkType::NULL),
            ([0, 0, 0, 30], LinkType::NULL),
            ([0, 0, 0, 24], LinkType::LOOP),
        ] {
            let data = [&family[..], &[0x45]].concat();
            assert_eq!(link.locate(&data), Ok((First::Ip, &[0x45][..])));
            assert_eq!(link.locate(&data[..3]), Err(LinkError::Truncated));
        }
        assert_eq!(LinkType::NULL.locate(&[0, 0, 0, 7, 0]), Err(LinkError::Family(7)));
    }

    #[test]
    fn what_is_not_ip_is_said() {
        let mut arp = vec![0; 14];
        arp.extend([0x08, 0x06, 0, 0]);
        let error = LinkType::LINUX_SLL.locate(&arp).unwrap_err();
        assert_eq!(error, LinkError::NotIp(EtherType(0x0806)));
        for len in 0..16 {
            assert_eq!(LinkType::LINUX_SLL.locate(&arp[..len]), Err(LinkError::Truncated));
        }
        let usb = LinkType(220);
        assert_eq!(usb.locate(&arp), Err(LinkError::Unsupported(usb)));
    }
}
