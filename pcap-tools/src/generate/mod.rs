//! Made-up traffic: clean traces of any size, for benchmarks and as a base for tests.
//!
//! [`Mix`] says what is wanted, [`Traffic`] makes it, packet by packet: the same seed gives the
//! same bytes. Requesters and responders are a model of their own, not the engine that the
//! checker shares rules with.
//!
//! ```
//! use roce_pcap::capture::{CaptureWriter, PcapngWriter, Reader};
//! use roce_pcap::generate::Mix;
//!
//! let writer = PcapngWriter::new(Vec::new())?;
//! let mut writer = CaptureWriter::Pcapng(writer);
//! Mix { packets: 1000, seed: 7, ..Mix::default() }.write(&mut writer)?;
//! let file = writer.into_inner()?;
//!
//! let report = roce_pcap::check(Reader::new(file.as_slice())?);
//! assert_eq!((report.summary.packets, report.summary.fail), (1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connection;
mod exchange;
mod golden;
mod handshake;
mod host;
mod mix;
mod planned;
mod random;
mod traffic;

pub use golden::{Golden, PREAMBLE};
pub use mix::Mix;
pub use traffic::Traffic;
