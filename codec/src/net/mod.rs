//! The layers below InfiniBand: Ethernet and its VLAN tags, IPv4, IPv6, UDP.

mod mac;

pub use mac::MacAddr;
