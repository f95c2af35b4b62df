//! `ucmatose`, the program of rdma-core: either side.
//!
//! ```text
//!  client                              server
//!            connected by RDMA CM
//!                                 ←    SENDs, all of them
//!  as many SENDs                  →
//!                                 ←    disconnects
//! ```
//!
//! Neither side says how many messages there are, or how long they are. The client's are what it
//! has received: the program has one buffer for both.

mod messages;
mod session;

use core::fmt;

pub use session::Session;

/// The port of RDMA CM's that clients ask for unless told otherwise.
pub const DEFAULT_PORT: u16 = 7471;
/// The most messages a connection, each way.
pub const MAX_COUNT: u32 = 512;
/// The longest message, in bytes.
pub const MAX_SIZE: u32 = 65536;

/// How long the peer may be silent while something is due, in nanoseconds.
const PATIENCE_NS: u64 = 30_000_000_000;

/// What both sides have to agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Messages each way, 1 to [`MAX_COUNT`]: the program's `-C`.
    pub count: u32,
    /// Bytes of each, 1 to [`MAX_SIZE`]: its `-S`.
    pub size: u32,
}

impl Traffic {
    /// What the program does unless told otherwise.
    pub const DEFAULT: Self = Self { count: 10, size: 100 };
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages of {} bytes", self.count, self.size)
    }
}
