//! `roce-pcap diff`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use roce_pcap::capture::{CaptureError, Reader};
use roce_pcap::diff::{Difference, Place, Side, Summary, compare};

use crate::{Outcome, input};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The first capture; `-` for standard input
    a: PathBuf,
    /// The second capture of the same traffic
    b: PathBuf,
    /// Output: text, or jsonl (one JSON object a difference, the last line the summary)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// What makes the exit status 1
    #[arg(long, value_enum, default_value_t = FailOn::Lost)]
    fail_on: FailOn,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum FailOn {
    /// Packets out of order, and all below
    Reordered,
    /// Packets in one capture only, and all below
    Lost,
    /// Packets changed in what the ICRC covers
    Changed,
    /// Nothing
    Never,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let mut readers = Vec::new();
    for path in [&args.a, &args.b] {
        match open(path) {
            Ok(reader) => readers.push(reader),
            Err(error) => {
                input::complain(&path.display().to_string(), &error);
                return Ok(Outcome::Unusable);
            }
        }
    }
    let (Some(b), Some(a)) = (readers.pop(), readers.pop()) else { return Ok(Outcome::Unusable) };
    let mut written = Ok(());
    let (summary, errors) = compare(a, b, |difference| {
        if written.is_ok() {
            written = match args.format {
                Format::Text => write_text(difference, out),
                Format::Jsonl => write_json(difference, out),
            };
        }
    });
    written?;
    match args.format {
        Format::Text => write_summary(&summary, out)?,
        Format::Jsonl => write_json_summary(&summary, out)?,
    }
    for (side, error) in &errors {
        out.flush()?;
        let path = if *side == Side::A { &args.a } else { &args.b };
        input::complain(&path.display().to_string(), error);
    }
    let [only_a, only_b] = summary.only;
    let differ = match args.fail_on {
        FailOn::Reordered => summary.reordered + only_a + only_b + summary.changed,
        FailOn::Lost => only_a + only_b + summary.changed,
        FailOn::Changed => summary.changed,
        FailOn::Never => 0,
    };
    Ok(match (errors.is_empty(), differ) {
        (false, _) => Outcome::Unusable,
        (true, 0) => Outcome::Clean,
        (true, _) => Outcome::Findings,
    })
}

/// A capture that is held against another one; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Reader<Box<dyn Read>>, CaptureError> {
    let read: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?)
    };
    Reader::new(read)
}

fn text(place: &Place) -> String {
    match place.roce {
        Some((flow, opcode, psn)) => format!("packet {}, {flow} {opcode} PSN {psn}", place.number),
        None => format!("packet {}, another protocol", place.number),
    }
}

fn write_text(difference: &Difference, out: &mut impl Write) -> io::Result<()> {
    match difference {
        Difference::Only(side, place) => writeln!(out, "only in {}: {}", side.name(), text(place)),
        Difference::Changed { a, b, changes } => {
            let names: Vec<_> = changes.iter().map(|change| change.name()).collect();
            writeln!(out, "changed: {} of A, {} of B: {}", text(a), b.number, names.join(", "))
        }
        Difference::Reordered { a, b } => {
            writeln!(out, "out of order in B: {} of A, {} of B", text(a), b.number)
        }
    }
}

fn write_json(difference: &Difference, out: &mut impl Write) -> io::Result<()> {
    let place = |place: &Place| {
        let (flow, opcode, psn) = match place.roce {
            Some((flow, opcode, psn)) => {
                (Some(flow.to_string()), Some(opcode.to_string()), Some(psn.get()))
            }
            None => (None, None, None),
        };
        serde_json::json!({
            "packet": place.number,
            "time_ns": place.time_ns,
            "flow": flow,
            "opcode": opcode,
            "psn": psn,
        })
    };
    let value = match difference {
        Difference::Only(side, one) => {
            serde_json::json!({"difference": "only", "in": side.name(), "packet": place(one)})
        }
        Difference::Changed { a, b, changes } => {
            let names: Vec<_> = changes.iter().map(|change| change.name()).collect();
            serde_json::json!({"difference": "changed", "a": place(a), "b": place(b), "fields": names})
        }
        Difference::Reordered { a, b } => {
            serde_json::json!({"difference": "reordered", "a": place(a), "b": place(b)})
        }
    };
    writeln!(out, "{value}")
}

fn write_summary(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let Summary { packets: [a, b], matched, only: [only_a, only_b], .. } = summary;
    let Summary { changed, rewritten, reordered, marked: [marked_a, marked_b], .. } = summary;
    writeln!(out, "{a} packets in A, {b} in B, {matched} in both")?;
    writeln!(out, "{only_a} only in A, {only_b} only in B, {reordered} out of order")?;
    writeln!(out, "{changed} changed, {rewritten} changed in what may change on the way")?;
    writeln!(
        out,
        "{} marked CE in between: {marked_b} seen at B alone, {marked_a} at A alone",
        marked_a + marked_b
    )?;
    let delays = &summary.delays;
    if let (Some(least), Some(median), Some(p99), Some(greatest)) = (
        delays.least_ns(),
        delays.per_mille_ns(500),
        delays.per_mille_ns(990),
        delays.greatest_ns(),
    ) {
        writeln!(out, "A to B: least {least} ns, half {median}, 99 % {p99}, greatest {greatest}")?;
    }
    Ok(())
}

fn write_json_summary(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let Summary { packets, matched, only, changed, rewritten, reordered, marked, delays } = summary;
    let value = serde_json::json!({"summary": {
        "packets": packets,
        "matched": matched,
        "only": only,
        "changed": changed,
        "rewritten": rewritten,
        "reordered": reordered,
        "marked": marked,
        "delay_ns": {
            "min": delays.least_ns(),
            "p50": delays.per_mille_ns(500),
            "p99": delays.per_mille_ns(990),
            "max": delays.greatest_ns(),
        },
    }});
    writeln!(out, "{value}")
}
