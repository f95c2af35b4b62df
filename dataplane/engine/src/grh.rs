//! The 40 bytes in front of a received datagram, and the way back to its sender.
//!
//! ```text
//!        0                    20                    40
//! IPv6   |               IPv6 header                |  payload …
//! IPv4   |       zeroes        |    IPv4 header     |  payload …
//! ```
//!
//! InfiniBand puts the GRH there (IBTA 11.4.1.2); RoCEv2 has an IP header in its place (IBTA Annex
//! A17.4): an IPv6 header is as long as a GRH, an IPv4 header fills the last 20 bytes.

use roce_codec::Frame;
use roce_codec::net::{Ip, Ipv4, Ipv6};

use crate::qp::{NextHop, Path};

/// What lies in front of a received datagram's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrhArea(pub [u8; Self::LEN]);

impl GrhArea {
    /// Bytes of it; a receive of a datagram queue pair must hold that much more than the payload.
    pub const LEN: usize = 40;

    /// What a frame's IP header makes of it.
    pub(crate) fn of(frame: &Frame<'_>) -> Self {
        let mut area = [0; Self::LEN];
        let ip = frame.ip();
        let at = Self::LEN - ip.header_len();
        // There is room: neither header is longer than the area.
        let _ = area.get_mut(at..).map(|room| ip.emit(room));
        Self(area)
    }

    /// The way back to who sent it, as libibverbs' `ibv_init_ah_from_wc` finds it: addresses
    /// swapped, traffic class and flow label as they came. The next hop is unknown here, and the
    /// UDP source port 0: [`Engine::create_ah`](crate::Engine::create_ah) takes the sending queue
    /// pair's own then. `None` if this is no such area.
    #[must_use]
    pub fn way_back(&self) -> Option<Path> {
        let (v4, v6) = (self.0.get(Self::LEN - Ipv4::LEN..)?, &self.0);
        let ip = match self.0 {
            [0x60..=0x6f, ..] => Ip::V6(Ipv6::parse(v6).ok()?),
            _ => Ip::V4(Ipv4::parse(v4).ok()?),
        };
        let flow_label = match &ip {
            Ip::V6(ip) => ip.flow_label,
            Ip::V4(_) => 0,
        };
        Some(Path {
            src: ip.dst(),
            dst: ip.src(),
            next_hop: NextHop(0),
            src_port: 0,
            traffic_class: ip.traffic_class(),
            flow_label,
            hop_limit: Path::EMPTY.hop_limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Typed from RFC 791 and RFC 8200.
    #[test]
    fn the_way_back() {
        let mut v4 = [0; 40];
        v4[20..].copy_from_slice(&[
            0x45, 0x68, 1, 76, 0, 0, 0x40, 0, 63, 17, 0, 0, 10, 77, 1, 3, 10, 77, 1, 2,
        ]);
        let back = GrhArea(v4).way_back().unwrap();
        let four = |last| core::net::IpAddr::from([10, 77, 1, last]);
        assert_eq!((back.src, back.dst), (four(2), four(3)));
        assert_eq!((back.traffic_class, back.flow_label, back.hop_limit), (0x68, 0, 64));
        let mut v6 = [0; 40];
        v6[..8].copy_from_slice(&[0x66, 0x8a, 0xbc, 0xde, 1, 56, 17, 63]);
        v6[8..24].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
        v6[24..].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        let back = GrhArea(v6).way_back().unwrap();
        assert_eq!(back.src, "fe80::2".parse::<core::net::IpAddr>().unwrap());
        assert_eq!(back.dst, "fe80::3".parse::<core::net::IpAddr>().unwrap());
        assert_eq!((back.traffic_class, back.flow_label), (0x68, 0xabcde));
        assert_eq!(GrhArea([0; 40]).way_back(), None);
        assert_eq!(GrhArea([0xff; 40]).way_back(), None);
    }
}
