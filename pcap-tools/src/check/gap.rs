//! PSNs that are missing at a tap.

use roce_codec::ib::{PathMtu, Psn};

/// What the PSNs belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// Requests. A READ takes as many PSNs as its responses.
    Requests,
    /// READ responses.
    ReadResponses,
}

/// PSNs that are missing in front of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// What is missing.
    pub missing: Missing,
    /// The first PSN that is missing.
    pub first: Psn,
    /// How many are, at least 1.
    pub count: u32,
    /// The number of the packet that the gap is behind, of the same flow.
    pub behind: u64,
    /// The path MTU, where it was known by then.
    pub mtu: Option<PathMtu>,
}
