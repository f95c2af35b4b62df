//! Decode and judge RoCEv2 captures.
//!
//! [`capture`] reads and writes capture files.
#![forbid(unsafe_code)]

pub mod capture;
