//! Captures named on the command line: the one place that knows where packets come from.
//!
//! A command flattens [`Input`] into its arguments and reads what [`open`] gives:
//!
//! ```ignore
//! for mut capture in input::open(&args.input) {
//!     loop {
//!         match capture.fill(&mut batch) {
//!             Ok(0) => break,
//!             Ok(_) => for packet in batch.packets() { ... },
//!             Err(error) => { out.flush()?; capture.complain(&error); unusable = true; }
//!         }
//!         if capture.is_live() { out.flush()?; }
//!     }
//! }
//! ```

use std::borrow::Cow;
use std::io::{self, Stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use roce_pcap::capture::{Batch, CaptureError, FileError, FileSet, Follow, Reader};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::progress::Bar;

/// Where the packets come from.
#[derive(clap::Args)]
pub(crate) struct Input {
    /// The captures, each by itself: pcap or pcapng, plain or packed by gzip or zstd; `-` for
    /// standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The files are one capture that tcpdump -C or dumpcap -b cut in pieces, in whatever order
    /// they are given; of a single one the others beside it are found by its name
    #[arg(long)]
    rotated: bool,
    /// Go on when the file grows, until interrupted (with --rotated also to the next file)
    #[arg(short = 'F', long)]
    follow: bool,
    /// With --follow: end when nothing has been written for so many seconds
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = seconds)]
    idle: Option<Duration>,
}

impl Input {
    /// The file, if it is a single one that is whole already, so that it can be read again.
    pub(crate) fn single_file(&self) -> Option<&Path> {
        match self.files.as_slice() {
            [path] if !is_stdin(path) && !self.rotated && !self.follow => Some(path),
            _ => None,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is wanted".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Whether a path stands for standard input.
fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The captures in the order given. One that cannot be opened says so when it is read.
pub(crate) fn open(input: &Input) -> impl Iterator<Item = Capture> {
    let follow = input.follow.then(|| Follow { idle: input.idle, stop: Arc::default() });
    let live = follow.is_some() || input.files.iter().any(|path| is_stdin(path));
    if live {
        outlive_interrupts(follow.as_ref().map(|follow| &follow.stop));
    }
    let many = input.files.len() > 1 && !input.rotated;
    let pieces = if input.rotated { input.files.len().max(1) } else { 1 };
    input.files.chunks(pieces).map(move |paths| {
        let packets = match paths {
            [path] if is_stdin(path) => Packets::Stdin(None),
            [path] if input.rotated => Packets::like(path),
            [path] => Packets::Files(FileSet::single(path)),
            paths => Packets::Files(FileSet::rotated(paths.to_vec())),
        };
        let packets = match (packets, &follow) {
            (Packets::Files(set), Some(follow)) => Packets::Files(set.follow(follow.clone())),
            (packets, _) => packets,
        };
        let path = paths.first().cloned().unwrap_or_default();
        let bar = Bar::new(&path);
        Capture { path, packets, many, live, bar }
    })
}

/// One capture by its path, `-` for standard input.
pub(crate) fn open_path(path: &Path) -> Capture {
    let packets = match is_stdin(path) {
        true => Packets::Stdin(None),
        false => Packets::Files(FileSet::single(path)),
    };
    let (many, live) = (false, is_stdin(path));
    Capture { path: path.to_owned(), packets, many, live, bar: Bar::new(path) }
}

/// An interrupt ends what we wait for, not us: the summary is still to be written. Whoever
/// captures for us ends by the same key, and standard input with it. The second one ends us.
fn outlive_interrupts(stop: Option<&Arc<AtomicBool>>) {
    let stop = stop.cloned().unwrap_or_default();
    for signal in [SIGINT, SIGTERM] {
        let registered = flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()));
        if let Err(error) = registered {
            eprintln!("roce-pcap: an interrupt will end it without a summary: {error}");
        }
    }
}

/// One capture: a file, a set of them or standard input.
pub(crate) struct Capture {
    path: PathBuf,
    packets: Packets,
    many: bool,
    live: bool,
    bar: Bar,
}

enum Packets {
    Files(FileSet),
    /// Opened when it is first read.
    Stdin(Option<Reader<Stdin>>),
    Failed(Option<FileError>),
}

impl Packets {
    /// The set that a file belongs to.
    fn like(path: &Path) -> Self {
        match FileSet::rotated_like(path) {
            Ok(set) => Self::Files(set),
            Err(error) => Self::Failed(Some(error)),
        }
    }
}

impl Capture {
    /// What the command line calls it; a set by its first file there.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// The file that a packet is in, where output must say so: there are several captures, or
    /// this one has several files.
    pub(crate) fn file_of(&self, packet: u64) -> Option<Cow<'_, str>> {
        match &self.packets {
            Packets::Files(set) if set.files().len() > 1 => {
                Some(set.locate(packet)?.0.to_string_lossy())
            }
            _ => self.many.then(|| self.name()),
        }
    }

    /// Whether its packets arrive while somebody waits for them, so that output should not be
    /// held back until the end.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Fills `batch` with the packets that come next; 0 at the end. An error comes once; what is
    /// still readable comes after it.
    pub(crate) fn fill(&mut self, batch: &mut Batch) -> Result<usize, FileError> {
        let filled = self.next(batch);
        match batch.packets().last() {
            Some(packet) if filled.is_ok() => self.bar.advance(packet.number, packet.offset),
            _ => self.bar.clear(),
        }
        filled
    }

    fn next(&mut self, batch: &mut Batch) -> Result<usize, FileError> {
        let result = match &mut self.packets {
            Packets::Files(set) => return set.fill(batch),
            Packets::Failed(error) => return error.take().map_or(Ok(0), Err),
            Packets::Stdin(Some(reader)) => reader.fill(batch),
            Packets::Stdin(none) => {
                Reader::new(io::stdin()).and_then(|reader| none.insert(reader).fill(batch))
            }
        };
        result.map_err(|error| {
            if matches!(self.packets, Packets::Stdin(None)) {
                self.packets = Packets::Failed(None);
            }
            FileError { path: self.path.clone(), error }
        })
    }

    /// Says on standard error what is wrong with it, or with one of its files.
    pub(crate) fn complain(&self, error: &FileError) {
        complain(&error.path.display().to_string(), &error.error);
    }
}

/// Says on standard error what is wrong with the capture of that name.
pub(crate) fn complain(name: &str, error: &CaptureError) {
    eprintln!("roce-pcap: {name}: {error}");
    let advice = match error {
        CaptureError::Truncated { .. } => "everything before that was read",
        CaptureError::Damaged { .. } | CaptureError::Packed { .. } => {
            "everything before that was read; nothing after it can be"
        }
        CaptureError::NotACapture(_) => "give a file that tcpdump, dumpcap or roce-responder wrote",
        _ => return,
    };
    eprintln!("roce-pcap: {name}: {advice}");
}
