//! Reading and writing capture files: pcap and pcapng.
//!
//! [`Reader`] streams one file, packed or not: it lends one packet at a time, or fills a
//! [`Batch`]. A file that is cut or damaged gives everything up to there, then one error that says
//! where, then nothing. [`FileSet`] is a capture in several files, or one still being written.
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

mod batch;
mod byte_order;
mod compression;
mod copier;
mod error;
mod file_set;
mod growing;
mod interface;
mod link;
mod pcap;
mod pcapng;
mod reader;
mod rotation;
mod source;
mod writer;

use std::num::NonZeroU64;

pub use batch::Batch;
pub use compression::{Compression, PackFault};
pub use copier::{CopyError, copy_with_comments};
pub use error::{CaptureError, Damage};
pub use file_set::{FileError, FileSet};
pub use growing::Follow;
pub use link::{First, LinkError, LinkType};
pub use reader::Reader;
pub use writer::{
    CaptureWriter, InterfaceInfo, PacketRecord, PcapWriter, PcapngWriter, SNAPLEN, SectionInfo,
};

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
    /// How many bytes at the end of the frame are its check sequence (Ethernet: 4), as the file
    /// states it; 0 if it does not. A packet that was cut has fewer of them, or none.
    pub fcs_len: u8,
    /// The speed of the interface, bits a second, as pcapng's `if_speed` states it.
    pub link_bps: Option<NonZeroU64>,
    /// Bytes on the wire, as the file states them; `data` may hold fewer.
    pub orig_len: u32,
    /// What was captured.
    pub data: &'a [u8],
}

impl<'a> Packet<'a> {
    /// A packet that stands alone and whole: number 1, no time, no direction.
    #[must_use]
    pub fn new(link: LinkType, data: &'a [u8]) -> Self {
        Self {
            number: 1,
            offset: 0,
            timestamp_ns: None,
            interface: 0,
            link: Some(link),
            direction: None,
            fcs_len: 0,
            link_bps: None,
            orig_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data,
        }
    }

    /// What was captured of the frame, without its check sequence.
    #[inline]
    #[must_use]
    pub fn frame(&self) -> &'a [u8] {
        if self.fcs_len == 0 {
            return self.data;
        }
        let len = size(self.orig_len.saturating_sub(u32::from(self.fcs_len)));
        self.data.get(..len).unwrap_or(self.data)
    }
}

/// A length field as a length in memory.
fn size(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
