//! Why a session ended before its time.

use core::fmt;
use core::net::IpAddr;

use roce_codec::ib::{NakCode, PathMtu};
use roce_engine::{AhError, PostError, QpError, WcStatus};

use crate::service::RouteError;
use crate::service::memory::ExposeError;

/// Why a session, or a client, ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer's first message over TCP is no address.
    Address,
    /// It is one, and has no GID.
    NoGid,
    /// The client says something else than `done`.
    Done,
    /// Our GID and the server's are of different kinds.
    Kind {
        /// Ours.
        ours: IpAddr,
        /// The server's.
        theirs: IpAddr,
    },
    /// There is no way to the peer's GID.
    Route(RouteError),
    /// No memory for a region.
    Expose(ExposeError),
    /// The engine made no queue pair.
    Qp(QpError),
    /// The engine made no address handle.
    Ah(AhError),
    /// A datagram longer than the path MTU.
    Datagram {
        /// What was asked for.
        size: u32,
        /// What the path carries.
        most: PathMtu,
    },
    /// The engine took no work request.
    Post(PostError),
    /// We refused a message of the peer's for good.
    Refused(NakCode),
    /// The peer refused a message of ours, or did not answer.
    Failed(WcStatus),
    /// The server's message is not as long as ours.
    Length {
        /// Which of its messages, from 0.
        message: u64,
        /// How long it is.
        found: u32,
        /// How long ours was.
        sent: u32,
    },
    /// A byte is not what it has to be.
    Byte {
        /// Which message, from 0.
        message: u64,
        /// Which of its bytes, from 0.
        offset: u32,
        /// What it is.
        found: u8,
        /// What it has to be.
        expected: u8,
    },
    /// Nothing came back.
    NoAnswer {
        /// Messages that did.
        answered: u64,
        /// Seconds waited.
        waited_s: u64,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str(
                "not understood over TCP: it sent no address of 52 bytes (is it ibv_rc_pingpong \
                 or one of its kin?)",
            ),
            Self::NoGid => f.write_str("its GID is all zeroes; give it a GID index (-g)"),
            Self::Done => {
                f.write_str("not understood over TCP: it said something else than `done`")
            }
            Self::Kind { ours, theirs } => write!(
                f,
                "the server's GID is {theirs}, ours {ours}; give either another (-g there, --ip \
                 here)"
            ),
            Self::Route(error) => error.fmt(f),
            Self::Expose(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Ah(error) => error.fmt(f),
            Self::Datagram { size, most } => write!(
                f,
                "a datagram of {size} bytes is longer than the path MTU, {most}; ask for a smaller \
                 -s, or for a larger -m if the interface carries it"
            ),
            Self::Post(error) => error.fmt(f),
            Self::Refused(code) => write!(
                f,
                "its message was refused ({code:?}); have both sides the same path MTU (-m; \
                 mtu=BYTES here), and is it no longer than --region-size?"
            ),
            Self::Failed(status) => write!(f, "a message to it failed: {status}"),
            Self::Length { message, found, sent } => write!(
                f,
                "message {message} came back with {found} bytes, it had {sent}; have both sides \
                 the same -s?"
            ),
            Self::Byte { message, offset, found, expected } => write!(
                f,
                "message {message}: byte {offset} is {found:#04x}, and has to be {expected:#04x}"
            ),
            Self::NoAnswer { answered, waited_s } => write!(
                f,
                "nothing came back for {waited_s} s, after {answered} messages; have both sides \
                 the same -n and -m?"
            ),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<RouteError> for SessionError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<ExposeError> for SessionError {
    fn from(error: ExposeError) -> Self {
        Self::Expose(error)
    }
}

impl From<QpError> for SessionError {
    fn from(error: QpError) -> Self {
        Self::Qp(error)
    }
}

impl From<AhError> for SessionError {
    fn from(error: AhError) -> Self {
        Self::Ah(error)
    }
}

impl From<PostError> for SessionError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}
