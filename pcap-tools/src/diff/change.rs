//! What is different about a packet at two places.

use std::fmt;

use roce_codec::Frame;
use roce_codec::net::{Ecn, Ip};

/// A part of a packet that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Change {
    /// MAC addresses: routers write their own.
    Mac,
    /// VLAN tags.
    Vlan,
    /// DSCP.
    Dscp,
    /// The ECN bits.
    Ecn,
    /// Time to live or hop limit.
    Ttl,
    /// IPv6's flow label.
    FlowLabel,
    /// Checksums of IPv4 and UDP.
    Checksum,
    /// BTH byte 4: FECN, BECN and Resv6.
    BthByte4,
    /// Ethernet padding and what else lies behind the packet.
    Trailer,
    /// Addresses of IP.
    Address,
    /// The rest of the IP header.
    IpHeader,
    /// UDP ports or length.
    Udp,
    /// The rest of the BTH.
    Bth,
    /// Extension headers.
    ExtHeaders,
    /// Payload.
    Payload,
    /// Pad bytes.
    Pad,
    /// The ICRC.
    Icrc,
    /// A packet of another protocol.
    Other,
}

impl Change {
    /// Whether it may change on the way: the ICRC does not cover it.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(
            self,
            Self::Mac
                | Self::Vlan
                | Self::Dscp
                | Self::Ecn
                | Self::Ttl
                | Self::FlowLabel
                | Self::Checksum
                | Self::BthByte4
                | Self::Trailer
        )
    }

    /// The part's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "MAC",
            Self::Vlan => "VLAN",
            Self::Dscp => "DSCP",
            Self::Ecn => "ECN",
            Self::Ttl => "TTL",
            Self::FlowLabel => "flow label",
            Self::Checksum => "checksum",
            Self::BthByte4 => "BTH byte 4",
            Self::Trailer => "trailer",
            Self::Address => "address",
            Self::IpHeader => "IP header",
            Self::Udp => "UDP header",
            Self::Bth => "BTH",
            Self::ExtHeaders => "extension headers",
            Self::Payload => "payload",
            Self::Pad => "pad",
            Self::Icrc => "ICRC",
            Self::Other => "bytes",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is different. As much of the payload is compared as both captures have.
pub(super) fn changes(a: &Frame<'_>, b: &Frame<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut note = |change, differs: bool| {
        if differs {
            changes.push(change);
        }
    };
    let [link_a, link_b] = [a.ethernet(), b.ethernet()];
    if let (Some(a), Some(b)) = (link_a, link_b) {
        note(Change::Mac, (a.src, a.dst) != (b.src, b.dst));
        note(Change::Vlan, a.vlans != b.vlans);
    }
    let [class_a, class_b] = [a.traffic_class(), b.traffic_class()];
    note(Change::Dscp, class_a >> 2 != class_b >> 2);
    note(Change::Ecn, Ecn::of_traffic_class(class_a) != Ecn::of_traffic_class(class_b));
    let (ip_a, ip_b) = (a.ip(), b.ip());
    note(Change::Ttl, ip_a.hop_limit() != ip_b.hop_limit());
    note(Change::Address, (a.src(), a.dst()) != (b.src(), b.dst()));
    let (udp_a, udp_b) = (a.udp(), b.udp());
    let mut checksum = udp_a.checksum != udp_b.checksum;
    match (ip_a, ip_b) {
        (Ip::V4(a), Ip::V4(b)) => {
            checksum |= a.checksum != b.checksum;
            let rest = |ip: roce_codec::net::Ipv4| {
                (ip.total_len, ip.identification, ip.flags_fragment, ip.protocol)
            };
            note(Change::IpHeader, rest(a) != rest(b));
        }
        (Ip::V6(a), Ip::V6(b)) => {
            note(Change::FlowLabel, a.flow_label != b.flow_label);
            let rest = |ip: roce_codec::net::Ipv6| (ip.payload_len, ip.next_header);
            note(Change::IpHeader, rest(a) != rest(b));
        }
        _ => note(Change::IpHeader, true),
    }
    note(Change::Checksum, checksum);
    let ports = |udp: roce_codec::net::Udp| (udp.src_port, udp.dst_port, udp.length);
    note(Change::Udp, ports(udp_a) != ports(udp_b));
    let (mut bth_a, mut bth_b) = (a.bth(), b.bth());
    let byte4 = |bth: roce_codec::ib::Bth| (bth.fecn, bth.becn, bth.resv6);
    note(Change::BthByte4, byte4(bth_a) != byte4(bth_b));
    for bth in [&mut bth_a, &mut bth_b] {
        (bth.fecn, bth.becn, bth.resv6) = (false, false, 0);
    }
    note(Change::Bth, bth_a != bth_b);
    note(Change::ExtHeaders, a.ext_headers() != b.ext_headers());
    let [payload_a, payload_b] = [a.payload().concat(), b.payload().concat()];
    let common = payload_a.len().min(payload_b.len());
    let differs = payload_a.get(..common) != payload_b.get(..common);
    note(Change::Payload, differs || a.payload_len() != b.payload_len());
    if a.missing() == 0 && b.missing() == 0 {
        note(Change::Pad, a.pad().bytes() != b.pad().bytes());
        note(Change::Icrc, a.icrc() != b.icrc());
        note(Change::Trailer, a.trailer().concat() != b.trailer().concat());
    }
    changes
}
