//! `ibv_rc_pingpong` and its kin of rdma-core: a message goes there and comes back, over and over.
//!
//! A client connects over TCP and says which queue pair it has, in an [`Address`]; the server
//! answers with its own, the client says `done` and closes the connection. All else goes by RDMA:
//! the client SENDs, the server SENDs what it has received, and the client goes on when both are
//! done. Neither says how long or how many its messages are, nor what its path MTU is.
//!
//! A datagram's payload comes back, without the 40 bytes in front of it.
//!
//! The programs' `-c` means: a client sets the first byte of each page of 4,096 to 0, all others
//! being 0x7b, and a server says so if it finds another. Since it is what the client sent that
//! comes back, a [`Client`] can do better: it sends noise and looks at each byte of the answer.

mod address;
mod client;
mod endpoint;
mod error;
mod session;

use core::fmt;
use core::str::FromStr;

use roce_codec::ib::{PathMtu, QKey, Service};

pub use address::Address;
pub use client::Client;
pub use error::SessionError;
pub use session::Session;

/// The TCP port that clients connect to unless told otherwise.
pub const DEFAULT_PORT: u16 = 18515;
/// What a client says last over TCP.
pub const DONE: [u8; 5] = *b"done\0";
/// The Q_Key of the datagram programs.
const QKEY: QKey = QKey(0x1111_1111);
/// The path MTU that both sides use unless told otherwise.
pub const DEFAULT_PATH_MTU: PathMtu = PathMtu::Mtu1024;

/// Every so many bytes, `-c` looks at one.
const PAGE: u32 = 4096;
/// What all others are.
const FILL: u8 = 0x7b;

/// Which of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// `ibv_rc_pingpong`.
    Rc,
    /// `ibv_uc_pingpong`.
    Uc,
    /// `ibv_ud_pingpong`.
    Ud,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Uc, Self::Ud];

    /// Its name in the program's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
        }
    }

    /// The service of its queue pairs.
    #[must_use]
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud => Service::Ud,
        }
    }

    /// Bytes in front of a received message: of a datagram, where it came from.
    const fn area(self) -> u32 {
        match self {
            Self::Rc | Self::Uc => 0,
            Self::Ud => 40,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not the name of a [`Transport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownTransport;

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transports are")?;
        for transport in Transport::ALL {
            write!(f, " {transport}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownTransport {}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        Self::ALL.into_iter().find(|transport| transport.name() == name).ok_or(UnknownTransport)
    }
}

/// How either side goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which program the peer is.
    pub transport: Transport,
    /// The path MTU that the peer uses: its `-m`. A datagram is no longer; a server of datagrams
    /// takes those that its port carries.
    pub path_mtu: PathMtu,
    /// A client: bytes of a message. A server: of the longest it takes. At most 2³¹.
    pub size: u32,
    /// Messages there and back; a server may not know.
    pub iterations: Option<u64>,
    /// Whether to look at what has been received.
    pub check: bool,
}
