//! Captures that are written, named on the command line.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use roce_pcap::capture::{CaptureWriter, LinkType, PcapWriter, PcapngWriter};

/// Where the bytes of a capture go.
pub(crate) type Sink = Box<dyn Write>;

/// Opens a file, or standard output for `-`; complains if it cannot.
pub(crate) fn sink(path: &Path) -> Option<Sink> {
    if path == Path::new("-") {
        return Some(Box::new(io::stdout().lock()));
    }
    match File::create(path) {
        Ok(file) => Some(Box::new(file)),
        Err(error) => {
            complain(path, &error);
            None
        }
    }
}

/// Starts a capture of one Ethernet interface: classic pcap if the name ends in `.pcap`, else
/// pcapng.
pub(crate) fn create(path: &Path) -> Option<CaptureWriter<Sink>> {
    let sink = sink(path)?;
    let started = if is_pcap(path) {
        PcapWriter::new(sink, LinkType::ETHERNET).map(CaptureWriter::Pcap)
    } else {
        PcapngWriter::new(sink).map(CaptureWriter::Pcapng)
    };
    started.inspect_err(|error| complain(path, error)).ok()
}

/// Whether a file's name says that it is classic pcap.
pub(crate) fn is_pcap(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pcap")
}

/// Says on standard error why a capture cannot be written.
pub(crate) fn complain(path: &Path, error: &io::Error) {
    eprintln!("roce-pcap: cannot write {}: {error}", path.display());
}
