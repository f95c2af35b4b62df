//! Where a datagram goes.

use roce_codec::ib::{QKey, Qpn};

/// An address handle: the way to a host, as datagrams name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ah(pub(crate) u32);

/// The destination of a datagram: what a connection's queue pair knows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UdAddress {
    /// The way there.
    pub ah: Ah,
    /// The queue pair there.
    pub dest_qpn: Qpn,
    /// The key it wants to see.
    pub qkey: QKey,
}
