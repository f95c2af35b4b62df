//! Capture files as one stream of packets.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::growing::{Follow, Growing};
use super::{Batch, CaptureError, PackFault, Reader, rotation};

/// The files of one capture, in order: a single one, or those that tcpdump (`-C`, `-G`, `-W`) or
/// dumpcap (`-b`) cut it into. Packets are numbered through all of them, as in the file that
/// mergecap would make; [`FileSet::locate`] finds the one file.
///
/// ```no_run
/// use roce_pcap::capture::{Batch, FileSet};
///
/// let mut set = FileSet::rotated_like("trace_00001_20261130120000.pcapng")?;
/// let mut batch = Batch::new();
/// while set.fill(&mut batch)? > 0 {
///     for packet in batch.packets() {
///         let (path, number) = set.locate(packet.number).expect("it was read");
///         println!("{} {number}", path.display());
///     }
/// }
/// # Ok::<(), roce_pcap::capture::FileError>(())
/// ```
#[derive(Debug)]
pub struct FileSet {
    files: Vec<PathBuf>,
    /// Packets in front of each file that has been opened.
    before: Vec<u64>,
    current: Option<Reader<Opened>>,
    /// Packets of all files so far.
    packets: u64,
    follow: Option<Follow>,
    rotated: bool,
}

/// What is wrong with a file of a set.
#[derive(Debug)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: CaptureError,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

#[derive(Debug)]
enum Opened {
    Whole(File),
    Growing(Growing),
}

impl Read for Opened {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Whole(file) => file.read(out),
            Self::Growing(file) => file.read(out),
        }
    }
}

impl FileSet {
    /// One file.
    #[must_use]
    pub fn single(path: impl Into<PathBuf>) -> Self {
        Self::of(vec![path.into()], false)
    }

    /// Files that are one capture. Their first packets' times say in which order; files that have
    /// none, or cannot be read, come last.
    #[must_use]
    pub fn rotated(mut files: Vec<PathBuf>) -> Self {
        rotation::sort(&mut files);
        Self::of(files, true)
    }

    /// The file and all beside it that have its name but for the numbers and times which tcpdump
    /// and dumpcap put there.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if the folder cannot be listed.
    pub fn rotated_like(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        let path = path.into();
        match rotation::siblings(&path) {
            // What does not exist says so when it is read.
            Ok(files) if files.is_empty() => Ok(Self::single(path)),
            Ok(files) => Ok(Self::rotated(files)),
            Err(source) => Err(FileError { path, error: CaptureError::Io { offset: 0, source } }),
        }
    }

    fn of(files: Vec<PathBuf>, rotated: bool) -> Self {
        Self { files, before: Vec::new(), current: None, packets: 0, follow: None, rotated }
    }

    /// Waits at the end of the last file for what has not been written yet; of a rotated set also
    /// for the files that follow it. A record half written when it is stopped is no error.
    #[must_use]
    pub fn follow(self, follow: Follow) -> Self {
        Self { follow: Some(follow), ..self }
    }

    /// Replaces what `batch` holds by the packets that come next, all of one file; says how many,
    /// 0 at the end of the last file.
    ///
    /// # Errors
    /// [`FileError`] once a file, where it stops making sense; the next file comes after it.
    pub fn fill(&mut self, batch: &mut Batch) -> Result<usize, FileError> {
        batch.start(0);
        while self.open_next()? {
            let Some(reader) = &mut self.current else { continue };
            match reader.fill(batch) {
                Ok(0) => self.current = None,
                Ok(count) => {
                    self.packets += count as u64;
                    return Ok(count);
                }
                Err(error) => self.end_file(error)?,
            }
        }
        Ok(0)
    }

    /// The file that packet `number` of the set is in, and its number there.
    #[must_use]
    pub fn locate(&self, number: u64) -> Option<(&Path, u64)> {
        let index = self.before.partition_point(|before| *before < number).checked_sub(1)?;
        let path = self.files.get(index)?;
        Some((path, number - self.before.get(index)?))
    }

    /// Files so far, in order.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Opens the next file if none is open; false if there is none to open.
    fn open_next(&mut self) -> Result<bool, FileError> {
        if self.current.is_some() {
            return Ok(true);
        }
        if self.before.len() == self.files.len() {
            let Some(successor) = self.successor() else { return Ok(false) };
            self.files.push(successor);
        }
        let Some(path) = self.files.get(self.before.len()) else { return Ok(false) };
        let is_last = self.before.len() + 1 == self.files.len();
        let before = self.packets;
        self.before.push(before);
        let opened = match &self.follow {
            Some(follow) if is_last => {
                Growing::open(path, follow.clone(), self.rotated).map(Opened::Growing)
            }
            _ => File::open(path).map(Opened::Whole),
        };
        let result =
            opened.map_err(|source| CaptureError::Io { offset: 0, source }).and_then(Reader::new);
        match result {
            Ok(reader) => self.current = Some(reader.counting_from(before)),
            Err(error) => self.end_file(error)?,
        }
        Ok(true)
    }

    /// The file that the writer of the last one went on with.
    fn successor(&self) -> Option<PathBuf> {
        let follow = self.follow.as_ref()?;
        if !self.rotated || follow.is_stopped() {
            return None;
        }
        rotation::successor(self.files.last()?)
    }

    /// Lets go of the current file, in which nothing more can be read.
    fn end_file(&mut self, error: CaptureError) -> Result<(), FileError> {
        self.current = None;
        let stopped = self.follow.as_ref().is_some_and(Follow::is_stopped);
        match error {
            // It is still being written, and somebody has seen enough.
            CaptureError::Truncated { .. } | CaptureError::Empty if stopped => Ok(()),
            CaptureError::Packed { fault: PackFault::Cut, .. } if stopped => Ok(()),
            error => {
                let path = self.files.get(self.before.len() - 1).cloned().unwrap_or_default();
                Err(FileError { path, error })
            }
        }
    }
}
