//! `roce-pcap replay`.

mod wire;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use roce_pcap::capture::Batch;
use roce_pcap::replay::{Recording, Replay};

use crate::Outcome;
use crate::input::{self, Capture, Input};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Another capture of the same traffic, from the other side of where it is lost: each responder
    /// is given what the tap nearer to it saw
    #[arg(long, value_name = "FILE")]
    second_tap: Option<PathBuf>,
    /// Print what our responder would be given, and stop
    #[arg(long)]
    plan: bool,
    /// Also list the permitted differences, one a line
    #[arg(long)]
    freedoms: bool,
    /// Output: text, or jsonl (one JSON object a line, the last one the summary)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// MiB of the capture, of learned memory and of our answers that are held, each
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    #[command(flatten)]
    wire: wire::WireArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let limit = args.memory.saturating_mul(1 << 20);
    let mut unusable = false;
    // Several files are one capture, in the order given.
    let recording = read(input::open(&args.input), limit, &mut unusable);
    let second = args.second_tap.as_ref().map(|path| {
        let capture = input::open_path(path);
        read(std::iter::once(capture), limit, &mut unusable)
    });
    if recording.total() == 0 && unusable {
        return Ok(Outcome::Unusable);
    }
    let replay = Replay::new(recording, second);
    if args.plan {
        let plan = replay.plan();
        match args.format {
            Format::Text => write!(out, "{plan}")?,
            Format::Jsonl => plan.write_json(out)?,
        }
        return Ok(if unusable { Outcome::Unusable } else { Outcome::Clean });
    }
    let report = match &args.wire.port {
        Some(port) => wire::send(&args.wire, port, &replay),
        None => replay.run(limit).map_err(|error| error.to_string()),
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            eprintln!("roce-pcap: {error}");
            return Ok(Outcome::Unusable);
        }
    };
    match args.format {
        Format::Text => report.write_text(args.freedoms, out)?,
        Format::Jsonl => report.write_json(out)?,
    }
    Ok(match (unusable, report.is_clean()) {
        (true, _) => Outcome::Unusable,
        (false, false) => Outcome::Findings,
        (false, true) => Outcome::Clean,
    })
}

/// Reads captures; what is wrong with them is said, and what can be read is used.
fn read(captures: impl Iterator<Item = Capture>, limit: usize, unusable: &mut bool) -> Recording {
    let mut recording = Recording::new(limit);
    let mut batch = Batch::new();
    for mut capture in captures {
        loop {
            match capture.fill(&mut batch) {
                Ok(0) => break,
                Ok(_) => batch.packets().for_each(|packet| recording.push(&packet)),
                Err(error) => {
                    capture.complain(&error);
                    *unusable = true;
                }
            }
            if recording.is_full() {
                let (name, next, mib) = (capture.name(), recording.total() + 1, limit >> 20);
                eprintln!(
                    "roce-pcap: {name}: more than {mib} MiB: from packet {next} on nothing is \
                     replayed; --memory allows more"
                );
                *unusable = true;
                return recording;
            }
        }
    }
    recording
}
