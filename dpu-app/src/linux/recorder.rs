//! Capture files of what passes a port.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use roce_dataplane::port::capture::{CaptureSink, Direction};
use roce_pcap::capture::{self, PcapngWriter};

/// Writes what it is shown to a capture file.
#[derive(Debug)]
pub(crate) struct Recorder<T = fn() -> u64> {
    /// Nanoseconds since 1970.
    clock: T,
    writer: PcapngWriter<File>,
    path: PathBuf,
    failed: Option<std::io::Error>,
}

impl<T> Recorder<T> {
    /// A file of frames that pass an interface of this name, with times from `clock`, in
    /// nanoseconds since 1970.
    pub(crate) fn create(path: &Path, interface: &str, clock: T) -> Result<Self> {
        let writer = File::create(path)
            .and_then(|file| PcapngWriter::with_interface(file, interface))
            .with_context(|| format!("{}: cannot write the capture", path.display()))?;
        Ok(Self { clock, writer, path: path.to_owned(), failed: None })
    }

    /// Completes the file.
    ///
    /// # Errors
    /// What kept a frame from being written, the first time.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let failed = self.failed.take();
        failed
            .map_or_else(|| self.writer.flush(), Err)
            .with_context(|| format!("{}: the capture is not complete", self.path.display()))
    }
}

impl<T: FnMut() -> u64> CaptureSink for Recorder<T> {
    fn frame(&mut self, direction: Direction, segments: [&[u8]; 2]) {
        let direction = match direction {
            Direction::Rx => capture::Direction::Inbound,
            Direction::Tx => capture::Direction::Outbound,
        };
        if self.failed.is_none() {
            self.failed = self.writer.write_packet((self.clock)(), direction, segments).err();
        }
    }
}
