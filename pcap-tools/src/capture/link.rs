//! Link-layer types: how a captured packet starts, and where its IP header is.

use std::fmt;

use roce_codec::Start;
use roce_codec::net::EtherType;

/// A link-layer type as capture files number them (<https://www.tcpdump.org/linktypes.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6 without any link header.
    pub const RAW: Self = Self(101);
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

    /// The bytes that [`roce_codec::Frame`] can parse, and where they start.
    ///
    /// # Errors
    /// [`LinkError`]: a link type that is not read here, a header that is cut, or a cooked packet
    /// that carries something else than IP.
    #[inline]
    pub fn locate(self, data: &[u8]) -> Result<(Start, &[u8]), LinkError> {
        match self {
            Self::ETHERNET => Ok((Start::Ethernet, data)),
            // OpenBSD and others write their own numbers for raw IP.
            Self::RAW | Self::IPV4 | Self::IPV6 | Self(12 | 14) => Ok((Start::Ip, data)),
            Self::LINUX_SLL => cooked(data, 14, 16),
            Self::LINUX_SLL2 => cooked(data, 0, 20),
            other => Err(LinkError::Unsupported(other)),
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ETHERNET => f.write_str("Ethernet"),
            Self::RAW | Self::IPV4 | Self::IPV6 => f.write_str("raw IP"),
            Self::INFINIBAND => f.write_str("InfiniBand"),
            Self::LINUX_SLL => f.write_str("Linux cooked"),
            Self::LINUX_SLL2 => f.write_str("Linux cooked v2"),
            Self(other) => write!(f, "link type {other}"),
        }
    }
}

/// Why no IP header is looked for in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkError {
    /// A link type that is not read here.
    Unsupported(LinkType),
    /// The link header is cut.
    Truncated,
    /// The packet carries another protocol than IP.
    NotIp(EtherType),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(link) => write!(f, "{link} is not read here"),
            Self::Truncated => f.write_str("the link header is cut"),
            Self::NotIp(EtherType(found)) => write!(f, "protocol {found:#06x} is not IP"),
        }
    }
}

impl std::error::Error for LinkError {}

/// A cooked header of `len` bytes whose protocol stands at `at`; VLAN tags may follow it.
fn cooked(data: &[u8], at: usize, len: usize) -> Result<(Start, &[u8]), LinkError> {
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
        EtherType::IPV4 | EtherType::IPV6 => Ok((Start::Ip, rest)),
        other => Err(LinkError::NotIp(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooked_headers_lead_to_ip() {
        let mut sll = vec![0; 14];
        sll.extend([0x08, 0x00, 0x45, 1, 2]);
        assert_eq!(LinkType::LINUX_SLL.locate(&sll), Ok((Start::Ip, &[0x45, 1, 2][..])));

        let mut sll2 = vec![0x86, 0xdd];
        sll2.extend([0; 18]);
        sll2.extend([0x60, 7]);
        assert_eq!(LinkType::LINUX_SLL2.locate(&sll2), Ok((Start::Ip, &[0x60, 7][..])));

        let mut tagged = vec![0; 14];
        tagged.extend([0x81, 0x00, 0x00, 0x05, 0x08, 0x00, 0x45]);
        assert_eq!(LinkType::LINUX_SLL.locate(&tagged), Ok((Start::Ip, &[0x45][..])));
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
