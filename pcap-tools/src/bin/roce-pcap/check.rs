//! `roce-pcap check`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::ValueEnum;
use roce_pcap::capture::{Batch, FileError};
use roce_pcap::check::output::{Junit, Sarif};
use roce_pcap::check::pipeline::{self, Judged};
use roce_pcap::check::{Checker, Counts, Finding, Profile, Rule, Severity, Summary, Verdict};

use crate::input::{self, Capture, Input};
use crate::{Outcome, profile};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also show what the capture cannot tell (text and github; the others always have it)
    #[arg(long)]
    unknown: bool,
    /// The least severity of a broken rule that makes the exit status 1
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// Rules whose findings are passed over, by identifier
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rule)]
    ignore: Vec<Rule>,
    /// What is known of the devices: irdma, mlx5, rockhopper, rxe, strict, or a file of your own
    #[arg(long, value_name = "NAME|FILE", value_parser = profile::parse)]
    profile: Option<Profile>,
    /// Cores to use; the findings are the same with any number of them [default: all]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line a finding, then the counts
    Text,
    /// One JSON object a finding, the last line the summary
    Jsonl,
    /// JUnit XML: a suite a capture, a test case a rule
    Junit,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of a GitHub action, then the counts
    Github,
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

fn rule(id: &str) -> Result<Rule, String> {
    Rule::from_id(id).ok_or_else(|| "no such rule; `roce-pcap explain` lists them".to_owned())
}

pub(crate) fn run(args: &Args, out: &mut (impl Write + Send)) -> io::Result<Outcome> {
    let mut total = Summary::default();
    let mut rules = vec![Counts::default(); Rule::ALL.len()];
    let mut output = Output::start(args.format, out)?;
    let mut unusable = false;
    for mut capture in input::open(&args.input) {
        let (checker, whole) = judge(args, &mut capture, &mut output, out)?;
        unusable |= !whole;
        total.add(&checker.summary());
        for ((_, counts), sum) in checker.rules().into_iter().zip(&mut rules) {
            sum.pass += counts.pass;
            sum.fail += counts.fail;
            sum.unknown += counts.unknown;
        }
    }
    match output {
        Output::Jsonl => total.write_json(out)?,
        Output::Text | Output::Github => write_summary(&total, &rules, out)?,
        Output::Junit(junit) => junit.write(out)?,
        Output::Sarif(sarif) => sarif.end(!unusable, out)?,
    }
    let violated = Rule::ALL.iter().zip(&rules).any(|(rule, counts)| {
        counts.fail > 0 && rule.severity() >= args.fail_on.severity() && !args.ignore.contains(rule)
    });
    Ok(match (unusable, violated) {
        (true, _) => Outcome::Unusable,
        (false, true) => Outcome::Findings,
        (false, false) => Outcome::Clean,
    })
}

/// Judges one capture and writes its findings as they arise. Says whether it was whole.
fn judge(
    args: &Args,
    capture: &mut Capture,
    output: &mut Output,
    out: &mut (impl Write + Send),
) -> io::Result<(Checker, bool)> {
    let mut checker = Checker::with_profile(args.profile.clone().unwrap_or_default());
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = args.jobs.unwrap_or_else(cores);
    let live = capture.is_live();
    let name = capture.name().into_owned();
    output.start_capture(&name);
    let files = Files::default();
    let fill = |batch: &mut Batch| {
        let filled = capture.fill(batch)?;
        if let Some(packet) = batch.packets().next() {
            files.start(packet.number, capture.file_of(packet.number).as_deref());
        }
        Ok(filled)
    };
    let mut whole = true;
    let mut write_all = |findings: &[Finding], out: &mut _| {
        findings
            .iter()
            .filter(|finding| !args.ignore.contains(&finding.rule))
            .filter(|finding| finding.verdict == Verdict::Fail || args.shows_unknown())
            .try_for_each(|finding| {
                output.finding(&name, files.of(finding.packet).as_deref(), finding, out)
            })
    };
    let mut written = Ok(());
    let each = |judged: Judged<'_, FileError>| {
        let result = match judged {
            Judged::Packet(_, findings) => write_all(findings, out),
            Judged::Pause if live => out.flush(),
            Judged::Pause => Ok(()),
            Judged::Error(error) => {
                whole = false;
                input::complain(&error.path.display().to_string(), &error.error);
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
    write_all(checker.finish(), out)?;
    output.end_capture(&checker, whole);
    Ok((checker, whole))
}

impl Args {
    /// Whether findings of what the capture cannot tell are written.
    fn shows_unknown(&self) -> bool {
        self.unknown || !matches!(self.format, Format::Text | Format::Github)
    }
}

/// Where findings go.
enum Output {
    Text,
    Jsonl,
    Junit(Junit),
    Sarif(Sarif),
    Github,
}

impl Output {
    fn start(format: Format, out: &mut impl Write) -> io::Result<Self> {
        Ok(match format {
            Format::Text => Self::Text,
            Format::Jsonl => Self::Jsonl,
            Format::Junit => Self::Junit(Junit::default()),
            Format::Sarif => Self::Sarif(Sarif::start(out)?),
            Format::Github => Self::Github,
        })
    }

    fn start_capture(&mut self, name: &str) {
        if let Self::Junit(junit) = self {
            junit.start(name);
        }
    }

    /// A finding of the capture of that name; `file` where output must say which file it is in.
    fn finding(
        &mut self,
        name: &str,
        file: Option<&str>,
        finding: &Finding,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match self {
            Self::Jsonl => finding.write_json(file, out),
            Self::Github => finding.write_github(file.unwrap_or(name), out),
            Self::Sarif(sarif) => sarif.finding(file.unwrap_or(name), finding, out),
            Self::Junit(junit) => {
                junit.finding(file.filter(|file| *file != name), finding);
                Ok(())
            }
            Self::Text => {
                if let Some(file) = file {
                    write!(out, "{file}: ")?;
                }
                writeln!(out, "{finding}")
            }
        }
    }

    fn end_capture(&mut self, checker: &Checker, whole: bool) {
        if let Self::Junit(junit) = self {
            if !whole {
                junit.error("the capture could not be read to its end".to_owned());
            }
            junit.end(checker.rules());
        }
    }
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
