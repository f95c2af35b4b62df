//! Work requests: what the caller posts.

use core::fmt;

use roce_codec::ib::RKey;

use crate::ah::UdAddress;
use crate::flush::{Placement, Selectivity};
use crate::sge::Sge;
use crate::window::MwBindInfo;

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
    /// memory: the scatter-gather list has no bytes.
    Flush {
        /// By what right, and of which region.
        rkey: RKey,
        /// Which bytes.
        selectivity: Selectivity,
        /// How far.
        placement: Placement,
    },
    /// Bind a memory window of type 2 ([`Engine::bind_mw`](crate::Engine::bind_mw) is for type 1).
    /// Nothing goes over the wire; what is posted behind it finds the window bound.
    BindMw {
        /// The window, and the R_Key that it gets: [`Mw::with_key`](crate::Mw::with_key).
        rkey: RKey,
        /// To what.
        info: MwBindInfo,
    },
    /// Take an R_Key away: that of a window of type 2, bound by this queue pair, or that of a
    /// region with [`Access::REMOTE_INVALIDATE`](crate::Access::REMOTE_INVALIDATE) and no windows.
    LocalInvalidate(RKey),
}

impl WrOpcode {
    /// Whether it waits until no READ or atomic before it is outstanding, fence or not.
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
        ) || self.is_local()
    }

    /// Whether no packet carries it.
    #[inline]
    pub(crate) const fn is_local(self) -> bool {
        matches!(self, Self::BindMw { .. } | Self::LocalInvalidate(_))
    }

    /// Whether a datagram can be it.
    #[inline]
    pub(crate) const fn is_datagram(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm(_))
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

/// What a send request carries, or where its answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data<'a> {
    /// A scatter-gather list: the pieces of memory, one behind the other. The memory is the
    /// engine's until the request completes; the list is not.
    Sges(&'a [Sge]),
    /// The bytes themselves, copied when the request is posted. No key is looked at. Not for what
    /// an answer is placed in.
    Inline(&'a [u8]),
}

/// A request for the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: WrOpcode,
    /// With which bytes.
    pub data: Data<'a>,
    /// Whether success is reported; errors always are.
    pub signaled: bool,
    /// Whether the receiver's consumer is to be woken.
    pub solicited: bool,
    /// Whether it waits until no READ, atomic, ATOMIC WRITE or FLUSH before it is outstanding.
    pub fence: bool,
    /// Where a datagram goes; `None` on a connection.
    pub to: Option<UdAddress>,
}

impl<'a> SendWr<'a> {
    /// A signaled request over a scatter-gather list.
    #[must_use]
    pub const fn new(wr_id: u64, opcode: WrOpcode, sges: &'a [Sge]) -> Self {
        Self {
            wr_id,
            opcode,
            data: Data::Sges(sges),
            signaled: true,
            solicited: false,
            fence: false,
            to: None,
        }
    }

    /// With these bytes instead of a list.
    #[must_use]
    pub const fn inline(self, bytes: &'a [u8]) -> Self {
        Self { data: Data::Inline(bytes), ..self }
    }

    /// Its success is not reported.
    #[must_use]
    pub const fn unsignaled(self) -> Self {
        Self { signaled: false, ..self }
    }

    /// It wakes the receiver's consumer.
    #[must_use]
    pub const fn solicited(self) -> Self {
        Self { solicited: true, ..self }
    }

    /// It waits for the READs and atomics before it.
    #[must_use]
    pub const fn fenced(self) -> Self {
        Self { fence: true, ..self }
    }

    /// It goes there.
    #[must_use]
    pub const fn to(self, to: UdAddress) -> Self {
        Self { to: Some(to), ..self }
    }
}

/// A request for the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The memory a SEND is placed in, piece by piece.
    pub sges: &'a [Sge],
}

impl<'a> RecvWr<'a> {
    /// A request over a scatter-gather list.
    #[must_use]
    pub const fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self { wr_id, sges }
    }
}

/// Why a work request was not taken: the caller's misuse, or a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// No queue pair has this number.
    UnknownQp,
    /// The queue pair's state does not allow it.
    State,
    /// The queue, or the pool it has its slots from, is full; poll completions and try again.
    QueueFull,
    /// The local key, its protection domain, its rights or the range.
    LocalProtection,
    /// Longer than 2³¹ bytes; an atomic on other than 8 bytes; a FLUSH with local memory.
    Length,
    /// A READ, atomic, ATOMIC WRITE or FLUSH where none may be outstanding (`max_rd_atomic` is 0).
    RdAtomic,
    /// The queue pair's service does not have the operation.
    Service,
    /// More scatter-gather elements than the queue pair was created for.
    TooManySges,
    /// More inline data than the queue pair was created for, or where an answer is to be placed.
    Inline,
    /// The queue pair's receives come from a shared receive queue.
    SharedReceives,
    /// No such shared receive queue.
    UnknownSrq,
    /// No memory window of that type.
    Window,
    /// A datagram without destination or with an address handle that is gone, or a destination on
    /// a connection.
    Address,
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
            Self::TooManySges => "more scatter-gather elements than the queue pair was created for",
            Self::Inline => "inline data too long, or where an answer is to be placed",
            Self::Window => "no memory window of that type",
            Self::SharedReceives => "the queue pair's receives come from a shared receive queue",
            Self::UnknownSrq => "no such shared receive queue",
            Self::Address => "a destination on a connection, or none for a datagram",
            Self::RdAtomic => "no READ or atomic may be outstanding on this queue pair",
        })
    }
}

impl core::error::Error for PostError {}
