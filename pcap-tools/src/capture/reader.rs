//! Streaming a capture of either format.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;

#[cfg(feature = "compression")]
use super::Compression;
use super::batch::Batch;
use super::compression::Feed;
use super::pcap::Pcap;
use super::pcapng::{self, Pcapng};
use super::source::Source;
use super::{CaptureError, Damage, Direction, LinkType, Packet, size};

/// A packet whose bytes are still named by where they lie in the buffer.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) offset: u64,
    pub(super) range: Range<usize>,
    pub(super) orig_len: u32,
    pub(super) timestamp_ns: Option<u64>,
    pub(super) interface: u32,
    pub(super) link: Option<LinkType>,
    pub(super) direction: Option<Direction>,
    pub(super) fcs_len: u8,
    pub(super) link_bps: Option<NonZeroU64>,
}

impl Record {
    /// The packet, whose bytes lie in `buf`.
    #[inline]
    pub(super) fn packet<'a>(&self, number: u64, buf: &'a [u8]) -> Packet<'a> {
        Packet {
            number,
            offset: self.offset,
            timestamp_ns: self.timestamp_ns,
            interface: self.interface,
            link: self.link,
            direction: self.direction,
            fcs_len: self.fcs_len,
            link_bps: self.link_bps,
            orig_len: self.orig_len,
            data: buf.get(self.range.clone()).unwrap_or_default(),
        }
    }
}

/// What a format makes of the bytes that come next.
#[derive(Debug)]
pub(super) enum Step {
    /// They must be this many before anything can be said.
    Need(usize),
    /// So many of them hold no packet.
    Pass(usize),
    /// A block of this length is of no interest and need not be held.
    Skip(u32),
    /// So many of them are a packet's record; its range counts from their start.
    Packet(usize, Record),
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// What comes next in a capture.
enum Next {
    Packet(Record),
    /// Nothing before more is read.
    NotYet,
    End,
}

/// Streams the packets of a capture in either format, which it detects, and unpacks it if it is
/// compressed (with the feature `compression`, which is on by default).
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<Feed<R>>,
    format: Format,
    packets: u64,
    /// An error that comes after packets already handed out.
    error: Option<CaptureError>,
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
        let (source, first) = unpacked(inner)?;
        Self::of_source(source, first)
    }

    /// As [`Reader::new`], of what [`unpacked`] gave.
    pub(super) fn of_source(
        mut source: Source<Feed<R>>,
        first: [u8; 4],
    ) -> Result<Self, CaptureError> {
        let format = if first == pcapng::MAGIC {
            Format::Pcapng(Pcapng::new())
        } else if Pcap::starts(first) {
            source.fill(24)?;
            let (pcap, header) = Pcap::open(source.bytes())?;
            source.take(header);
            Format::Pcap(pcap)
        } else {
            return Err(CaptureError::NotACapture(first));
        };
        Ok(Self { source, format, packets: 0, error: None, ended: false })
    }

    /// The same, with `packets` counted already.
    pub(super) fn counting_from(self, packets: u64) -> Self {
        Self { packets, ..self }
    }

    /// The next packet, on loan until the next call; `None` at the end of the file and after an
    /// error.
    ///
    /// # Errors
    /// [`CaptureError`] once, where the file stops making sense.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Result<Packet<'_>, CaptureError>> {
        if self.ended {
            return self.error.take().map(Err);
        }
        match self.next(true) {
            Ok(Next::Packet(record)) => {
                self.packets += 1;
                Some(Ok(record.packet(self.packets, self.source.buffer())))
            }
            Ok(Next::End | Next::NotYet) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }

    /// Replaces what `batch` holds by the packets that come next; says how many, 0 at the end of
    /// the file and after an error.
    ///
    /// A batch is what one read gave, some 256 KiB of the file: of a pipe it is what there is, so
    /// that nothing waits for a batch to be full.
    ///
    /// # Errors
    /// As [`Reader::next_packet`]; the packets in front of the error come in a batch before it.
    pub fn fill(&mut self, batch: &mut Batch) -> Result<usize, CaptureError> {
        batch.start(self.packets + 1);
        if self.ended {
            return self.error.take().map_or(Ok(0), Err);
        }
        loop {
            match self.next(batch.is_empty()) {
                Ok(Next::Packet(record)) => batch.push(record),
                Ok(Next::NotYet) => break,
                Ok(Next::End) => {
                    self.ended = true;
                    break;
                }
                Err(error) => {
                    self.ended = true;
                    if batch.is_empty() {
                        return Err(error);
                    }
                    self.error = Some(error);
                    break;
                }
            }
        }
        self.packets += batch.len() as u64;
        self.source.hand_over(batch.buffer_mut());
        Ok(batch.len())
    }

    /// Takes records up to and including the next packet. Reads more bytes for it only if
    /// `may_read`: what was taken before stays where it is otherwise.
    #[inline]
    fn next(&mut self, may_read: bool) -> Result<Next, CaptureError> {
        loop {
            let bytes = self.source.bytes();
            let step = match &mut self.format {
                Format::Pcap(pcap) => pcap.step(bytes),
                Format::Pcapng(pcapng) => pcapng.step(bytes),
            };
            let offset = self.source.offset();
            match step {
                Ok(Step::Packet(len, mut record)) => {
                    let from = self.source.take(len).start;
                    record.offset = offset;
                    record.range = from + record.range.start..from + record.range.end;
                    return Ok(Next::Packet(record));
                }
                Ok(Step::Pass(len)) => {
                    self.source.take(len);
                }
                Ok(Step::Need(_) | Step::Skip(_)) if !may_read => return Ok(Next::NotYet),
                Ok(Step::Need(needed)) => match self.source.fill(needed)? {
                    0 => return Ok(Next::End),
                    available if available < needed => {
                        return Err(CaptureError::Truncated { offset, needed, available });
                    }
                    _ => {}
                },
                Ok(Step::Skip(len)) => self.skip(len)?,
                Err(damage) => return Err(CaptureError::Damaged { offset, damage }),
            }
        }
    }

    /// Takes a block without holding it, and compares its two lengths.
    #[cold]
    fn skip(&mut self, front: u32) -> Result<(), CaptureError> {
        let offset = self.source.offset();
        let needed = size(front);
        let taken = self.source.skip(needed - 4)?;
        let available = taken + self.source.fill(4)?.min(4);
        if available < needed {
            return Err(CaptureError::Truncated { offset, needed, available });
        }
        if let Format::Pcapng(pcapng) = &self.format {
            let back = pcapng.length_at(self.source.bytes(), 0);
            if back != front {
                let damage = Damage::BlockLengths { front, back };
                return Err(CaptureError::Damaged { offset, damage });
            }
        }
        self.source.take(4);
        Ok(())
    }

    /// Bytes of the file taken so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }
}

/// Unpacks a file if it is compressed; gives the first bytes as well, which are not taken yet.
pub(super) fn unpacked<R: Read>(inner: R) -> Result<(Source<Feed<R>>, [u8; 4]), CaptureError> {
    let mut source = Source::new(Feed::Plain(inner));
    let first = first_bytes(&mut source)?;
    #[cfg(feature = "compression")]
    if let Some(compression) = Compression::of(first) {
        let mut source = source.unpack(compression);
        let first = first_bytes(&mut source)?;
        return Ok((source, first));
    }
    Ok((source, first))
}

fn first_bytes<R: Read>(source: &mut Source<Feed<R>>) -> Result<[u8; 4], CaptureError> {
    source.fill(4)?;
    source.bytes().first_chunk().copied().ok_or(CaptureError::Empty)
}
