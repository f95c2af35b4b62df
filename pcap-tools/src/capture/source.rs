//! A buffered byte source that lends what it holds and knows its offset in the file.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use super::CaptureError;
#[cfg(feature = "compression")]
use super::compression::{Compression, Feed};

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Source<R> {
    inner: R,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `buf[start]` lies in the file.
    offset: u64,
    at_end: bool,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, buf: vec![0; CHUNK], start: 0, end: 0, offset: 0, at_end: false }
    }

    /// Whether everything was taken and nothing more can come.
    #[cfg(feature = "compression")]
    pub(super) fn is_exhausted(&self) -> bool {
        self.at_end && self.start == self.end
    }

    /// Where the next byte lies in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is buffered and not taken yet.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads until `needed` bytes are buffered or the file ends; says how many there are.
    #[inline]
    pub(super) fn fill(&mut self, needed: usize) -> Result<usize, CaptureError> {
        if self.end - self.start >= needed {
            return Ok(self.end - self.start);
        }
        self.read_more(needed)
    }

    #[cold]
    fn read_more(&mut self, needed: usize) -> Result<usize, CaptureError> {
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < needed && !self.at_end {
            if self.end == self.buf.len() {
                // Doubling as bytes arrive: a length field alone makes nobody allocate.
                self.buf.resize(self.buf.len() * 2, 0);
            }
            // A buffer that one giant has made large is not filled beyond need.
            let limit = self.buf.len().min(needed.max(CHUNK));
            let room = self.buf.get_mut(self.end..limit).unwrap_or_default();
            match self.inner.read(room) {
                Ok(0) => self.at_end = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // What unpacks is a reader, too, with errors of its own.
                    let offset = self.offset + wide(self.end - self.start);
                    let io = |source| CaptureError::Io { offset, source };
                    return Err(error.downcast::<CaptureError>().unwrap_or_else(io));
                }
            }
        }
        Ok(self.end - self.start)
    }

    /// Takes `len` buffered bytes; says where they lie for [`Source::slice`], until the next
    /// [`Source::fill`].
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Range<usize> {
        let from = self.start;
        self.start = (from + len).min(self.end);
        self.offset += wide(self.start - from);
        from..self.start
    }

    /// What the ranges that [`Source::take`] gives point into.
    #[inline]
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buf
    }

    /// Gives the buffer away, with everything taken from it, for `spare`; what was not taken yet
    /// moves there.
    pub(super) fn hand_over(&mut self, spare: &mut Vec<u8>) {
        let rest = self.buf.get(self.start..self.end).unwrap_or_default();
        if spare.len() < rest.len().max(CHUNK) {
            spare.resize(rest.len().max(CHUNK), 0);
        }
        if let Some(room) = spare.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
        self.end = rest.len();
        self.start = 0;
        std::mem::swap(&mut self.buf, spare);
    }

    /// Takes up to `len` bytes without holding them; says how many, fewer where the file ends.
    pub(super) fn skip(&mut self, len: usize) -> Result<usize, CaptureError> {
        let mut left = len;
        while left > 0 {
            let available = self.fill(1)?;
            if available == 0 {
                break;
            }
            left -= self.take(left.min(available)).len();
        }
        Ok(len - left)
    }
}

#[cfg(feature = "compression")]
impl<R: Read> Source<Feed<R>> {
    /// The same file unpacked, from the start: nothing may have been taken yet.
    pub(super) fn unpack(self, compression: Compression) -> Self {
        let Self { inner, buf, start, end, offset, at_end } = self;
        match inner {
            Feed::Plain(inner) => {
                let packed = Source { inner, buf, start, end, offset, at_end };
                Self::new(Feed::unpack(packed, compression))
            }
            packed => Self { inner: packed, buf, start, end, offset, at_end },
        }
    }
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a read, interrupted every other time.
    struct Trickle(Vec<u8>, bool);

    impl Read for Trickle {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            match (self.0.is_empty(), out.first_mut()) {
                (false, Some(byte)) => {
                    *byte = self.0.remove(0);
                    Ok(1)
                }
                _ => Ok(0),
            }
        }
    }

    #[test]
    fn short_and_interrupted_reads_are_put_together() {
        let mut source = Source::new(Trickle((0..50).collect(), false));
        assert_eq!(source.fill(10).unwrap(), 10);
        let taken = source.take(10);
        assert_eq!(source.buffer()[taken], (0..10).collect::<Vec<u8>>());
        assert_eq!(source.skip(30).unwrap(), 30);
        assert_eq!(source.offset(), 40);
        assert_eq!(source.fill(11).unwrap(), 10);
        assert_eq!(source.bytes(), (40..50).collect::<Vec<u8>>());
    }

    #[test]
    fn a_length_alone_allocates_nothing() {
        let mut source = Source::new(&[1_u8, 2, 3][..]);
        assert_eq!(source.fill(usize::MAX).unwrap(), 3);
        assert!(source.buf.len() <= CHUNK);
    }

    #[test]
    fn records_longer_than_the_buffer_arrive_whole() {
        let bytes: Vec<u8> = (0..3 * CHUNK).map(|at| at.to_le_bytes()[0]).collect();
        let mut source = Source::new(bytes.as_slice());
        source.fill(7).unwrap();
        source.take(7);
        assert!(source.fill(2 * CHUNK + 5).unwrap() >= 2 * CHUNK + 5);
        let range = source.take(2 * CHUNK + 5);
        assert_eq!(&source.buffer()[range], &bytes[7..7 + 2 * CHUNK + 5]);
    }
}
