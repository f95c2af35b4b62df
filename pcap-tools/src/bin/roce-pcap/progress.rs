//! How far a long input has been read, on the terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// What takes longer than this shows how far it is.
const AFTER: Duration = Duration::from_secs(1);
/// Between two looks at the bar.
const EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: u64 = 30;

/// A line on standard error that says how far a capture has been read. It is only drawn if
/// standard error is a terminal and standard output is not: there, the output itself shows that
/// something happens.
pub(crate) struct Bar {
    seen: bool,
    /// The file's length, where offsets of packets are offsets in it.
    len: Option<u64>,
    begun: Instant,
    drawn: Option<Instant>,
}

impl Bar {
    /// For a capture. What has no length yet, or whose bytes are packed, is counted in packets.
    pub(crate) fn new(path: &Path) -> Self {
        let seen = io::stderr().is_terminal() && !io::stdout().is_terminal();
        let len = if seen { plain_len(path) } else { None };
        Self { seen, len, begun: Instant::now(), drawn: None }
    }

    /// The packet of that number and offset has been read.
    pub(crate) fn advance(&mut self, number: u64, offset: u64) {
        if !self.seen {
            return;
        }
        let now = Instant::now();
        let due = self.drawn.map_or(self.begun + AFTER, |drawn| drawn + EVERY);
        if now >= due {
            self.drawn = Some(now);
            let line = line(number, offset, self.len, now - self.begun);
            // The cursor stays in front, so that a message starts at the margin.
            let _ = write!(io::stderr(), "\x1b[2K{line}\r");
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            let _ = write!(io::stderr(), "\x1b[2K\r");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The length of a file that is not packed.
fn plain_len(path: &Path) -> Option<u64> {
    let data = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut magic = [0; 2];
    File::open(path).ok()?.read_exact(&mut magic).ok()?;
    let is_packed = matches!(magic, [0x1f, 0x8b] | [0x28, 0xb5]);
    (!is_packed).then_some(data.len())
}

/// `[=======>      ]  43 %  1200000 packets, 310 MiB/s`
fn line(number: u64, offset: u64, len: Option<u64>, elapsed: Duration) -> String {
    let ms = elapsed.as_millis().max(1);
    let Some(len) = len.filter(|len| offset <= *len) else {
        return format!("{number} packets, {}/s", u128::from(number) * 1000 / ms);
    };
    let filled = usize::try_from(offset * WIDTH / len.max(1)).unwrap_or(0);
    let bar = format!("{}>", "=".repeat(filled));
    let width = usize::try_from(WIDTH).unwrap_or(0) + 1;
    let percent = offset * 100 / len.max(1);
    let rate = (u128::from(offset) * 1000 / ms) >> 20;
    format!("[{bar:width$}] {percent:3} %  {number} packets, {rate} MiB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_with_what_is_read() {
        let second = Duration::from_secs(1);
        let empty = line(1, 0, Some(100 << 20), second);
        assert_eq!(empty, format!("[>{:30}]   0 %  1 packets, 0 MiB/s", ""));
        let half = line(9, 50 << 20, Some(100 << 20), second);
        assert_eq!(half, format!("[{}>{:15}]  50 %  9 packets, 50 MiB/s", "=".repeat(15), ""));
        assert_eq!(line(500, 1 << 30, None, second), "500 packets, 500/s");
        assert_eq!(line(500, 101, Some(100), second), "500 packets, 500/s", "it grew meanwhile");
        assert!(line(1, 0, Some(0), Duration::ZERO).contains(" 0 %"));
    }
}
