//! The ports and the neighbour table on real interfaces, in network namespaces of their own.
//!
//! They need root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN, CAP_BPF), `ip` of iproute2,
//! `ethtool` and `/dev/net/tun`. Without the privilege they say so and pass.
#![cfg(target_os = "linux")]

mod af_xdp;
mod frames;
mod neighbour;
mod netns;
mod packet;
mod peer;
mod privilege;
mod wire;

/// Ports and the table move to the thread that polls them.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<roce_dataplane::port::packet::PacketPort>();
    is_send::<roce_dataplane::port::af_xdp::AfXdpPort>();
    is_send::<roce_dataplane::neighbour::Neighbours>();
};
