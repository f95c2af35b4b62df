//! Why a session ended before its time.

use core::fmt;

use roce_codec::ib::NakCode;
use roce_engine::{PostError, QpError, WcStatus};

use super::message::ExchangeError;
use crate::service::RouteError;
use crate::service::memory::ExposeError;

/// Why a session ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer speaks something else.
    Exchange(ExchangeError),
    /// There is no way to the client's GID.
    Route(RouteError),
    /// No memory for a region.
    Expose(ExposeError),
    /// The engine made no queue pair.
    Qp(QpError),
    /// The engine took no work request.
    Post(PostError),
    /// The client's small messages cycle over more than a region.
    CycleBuffer {
        /// The client's cycle buffer.
        cycle: u32,
        /// Our regions.
        region: u32,
    },
    /// We refused a request of the client's for good.
    Refused(NakCode),
    /// The client refused a request of ours, or did not answer.
    Failed(WcStatus),
    /// The client's `write_lat` does not answer: its message size was not found out.
    SizeUnknown {
        /// What it was tried up to.
        tried: u32,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => write!(f, "not understood: {error}"),
            Self::Route(error) => error.fmt(f),
            Self::Expose(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::CycleBuffer { cycle, region } => write!(
                f,
                "its messages cycle over {cycle} bytes, more than a region of {region}; enlarge \
                 --region-size"
            ),
            Self::Refused(code) => write!(
                f,
                "its request was refused ({code:?}); is it this test, with messages no longer \
                 than --region-size?"
            ),
            Self::Failed(status) => write!(f, "a request to it failed: {status}"),
            Self::SizeUnknown { tried } => write!(
                f,
                "it answered no WRITE of up to {tried} bytes; are its messages longer than \
                 --region-size? Else tell how long (--service perftest:write_lat,size=BYTES)"
            ),
        }
    }
}

impl core::error::Error for SessionError {}

impl From<ExchangeError> for SessionError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

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

impl From<PostError> for SessionError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}
