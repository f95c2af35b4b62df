//! IP packets that are not bare UDP: which of them are somebody else's traffic, and which are
//! RoCEv2 with something that its annex forbids.
//!
//! Off the fast path. A capture is full of the former (IGMP has IPv4 options, MLD an IPv6
//! hop-by-hop header, large DNS answers are fragments), and none of it may count as a fault.

use crate::net::{Ipv4, Ipv4Wire, ROCE_V2_PORT, Udp};
use crate::{Layer, ParseError};

/// IPv6 extension headers looked at before giving up.
const MAX_CHAIN: usize = 8;

/// Why an IPv4 packet with options, a fragment, or another protocol than UDP is no frame.
#[cold]
pub(super) fn ipv4(ip: &Ipv4Wire, l3: &[u8]) -> ParseError {
    let header_len = 4 * usize::from(ip.version_ihl & 15);
    if ip.version_ihl >> 4 != 4 {
        return ParseError::NotRoce { layer: Layer::Ipv4, found: u16::from(ip.version_ihl >> 4) };
    }
    if ip.protocol != Udp::PROTOCOL {
        return ParseError::NotRoce { layer: Layer::Ipv4, found: u16::from(ip.protocol) };
    }
    if header_len < Ipv4::LEN {
        return ParseError::Ipv4HeaderLength;
    }
    let fragment = ip.flags_fragment.get() & 0x3fff;
    // A fragment at offset 0 still shows the port.
    if fragment & 0x1fff == 0
        && let Some(other) = other_port(l3.get(header_len..))
    {
        return other;
    }
    if fragment != 0 { ParseError::Fragment } else { ParseError::Ipv4Options }
}

/// Why an IPv6 packet whose next header is not UDP is no frame. `rest` follows the IPv6 header.
#[cold]
pub(super) fn ipv6(first: u8, mut rest: &[u8]) -> ParseError {
    let mut header = first;
    let mut fragment = false;
    for _ in 0..MAX_CHAIN {
        let Some(&[next, length, offset_high, offset_low, ..]) = rest.get(..8) else { break };
        let len = match header {
            // Hop-by-hop, routing, destination options, mobility, HIP, shim6: units of 8 bytes.
            0 | 43 | 60 | 135 | 139 | 140 => 8 * (usize::from(length) + 1),
            // Authentication: units of 4 bytes.
            51 => 4 * (usize::from(length) + 2),
            44 => {
                fragment = true;
                if u16::from_be_bytes([offset_high, offset_low]) & 0xfff8 != 0
                    && next == Udp::PROTOCOL
                {
                    // Not the first fragment: no port to look at.
                    return ParseError::Fragment;
                }
                8
            }
            _ => break,
        };
        header = next;
        rest = rest.get(len..).unwrap_or_default();
    }
    match header {
        Udp::PROTOCOL => match other_port(Some(rest)) {
            Some(other) => other,
            None if fragment => ParseError::Fragment,
            None => ParseError::Ipv6Extension(first),
        },
        // The chain is cut or longer than anybody's.
        0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 => ParseError::Ipv6Extension(first),
        other => ParseError::NotRoce { layer: Layer::Ipv6, found: u16::from(other) },
    }
}

