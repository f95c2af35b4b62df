//! The layers below InfiniBand: Ethernet and its VLAN tags, IPv4, IPv6, UDP, GRH, and the
//! MAC control frames that pause a link.

mod ethernet;
mod gid;
mod grh;
mod ip;
mod ipv4;
mod ipv6;
mod mac;
mod pause;
mod udp;

pub use ethernet::{EtherType, Ethernet, VlanStack, VlanTag};
pub use gid::Gid;
pub use grh::Grh;
pub use ip::{Ecn, Ip};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use mac::MacAddr;
pub use pause::{MacControl, Pause, PauseQuanta, Pfc};
pub use udp::{
    ROCE_V2_PORT, Udp, datagram_source_port, flow_label_from_cm_ports, flow_label_from_qpns,
    source_port_from_flow_label,
};

pub(crate) use ethernet::take_ethernet;
pub(crate) use grh::GrhWire;
pub(crate) use ipv4::Ipv4Wire;
pub(crate) use ipv6::{Ipv6Wire, extension_name};
pub(crate) use udp::UdpWire;
