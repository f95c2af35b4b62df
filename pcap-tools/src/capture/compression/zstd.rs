//! Zstandard: frames one after the other, each of blocks that unpack to at most 128 KiB.

use std::fmt;
use std::io::{self, Read};

use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Compression, PackFault};
use crate::capture::CaptureError;
use crate::capture::source::Source;

/// Window that a frame may ask for: the most that zstd itself unpacks without `--long`.
const MAX_WINDOW: u64 = 128 << 20;

/// The header of a last block that is empty, and a checksum.
const EMPTY_LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

pub(in crate::capture) struct Zstd<R> {
    packed: Source<R>,
    decoder: FrameDecoder,
    in_frame: bool,
    frames: u64,
    unpacked: u64,
    /// What comes after the bytes that the decoder still holds.
    error: Option<CaptureError>,
}

impl<R> fmt::Debug for Zstd<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl<R: Read> Zstd<R> {
    pub(super) fn new(packed: Source<R>) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { packed, decoder, in_frame: false, frames: 0, unpacked: 0, error: None }
    }

    /// Unpacks some; 0 at the end.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, CaptureError> {
        loop {
            if self.in_frame && self.decoder.can_collect() > 0 {
                let io = |source| CaptureError::Io { offset: self.packed.offset(), source };
                let made = self.decoder.read(out).map_err(io)?;
                self.unpacked += made as u64;
                return Ok(made);
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.in_frame && self.decoder.is_finished() {
                self.end_frame()?;
            } else if self.in_frame {
                self.block();
            } else if !self.start_frame()? {
                return Ok(0);
            }
        }
    }

    /// Goes to the data of the next frame; false at the end of the file.
    fn start_frame(&mut self) -> Result<bool, CaptureError> {
        loop {
            match self.packed.fill(4)? {
                0 if self.frames > 0 => return Ok(false),
                0..4 => return Err(self.fault(PackFault::Cut, self.packed.offset())),
                _ => {}
            }
            let first = self.packed.bytes().first_chunk().copied().unwrap_or_default();
            match first {
                [0x28, 0xb5, 0x2f, 0xfd] => break,
                [0x50..=0x5f, 0x2a, 0x4d, 0x18] => self.skip_frame()?,
                _ => return Err(self.fault(PackFault::Trailing, self.packed.offset())),
            }
        }
        let offset = self.packed.offset();
        let mut lent = Lent { packed: &mut self.packed, error: None };
        let result = self.decoder.reset(&mut lent);
        if let Err(error) = result {
            let lent = lent.error.take();
            return Err(self.reason(&error, lent, offset));
        }
        self.in_frame = true;
        self.frames += 1;
        Ok(true)
    }

    /// A skippable frame: its length, then so many bytes of whatever it may be.
    fn skip_frame(&mut self) -> Result<(), CaptureError> {
        self.frames += 1;
        let offset = self.packed.offset();
        if self.packed.fill(8)? < 8 {
            return Err(self.fault(PackFault::Cut, offset));
        }
        let bytes = self.packed.bytes();
        let len = bytes.get(4..).and_then(|rest| rest.first_chunk()).copied();
        let len = 8 + u64::from(len.map_or(0, u32::from_le_bytes));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if self.packed.skip(len)? < len {
            return Err(self.fault(PackFault::Cut, offset));
        }
        Ok(())
    }

    fn block(&mut self) {
        let offset = self.packed.offset();
        let mut lent = Lent { packed: &mut self.packed, error: None };
        let result = self.decoder.decode_blocks(&mut lent, BlockDecodingStrategy::UptoBlocks(1));
        let Err(error) = result else { return };
        let lent = lent.error.take();
        self.error = Some(self.reason(&error, lent, offset));
        // The decoder keeps back a window until the frame ends, and that is good data: the frame
        // ends here, then.
        let ending = EMPTY_LAST_BLOCK.as_slice();
        if self.decoder.decode_blocks(ending, BlockDecodingStrategy::UptoBlocks(1)).is_err() {
            self.in_frame = false;
        }
    }

    fn end_frame(&mut self) -> Result<(), CaptureError> {
        self.in_frame = false;
        let stated = self.decoder.get_checksum_from_data();
        if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
            return Err(self.fault(PackFault::Checksum, self.packed.offset()));
        }
        Ok(())
    }

    /// What the decoder's complaint means; it started on what lies at `offset`.
    fn reason(
        &self,
        error: &FrameDecoderError,
        lent: Option<CaptureError>,
        offset: u64,
    ) -> CaptureError {
        if let Some(error) = lent {
            return error;
        }
        if self.packed.is_exhausted() {
            return self.fault(PackFault::Cut, self.packed.offset());
        }
        let fault = match error {
            FrameDecoderError::WindowSizeTooBig { .. } => PackFault::Window,
            FrameDecoderError::DictNotProvided { .. } => PackFault::Dictionary,
            FrameDecoderError::ReadFrameHeaderError(_) | FrameDecoderError::FrameHeaderError(_) => {
                PackFault::Header
            }
            _ => PackFault::Data,
        };
        self.fault(fault, offset)
    }

    /// A fault of what starts at `offset`; a cut is where the file ends.
    fn fault(&self, fault: PackFault, offset: u64) -> CaptureError {
        let offset = match fault {
            PackFault::Cut => self.packed.offset() + self.packed.bytes().len() as u64,
            _ => offset,
        };
        let (compression, unpacked) = (Compression::Zstd, self.unpacked);
        CaptureError::Packed { offset, compression, unpacked, fault }
    }
}

/// The packed bytes as the decoder wants them, with the error that reading them met.
struct Lent<'a, R> {
    packed: &'a mut Source<R>,
    error: Option<CaptureError>,
}

impl<R: Read> Read for Lent<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Err(error) = self.packed.fill(out.len().min(1)) {
            self.error = Some(error);
            return Err(io::ErrorKind::Other.into());
        }
        let bytes = self.packed.bytes();
        let len = bytes.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
        }
        self.packed.take(len);
        Ok(len)
    }
}
