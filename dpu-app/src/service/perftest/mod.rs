//! perftest (`ib_write_bw` and its kin): the server here, the client in [`client`].
//!
//! A client connects over TCP and speaks first: version, buffer sizes, path MTU, then a
//! [`KeyMessage`] for each queue pair and a few more as barriers ([`Exchange`] knows how many).
//! Then it runs, and for some tests says how it went. Nothing on the wire names the test or the
//! message size: a [`Session`] is told the test, and learns the size from the packets.
//!
//! With `-R` it connects by RDMA CM instead, and the same exchange goes by SENDs ([`Form`]): a
//! [`Server`] is that connection, those of the queue pairs, and the [`Session`] they are of.

pub mod client;
mod connect;
mod control;
mod error;
mod exchange;
mod key;
mod message;
mod pair;
mod server;
mod session;
mod write_lat;

use core::fmt;
use core::str::FromStr;

use roce_engine::Access;

pub use error::SessionError;
pub use exchange::Exchange;
pub use key::KeyMessage;
pub use message::{ExchangeError, Form, MAX_MESSAGE_LEN, MAX_REPLY_LEN, Message};
pub use server::Server;
pub use session::{MAX_QPS, Options, Session};

/// The port that clients connect to unless told otherwise: TCP's, or with `-R` RDMA CM's.
pub const DEFAULT_PORT: u16 = 18515;

/// What a client runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// `ib_write_bw`.
    WriteBw,
    /// `ib_read_bw`.
    ReadBw,
    /// `ib_send_bw`.
    SendBw,
    /// `ib_atomic_bw`.
    AtomicBw,
    /// `ib_write_lat`.
    WriteLat,
    /// `ib_read_lat`.
    ReadLat,
    /// `ib_send_lat`.
    SendLat,
    /// `ib_atomic_lat`.
    AtomicLat,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WriteBw,
        Self::ReadBw,
        Self::SendBw,
        Self::AtomicBw,
        Self::WriteLat,
        Self::ReadLat,
        Self::SendLat,
        Self::AtomicLat,
    ];

    /// perftest's name for it, without the `ib_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteBw => "write_bw",
            Self::ReadBw => "read_bw",
            Self::SendBw => "send_bw",
            Self::AtomicBw => "atomic_bw",
            Self::WriteLat => "write_lat",
            Self::ReadLat => "read_lat",
            Self::SendLat => "send_lat",
            Self::AtomicLat => "atomic_lat",
        }
    }

    /// The name of the service that a server of it is.
    #[must_use]
    pub const fn service_name(self) -> &'static str {
        match self {
            Self::WriteBw => "perftest:write_bw",
            Self::ReadBw => "perftest:read_bw",
            Self::SendBw => "perftest:send_bw",
            Self::AtomicBw => "perftest:atomic_bw",
            Self::WriteLat => "perftest:write_lat",
            Self::ReadLat => "perftest:read_lat",
            Self::SendLat => "perftest:send_lat",
            Self::AtomicLat => "perftest:atomic_lat",
        }
    }

    /// What the client needs to be allowed, and no more.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::WriteBw | Self::WriteLat => Access::REMOTE_WRITE,
            Self::ReadBw | Self::ReadLat => Access::REMOTE_READ,
            Self::AtomicBw | Self::AtomicLat => Access::REMOTE_ATOMIC,
            Self::SendBw | Self::SendLat => Access::LOCAL_WRITE,
        }
    }

    /// Whether the client sends messages that consume a receive.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendBw | Self::SendLat)
    }

    /// Whether the client's READs or atomics have to be kept for replay.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::ReadBw | Self::ReadLat | Self::AtomicBw | Self::AtomicLat)
    }

    /// Whether its messages are atomics, of 8 bytes.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::AtomicBw | Self::AtomicLat)
    }

    /// Whether it measures bandwidth: several queue pairs are possible.
    #[must_use]
    pub const fn is_bandwidth(self) -> bool {
        matches!(self, Self::WriteBw | Self::ReadBw | Self::SendBw | Self::AtomicBw)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not the name of a [`Test`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownTest;

impl fmt::Display for UnknownTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tests are")?;
        for test in Test::ALL {
            write!(f, " {test}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownTest {}

impl FromStr for Test {
    type Err = UnknownTest;

    fn from_str(name: &str) -> Result<Self, UnknownTest> {
        Self::ALL.into_iter().find(|test| test.name() == name).ok_or(UnknownTest)
    }
}
