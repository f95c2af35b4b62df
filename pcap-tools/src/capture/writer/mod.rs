//! Writing captures: pcapng with everything it can say of a packet, and classic pcap.

mod pcap;
mod pcapng;

use std::io::{self, Write};

use super::{Direction, LinkType, Packet};

pub use pcap::PcapWriter;
pub use pcapng::PcapngWriter;
pub(super) use pcapng::text;

/// The longest packet that readers of pcap believe, in bytes; longer ones are cut to it.
pub const SNAPLEN: u32 = 262_144;

/// What a pcapng file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SectionInfo<'a> {
    /// The program that writes it; empty for this crate's name and version.
    pub application: &'a str,
    /// A comment on the whole; empty for none.
    pub comment: &'a str,
}

/// An interface as a capture declares it. Times are written in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceInfo<'a> {
    /// How its packets start.
    pub link: LinkType,
    /// Its name; empty for none.
    pub name: &'a str,
    /// The most bytes of a packet that were captured; 0 for all.
    pub snaplen: u32,
    /// Bytes of Ethernet's FCS that its packets end in.
    pub fcs_len: u8,
}

impl InterfaceInfo<'_> {
    /// Ethernet, without a name.
    pub const ETHERNET: Self =
        Self { link: LinkType::ETHERNET, name: "", snaplen: SNAPLEN, fcs_len: 0 };
}

/// A packet to be written.
#[derive(Debug, Clone, Copy)]
pub struct PacketRecord<'a> {
    /// The interface, by the number that declaring it gave.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub timestamp_ns: u64,
    /// Which way it went; classic pcap cannot say.
    pub direction: Option<Direction>,
    /// Bytes on the wire, if there were more than are here.
    pub orig_len: u32,
    /// The bytes, in one or two pieces.
    pub segments: [&'a [u8]; 2],
    /// Comments, which Wireshark shows with the packet; classic pcap has none.
    pub comments: &'a [&'a str],
}

impl<'a> PacketRecord<'a> {
    /// A whole packet of interface 0.
    #[must_use]
    pub fn new(timestamp_ns: u64, data: &'a [u8]) -> Self {
        Self {
            interface: 0,
            timestamp_ns,
            direction: None,
            orig_len: 0,
            segments: [data, &[]],
            comments: &[],
        }
    }

    /// The packet as it was read; one without a time gets that of 1970.
    #[must_use]
    pub fn of(packet: &Packet<'a>) -> Self {
        Self {
            interface: packet.interface,
            timestamp_ns: packet.timestamp_ns.unwrap_or_default(),
            direction: packet.direction,
            orig_len: packet.orig_len,
            segments: [packet.data, &[]],
            comments: &[],
        }
    }

    /// The pieces cut to [`SNAPLEN`], the bytes of both, and the bytes on the wire.
    fn cut(&self) -> ([&'a [u8]; 2], u32, u32) {
        let [first, second] = self.segments;
        let snaplen = super::size(SNAPLEN);
        let len = u32::try_from(first.len().saturating_add(second.len())).unwrap_or(u32::MAX);
        let first = first.get(..snaplen).unwrap_or(first);
        let second = second.get(..snaplen - first.len()).unwrap_or(second);
        ([first, second], len.min(SNAPLEN), self.orig_len.max(len))
    }
}

/// A capture being written in either format.
#[derive(Debug)]
pub enum CaptureWriter<W: Write> {
    /// Classic pcap.
    Pcap(PcapWriter<W>),
    /// pcapng.
    Pcapng(PcapngWriter<W>),
}

impl<W: Write> CaptureWriter<W> {
    /// Appends a packet.
    ///
    /// # Errors
    /// What the writer says; the file is then unusable from here on.
    #[inline]
    pub fn write(&mut self, packet: &PacketRecord<'_>) -> io::Result<()> {
        match self {
            Self::Pcap(writer) => writer.write(packet),
            Self::Pcapng(writer) => writer.write(packet),
        }
    }

    /// Flushes and gives the writer back.
    ///
    /// # Errors
    /// What the writer says.
    pub fn into_inner(self) -> io::Result<W> {
        match self {
            Self::Pcap(writer) => writer.into_inner(),
            Self::Pcapng(writer) => writer.into_inner(),
        }
    }
}
