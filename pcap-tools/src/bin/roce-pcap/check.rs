//! `roce-pcap check`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::ValueEnum;
use roce_pcap::capture::{Batch, FileError};
use roce_pcap::check::output::{Junit, Sarif};
use roce_pcap::check::pipeline::{self, Judged};
use roce_pcap::check::{
    Checker, Counts, Finding, Profile, Report, Rule, Settled, Severity, Summary, Verdict, settle,
};
use roce_pcap::diff::Side;

use crate::input::{self, Capture, Input};
use crate::{Outcome, diff, profile};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Also show what the capture cannot tell, and what a second tap explains (text and github; the
    /// others always have it)
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
    /// A capture of the same traffic at another point, which settles gaps (RC-PSN-GAP): PSNs that it
    /// has were lost between the taps, and the rule passes; those that neither tap has stay unknown.
    /// Gaps are told last. The capture judged must be a single file, which is read twice
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rotated", "follow"])]
    second_tap: Option<PathBuf>,
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
    let taps = match (&args.second_tap, args.input.single_file()) {
        (None, _) => None,
        (Some(second), Some(first)) => Some([first, second.as_path()]),
        (Some(_), None) => {
            eprintln!(
                "roce-pcap: --second-tap takes one capture besides, in a file: it is read twice"
            );
            return Ok(Outcome::Unusable);
        }
    };
    let mut total = Summary::default();
    let mut rules = vec![Counts::default(); Rule::ALL.len()];
    let mut output = Output::start(args.format, out)?;
    let mut unusable = false;
    let mut settled = None;
    for mut capture in input::open(&args.input) {
        let mut judged = judge(args, &mut capture, &mut output, out)?;
        if let Some(taps) = taps {
            settled = judged.settle(taps);
            unusable |= settled.as_ref().is_none_or(|settled| !settled.errors.is_empty());
        }
        let name = capture.name();
        judged
            .gaps
            .iter()
            .filter(|gap| args.shows(gap))
            .try_for_each(|gap| output.finding(&name, None, gap, out))?;
        output.end_capture(&judged.rules, judged.whole);
        unusable |= !judged.whole;
        total.add(&judged.summary);
        for ((_, counts), sum) in judged.rules.iter().zip(&mut rules) {
            sum.pass += counts.pass;
            sum.fail += counts.fail;
            sum.unknown += counts.unknown;
        }
    }
    match output {
        Output::Jsonl => total.write_json(out)?,
        Output::Text | Output::Github => {
            write_summary(&total, &rules, out)?;
            if let Some(Settled { shared, explained, lost, .. }) = settled {
                writeln!(
                    out,
                    "second tap: {shared} packets at both; {explained} gaps explained, {lost} packets \
                     missing in gaps were lost between the taps or by the first"
                )?;
            }
        }
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

/// What came of a capture.
struct Judgement {
    summary: Summary,
    rules: Vec<(Rule, Counts)>,
    /// Gaps that a second tap may settle, not written yet.
    gaps: Vec<Finding>,
    /// Whether it was read to its end.
    whole: bool,
}

impl Judgement {
    /// Settles gaps by a second tap. `None` when the captures are of no use together.
    fn settle(&mut self, taps: [&Path; 2]) -> Option<Settled> {
        let [Some(first), Some(second)] = taps.map(|path| {
            let complain = |error| input::complain(&path.display().to_string(), &error);
            diff::open(path).map_err(complain).ok()
        }) else {
            return None;
        };
        let settled = settle(&mut self.gaps, first, second);
        for (side, error) in &settled.errors {
            // What is wrong with the first was said when it was judged.
            if *side == Side::B {
                input::complain(&taps[1].display().to_string(), error);
            }
        }
        let explained = settled.explained;
        self.summary.unknown -= explained;
        self.summary.pass += explained;
        for (_, counts) in self.rules.iter_mut().filter(|(rule, _)| *rule == Rule::RcPsnGap) {
            counts.unknown -= explained;
            counts.pass += explained;
        }
        if settled.shared == 0 {
            let [first, second] = taps.map(Path::display);
            eprintln!("roce-pcap: {first} and {second} share no RoCEv2 packet");
            eprintln!("roce-pcap: --second-tap wants the same traffic, captured at the same time");
            return None;
        }
        Some(settled)
    }
}

/// Judges one capture and writes its findings as they arise; gaps are kept where a second tap may
/// settle them.
fn judge(
    args: &Args,
    capture: &mut Capture,
    output: &mut Output,
    out: &mut (impl Write + Send),
) -> io::Result<Judgement> {
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
    let mut gaps = Vec::new();
    let mut write_all = |findings: &[Finding], out: &mut _| {
        findings.iter().try_for_each(|finding| {
            let waits = args.second_tap.is_some() && finding.gap.is_some();
            if waits && gaps.len() < Report::MAX_FINDINGS {
                gaps.push(finding.clone());
                return Ok(());
            }
            match args.shows(finding) {
                true => output.finding(&name, files.of(finding.packet).as_deref(), finding, out),
                false => Ok(()),
            }
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
    let (summary, rules) = (checker.summary(), checker.rules());
    Ok(Judgement { summary, rules, gaps, whole })
}

impl Args {
    /// Whether a finding is written.
    fn shows(&self, finding: &Finding) -> bool {
        let all = self.unknown || !matches!(self.format, Format::Text | Format::Github);
        (all || finding.verdict == Verdict::Fail) && !self.ignore.contains(&finding.rule)
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

    fn end_capture(&mut self, rules: &[(Rule, Counts)], whole: bool) {
        if let Self::Junit(junit) = self {
            if !whole {
                junit.error("the capture could not be read to its end".to_owned());
            }
            junit.end(rules.to_vec());
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
