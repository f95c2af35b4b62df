//! Work requests: what the caller posts, and the slots they wait in.

use core::fmt;

use roce_codec::ib::{LKey, Msn, Psn, RKey};

use crate::flush::{Placement, Selectivity};
use crate::pool::{Link, Linked};

/// A piece of local memory: one scatter-gather element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sge {
    /// Virtual address.
    pub va: u64,
    /// Bytes, at most 2³¹.
    pub len: u32,
    /// The key of the region it lies in.
    pub lkey: LKey,
}

/// What a send work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrOpcode {
    /// SEND the local memory to the peer's next receive.
    Send,
    /// As `Send`, with four bytes for the receiver's completion.
    SendWithImm(u32),
    /// As `Send`, and take a key of the peer's away once the data is there. Waits for the READs
    /// and atomics before it: if the answer to one were lost, it would be asked for again by a
    /// key that is dead.
    SendWithInvalidate(RKey),
    /// WRITE the local memory to the peer's.
    RdmaWrite {
        /// Where to.
        va: u64,
        /// By what right.
        rkey: RKey,
    },
    /// As `RdmaWrite`, and consume a receive of the peer's.
    RdmaWriteWithImm {
        /// Where to.
        va: u64,
        /// By what right.
        rkey: RKey,
        /// Four bytes for the receiver's completion.
        imm: u32,
    },
    /// READ the peer's memory into the local.
    RdmaRead {
        /// Where from.
        va: u64,
        /// By what right.
        rkey: RKey,
    },
    /// Compare eight bytes at the peer and swap if equal; the local memory receives what they
    /// held.
    CompareSwap {
        /// Where, a multiple of 8.
        va: u64,
        /// By what right.
        rkey: RKey,
        /// What they must hold.
        compare: u64,
        /// What they are set to.
        swap: u64,
    },
    /// Add to eight bytes at the peer; the local memory receives what they held.
    FetchAdd {
        /// Where, a multiple of 8.
        va: u64,
        /// By what right.
        rkey: RKey,
        /// What to add.
        add: u64,
    },
    /// WRITE eight bytes of local memory to the peer's, all of them at once.
    AtomicWrite {
        /// Where to, a multiple of 8.
        va: u64,
        /// By what right.
        rkey: RKey,
    },
    /// Have what was written before arrive at the peer's memory for good. There is no local
    /// memory: the scatter-gather element is empty.
    Flush {
        /// By what right, and of which region.
        rkey: RKey,
        /// Which bytes.
        selectivity: Selectivity,
        /// How far.
        placement: Placement,
    },
}

impl WrOpcode {
    /// Whether it waits until no READ or atomic before it is outstanding.
    #[inline]
    pub(crate) const fn is_fenced(self) -> bool {
        matches!(self, Self::SendWithInvalidate(_))
    }

    /// Whether it is a SEND: it takes a receive of the peer's with its first packet.
    #[inline]
    pub(crate) const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm(_) | Self::SendWithInvalidate(_))
    }

    /// Whether the unreliable connection has it.
    #[inline]
    pub(crate) const fn is_unreliable(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendWithImm(_)
                | Self::RdmaWrite { .. }
                | Self::RdmaWriteWithImm { .. }
        )
    }

    /// Whether it takes a receive of the peer's.
    #[inline]
    pub(crate) const fn takes_receive(self) -> bool {
        self.is_send() || matches!(self, Self::RdmaWriteWithImm { .. })
    }

    /// Whether the answer carries data.
    #[inline]
    pub(crate) const fn returns_data(self) -> bool {
        matches!(self, Self::RdmaRead { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether only an answer of its own completes the request, and the peer keeps it for replay.
    #[inline]
    pub(crate) const fn awaits_response(self) -> bool {
        self.returns_data() || matches!(self, Self::AtomicWrite { .. } | Self::Flush { .. })
    }
}

/// A request for the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: WrOpcode,
    /// The local memory.
    pub sge: Sge,
    /// Whether success is reported; errors always are.
    pub signaled: bool,
    /// Whether the receiver's consumer is to be woken.
    pub solicited: bool,
}

/// A request for the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The memory a SEND is placed in.
    pub sge: Sge,
}

/// Why a work request was not taken: the caller's misuse, or a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// No queue pair has this number.
    UnknownQp,
    /// The queue pair's state does not allow it.
    State,
    /// The queue is full; poll completions and try again.
    QueueFull,
    /// The local key, its protection domain, its rights or the range.
    LocalProtection,
    /// Longer than 2³¹ bytes; an atomic on other than 8 bytes; a FLUSH with local memory.
    Length,
    /// A READ, atomic, ATOMIC WRITE or FLUSH where none may be outstanding (`max_rd_atomic` is 0).
    RdAtomic,
    /// The queue pair's service does not have the operation.
    Service,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownQp => "no queue pair has this number",
            Self::State => "the queue pair's state does not allow it",
            Self::QueueFull => "the work queue is full",
            Self::LocalProtection => "local key, rights or range",
            Self::Length => "length not allowed for the operation",
            Self::Service => "the queue pair's service does not have the operation",
            Self::RdAtomic => "no READ or atomic may be outstanding on this queue pair",
        })
    }
}

impl core::error::Error for PostError {}

/// A waiting send request; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct SendWqe {
    link: Link,
    pub(crate) wr: SendWr,
    /// The PSNs it takes: a READ as many as its answer has packets.
    pub(crate) first_psn: Psn,
    pub(crate) last_psn: Psn,
    /// Which message it is, as the peer's MSN counts: from 1.
    pub(crate) ssn: Msn,
}

impl SendWqe {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        wr: SendWr {
            wr_id: 0,
            opcode: WrOpcode::Send,
            sge: Sge { va: 0, len: 0, lkey: LKey(0) },
            signaled: false,
            solicited: false,
        },
        first_psn: Psn::new(0),
        last_psn: Psn::new(0),
        ssn: Msn::new(0),
    };
}

impl Linked for SendWqe {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// A waiting receive request; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct RecvWqe {
    link: Link,
    pub(crate) wr: RecvWr,
}

impl RecvWqe {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        wr: RecvWr { wr_id: 0, sge: Sge { va: 0, len: 0, lkey: LKey(0) } },
    };
}

impl Linked for RecvWqe {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}
