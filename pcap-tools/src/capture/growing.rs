//! A file that somebody still writes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::rotation;

/// How a file that is still being written is read: what has not been written yet is waited for.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Ends when the file has not grown for so long; never without.
    pub idle: Option<Duration>,
    /// Ends when somebody sets it, a signal handler for instance.
    pub stop: Arc<AtomicBool>,
}

impl Follow {
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Between two looks at the file's end.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks for a file that continues it.
const LOOK_ROUND: Duration = Duration::from_millis(200);

/// Reads a file and waits at its end.
#[derive(Debug)]
pub(super) struct Growing {
    file: File,
    path: PathBuf,
    follow: Follow,
    /// Whether a file that continues this one ends it.
    rotated: bool,
    read: u64,
}

impl Growing {
    pub(super) fn open(path: &Path, follow: Follow, rotated: bool) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, path: path.to_owned(), follow, rotated, read: 0 })
    }

    /// Whether the file is shorter than what was read of it.
    fn is_overwritten(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        Ok(metadata.is_file() && metadata.len() < self.read)
    }
}

impl Read for Growing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        let mut looked = since;
        let mut ending = false;
        loop {
            let len = self.file.read(out)?;
            if len > 0 || ending || self.follow.is_stopped() {
                self.read += len as u64;
                return Ok(len);
            }
            if self.is_overwritten()? {
                return Err(io::Error::other("the file was overwritten while it was being read"));
            }
            if self.follow.idle.is_some_and(|idle| since.elapsed() >= idle) {
                return Ok(0);
            }
            if self.rotated && looked.elapsed() >= LOOK_ROUND {
                // Its writer has closed it, then: what it holds now is all.
                ending = rotation::successor(&self.path).is_some();
                looked = Instant::now();
            }
            if !ending {
                sleep(PAUSE);
            }
        }
    }
}
