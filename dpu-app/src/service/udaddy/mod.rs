//! `udaddy`, the program of rdma-core: either side.
//!
//! ```text
//!  client                                    server
//!  SIDR_REQ: which queue pair serves?   →
//!                                       ←    SIDR_REP: this one, by this Q_Key
//!  datagrams, all of them               →
//!                                       ←    as many datagrams
//! ```
//!
//! Each side gives the number of its queue pair as immediate data. Neither says how many datagrams
//! there are, how long they are, or that it is done. The program's server answers when it has all of
//! them; ours answers each as it comes, so it need not know how many there are.
//!
//! The program has one buffer for both ways, and what is sent begins where the area for a GRH is
//! when something is received: its server's answers are that area and the beginning of what came.
//! Ours are what came.

mod client;
mod endpoint;
mod server;

use roce_codec::ib::QKey;

pub use client::{Client, ClientOptions};
pub use server::Server;

/// The port of RDMA CM's, in UDP's space, that clients ask for.
pub const DEFAULT_PORT: u16 = 7174;
/// Datagrams that may be under way to a side at a time; further ones are lost. A client's are all
/// sent at once.
pub const MAX_COUNT: u32 = 128;

/// The Q_Key of RDMA CM's datagram services.
const QKEY: QKey = QKey(0x0123_4567);
/// How long the peer may be silent, in nanoseconds: a server takes a client to be done then, a
/// client its datagrams to be lost.
const IDLE_NS: u64 = 10_000_000_000;
