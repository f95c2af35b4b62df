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
//!     }
//! }
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use roce_pcap::capture::{Batch, CaptureError, Reader};

/// Where the packets come from.
#[derive(clap::Args)]
pub(crate) struct Input {
    /// The captures, pcap or pcapng, each by itself; `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The captures in the order given. One that cannot be opened says so when it is read.
pub(crate) fn open(input: &Input) -> impl Iterator<Item = Capture> {
    input.files.iter().map(|path| open_path(path))
}

/// One capture by its path, `-` for standard input.
pub(crate) fn open_path(path: &Path) -> Capture {
    Capture { path: path.to_path_buf(), state: State::Unopened }
}

impl Input {
    /// Whether there is more than one capture, so that output must say which it is of.
    pub(crate) fn is_many(&self) -> bool {
        self.files.len() > 1
    }
}

/// One capture.
pub(crate) struct Capture {
    path: PathBuf,
    state: State,
}

enum State {
    Unopened,
    Open(Reader<Box<dyn Read>>),
    Failed,
}

impl Capture {
    /// What the command line calls it.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether its packets arrive while somebody waits for them, so that output should not be
    /// held back until the end.
    pub(crate) fn is_live(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Fills `batch` with the packets that come next; 0 at the end. An error comes once; what is
    /// still readable comes after it.
    pub(crate) fn fill(&mut self, batch: &mut Batch) -> Result<usize, CaptureError> {
        self.opened()?.map_or(Ok(0), |reader| reader.fill(batch))
    }

    fn opened(&mut self) -> Result<Option<&mut Reader<Box<dyn Read>>>, CaptureError> {
        if matches!(self.state, State::Unopened) {
            self.state = State::Failed;
            let read: Box<dyn Read> = if self.is_live() {
                Box::new(io::stdin().lock())
            } else {
                let file = File::open(&self.path);
                Box::new(file.map_err(|source| CaptureError::Io { offset: 0, source })?)
            };
            self.state = State::Open(Reader::new(read)?);
        }
        Ok(match &mut self.state {
            State::Open(reader) => Some(reader),
            _ => None,
        })
    }

    /// Says on standard error what is wrong with it.
    pub(crate) fn complain(&self, error: &CaptureError) {
        complain(&self.name(), error);
    }
}

/// Says on standard error what is wrong with the capture of that name.
pub(crate) fn complain(name: &str, error: &CaptureError) {
    eprintln!("roce-pcap: {name}: {error}");
    let advice = match error {
        CaptureError::Truncated { .. } => "everything before that was read",
        CaptureError::Damaged { .. } => "everything before that was read; nothing after it can be",
        CaptureError::NotACapture(_) => "give a file that tcpdump, dumpcap or roce-responder wrote",
        _ => return,
    };
    eprintln!("roce-pcap: {name}: {advice}");
}
