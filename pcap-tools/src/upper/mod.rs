//! What RDMA carries, where that is proven.
//!
//! A SEND says nothing of what it carries. Which protocol a connection speaks is learned from the
//! CM exchange that set it up: the service ID of its REQ names a port.
//!
//! | port | protocol |
//! |---|---|
//! | 4420, 8009 | NVMe over Fabrics |
//! | 3260 | iSER |
//! | 445, 5445 | SMB Direct |
//! | 20049 | RPC-over-RDMA (NFS) |

mod protocol;
mod tracker;

use std::fmt;

pub use protocol::Protocol;
pub use tracker::Tracker;

use crate::connection::Role;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// The protocol.
    pub protocol: Protocol,
    /// Which side of the connection sent it.
    pub sender: Role,
}

impl fmt::Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)
    }
}
