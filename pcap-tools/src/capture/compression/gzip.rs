//! gzip: members one after the other, each a header, a deflate stream, a CRC and a length.

use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};
use roce_codec::{Crc, Crc32};

use super::{Compression, PackFault};
use crate::capture::CaptureError;
use crate::capture::source::Source;

/// The flags of a member's header (RFC 1952, 2.3.1).
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0xe0;

/// A header longer than this is none.
const MAX_HEADER: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    FirstHeader,
    Header,
    Data,
    Trailer,
}

#[derive(Debug)]
pub(in crate::capture) struct Gzip<R> {
    packed: Source<R>,
    inflate: Decompress,
    at: At,
    crc: Crc,
    /// Bytes of the member so far.
    len: u64,
    /// Bytes of all members so far.
    unpacked: u64,
}

impl<R: Read> Gzip<R> {
    pub(super) fn new(packed: Source<R>) -> Self {
        let inflate = Decompress::new(false);
        Self { packed, inflate, at: At::FirstHeader, crc: Crc::new(), len: 0, unpacked: 0 }
    }

    /// Unpacks some; 0 at the end.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, CaptureError> {
        loop {
            match self.at {
                At::FirstHeader | At::Header => {
                    if self.at == At::Header && self.is_at_end()? {
                        return Ok(0);
                    }
                    self.header()?;
                    self.inflate.reset(false);
                    self.crc = Crc::new();
                    self.len = 0;
                    self.at = At::Data;
                }
                At::Data => {
                    let made = self.data(out)?;
                    if made > 0 {
                        return Ok(made);
                    }
                }
                At::Trailer => self.trailer()?,
            }
        }
    }

    /// Whether nothing but zeros, with which tapes and block devices fill up, follows a member.
    fn is_at_end(&mut self) -> Result<bool, CaptureError> {
        if self.packed.fill(1)? == 0 {
            return Ok(true);
        }
        if self.packed.bytes().first() != Some(&0) {
            return Ok(false);
        }
        while self.packed.fill(1)? > 0 {
            let zeros = self.packed.bytes().iter().take_while(|byte| **byte == 0).count();
            self.packed.take(zeros);
            if !self.packed.bytes().is_empty() {
                return Err(self.fault(PackFault::Trailing));
            }
        }
        Ok(true)
    }

    fn header(&mut self) -> Result<(), CaptureError> {
        self.packed.fill(10)?;
        if !matches!(self.packed.bytes(), [] | [0x1f] | [0x1f, 0x8b, ..]) {
            return Err(self.fault(PackFault::Trailing));
        }
        self.require(10)?;
        let (method, flags) = match self.packed.bytes() {
            &[_, _, method, flags, ..] => (method, flags),
            _ => return Err(self.fault(PackFault::Cut)),
        };
        if method != 8 || flags & RESERVED != 0 {
            return Err(self.fault(PackFault::Header));
        }
        let mut len = 10;
        if flags & EXTRA != 0 {
            self.require(len + 2)?;
            let extra = self.packed.bytes().get(len..).and_then(|rest| rest.first_chunk());
            len += 2 + usize::from(extra.copied().map_or(0, u16::from_le_bytes));
        }
        for text in [NAME, COMMENT] {
            if flags & text != 0 {
                len = self.text_end(len)?;
            }
        }
        if flags & HEADER_CRC != 0 {
            len += 2;
        }
        self.require(len)?;
        self.packed.take(len);
        Ok(())
    }

    /// Where the text at `at` of the header ends, behind its zero.
    fn text_end(&mut self, at: usize) -> Result<usize, CaptureError> {
        let mut seen = at;
        loop {
            self.require(seen + 1)?;
            let rest = self.packed.bytes().get(seen..).unwrap_or_default();
            if let Some(zero) = rest.iter().position(|byte| *byte == 0) {
                return Ok(seen + zero + 1);
            }
            seen += rest.len();
            if seen > MAX_HEADER {
                return Err(self.fault(PackFault::Header));
            }
        }
    }

    fn data(&mut self, out: &mut [u8]) -> Result<usize, CaptureError> {
        let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
        let result = self.inflate.decompress(self.packed.bytes(), out, FlushDecompress::None);
        let taken = usize::try_from(self.inflate.total_in() - before_in).unwrap_or(usize::MAX);
        let made = usize::try_from(self.inflate.total_out() - before_out).unwrap_or(usize::MAX);
        self.packed.take(taken);
        self.crc.update(out.get(..made).unwrap_or_default());
        self.len += made as u64;
        self.unpacked += made as u64;
        match result {
            Ok(Status::StreamEnd) => self.at = At::Trailer,
            // What came out before the damage is good: the error comes again next time.
            Err(_) if made == 0 => return Err(self.fault(PackFault::Data)),
            // Nothing to work on, and nothing left inside.
            Ok(_) if made == 0 && taken == 0 => self.require(self.packed.bytes().len() + 1)?,
            Ok(_) | Err(_) => {}
        }
        Ok(made)
    }

    fn trailer(&mut self) -> Result<(), CaptureError> {
        self.require(8)?;
        let bytes = self.packed.bytes();
        let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
        let len = self.len.to_le_bytes().first_chunk().copied().map(u32::from_le_bytes);
        if word(0) != Some(self.crc.finish()) || word(4) != len {
            return Err(self.fault(PackFault::Checksum));
        }
        self.packed.take(8);
        self.at = At::Header;
        Ok(())
    }

    fn require(&mut self, needed: usize) -> Result<(), CaptureError> {
        if self.packed.fill(needed)? < needed {
            return Err(self.fault(PackFault::Cut));
        }
        Ok(())
    }

    fn fault(&self, fault: PackFault) -> CaptureError {
        let here = self.packed.offset();
        let offset = match fault {
            PackFault::Cut => here + self.packed.bytes().len() as u64,
            _ => here,
        };
        let (compression, unpacked) = (Compression::Gzip, self.unpacked);
        CaptureError::Packed { offset, compression, unpacked, fault }
    }
}
