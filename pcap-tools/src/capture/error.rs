//! What stops the reading of a capture.

use std::fmt;
use std::io;

use super::{Compression, PackFault};

/// Why a capture gives no more packets. Offsets count from the start of the file, in bytes; of a
/// compressed file those of records count in what was unpacked.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The operating system refused to read.
    Io {
        /// Where.
        offset: u64,
        /// What it said.
        source: io::Error,
    },
    /// The file starts like no capture; carries its first bytes.
    NotACapture([u8; 4]),
    /// The file has fewer bytes than any capture.
    Empty,
    /// The file ends inside a record: it was cut, or is still being written.
    Truncated {
        /// Where the record starts.
        offset: u64,
        /// Bytes the record needs.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// A compressed file cannot be unpacked any further.
    Packed {
        /// Where in the compressed file: of what is cut, where it ends.
        offset: u64,
        /// How it is compressed.
        compression: Compression,
        /// Bytes unpacked before.
        unpacked: u64,
        /// What is wrong.
        fault: PackFault,
    },
    /// A record contradicts itself; nothing after it can be found.
    Damaged {
        /// Where the record starts.
        offset: u64,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// What is wrong with a damaged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A packet longer than any that a capture holds.
    PacketLength(u32),
    /// A block length below the least, above the most, or no multiple of four.
    BlockLength(u32),
    /// The block length in front differs from the one behind.
    BlockLengths {
        /// In front.
        front: u32,
        /// Behind.
        back: u32,
    },
    /// A block too short for what it must hold.
    BlockContents,
    /// A section header with an unknown byte-order magic.
    ByteOrderMagic(u32),
    /// More interfaces than a capture can have.
    TooManyInterfaces,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PacketLength(len) => write!(f, "a packet of {len} bytes"),
            Self::BlockLength(len) => write!(f, "a block of {len} bytes"),
            Self::BlockLengths { front, back } => {
                write!(f, "a block of {front} bytes in front and {back} behind")
            }
            Self::BlockContents => f.write_str("a block too short for its contents"),
            Self::ByteOrderMagic(magic) => write!(f, "byte-order magic {magic:#010x}"),
            Self::TooManyInterfaces => f.write_str("more than 65536 interfaces"),
        }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { offset, source } => write!(f, "reading at offset {offset}: {source}"),
            Self::NotACapture(first) => match Compression::of(*first) {
                // Either twice, or by a build that unpacks nothing.
                Some(compression) => {
                    write!(f, "compressed by {compression}: unpack it first")
                }
                None => {
                    let [a, b, c, d] = first;
                    let bytes = format_args!("{a:02x} {b:02x} {c:02x} {d:02x}");
                    write!(f, "neither pcap nor pcapng: the file starts with {bytes}")
                }
            },
            Self::Empty => f.write_str("empty: a capture starts with at least 24 bytes of header"),
            Self::Truncated { offset, needed, available } => write!(
                f,
                "cut short: the record at offset {offset} needs {needed} bytes, the file has \
                 {available} more"
            ),
            Self::Packed { offset, compression, unpacked, fault } => write!(
                f,
                "{compression} data at offset {offset}: {fault} ({unpacked} bytes were unpacked)"
            ),
            Self::Damaged { offset, damage } => {
                write!(f, "damaged at offset {offset}: {damage}")
            }
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
