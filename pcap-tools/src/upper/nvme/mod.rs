//! NVMe over Fabrics on RDMA: capsules, and the private data of the CM exchange (NVMe over Fabrics
//! 1.1, and NVMe RDMA Transport Specification).
//!
//! The host SENDs command capsules, a submission queue entry of 64 bytes and perhaps data; the
//! controller answers with response capsules, a completion queue entry of 16 bytes. Everything is
//! little-endian.

mod command;
mod completion;
mod names;
mod private_data;

pub use command::{Command, Sgl};
pub use completion::Completion;
pub use private_data::{ConnectAccept, ConnectReject, ConnectRequest};

/// Which queue a command is for: opcodes mean different things there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Queue 0.
    Admin,
    /// Any other.
    Io,
}

impl Queue {
    /// By its number.
    #[must_use]
    pub const fn of_id(id: u16) -> Self {
        match id {
            0 => Self::Admin,
            _ => Self::Io,
        }
    }
}

/// What a command is: enough to name its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The queue, if it is known.
    pub queue: Option<Queue>,
    /// The opcode.
    pub opcode: u8,
    /// The type of a Fabrics command.
    pub fctype: Option<u8>,
}

impl Kind {
    /// The name of such a command; `None` if the opcode has none, or another on each queue.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match (self.fctype, self.queue) {
            (Some(fctype), _) => names::fabrics(fctype),
            (None, Some(Queue::Admin)) => names::admin(self.opcode),
            (None, Some(Queue::Io)) => names::io(self.opcode),
            (None, None) => None,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name(), self.fctype) {
            (Some(name), _) => f.write_str(name),
            (None, Some(fctype)) => write!(f, "Fabrics command {fctype:#04x}"),
            (None, None) => write!(f, "command {:#04x}", self.opcode),
        }
    }
}
