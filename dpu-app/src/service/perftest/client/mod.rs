//! The client side of perftest: what `roce-perf` runs, against a server of perftest's own
//! (`ib_write_bw` and its kin) or against ours.
//!
//! A [`Client`] is told its [`Job`] and connects nothing itself: [`Client::start`] and
//! [`Client::handle_message`] write what is to be said next, and [`Client::next_len`] is how many
//! bytes the answer has. Once that is 0, it runs: call [`Client::poll`] after each turn of the data
//! path, and pass completions and events on. When [`Client::has_run`] turns true, one message
//! size is through, its times are with the [`Meter`], and [`Client::finish_run`] goes on.
//!
//! [`ByCm`] carries what is said where TCP does not: with `-R`, by RDMA CM.

mod by_cm;
mod error;
mod exchange;
mod job;
mod meter;
mod pair;
mod ping_pong;
mod session;
mod stream;

pub use by_cm::ByCm;
pub use error::ClientError;
pub use exchange::ClientProgress;
pub use job::{Atomic, Job};
pub use meter::Meter;
pub use session::{Client, Outcome};
