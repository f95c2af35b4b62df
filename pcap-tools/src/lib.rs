//! Decode and judge RoCEv2 captures.
//!
//! [`capture`] reads and writes capture files, [`dissect`](dissect::dissect) finds the RoCEv2
//! frame in a packet, and [`check`](check()) judges a whole capture.
#![forbid(unsafe_code)]

pub mod capture;
pub mod check;
pub mod dissect;

pub use check::check;