/// The error for a UDP header that is there and names another port.
fn other_port(udp: Option<&[u8]>) -> Option<ParseError> {
    let &[high, low] = udp?.get(2..4)? else { return None };
    let found = u16::from_be_bytes([high, low]);
    (found != ROCE_V2_PORT).then_some(ParseError::NotRoce { layer: Layer::Udp, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Start};

    /// An IPv4 header with `words` words of options before UDP to `port`.
    fn with_ipv4(protocol: u8, flags_fragment: u16, words: u8, port: u16) -> ParseError {
        let mut packet = [0; 96];
        packet[0] = 0x45 + words;
        packet[3] = 96;
        packet[6..8].copy_from_slice(&flags_fragment.to_be_bytes());
        packet[9] = protocol;
        let udp = 20 + 4 * usize::from(words);
        packet[udp + 2..udp + 4].copy_from_slice(&port.to_be_bytes());
        Frame::parse([&packet, &[]], Start::Ip).unwrap_err()
    }

    #[test]
    fn ipv4_of_others_is_not_ours() {
        let not = |layer, found| ParseError::NotRoce { layer, found };
        assert_eq!(with_ipv4(2, 0x4000, 1, 0), not(Layer::Ipv4, 2), "IGMP with router alert");
        assert_eq!(with_ipv4(6, 0x2000, 0, 0), not(Layer::Ipv4, 6), "a fragment of TCP");
        assert_eq!(with_ipv4(17, 0x2000, 0, 53), not(Layer::Udp, 53), "a first fragment of DNS");
        assert_eq!(with_ipv4(17, 0x4000, 1, 53), not(Layer::Udp, 53), "DNS with options");
        assert_eq!(with_ipv4(17, 0x4000, 1, 4791), ParseError::Ipv4Options);
        assert_eq!(with_ipv4(17, 0x4000, 10, 4791), ParseError::Ipv4Options);
        assert_eq!(with_ipv4(17, 0x2000, 0, 4791), ParseError::Fragment);
        assert_eq!(with_ipv4(17, 0x2000, 1, 4791), ParseError::Fragment);
        assert_eq!(with_ipv4(17, 0x0001, 0, 53), ParseError::Fragment, "its port is elsewhere");
    }

    /// Headers (number and units of 8 bytes after the first) before UDP to `port`.
    fn with_ipv6(chain: &[(u8, u8)], last: u8, fragment_offset: u16, port: u16) -> ParseError {
        let mut packet = [0; 256];
        packet[0] = 0x60;
        packet[5] = 216;
        packet[6] = chain.first().map_or(last, |first| first.0);
        let mut at = 40;
        for (index, &(kind, units)) in chain.iter().enumerate() {
            packet[at] = chain.get(index + 1).map_or(last, |next| next.0);
            packet[at + 1] = units;
            if kind == 44 {
                packet[at + 2..at + 4].copy_from_slice(&(fragment_offset << 3 | 1).to_be_bytes());
            }
            at += if kind == 51 {
                4 * (usize::from(units) + 2)
            } else {
                8 * (usize::from(units) + 1)
            };
        }
        if let Some(field) = packet.get_mut(at + 2..at + 4) {
            field.copy_from_slice(&port.to_be_bytes());
        }
        Frame::parse([&packet, &[]], Start::Ip).unwrap_err()
    }

    #[test]
    fn ipv6_of_others_is_not_ours() {
        let not = |layer, found| ParseError::NotRoce { layer, found };
        assert_eq!(with_ipv6(&[], 58, 0, 0), not(Layer::Ipv6, 58), "neighbour discovery");
        assert_eq!(with_ipv6(&[(0, 0)], 58, 0, 0), not(Layer::Ipv6, 58), "MLD");
        assert_eq!(with_ipv6(&[], 50, 0, 0), not(Layer::Ipv6, 50), "ESP");
        assert_eq!(with_ipv6(&[(44, 0)], 17, 0, 53), not(Layer::Udp, 53), "a first fragment");
        assert_eq!(with_ipv6(&[(44, 0)], 6, 9, 0), not(Layer::Ipv6, 6), "a fragment of TCP");
        assert_eq!(with_ipv6(&[(44, 0)], 17, 0, 4791), ParseError::Fragment);
        assert_eq!(with_ipv6(&[(44, 0)], 17, 9, 53), ParseError::Fragment, "no port in it");
        assert_eq!(with_ipv6(&[(0, 1), (43, 2)], 17, 0, 4791), ParseError::Ipv6Extension(0));
        assert_eq!(with_ipv6(&[(51, 4)], 17, 0, 4791), ParseError::Ipv6Extension(51));
        assert_eq!(with_ipv6(&[(60, 0); 9], 17, 0, 53), ParseError::Ipv6Extension(60), "too long");
        assert_eq!(with_ipv6(&[(60, 255)], 60, 0, 53), ParseError::Ipv6Extension(60), "cut");
    }

    #[test]
    fn each_extension_header_is_refused_by_name() {
        for (number, named) in [
            (0, "IPv6 hop-by-hop options header (0)"),
            (43, "IPv6 routing header (43)"),
            (44, "an IP fragment"),
            (51, "IPv6 authentication header (51)"),
            (60, "IPv6 destination options header (60)"),
            (135, "IPv6 mobility header (135)"),
            (139, "IPv6 host identity header (139)"),
            (140, "IPv6 shim6 header (140)"),
        ] {
            let units = if number == 51 { 4 } else { 0 };
            assert_eq!(with_ipv6(&[(number, units)], 17, 0, 4791).to_string(), named);
        }
        // What a capture cut inside the header shows of it.
        for (number, named) in [(0, "hop-by-hop options header (0)"), (44, "fragment header (44)")]
        {
            let mut packet = [0; 47];
            packet[0] = 0x60;
            packet[5] = 200;
            packet[6] = number;
            let error = Frame::parse([&packet, &[]], Start::Ip).unwrap_err();
            assert_eq!(error.to_string(), ["IPv6 ", named].concat());
        }
        assert_eq!(
            with_ipv4(17, 0x4000, 1, 4791).to_string(),
            "IPv4 options, which RoCEv2 forbids"
        );
        assert_eq!(with_ipv4(17, 0x2000, 0, 4791).to_string(), "an IP fragment");
    }
}
