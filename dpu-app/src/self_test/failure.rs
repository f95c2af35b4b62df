//! What can be wrong.

use core::fmt;

use roce_codec::ib::{NakCode, Opcode, Qpn, RKey};
use roce_engine::{
    AhError, DropReason, HwCounter, MemoryError, PostError, QpError, QpState, SrqError, SrqInfo,
    WcOpcode, WcStatus,
};

/// A check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The engine has no completion queue to give.
    NoCq,
    /// A memory region.
    Memory(MemoryError),
    /// A verb on a queue pair.
    Qp(QpError),
    /// A work request.
    Post(PostError),
    /// An address handle.
    Ah(AhError),
    /// A shared receive queue.
    Srq(SrqError),
    /// A byte is not what it should be.
    Byte {
        /// At the responder, not the requester.
        far: bool,
        /// Where in its memory.
        offset: u32,
        /// What should be there.
        expected: u8,
        /// What is there.
        found: u8,
    },
    /// Completions out of order, or another's.
    WrId {
        /// The one that should be next.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// How a work request ended.
    Status {
        /// How it should have.
        expected: WcStatus,
        /// How it did.
        found: WcStatus,
    },
    /// What a completion says of its work request.
    Opcode {
        /// What it was.
        expected: WcOpcode,
        /// What it says.
        found: WcOpcode,
    },
    /// The length in a completion.
    Length {
        /// What it should be.
        expected: u32,
        /// What it is.
        found: u32,
    },
    /// The immediate data in a completion.
    Immediate {
        /// What was sent.
        expected: Option<u32>,
        /// What came.
        found: Option<u32>,
    },
    /// The key that a completion says is gone.
    Invalidated {
        /// The one that was named.
        expected: Option<RKey>,
        /// The one that it says.
        found: Option<RKey>,
    },
    /// The queue pair that a datagram is from.
    Source {
        /// The one that sent it.
        expected: Qpn,
        /// The one that its completion says.
        found: Option<Qpn>,
    },
    /// How often a shared receive queue told that its limit was reached.
    Limit {
        /// How often it should have.
        expected: u32,
        /// How often it did.
        found: u32,
    },
    /// What a shared receive queue says of itself.
    SrqInfo {
        /// What it should.
        expected: SrqInfo,
        /// What it does.
        found: SrqInfo,
    },
    /// A packet was not dropped for this reason.
    NotDropped(DropReason),
    /// How often the responder's memory was flushed.
    Flushed {
        /// How often it was asked for.
        expected: u32,
        /// How often it was.
        found: u32,
    },
    /// A completion that nobody asked for.
    StrayCompletion(WcStatus),
    /// A queue pair's state.
    State {
        /// What it should be in.
        expected: QpState,
        /// What it is in.
        found: QpState,
    },
    /// The responder did not refuse by this code.
    NotRefused(NakCode),
    /// An event that should have been counted was not.
    NotCounted(HwCounter),
    /// Packets received are not those acted on and those dropped.
    Partition {
        /// Received.
        received: u64,
        /// Acted on, and dropped for any reason.
        accounted: u64,
    },
    /// Frames that one end sent and the other did not receive, none being lost on purpose.
    Frames {
        /// Sent.
        sent: u64,
        /// Received.
        received: u64,
    },
    /// An opcode that never was on the wire.
    Unseen(Opcode),
    /// An opcode that should not have been on the wire.
    Unexpected(Opcode),
    /// Nothing comes of it any more.
    Stuck,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCq => f.write_str("no completion queue"),
            Self::Memory(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::Ah(error) => error.fmt(f),
            Self::Srq(error) => error.fmt(f),
            Self::Byte { far, offset, expected, found } => {
                let end = if *far { "responder" } else { "requester" };
                write!(f, "byte {offset} at the {end} is {found:#04x}, {expected:#04x} expected")
            }
            Self::WrId { expected, found } => {
                write!(f, "work request {found} completed, {expected} expected")
            }
            Self::Status { expected, found } => write!(f, "{found}, {expected} expected"),
            Self::Opcode { expected, found } => write!(f, "{found:?}, {expected:?} expected"),
            Self::Length { expected, found } => {
                write!(f, "a completion of {found} bytes, {expected} expected")
            }
            Self::Immediate { expected, found } => {
                write!(f, "immediate data {found:?}, {expected:?} expected")
            }
            Self::Invalidated { expected, found } => {
                write!(f, "key {found:?} invalidated, {expected:?} expected")
            }
            Self::Source { expected, found } => {
                write!(f, "a datagram from {found:?}, {expected:?} expected")
            }
            Self::Limit { expected, found } => {
                write!(f, "the limit was told {found} times, {expected} expected")
            }
            Self::SrqInfo { expected, found } => write!(
                f,
                "a shared receive queue of {} receives and limit {}, {} and {} expected",
                found.wrs, found.limit, expected.wrs, expected.limit
            ),
            Self::NotDropped(reason) => write!(f, "no packet dropped for {}", reason.name()),
            Self::Flushed { expected, found } => {
                write!(f, "flushed {found} times, {expected} expected")
            }
            Self::StrayCompletion(status) => write!(f, "a completion too many: {status}"),
            Self::State { expected, found } => {
                write!(f, "a queue pair in {found:?}, {expected:?} expected")
            }
            Self::NotRefused(code) => write!(f, "not refused by {code:?}"),
            Self::NotCounted(counter) => write!(f, "{} was not counted", counter.name()),
            Self::Partition { received, accounted } => {
                write!(f, "{received} packets received, {accounted} accounted for")
            }
            Self::Frames { sent, received } => {
                write!(f, "{sent} frames sent, {received} received")
            }
            Self::Unseen(opcode) => write!(f, "{opcode} never was on the wire"),
            Self::Unexpected(opcode) => write!(f, "{opcode} was on the wire"),
            Self::Stuck => f.write_str("nothing comes of it any more"),
        }
    }
}

impl core::error::Error for Failure {}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from!(MemoryError => Memory, QpError => Qp, PostError => Post, AhError => Ah, SrqError => Srq);
