//! Attacks that each aim at one step of the responder's pipeline, or of the completer's, and
//! must meet exactly what that step does.

use roce_codec::ib::Opcode;
use roce_engine::DropReason;

/// What an attack must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// Dropped, and counted so.
    Drop(DropReason),
    /// An Acknowledge with this syndrome, at the attack's PSN.
    Syndrome(u8),
    /// An answer with this opcode: it was a fair request.
    Answer(Opcode),
    /// Our request ended; nothing was sent.
    Completion,
}

macro_rules! aims {
    ($($(#[$doc:meta])* $name:ident => $met:expr,)*) => {
        /// What an attack aims at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Aim {
            $($(#[$doc])* $name,)*
        }

        impl Aim {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it must meet.
            #[must_use]
            pub const fn met(self) -> Met {
                match self {
                    $(Self::$name => $met,)*
                }
            }
        }
    };
}

const SEQUENCE: Met = Met::Syndrome(0x60);
const INVALID: Met = Met::Syndrome(0x61);
const ACCESS: Met = Met::Syndrome(0x62);
const OPERATIONAL: Met = Met::Syndrome(0x63);

aims! {
    /// Another protocol or port.
    NotRoce => Met::Drop(DropReason::NotRoce),
    /// Cut short, fragments, lengths that lie.
    Malformed => Met::Drop(DropReason::Malformed),
    /// A flipped bit, not repaired.
    BadIcrc => Met::Drop(DropReason::BadIcrc),
    /// Opcodes that nobody knows.
    UnknownOpcode => Met::Drop(DropReason::UnknownOpcode),
    /// Versions from the future.
    Version => Met::Drop(DropReason::Version),
    /// Odd bytes at the end.
    Pad => Met::Drop(DropReason::Pad),
    /// No such queue pair.
    UnknownQp => Met::Drop(DropReason::UnknownQp),
    /// A queue pair in Init.
    QpState => Met::Drop(DropReason::QpState),
    /// Opcodes of other services.
    WrongService => Met::Drop(DropReason::WrongService),
    /// From somebody else.
    Address => Met::Drop(DropReason::Address),
    /// Another partition.
    PKey => Met::Drop(DropReason::PKey),
    /// A second packet behind a gap.
    OutOfSequence => Met::Drop(DropReason::OutOfSequence),
    /// Behind an RNR NAK.
    BehindRnr => Met::Drop(DropReason::ReceiverNotReady),
    /// A duplicate of a READ that never was.
    StaleDuplicate => Met::Drop(DropReason::StaleDuplicate),
    /// An answer to nothing.
    UnexpectedResponse => Met::Drop(DropReason::UnexpectedResponse),
    /// A NAK twice.
    RepeatedNak => Met::Drop(DropReason::RepeatedNak),
    /// A syndrome that is reserved.
    ReservedSyndrome => Met::Drop(DropReason::ReservedSyndrome),
    /// What an unreliable service cannot refuse aloud.
    Refused => Met::Drop(DropReason::Refused),
    /// A congestion notification.
    Cnp => Met::Drop(DropReason::Cnp),
    /// A gap.
    Gap => SEQUENCE,
    /// No receive.
    NoReceive => Met::Syndrome(0x21),
    /// Middle or Last before First.
    OpcodeSequence => INVALID,
    /// Another message inside a message.
    Interrupted => INVALID,
    /// What the queue pair does not allow.
    NotAllowed => INVALID,
    /// A FLUSH that asks for what there is not.
    FlushHeader => INVALID,
    /// More READs than agreed.
    TooManyReads => INVALID,
    /// Payload against path MTU.
    PacketLength => INVALID,
    /// Payload against DMA length.
    DmaLength => INVALID,
    /// Above 2³¹.
    TooLong => INVALID,
    /// An atomic at an odd address.
    Misaligned => INVALID,
    /// A SEND above its receive.
    LongSend => INVALID,
    /// Keys out of the air.
    Key => ACCESS,
    /// A key of another protection domain.
    Domain => ACCESS,
    /// A key that is dead.
    DeadKey => ACCESS,
    /// A right that the region does not give.
    Right => ACCESS,
    /// Taking away a key that is not the client's to take.
    Uninvited => ACCESS,
    /// A byte before or behind the region.
    Range => ACCESS,
    /// A range that wraps.
    Wrap => ACCESS,
    /// A receive whose region is gone.
    DeadReceive => OPERATIONAL,
    /// A region that goes while it is read.
    DyingRegion => OPERATIONAL,
    /// A duplicate WRITE.
    Duplicate => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A fair WRITE.
    Write => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A fair READ.
    Read => Met::Answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY),
    /// A fair atomic.
    Atomic => Met::Answer(Opcode::RC_ATOMIC_ACKNOWLEDGE),
    /// A fair ATOMIC WRITE.
    AtomicWrite => Met::Answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY),
    /// A fair FLUSH.
    Flush => Met::Answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY),
    /// A fair SEND.
    Send => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A fair SEND that takes a key away.
    Invalidate => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A NAK that ends our request.
    FatalNak => Met::Completion,
    /// An answer to our READ that is too short.
    BadResponse => Met::Completion,
}
