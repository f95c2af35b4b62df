//! `roce-pcap decode`.

use std::io::{self, Write};

use clap::ValueEnum;
use roce_pcap::capture::Batch;
use roce_pcap::decode::{Decoder, Style};

use crate::Outcome;
use crate::input::{self, Input};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Also list packets of other protocols
    #[arg(long)]
    all: bool,
    /// Show every field of every header
    #[arg(short = 'V', long, conflicts_with = "format")]
    verbose: bool,
    /// Output: text, or jsonl (one JSON object a packet, under Wireshark's field names)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let style = match (args.format, args.verbose) {
        (Format::Jsonl, _) => Style::JsonLines,
        (Format::Text, true) => Style::Tree,
        (Format::Text, false) => Style::Line,
    };
    let mut decoder = Decoder::new(style, args.all);
    let mut outcome = Outcome::Clean;
    let mut batch = Batch::new();
    for mut capture in input::open(&args.input) {
        loop {
            match capture.fill(&mut batch) {
                Ok(0) => break,
                Ok(_) => {
                    for packet in batch.packets() {
                        decoder.packet(&packet, out)?;
                    }
                    if capture.is_live() {
                        out.flush()?;
                    }
                }
                Err(error) => {
                    out.flush()?;
                    capture.complain(&error);
                    outcome = Outcome::Unusable;
                }
            }
        }
    }
    let counts = decoder.counts();
    let (native, pauses) = (counts.native_packets, counts.pauses);
    let other = counts.packets - counts.roce_packets - native - pauses;
    match style {
        Style::JsonLines => writeln!(
            out,
            "{{\"summary\":{{\"packets\":{},\"roce_packets\":{},\"malformed\":{},\
             \"native_packets\":{native},\"pauses\":{pauses}}}}}",
            counts.packets, counts.roce_packets, counts.malformed
        )?,
        _ => {
            write!(
                out,
                "{} packets: {} RoCEv2 ({} malformed)",
                counts.packets, counts.roce_packets, counts.malformed
            )?;
            // What most captures have none of.
            if native > 0 {
                write!(out, ", {native} RoCE v1 or InfiniBand")?;
            }
            if pauses > 0 {
                write!(out, ", {pauses} PAUSE or PFC")?;
            }
            writeln!(out, ", {other} other")?;
        }
    }
    Ok(outcome)
}
