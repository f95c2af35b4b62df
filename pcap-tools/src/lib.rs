//! Decode and judge RoCEv2 captures.
//!
//! [`capture`] reads and writes capture files, [`dissect`](dissect::dissect) finds the RoCEv2
//! frame in a packet, [`decode`] writes packets for people and programs, and [`check`](check())
//! judges a whole capture.
//!
//! ```
//! use roce_pcap::capture::{Direction, PcapngWriter, Reader};
//!
//! // A zero-length SEND, captured by hand.
//! let frame = [
//!     2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
//!     0x45, 0x02, 0, 0x2c, 0, 1, 0x40, 0, 0x40, 0x11, 0xb6, 0xba, 192, 0, 2, 1, 192, 0, 2, 2,
//!     0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0,
//!     0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5,
//!     0xc9, 0x0e, 0x17, 0x92,
//! ];
//! let mut writer = PcapngWriter::new(Vec::new())?;
//! writer.write_packet(0, Direction::Inbound, [&frame, &[]])?;
//! let file = writer.into_inner()?;
//!
//! let report = roce_pcap::check(Reader::new(file.as_slice())?);
//! assert!(report.is_clean());
//! assert_eq!(report.summary.icrc_valid, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod annotate;
pub mod capture;
pub mod check;
pub mod connection;
pub mod decode;
pub mod diff;
pub mod dissect;
#[cfg(feature = "export")]
pub mod export;
pub mod field;
pub mod filter;
pub mod generate;
pub mod message;
pub mod observed;
pub mod replay;
pub mod report_html;
pub mod rewrite;
pub mod stats;
pub mod upper;

mod flow;
mod json;

pub use check::check;
