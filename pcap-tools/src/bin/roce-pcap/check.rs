//! `roce-pcap check`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::ValueEnum;
use roce_pcap::capture::{Batch, FileError};
use roce_pcap::check::pipeline::{self, Judged};
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
    /// Cores to use; the findings are the same with any number of them [default: all]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
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

pub(crate) fn run(args: &Args, out: &mut (impl Write + Send)) -> io::Result<Outcome> {
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
    out: &mut (impl Write + Send),
) -> io::Result<Checker> {
    let mut checker = Checker::with_profile(args.profile.clone().unwrap_or_default());
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = args.jobs.unwrap_or_else(cores);
    let live = capture.is_live();
    let files = Files::default();
    let fill = |batch: &mut Batch| {
        let filled = capture.fill(batch)?;
        if let Some(packet) = batch.packets().next() {
            files.start(packet.number, capture.file_of(packet.number).as_deref());
        }
        Ok(filled)
    };
    let mut written = Ok(());
    let each = |judged: Judged<'_, FileError>| {
        let result = match judged {
            Judged::Packet(_, findings) => write_findings(args, &files, findings, out),
            Judged::Pause if live => out.flush(),
            Judged::Pause => Ok(()),
            Judged::Error(error) => {
                input::complain(&error.path.display().to_string(), &error.error);
                *unusable = true;
                out.flush()
            }
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                written = Err(error);
                ControlFlow::Break(())
            }
        }
    };
    pipeline::judge(fill, &mut checker, jobs, each);
    written?;
    write_findings(args, &files, checker.finish(), out)?;
    Ok(checker)
}

/// The files of a capture, where output must name them, by the numbers of their first packets.
/// One core reads while another writes.
#[derive(Default)]
struct Files(Mutex<Vec<(u64, String)>>);

impl Files {
    /// The packet begins the file, unless the last one said so.
    fn start(&self, packet: u64, file: Option<&str>) {
        let Some(file) = file else { return };
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.last().is_none_or(|(_, last)| last != file) {
            files.push((packet, file.to_owned()));
        }
    }

    fn of(&self, packet: u64) -> Option<String> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().rev().find(|(first, _)| *first <= packet).map(|(_, file)| file.clone())
    }
}

fn write_findings(
    args: &Args,
    files: &Files,
    findings: &[Finding],
    out: &mut impl Write,
) -> io::Result<()> {
    for finding in findings {
        let file = files.of(finding.packet);
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
