//! `roce-pcap annotate`.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use roce_pcap::annotate::Annotations;
use roce_pcap::capture::{CaptureError, CopyError, Reader, copy_with_comments};
use roce_pcap::check::{Checker, Profile};
use roce_pcap::filter::Selection;

use crate::{Outcome, expression, input, output, profile};

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
    /// Keep only packets for which this holds, such as 'verdict == fail || cm'. All of them are
    /// judged. Expressions: `roce-pcap decode --help`
    #[arg(long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> io::Result<Outcome> {
    let unreadable = |error: &CaptureError| {
        input::complain(&args.input.display().to_string(), error);
        Ok(Outcome::Unusable)
    };
    let filter = match expression::parse(args.filter.as_deref()) {
        Ok(filter) => filter,
        Err(outcome) => return Ok(outcome),
    };
    let mut file = match rewindable(&args.input) {
        Ok(file) => file,
        Err(source) => return unreadable(&CaptureError::Io { offset: 0, source }),
    };
    let reader = match Reader::new(&file) {
        Ok(reader) => reader,
        Err(error) => return unreadable(&error),
    };
    let profile = args.profile.clone().unwrap_or_default();
    let annotations = Annotations::of(reader, Checker::with_profile(profile.clone()));
    file.rewind()?;
    let mut meant = None;
    if let Some(filter) = filter {
        meant = Some(Meant::of(&file, Selection::with_profile(filter, profile)));
        file.rewind()?;
    }
    let Some(mut sink) = output::sink(&args.output) else { return Ok(Outcome::Unusable) };
    let comments = |packet| {
        let is_kept = meant.as_ref().is_none_or(|meant| meant.holds(packet));
        is_kept.then(|| annotations.comments(packet))
    };
    let copied = copy_with_comments(&file, &mut sink, &annotations.about(), comments);
    sink.finish()?;
    match copied {
        Ok(()) => Ok(Outcome::Clean),
        Err(CopyError::Read(error)) => unreadable(&error),
        Err(CopyError::Write(error)) => Err(error),
    }
}

/// The packets that an expression means, by their numbers: a bit for each.
struct Meant(Vec<u64>);

impl Meant {
    /// What cannot be read is told when it is copied.
    fn of(file: &File, mut selection: Selection) -> Self {
        let mut words = Vec::new();
        let Ok(mut reader) = Reader::new(file) else { return Self(words) };
        while let Some(Ok(packet)) = reader.next_packet() {
            let (word, bit) = Self::place(packet.number);
            if selection.takes(&packet) {
                words.resize(words.len().max(word + 1), 0);
                words[word] |= 1 << bit;
            }
        }
        Self(words)
    }

    fn holds(&self, packet: u64) -> bool {
        let (word, bit) = Self::place(packet);
        self.0.get(word).is_some_and(|word| word >> bit & 1 == 1)
    }

    fn place(packet: u64) -> (usize, u64) {
        (usize::try_from(packet / 64).unwrap_or(usize::MAX), packet % 64)
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
