//! `roce-pcap annotate`.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use roce_pcap::annotate::Annotations;
use roce_pcap::capture::{CaptureError, CopyError, Reader, copy_with_comments};
use roce_pcap::check::{Checker, Profile};

use crate::{Outcome, input, output, profile};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The capture; `-` for standard input
    input: PathBuf,
    /// Where to: pcapng, compressed if the name ends in .gz; `-` for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// What is known of the devices: irdma, mlx5, rockhopper, rxe, strict, or a file of your own
    #[arg(long, value_name = "NAME|FILE", value_parser = profile::parse)]
    profile: Option<Profile>,
}

pub(crate) fn run(args: &Args) -> io::Result<Outcome> {
    let unreadable = |error: &CaptureError| {
        input::complain(&args.input.display().to_string(), error);
        Ok(Outcome::Unusable)
    };
    let mut file = match rewindable(&args.input) {
        Ok(file) => file,
        Err(source) => return unreadable(&CaptureError::Io { offset: 0, source }),
    };
    let reader = match Reader::new(&file) {
        Ok(reader) => reader,
        Err(error) => return unreadable(&error),
    };
    let checker = args.profile.clone().map_or_else(Checker::new, Checker::with_profile);
    let annotations = Annotations::of(reader, checker);
    file.rewind()?;
    let Some(mut sink) = output::sink(&args.output) else { return Ok(Outcome::Unusable) };
    let comments = |packet| annotations.comments(packet);
    let copied = copy_with_comments(&file, &mut sink, &annotations.about(), comments);
    sink.finish()?;
    match copied {
        Ok(()) => Ok(Outcome::Clean),
        Err(CopyError::Read(error)) => unreadable(&error),
        Err(CopyError::Write(error)) => Err(error),
    }
}

/// A file that can be read twice: standard input, and what else cannot be rewound, is put into a
/// temporary one, which has no name by the time it is read.
fn rewindable(path: &Path) -> io::Result<File> {
    let mut file = if path == Path::new("-") {
        spool(&mut io::stdin().lock())?
    } else {
        let mut file = File::open(path)?;
        if file.stream_position().is_ok() { file } else { spool(&mut file)? }
    };
    file.rewind()?;
    Ok(file)
}

fn spool(from: &mut impl io::Read) -> io::Result<File> {
    for attempt in 0..100_u32 {
        let name = format!("roce-pcap-{}-{attempt}.spool", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        match options.read(true).write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                std::fs::remove_file(&path)?;
                io::copy(from, &mut file)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
