//! The hosts of made-up traffic, and the headers of packets from one to the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_codec::cm::{CaGuid, Gid};
use roce_codec::net::{Ethernet, Ip, Ipv4, Ipv6, MacAddr, VlanStack, VlanTag};

/// DSCP 26, which RoCE traffic is usually given, and ECT(0).
pub(super) const DATA_TRAFFIC_CLASS: u8 = 26 << 2 | 2;

/// A host with one port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) mac: MacAddr,
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

impl Host {
    /// The host of that number; addresses are private ones.
    pub(super) fn new(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        Self {
            mac: MacAddr([0x02, 0x00, 0x5e, 0x10, high, low]),
            v4: Ipv4Addr::new(10, 16, high, low),
            v6: Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, number),
        }
    }

    pub(super) fn ip(&self, v6: bool) -> IpAddr {
        if v6 { self.v6.into() } else { self.v4.into() }
    }

    /// The GID of the port: its address, IPv4 mapped into IPv6.
    pub(super) fn gid(&self, v6: bool) -> Gid {
        let address = if v6 { self.v6 } else { self.v4.to_ipv6_mapped() };
        Gid(address.octets())
    }

    pub(super) fn guid(&self) -> CaGuid {
        let MacAddr([a, b, c, d, e, f]) = self.mac;
        CaGuid(u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
    }
}

/// How packets between two hosts travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) v6: bool,
    pub(super) vlan: Option<VlanTag>,
    /// Of IPv6; Linux folds it into the UDP source port.
    pub(super) flow_label: u32,
}

impl Route {
    pub(super) fn ethernet(&self, from: &Host, to: &Host) -> Ethernet {
        let ip = self.ip(from, to, 0, 0);
        let mut ethernet = Ethernet::new(to.mac, from.mac, ip.ethertype());
        if let Some(tag) = self.vlan {
            ethernet.vlans = VlanStack::one(tag);
        }
        ethernet
    }

    pub(super) fn ip(&self, from: &Host, to: &Host, traffic_class: u8, identification: u16) -> Ip {
        if self.v6 {
            let ip = Ipv6::new(from.v6, to.v6);
            Ip::V6(Ipv6 { traffic_class, flow_label: self.flow_label, ..ip })
        } else {
            let ip = Ipv4::new(from.v4, to.v4);
            Ip::V4(Ipv4 { dscp_ecn: traffic_class, identification, ..ip })
        }
    }
}
