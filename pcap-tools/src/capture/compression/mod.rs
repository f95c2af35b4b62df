//! Captures that are compressed: unpacked as they are read, whatever the file is called.
//!
//! Offsets of records count in what was unpacked, those of [`PackFault`]s in the file.

#[cfg(feature = "compression")]
mod gzip;
#[cfg(feature = "compression")]
mod zstd;

use std::fmt;
use std::io::{self, Read};

#[cfg(feature = "compression")]
use super::source::Source;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// RFC 1952, of one member or several.
    Gzip,
    /// RFC 8878, of one frame or several.
    Zstd,
}

impl Compression {
    /// What a file that starts so is compressed by, if it is.
    pub(super) fn of(first: [u8; 4]) -> Option<Self> {
        match first {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // The second is a frame that holds no data, which may come first.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// What is wrong with compressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackFault {
    /// The file ends before the data does.
    Cut,
    /// The header of a member or frame makes no sense.
    Header,
    /// The data does.
    Data,
    /// The data unpacks to something else than was packed.
    Checksum,
    /// Something else follows the last member or frame.
    Trailing,
    /// It needs a window of more than 128 MiB to be unpacked.
    Window,
    /// It needs a dictionary to be unpacked.
    Dictionary,
}

impl fmt::Display for PackFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "cut short",
            Self::Header => "a header that makes no sense",
            Self::Data => "damaged data",
            Self::Checksum => "a wrong checksum",
            Self::Trailing => "followed by something else",
            Self::Window => "it needs a window of more than 128 MiB",
            Self::Dictionary => "it needs a dictionary",
        })
    }
}

/// The bytes of a capture, unpacked if need be.
#[derive(Debug)]
pub(super) enum Feed<R> {
    Plain(R),
    #[cfg(feature = "compression")]
    Gzip(Box<gzip::Gzip<R>>),
    #[cfg(feature = "compression")]
    Zstd(Box<zstd::Zstd<R>>),
}

#[cfg(feature = "compression")]
impl<R: Read> Feed<R> {
    /// Unpacks what `packed` gives.
    pub(super) fn unpack(packed: Source<R>, compression: Compression) -> Self {
        match compression {
            Compression::Gzip => Self::Gzip(Box::new(gzip::Gzip::new(packed))),
            Compression::Zstd => Self::Zstd(Box::new(zstd::Zstd::new(packed))),
        }
    }
}

impl<R: Read> Read for Feed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.read(out),
            #[cfg(feature = "compression")]
            Self::Gzip(gzip) => gzip.read(out).map_err(io::Error::other),
            #[cfg(feature = "compression")]
            Self::Zstd(zstd) => zstd.read(out).map_err(io::Error::other),
        }
    }
}
