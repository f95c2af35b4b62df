//! What host and controller say in the private data of REQ, REP and REJ.
//!
//! ```text
//!  byte  REQ                REP          REJ
//!    0   record format 16   the same     the same
//!    2   queue ID 16        CRQSIZE 16   status 16
//!    4   HRQSIZE 16
//!    6   HSQSIZE 16
//!    8   controller ID 16
//! ```

use std::fmt;

use super::names;
use crate::upper::bytes::le16;

/// A host asks for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Record format; 0 is the only one.
    pub format: u16,
    /// The queue.
    pub queue_id: u16,
    /// Receives that the host posts.
    pub host_receive_size: u16,
    /// Entries of its submission queue, from 0.
    pub host_send_size: u16,
    /// The controller, of an I/O queue.
    pub controller_id: u16,
}

impl ConnectRequest {
    /// From a REQ's private data, behind the IP CM header.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        Some(Self {
            format: le16(data, 0)?,
            queue_id: le16(data, 2)?,
            host_receive_size: le16(data, 4)?,
            host_send_size: le16(data, 6)?,
            controller_id: le16(data, 8)?,
        })
    }
}

impl fmt::Display for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue_id, host_receive_size, host_send_size, .. } = self;
        write!(f, "request qid={queue_id} hrqsize={host_receive_size} hsqsize={host_send_size}")
    }
}

/// A controller grants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectAccept {
    /// Record format.
    pub format: u16,
    /// Receives that the controller posts.
    pub controller_receive_size: u16,
}

impl ConnectAccept {
    /// From a REP's private data.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        Some(Self { format: le16(data, 0)?, controller_receive_size: le16(data, 2)? })
    }
}

impl fmt::Display for ConnectAccept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "accept crqsize={}", self.controller_receive_size)
    }
}

/// A controller refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectReject {
    /// Record format.
    pub format: u16,
    /// Why.
    pub status: u16,
}

impl ConnectReject {
    /// From a REJ's private data.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        Some(Self { format: le16(data, 0)?, status: le16(data, 2)? })
    }

    /// The status in words.
    #[must_use]
    pub const fn status_name(&self) -> Option<&'static str> {
        names::reject(self.status)
    }
}

impl fmt::Display for ConnectReject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status_name() {
            Some(name) => write!(f, "reject status={} ({name})", self.status),
            None => write!(f, "reject status={}", self.status),
        }
    }
}
