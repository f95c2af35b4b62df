//! Why a service of the connection manager fails.

use core::fmt;

use roce_codec::cm::{RejReason, SidrStatus};
use roce_codec::ib::NakCode;
use roce_engine::cm::CmCallError;
use roce_engine::{AhError, PostError, QpError, WcStatus};

use crate::service::memory::{ExposeError, Unreadable};
use crate::service::{RouteError, perftest};

/// Why a session, or what it needs, failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CmServiceError {
    /// The connection manager refused a call.
    Cm(CmCallError),
    /// The engine refused the queue pair.
    Qp(QpError),
    /// The engine refused a work request.
    Post(PostError),
    /// The engine refused an address handle.
    Ah(AhError),
    /// There is no memory for it.
    Memory(ExposeError),
    /// There is no way to the peer.
    Route(RouteError),
    /// A request of ours failed.
    Failed(WcStatus),
    /// A request of the peer's was refused.
    Refused(NakCode),
    /// The peer rejected the connection.
    Rejected(RejReason),
    /// The peer has no queue pair for datagrams of the service.
    NotServed(SidrStatus),
    /// The peer does not answer.
    Unreachable,
    /// The peer has forgotten the connection.
    Stale,
    /// The peer asked for something that the service has not, or said something that it does not
    /// say at that point.
    Protocol,
    /// What perftest's exchange, or its run, ended by.
    Perftest(perftest::SessionError),
    /// The peer disconnected before it was done.
    Gone,
    /// The peer says nothing where it should.
    Silent,
    /// The data that came is not what was sent.
    Content {
        /// In which round.
        round: u64,
    },
    /// No more sessions can be served.
    Full,
}

impl fmt::Display for CmServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cm(error) => write!(f, "connection manager: {error}"),
            Self::Qp(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::Ah(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Route(error) => error.fmt(f),
            Self::Failed(status) => write!(f, "a request failed: {status}"),
            Self::Refused(code) => write!(f, "the peer's request was refused: {code:?}"),
            Self::Rejected(reason) => write!(f, "the peer rejected the connection: {reason}"),
            Self::NotServed(status) => write!(f, "the peer does not serve it: {status}"),
            Self::Unreachable => f.write_str("the peer does not answer"),
            Self::Stale => f.write_str("the peer has forgotten the connection"),
            Self::Protocol => f.write_str("the peer does not speak the service's protocol"),
            Self::Perftest(error) => error.fmt(f),
            Self::Silent => f.write_str("the peer says nothing any more"),
            Self::Gone => f.write_str("the peer disconnected before it was done"),
            Self::Content { round } => {
                write!(f, "the data of round {round} is not what was sent")
            }
            Self::Full => f.write_str("too many sessions at a time"),
        }
    }
}

impl core::error::Error for CmServiceError {}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for CmServiceError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

impl From<Unreadable> for CmServiceError {
    fn from(_: Unreadable) -> Self {
        Self::Failed(WcStatus::LocalProtection)
    }
}

from!(CmCallError => Cm, QpError => Qp, PostError => Post, AhError => Ah, ExposeError => Memory,
      RouteError => Route, perftest::SessionError => Perftest);
