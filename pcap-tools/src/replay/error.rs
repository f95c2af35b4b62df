//! Why a replay could not be done.

use std::fmt;

/// Why a replay could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// More streams than one engine serves.
    TooManyStreams {
        /// How many there are.
        streams: usize,
        /// How many there may be.
        most: usize,
    },
    /// What the capture teaches of memory does not fit.
    Memory {
        /// Bytes that were allowed.
        limit: usize,
    },
    /// Our responder could not be made into the captured one.
    Engine(String),
}

impl ReplayError {
    pub(super) fn engine(error: impl fmt::Display) -> Self {
        Self::Engine(error.to_string())
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyStreams { streams, most } => {
                write!(f, "{streams} streams of requests, {most} can be replayed at once")
            }
            Self::Memory { limit } => {
                write!(f, "the capture's READs and WRITEs touch more than {limit} bytes of memory")
            }
            Self::Engine(error) => write!(f, "our responder cannot stand for this one: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}
