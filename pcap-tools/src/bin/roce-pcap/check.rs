//! `roce-pcap check`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use roce_pcap::check::{Checker, Counts, Finding, Rule, Severity, Summary, Verdict};

use crate::{Outcome, input};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The captures, pcap or pcapng, each judged by itself; `-` for standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Output: text, or jsonl (one JSON object a finding, the last line the summary)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also show what the capture cannot tell (jsonl always has it)
    #[arg(long)]
    unknown: bool,
    /// The least severity of a broken rule that makes the exit status 1
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    fail_on: FailOn,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Error,
    Warning,
    Info,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::Error => Severity::Error,
            Self::Warning => Severity::Warning,
            Self::Info => Severity::Info,
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let mut total = Summary::default();
    let mut rules = vec![Counts::default(); Rule::ALL.len()];
    let mut unusable = false;
    let mut violated = false;
    for file in &args.files {
        let Some(checker) = judge(args, file, &mut unusable, out)? else { continue };
        total.add(&checker.summary());
        for ((rule, counts), sum) in checker.rules().into_iter().zip(&mut rules) {
            sum.pass += counts.pass;
            sum.fail += counts.fail;
            sum.unknown += counts.unknown;
            violated |= counts.fail > 0 && rule.severity() >= args.fail_on.severity();
        }
    }
    match args.format {
        Format::Jsonl => total.write_json(out)?,
        Format::Text => write_summary(&total, &rules, out)?,
    }
    Ok(match (unusable, violated) {
        (true, _) => Outcome::Unusable,
        (false, true) => Outcome::Findings,
        (false, false) => Outcome::Clean,
    })
}

/// Judges one capture and writes its findings as they arise; `None` if it cannot be opened.
fn judge(
    args: &Args,
    file: &Path,
    unusable: &mut bool,
    out: &mut impl Write,
) -> io::Result<Option<Checker>> {
    let mut reader = match input::open(file) {
        Ok(reader) => reader,
        Err(error) => {
            input::complain(file, &error);
            *unusable = true;
            return Ok(None);
        }
    };
    let name = file.display().to_string();
    let name = (args.files.len() > 1).then_some(name.as_str());
    let mut checker = Checker::new();
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(packet) => write_findings(args, name, checker.packet(&packet), out)?,
            Err(error) => {
                out.flush()?;
                input::complain(file, &error);
                *unusable = true;
            }
        }
    }
    write_findings(args, name, checker.finish(), out)?;
    Ok(Some(checker))
}

fn write_findings(
    args: &Args,
    file: Option<&str>,
    findings: &[Finding],
    out: &mut impl Write,
) -> io::Result<()> {
    for finding in findings {
        match args.format {
            Format::Jsonl => finding.write_json(file, out)?,
            Format::Text if finding.verdict == Verdict::Fail || args.unknown => {
                if let Some(file) = file {
                    write!(out, "{file}: ")?;
                }
                writeln!(out, "{finding}")?;
            }
            Format::Text => {}
        }
    }
    Ok(())
}

fn write_summary(total: &Summary, rules: &[Counts], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} packets, {} RoCE, {} flows", total.packets, total.roce_packets, total.flows)?;
    writeln!(
        out,
        "ICRC: {} valid, {} invalid, {} not checkable",
        total.icrc_valid, total.icrc_invalid, total.icrc_uncheckable
    )?;
    for (rule, counts) in Rule::ALL.iter().zip(rules) {
        if counts.fail > 0 || counts.unknown > 0 {
            let Counts { pass, fail, unknown } = counts;
            let (id, severity) = (rule.id(), rule.severity());
            writeln!(out, "{id:18} {severity:8} {fail} fail, {unknown} unknown, {pass} pass")?;
        }
    }
    let Summary { fail, pass, unknown, .. } = total;
    writeln!(out, "{fail} fail, {unknown} unknown, {pass} pass")
}
