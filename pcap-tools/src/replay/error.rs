//! Why a replay could not be done.

use std::fmt;
use std::net::IpAddr;

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
    /// No requests of that host are in the capture.
    Nothing,
    /// No next hop leads there.
    Unreachable(IpAddr),
    /// Addresses of different families.
    AddressFamily {
        /// The requester's.
        here: IpAddr,
        /// The target's.
        there: IpAddr,
    },
    /// The port does not carry packets so long.
    PortMtu {
        /// Bytes of the longest request, from its IP header on.
        needed: usize,
        /// The port's MTU.
        mtu: usize,
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
            Self::Nothing => f.write_str("the capture has no requests of that host"),
            Self::Unreachable(there) => {
                write!(f, "no neighbour found for {there}; name its MAC address, or map it")
            }
            Self::AddressFamily { here, there } => write!(
                f,
                "{here}, {there} and the captured addresses must be of one family: see --map"
            ),
            Self::PortMtu { needed, mtu } => {
                write!(f, "requests of {needed} bytes do not fit the port's MTU of {mtu}")
            }
            Self::Engine(error) => write!(f, "our responder cannot stand for this one: {error}"),
        }
    }
}

impl std::error::Error for ReplayError {}
