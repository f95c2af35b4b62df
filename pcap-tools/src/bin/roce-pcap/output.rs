//! Captures that are written, named on the command line.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use roce_pcap::capture::{CaptureWriter, LinkType, PcapWriter, PcapngWriter};

/// Where the bytes of a capture go.
pub(crate) enum Sink {
    Plain(Box<dyn Write>),
    Gzip(Box<GzEncoder<File>>),
}

impl Sink {
    /// Writes everything out. A sink that is dropped without may lack its end.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut inner) => inner.flush(),
            Self::Gzip(gzip) => gzip.finish().map(drop),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.write(bytes),
            Self::Gzip(gzip) => gzip.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(inner) => inner.flush(),
            Self::Gzip(gzip) => gzip.flush(),
        }
    }
}

/// Opens a file, or standard output for `-`; complains if it cannot. A name that ends in `.gz` is
/// compressed.
pub(crate) fn sink(path: &Path) -> Option<Sink> {
    if path == Path::new("-") {
        return Some(Sink::Plain(Box::new(io::stdout().lock())));
    }
    match File::create(path) {
        Ok(file) if has_extension(path, "gz") => {
            Some(Sink::Gzip(Box::new(GzEncoder::new(file, Compression::default()))))
        }
        Ok(file) => Some(Sink::Plain(Box::new(io::BufWriter::with_capacity(1 << 18, file)))),
        Err(error) => {
            complain(path, &error);
            None
        }
    }
}

/// Starts a capture of one Ethernet interface: classic pcap if the name ends in `.pcap` or
/// `.pcap.gz`, else pcapng.
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
    has_extension(path, "pcap")
        || (has_extension(path, "gz")
            && path.file_stem().is_some_and(|stem| is_pcap(stem.as_ref())))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

/// Says on standard error why a capture cannot be written.
pub(crate) fn complain(path: &Path, error: &io::Error) {
    eprintln!("roce-pcap: cannot write {}: {error}", path.display());
}
