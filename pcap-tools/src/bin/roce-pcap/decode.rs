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
    /// Also list packets that are not RoCEv2
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
    let other = counts.packets - counts.roce_packets;
    match style {
        Style::JsonLines => writeln!(
            out,
            "{{\"summary\":{{\"packets\":{},\"roce_packets\":{},\"malformed\":{}}}}}",
            counts.packets, counts.roce_packets, counts.malformed
        )?,
        _ => writeln!(
            out,
            "{} packets: {} RoCEv2 ({} malformed), {other} other",
            counts.packets, counts.roce_packets, counts.malformed
        )?,
    }
    Ok(outcome)
}
