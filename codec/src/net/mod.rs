//! The layers below InfiniBand: Ethernet and its VLAN tags, IPv4, IPv6, UDP, GRH.

mod ethernet;
mod grh;
mod ip;
mod ipv4;
mod ipv6;
mod mac;
mod udp;

pub use ethernet::{EtherType, Ethernet, VlanStack, VlanTag};
pub use grh::Grh;
pub use ip::{Ecn, Ip};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use mac::MacAddr;
pub use udp::{
    ROCE_V2_PORT, Udp, datagram_source_port, flow_label_from_cm_ports, flow_label_from_qpns,
    source_port_from_flow_label,
};

pub(crate) use ethernet::take_ethernet;
pub(crate) use grh::GrhWire;
pub(crate) use ipv4::Ipv4Wire;
pub(crate) use ipv6::Ipv6Wire;
pub(crate) use udp::UdpWire;
