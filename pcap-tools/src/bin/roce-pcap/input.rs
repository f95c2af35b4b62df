//! Captures named on the command line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use roce_pcap::capture::{CaptureError, Reader};

/// Opens a capture; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Reader<Box<dyn Read>>, CaptureError> {
    let read: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?)
    };
    Reader::new(read)
}

/// Says on standard error what is wrong with a capture.
pub(crate) fn complain(path: &Path, error: &CaptureError) {
    eprintln!("roce-pcap: {}: {error}", path.display());
    let advice = match error {
        CaptureError::Truncated { .. } => "everything before that was read",
        CaptureError::Damaged { .. } => "everything before that was read; nothing after it can be",
        CaptureError::NotACapture(_) => "give a file that tcpdump, dumpcap or roce-responder wrote",
        _ => return,
    };
    eprintln!("roce-pcap: {}: {advice}", path.display());
}
