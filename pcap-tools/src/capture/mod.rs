//! Reading and writing capture files: pcap and pcapng.
//!
//! [`Reader`] streams: it holds one packet at a time and lends it. A file that is cut or damaged
//! gives everything up to there, then one error that says where, then nothing.
//!
//! The reader is our own because the `pcap-file` crate (3.0.0-rc.3) does not tell the formats
//! apart, stays for ever on a packet of an undeclared interface or on an interface name that is
//! not UTF-8, takes a record longer than its buffer for the end of the file, and rejects lengths
//! and fractions that real files have. It serves the tests as an independent witness.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//!
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     let packet = packet?;
//!     println!("{} {:?} {} bytes", packet.number, packet.timestamp_ns, packet.data.len());
//! }
//! # Ok::<(), roce_pcap::capture::CaptureError>(())
//! ```

mod byte_order;
mod error;
mod interface;
mod link;
mod pcap;
mod pcapng;
mod source;
mod writer;

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

pub use error::{CaptureError, Damage};
pub use link::{LinkError, LinkType};
pub use writer::PcapngWriter;

use source::Source;

/// The longest packet that is believed, in bytes; a longer one is damage.
pub const MAX_PACKET: u32 = 16 << 20;

/// Which way a packet went past the capturing machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// One packet of a capture.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Where its record starts in the file, in bytes.
    pub offset: u64,
    /// Nanoseconds since 1970 (in most captures); `None` if the file does not say.
    pub timestamp_ns: Option<u64>,
    /// The interface, as the file numbers them; 0 in pcap.
    pub interface: u32,
    /// How the packet starts; `None` if the file never declared its interface.
    pub link: Option<LinkType>,
    /// Which way it went, if the file says.
    pub direction: Option<Direction>,
    /// Bytes on the wire, as the file states them; `data` may hold fewer.
    pub orig_len: u32,
    /// What was captured.
    pub data: &'a [u8],
}

/// A packet whose bytes are still named by where they lie in the buffer.
#[derive(Debug)]
struct Record {
    offset: u64,
    range: Range<usize>,
    orig_len: u32,
    timestamp_ns: Option<u64>,
    interface: u32,
    link: Option<LinkType>,
    direction: Option<Direction>,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Streams the packets of a capture in either format, which it detects.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
    packets: u64,
    ended: bool,
}

impl Reader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`Reader::new`], and [`CaptureError::Io`] if it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let file = File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?;
        Self::new(file)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the first bytes of `inner` (which needs no buffering of its own) to see the format.
    ///
    /// # Errors
    /// [`CaptureError::Empty`], [`CaptureError::NotACapture`], [`CaptureError::Truncated`] inside
    /// the file header, and [`CaptureError::Io`].
    pub fn new(inner: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(inner);
        source.fill(4)?;
        let first = *source.bytes().first_chunk::<4>().ok_or(CaptureError::Empty)?;
        let format = if first == pcapng::MAGIC {
            Format::Pcapng(pcapng::Pcapng::new())
        } else if let Some(magic) = pcap::magic(first) {
            Format::Pcap(pcap::Pcap::open(&mut source, magic)?)
        } else {
            return Err(CaptureError::NotACapture(first));
        };
        Ok(Self { source, format, packets: 0, ended: false })
    }

    /// The next packet, on loan until the next call; `None` at the end of the file and after an
    /// error.
    ///
    /// # Errors
    /// [`CaptureError`] once, where the file stops making sense.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Result<Packet<'_>, CaptureError>> {
        if self.ended {
            return None;
        }
        let record = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.source),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.source),
        };
        match record {
            Ok(Some(record)) => {
                self.packets += 1;
                Some(Ok(Packet {
                    number: self.packets,
                    offset: record.offset,
                    timestamp_ns: record.timestamp_ns,
                    interface: record.interface,
                    link: record.link,
                    direction: record.direction,
                    orig_len: record.orig_len,
                    data: self.source.slice(record.range),
                }))
            }
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }

    /// Bytes of the file taken so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }
}

/// A length field as a length in memory.
fn size(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
