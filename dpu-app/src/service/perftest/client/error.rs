//! Why a client gave up.

use core::fmt;
use core::net::IpAddr;

use roce_codec::cm::RejReason;
use roce_codec::ib::{NakCode, Psn};
use roce_engine::{PostError, QpError, WcStatus};

use super::super::Test;
use super::super::message::ExchangeError;
use crate::service::RouteError;
use crate::service::cm::CmServiceError;
use crate::service::memory::ExposeError;

/// Why a client gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection manager, or a connection of its.
    Cm(CmServiceError),
    /// The server speaks something else.
    Exchange(ExchangeError),
    /// The server's GID is of another kind than our address.
    Family {
        /// Ours.
        ours: IpAddr,
        /// The server's.
        theirs: IpAddr,
    },
    /// There is no way to the server's GID.
    Route(RouteError),
    /// No memory for a region.
    Expose(ExposeError),
    /// The engine made no queue pair.
    Qp(QpError),
    /// The engine took no work request.
    Post(PostError),
    /// The server lets no READ or atomic be outstanding.
    NoReads(Test),
    /// A work request failed.
    Failed {
        /// What it was part of.
        test: Test,
        /// How.
        status: WcStatus,
        /// The queue pair, from 0.
        qp: u32,
        /// The message of the queue pair, from 0.
        message: u64,
        /// The oldest PSN that the server has not acknowledged.
        psn: Psn,
    },
    /// We refused a request of the server's.
    Refused(NakCode),
    /// The server's answer has another length than our message.
    AnswerLen {
        /// Ours.
        wanted: u32,
        /// The server's.
        found: u32,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cm(CmServiceError::Rejected(RejReason::INVALID_SERVICE_ID)) => f.write_str(
                "nothing listens there by RDMA CM; start the server first, with -R (its port is -p)",
            ),
            Self::Cm(CmServiceError::Unreachable) => f.write_str(
                "nobody answers there by RDMA CM; is it the server's RDMA address, and is UDP 4791 \
                 let through?",
            ),
            Self::Cm(CmServiceError::Rejected(RejReason::INVALID_PATH_MTU)) => f.write_str(
                "the server's path MTU is smaller than ours; with -R, give us its own (-m)",
            ),
            Self::Cm(error) => error.fmt(f),
            Self::Exchange(ExchangeError::Key) => f.write_str(
                "the server sent no key message where one is due; does it run over RoCE, and with \
                 -R as we do, or without?",
            ),
            Self::Exchange(error) => write!(f, "the server is not understood: {error}"),
            Self::Family { ours, theirs } => write!(
                f,
                "the server's GID is {theirs} and our address is {ours}; give us one of its kind \
                 (--ip), or choose another GID index at the server (-x)"
            ),
            Self::Route(RouteError::NoAddress(peer)) => {
                write!(f, "the server's GID is {peer}, and none of our addresses is of that kind")
            }
            Self::Route(RouteError::NoRoute(peer)) => write!(
                f,
                "no route to the server's GID {peer} by this interface; `ip route get {peer}` \
                 shows the way there is"
            ),
            Self::Route(error) => write!(f, "the server: {error}"),
            Self::Expose(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Post(error) => write!(f, "a work request was not taken: {error}"),
            Self::NoReads(test) => write!(
                f,
                "the server lets no READ or atomic be outstanding; does it run {test}? (-o there)"
            ),
            Self::Failed { test, status, qp, message, psn } => {
                let psn = psn.get();
                write!(
                    f,
                    "message {message} of queue pair {qp} failed: {status} (PSN {psn:#08x})"
                )?;
                f.write_str("; ")?;
                advice(*status, *test, f)
            }
            Self::Refused(code) => write!(
                f,
                "a request of the server's was refused ({code:?}); is it the same test, with the \
                 same -s?"
            ),
            Self::AnswerLen { wanted, found } => write!(
                f,
                "the server answered {wanted} bytes by {found}; start it with the same -s"
            ),
        }
    }
}

/// What to do about a failure.
fn advice(status: WcStatus, test: Test, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match status {
        WcStatus::RetryExceeded => f.write_str(
            "the server does not answer: is UDP 4791 let through, does the path carry the path \
             MTU (-m), is the timeout long enough (-u)?",
        ),
        WcStatus::RemoteAccess | WcStatus::RemoteInvalidRequest | WcStatus::RemoteOperation => {
            write!(f, "the server refused it: does it run {test}, with messages as long (-s)?")
        }
        WcStatus::RnrRetryExceeded => f.write_str("the server posts no receives"),
        _ => write!(f, "does the server run {test}, as we do?"),
    }
}

impl core::error::Error for ClientError {}

impl From<ExchangeError> for ClientError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<CmServiceError> for ClientError {
    fn from(error: CmServiceError) -> Self {
        Self::Cm(error)
    }
}

impl From<RouteError> for ClientError {
    fn from(error: RouteError) -> Self {
        Self::Route(error)
    }
}

impl From<ExposeError> for ClientError {
    fn from(error: ExposeError) -> Self {
        Self::Expose(error)
    }
}

impl From<QpError> for ClientError {
    fn from(error: QpError) -> Self {
        Self::Qp(error)
    }
}

impl From<PostError> for ClientError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}
