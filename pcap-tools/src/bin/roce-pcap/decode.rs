//! `roce-pcap decode`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use roce_pcap::decode::{Decoder, Style};

use crate::{Outcome, input};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The capture, pcap or pcapng; `-` for standard input
    file: PathBuf,
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
    let mut reader = match input::open(&args.file) {
        Ok(reader) => reader,
        Err(error) => {
            input::complain(&args.file, &error);
            return Ok(Outcome::Unusable);
        }
    };
    let style = match (args.format, args.verbose) {
        (Format::Jsonl, _) => Style::JsonLines,
        (Format::Text, true) => Style::Tree,
        (Format::Text, false) => Style::Line,
    };
    let mut decoder = Decoder::new(style, args.all);
    let mut outcome = Outcome::Clean;
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(packet) => decoder.packet(&packet, out)?,
            Err(error) => {
                out.flush()?;
                input::complain(&args.file, &error);
                outcome = Outcome::Unusable;
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
