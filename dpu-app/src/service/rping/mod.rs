//! `rping`, the program of rdma-core: either side.
//!
//! ```text
//!  client                              server
//!  SEND  address, key, length     →
//!                                 ←    READ of that, the ping
//!                                 ←    SEND, go ahead
//!  SEND  address, key, length     →
//!                                 ←    WRITE of the ping there
//!                                 ←    SEND, go ahead
//! ```
//!
//! Each SEND is 16 bytes, the server's of no meaning. The server WRITEs the ping as the string it
//! is, up to its first zero byte, that included.

mod advert;
mod buffers;
mod client;
mod server;

pub use advert::Advert;
pub use client::{Client, ClientOptions};
pub use server::Server;

/// The port of RDMA CM's that clients ask for unless told otherwise.
pub const DEFAULT_PORT: u16 = 7174;

/// The longest ping that `rping` makes.
pub const MAX_PING: u32 = 65536;

/// Where the SENDs' buffers lie behind the ping: two receives and one send.
const RECEIVES_AT: u32 = MAX_PING;
const RECEIVES: u32 = 2;
/// Apart, by whole cache lines.
const STRIDE: u32 = 64;
const SEND_AT: u32 = RECEIVES_AT + RECEIVES * STRIDE;
const REGION_LEN: u32 = SEND_AT + STRIDE;
