//! Services that peers reach by the connection manager: RDMA CM's, over MADs on queue pair 1.
//!
//! ```text
//!  engine ──completions of QP 1──> Gsi::handle_completion ──> Cm::handle_mad
//!         <──UD SENDs──────────── Gsi::poll <─────────────── Cm::poll_transmit, timers
//!  Gsi::poll_notice ──> CmServices: by service ID a new session, by connection a known one
//!  completions, events, time ─────────────────────────────> the session they belong to
//! ```
//!
//! A [`Gsi`] owns queue pair 1 and the connection manager behind it. What the manager has to tell
//! is a [`Notice`]. A [`Connection`] is a queue pair and the connection it is for: it makes the
//! first and takes both through the messages, passive or active. A service is a type that
//! implements [`CmSession`], one value of it a connection (or, for datagrams, a resolution; for
//! perftest, all connections of one client); it is a variant of [`AnySession`] and of [`CmService`]. [`CmServices`] is the table of both.

mod connection;
mod error;
mod gsi;
mod notice;
mod session;
mod table;

pub use connection::{Connection, ConnectionAttr};
pub use error::CmServiceError;
pub use gsi::{Gsi, GsiCounters};
pub use notice::{Notice, Request, What};
pub use session::{AnySession, CmService, CmSession, End};
pub use table::{CmServices, SessionSlot};
