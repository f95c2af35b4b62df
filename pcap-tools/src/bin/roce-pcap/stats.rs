//! `roce-pcap stats`.

use std::io::{self, Write};
use std::num::NonZeroU64;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use roce_codec::dcqcn::Params;
use roce_pcap::capture::{Batch, Packet};
use roce_pcap::check::Profile;
use roce_pcap::filter::{Filter, Selection};
use roce_pcap::report_html::HtmlReport;
use roce_pcap::stats::{Options, Stats, Summary};

use crate::input::{self, Capture, Input};
use crate::{Outcome, expression, profile};

/// What the figures mean.
const FIGURES_HELP: &str = "\
Figures:
  A flow is (source, destination, destination QP): a connection is two, each with the requests of one
  side and what answered them. Bytes are octets, times the tap's.
  latency      from a message's first packet to its completion: an ACK for SEND and WRITE, the last
               response for READ, its own answer for an atomic. Near the requester that is what an
               application waits for; near the responder it is only the responder's own time.
               Quantiles are at most 1 % too high, minimum and maximum are exact.
  goodput      user data of acknowledged messages, from the first packet to the last answer
  sent again   request packets whose PSN was seen before
  losses       by how they showed: sequence_nak, implied_nak (a READ response is missing), timeout,
               answer_lost (seen here, but asked for again), unknown (the capture does not tell)
  recovery     from the NAK, or from the last packet before a timeout, until the missing PSN is
               acknowledged
  pauses       PAUSE and PFC frames: quanta are 512 bit times, so time needs --link-rate";

#[derive(clap::Args)]
#[command(after_long_help = FIGURES_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output: text; json (one object a capture); jsonl (one object a row); csv (RFC 4180)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a report as one page of HTML instead: graphs, tables, findings with their packets
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    html: Option<PathBuf>,
    /// What is known of the devices, for the report's findings: irdma, mlx5, rockhopper, rxe, strict,
    /// or a file of your own
    #[arg(long, value_name = "NAME|FILE", value_parser = profile::parse, requires = "html")]
    profile: Option<Profile>,
    /// Count only packets for which this holds, such as 'dqpn == 0x11 || dqpn == 0x12'; without both
    /// directions of a connection nothing completes. Expressions: `roce-pcap decode --help`
    #[arg(long = "where", value_name = "EXPRESSION")]
    filter: Option<String>,
    /// The rate of the link, such as 100G or 2.5G: for the time of pauses and for DCQCN
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    link_rate: Option<NonZeroU64>,
    /// How senders react to congestion notifications: what the rates of a report and of json follow
    #[arg(long, value_enum, default_value_t = Dcqcn::Paper)]
    dcqcn: Dcqcn,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Jsonl,
    Csv,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dcqcn {
    /// The SIGCOMM 2015 paper
    Paper,
    /// The defaults of ConnectX NICs
    Mlx5,
}

impl Dcqcn {
    fn params(self) -> Params {
        match self {
            Self::Paper => Params::PAPER,
            Self::Mlx5 => Params::MLX5,
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let filter = match expression::parse(args.filter.as_deref()) {
        Ok(filter) => filter,
        Err(outcome) => return Ok(outcome),
    };
    if let Some(path) = &args.html {
        return write_html(args, filter, path, out);
    }
    let mut outcome = Outcome::Clean;
    if args.format == Format::Csv {
        Summary::write_csv_heading(out)?;
    }
    let captures: Vec<Capture> = input::open(&args.input).collect();
    let many = captures.len() > 1;
    for mut capture in captures {
        let mut stats = Stats::new(options(args));
        if !read(&mut capture, filter.clone(), out, |packet| stats.packet(packet))? {
            outcome = Outcome::Unusable;
        }
        let summary = stats.finish();
        let name = capture.name();
        match args.format {
            Format::Text => {
                if many {
                    writeln!(out, "{name}:")?;
                }
                summary.write_text(out)?;
            }
            Format::Json => summary.write_json(&name, out)?,
            Format::Jsonl => summary.write_jsonl(&name, out)?,
            Format::Csv => summary.write_csv(&name, out)?,
        }
    }
    Ok(outcome)
}

fn options(args: &Args) -> Options {
    // The intervals of DCQCN are part of what JSON says.
    let json = matches!(args.format, Format::Json | Format::Jsonl);
    let graphs = args.link_rate.is_some() && json;
    Options { link_bps: args.link_rate, dcqcn: args.dcqcn.params(), graphs }
}

/// The report of one capture.
fn write_html(
    args: &Args,
    filter: Option<Filter>,
    path: &Path,
    out: &mut impl Write,
) -> io::Result<Outcome> {
    let mut captures = input::open(&args.input);
    let (Some(mut capture), None) = (captures.next(), captures.next()) else {
        eprintln!("roce-pcap: --html makes a page of one capture: name one (--rotated for a set)");
        return Ok(Outcome::Unusable);
    };
    let mut report = HtmlReport::with_profile(
        &capture.name(),
        options(args),
        args.profile.clone().unwrap_or_default(),
    );
    let whole = read(&mut capture, filter, out, |packet| report.packet(packet))?;
    if let Err(error) = std::fs::write(path, report.finish()) {
        eprintln!("roce-pcap: cannot write {}: {error}", path.display());
        return Ok(Outcome::Unusable);
    }
    Ok(if whole { Outcome::Clean } else { Outcome::Unusable })
}

/// Reads a capture to its end and takes the packets that are meant; says whether all of it could be read.
fn read(
    capture: &mut Capture,
    filter: Option<Filter>,
    out: &mut impl Write,
    mut take: impl FnMut(&Packet<'_>),
) -> io::Result<bool> {
    let mut whole = true;
    let mut selection = filter.map(Selection::new);
    let mut batch = Batch::new();
    loop {
        match capture.fill(&mut batch) {
            Ok(0) => return Ok(whole),
            Ok(_) => {
                for packet in batch.packets() {
                    if selection.as_mut().is_none_or(|selection| selection.takes(&packet)) {
                        take(&packet);
                    }
                }
            }
            Err(error) => {
                out.flush()?;
                capture.complain(&error);
                whole = false;
            }
        }
    }
}

/// Bits a second: a number with one of the letters k, M, G and T.
fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let wrong = || format!("`{text}` is no rate: write 100G, 2.5G or 40000M (bits a second)");
    let (number, scale) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1_000_u64),
        Some((at, 'M')) => (&text[..at], 1_000_000),
        Some((at, 'G')) => (&text[..at], 1_000_000_000),
        Some((at, 'T')) => (&text[..at], 1_000_000_000_000),
        _ => (text, 1),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let mut bps = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(scale));
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        bps = bps.and_then(|bps| bps.checked_add(u64::from(digit - b'0') * place));
    }
    bps.and_then(NonZeroU64::new).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, bps) in [
            ("100G", 100_000_000_000),
            ("2.5G", 2_500_000_000),
            ("40000M", 40_000_000_000),
            ("1.6T", 1_600_000_000_000),
            ("9600", 9_600),
        ] {
            assert_eq!(parse_rate(text), Ok(NonZeroU64::new(bps).unwrap()), "{text}");
        }
        for text in ["", "G", "0G", "-1G", "1e9", "100g", "1.2.3G", "99999999999T", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
