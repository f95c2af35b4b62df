//! `roce-pcap check`.

use std::io::{self, Write};

use clap::ValueEnum;
use roce_pcap::capture::Batch;
use roce_pcap::check::{Checker, Counts, Finding, Profile, Rule, Severity, Summary, Verdict};

use crate::input::{self, Capture, Input};
use crate::{Outcome, profile};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output: text, or jsonl (one JSON object a finding, the last line the summary)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also show what the capture cannot tell (jsonl always has it)
    #[arg(long)]
    unknown: bool,
    /// The least severity of a broken rule that makes the exit status 1
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// What is known of the devices: irdma, mlx5, rockhopper, rxe, strict, or a file of your own
    #[arg(long, value_name = "NAME|FILE", value_parser = profile::parse)]
    profile: Option<Profile>,
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
    for mut capture in input::open(&args.input) {
        let checker = judge(args, &mut capture, &mut unusable, out)?;
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

/// Judges one capture and writes its findings as they arise.
fn judge(
    args: &Args,
    capture: &mut Capture,
    unusable: &mut bool,
    out: &mut impl Write,
) -> io::Result<Checker> {
    let mut checker = Checker::with_profile(args.profile.clone().unwrap_or_default());
    let mut batch = Batch::new();
    loop {
        match capture.fill(&mut batch) {
            Ok(0) => break,
            Ok(_) => {
                for packet in batch.packets() {
                    write_findings(args, capture, checker.packet(&packet), out)?;
                }
                if capture.is_live() {
                    out.flush()?;
                }
            }
            Err(error) => {
                out.flush()?;
                capture.complain(&error);
                *unusable = true;
            }
        }
    }
    write_findings(args, capture, checker.finish(), out)?;
    Ok(checker)
}

fn write_findings(
    args: &Args,
    capture: &Capture,
    findings: &[Finding],
    out: &mut impl Write,
) -> io::Result<()> {
    for finding in findings {
        let file = capture.file_of(finding.packet);
        match args.format {
            Format::Jsonl => finding.write_json(file.as_deref(), out)?,
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
