//! `roce-pcap decode`.

use std::io::{self, Write};

use clap::ValueEnum;
use roce_pcap::capture::Batch;
use roce_pcap::decode::{Columns, Counts, Decoder, Style};
use roce_pcap::field;

use crate::input::{self, Input};
use crate::{Outcome, expression};

#[derive(clap::Args)]
#[command(after_long_help = expression::HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Also list packets of other protocols
    #[arg(long)]
    all: bool,
    /// Show every field of every header
    #[arg(short = 'V', long, conflicts_with = "format")]
    verbose: bool,
    /// Output: text; json (one array) or jsonl (one object a packet), under Wireshark's field
    /// names; csv (RFC 4180)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Fields to show instead of all, such as number,src,dst,opcode,psn; as text, with tabs
    #[arg(long, value_name = "NAMES", value_parser = Columns::parse, conflicts_with = "verbose")]
    fields: Option<Columns>,
    /// Show only packets for which this holds, such as 'opcode == WRITE_FIRST && dqpn == 0x11'
    #[arg(long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
    /// List the fields that --fields and --where know, and do nothing else
    #[arg(long, exclusive = true)]
    list_fields: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Jsonl,
    Csv,
}

pub(crate) fn run(args: &Args, color: bool, out: &mut impl Write) -> io::Result<Outcome> {
    if args.list_fields {
        return list_fields(out);
    }
    let style = match (args.format, args.verbose) {
        (Format::Json, _) => Style::Json,
        (Format::Jsonl, _) => Style::JsonLines,
        (Format::Csv, _) => Style::Csv,
        (Format::Text, true) => Style::Tree,
        (Format::Text, false) => Style::Line,
    };
    let mut decoder = Decoder::new(style, args.all).color(color);
    if let Some(columns) = &args.fields {
        decoder = decoder.columns(columns.clone());
    }
    match expression::parse(args.filter.as_deref()) {
        Ok(Some(filter)) => decoder = decoder.filter(filter),
        Ok(None) => {}
        Err(outcome) => return Ok(outcome),
    }
    let mut outcome = Outcome::Clean;
    decoder.start(out)?;
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
    decoder.finish(out)?;
    match (args.format, &args.fields) {
        (Format::Jsonl, _) => write_json_summary(decoder.counts(), out)?,
        (Format::Text, None) => write_summary(decoder.counts(), args.filter.is_some(), out)?,
        // Nothing but what was asked for.
        _ => {}
    }
    Ok(outcome)
}

fn write_json_summary(counts: Counts, out: &mut impl Write) -> io::Result<()> {
    let Counts { packets, roce_packets, malformed, native_packets, pauses, shown } = counts;
    writeln!(
        out,
        "{{\"summary\":{{\"packets\":{packets},\"roce_packets\":{roce_packets},\
         \"malformed\":{malformed},\"native_packets\":{native_packets},\"pauses\":{pauses},\
         \"shown\":{shown}}}}}"
    )
}

fn write_summary(counts: Counts, filtered: bool, out: &mut impl Write) -> io::Result<()> {
    let Counts { packets, roce_packets, malformed, native_packets, pauses, shown } = counts;
    write!(out, "{packets} packets: {roce_packets} RoCEv2 ({malformed} malformed)")?;
    // What most captures have none of.
    if native_packets > 0 {
        write!(out, ", {native_packets} RoCE v1 or InfiniBand")?;
    }
    if pauses > 0 {
        write!(out, ", {pauses} PAUSE or PFC")?;
    }
    write!(out, ", {} other", packets - roce_packets - native_packets - pauses)?;
    if filtered {
        write!(out, "; {shown} shown")?;
    }
    writeln!(out)
}

/// A table of all fields: names, kind, meaning.
fn list_fields(out: &mut impl Write) -> io::Result<Outcome> {
    for layer in field::Layer::ALL {
        writeln!(out, "{} ({})", layer.heading(), layer.word())?;
        for field in layer.fields() {
            let (name, short) = (field.name, field.short.unwrap_or("-"));
            let kind = match field.kind {
                field::Kind::Word(words) => words.join("|"),
                kind => kind.name().to_owned(),
            };
            let list = if field.is_list() { ", several" } else { "" };
            writeln!(out, "  {name:40} {short:12} {kind}{list}: {}", field.label)?;
        }
    }
    Ok(Outcome::Clean)
}
