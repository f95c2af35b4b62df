//! A report of a capture as one page of HTML that needs nothing else: no network, no other file.
//!
//! It has what [`stats`](crate::stats) counts and [`check`](mod@crate::check) finds: tables, and for the
//! busiest flows graphs of PSNs and rate over time, what DCQCN would have allowed, and latencies. Text
//! from the capture is escaped. Its size is bounded however long the capture is: graphs are thinned
//! out, tables are cut, and both say so.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::report_html::HtmlReport;
//! use roce_pcap::stats::Options;
//!
//! let mut report = HtmlReport::new("trace.pcapng", Options::default());
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     report.packet(&packet?);
//! }
//! std::fs::write("report.html", report.finish())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod axis;
mod chart;
mod escape;
mod excerpt;
mod flow_charts;
mod tables;

use std::fmt::Write;

use roce_codec::ib::AethKind;

use crate::capture::Packet;
use crate::check::{Checker, Finding, Profile, Verdict};
use crate::message::{Arrival, Part};
use crate::observed::Observed;
use crate::stats::{Bytes, Duration, Options, Rate, Stats, Summary};
use escape::Escaped;
use excerpt::{Excerpt, Interest};

/// Findings listed, of each verdict.
const MOST_FINDINGS: usize = 500;
/// Flows with charts.
const MOST_CHARTS: usize = 16;

/// Collects what the page shows.
#[derive(Debug)]
pub struct HtmlReport {
    name: String,
    stats: Stats,
    checker: Checker,
    findings: Findings,
    excerpt: Excerpt,
    first_ns: Option<u64>,
    was_again: bool,
}

/// The findings that are listed.
#[derive(Debug, Default)]
struct Findings {
    failures: Vec<Finding>,
    unknowns: Vec<Finding>,
    more: u64,
}

impl HtmlReport {
    /// The report of a capture of that name.
    #[must_use]
    pub fn new(name: &str, options: Options) -> Self {
        Self::with_profile(name, options, Profile::default())
    }

    /// The report of a capture of that name, its findings judged by what the profile knows of the
    /// devices.
    #[must_use]
    pub fn with_profile(name: &str, options: Options, profile: Profile) -> Self {
        Self {
            name: name.to_owned(),
            stats: Stats::new(Options { graphs: true, ..options }),
            checker: Checker::with_profile(profile),
            findings: Findings::default(),
            excerpt: Excerpt::new(),
            first_ns: None,
            was_again: false,
        }
    }

    /// Takes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let observed = Observed::new(packet);
        if self.first_ns.is_none() {
            self.first_ns = packet.timestamp_ns;
        }
        let part = self.stats.observed(&observed);
        let findings = self.checker.observed(&observed);
        let finding = findings.iter().any(|finding| finding.packet == packet.number);
        self.findings.add(findings);
        let again = matches!(part, Part::Request(Arrival::Again | Arrival::Late));
        let went_back = again && !self.was_again;
        self.was_again = again;
        let interest = if finding {
            Some(Interest::Finding)
        } else {
            (went_back || is_nak(&observed)).then_some(Interest::Loss)
        };
        self.excerpt.packet(packet, interest);
    }

    /// The capture has ended: the page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.findings.add(self.checker.finish());
        let mut listed = self.findings.failures;
        listed.append(&mut self.findings.unknowns);
        listed.sort_by_key(|finding| finding.packet);
        let summary = self.stats.finish();
        let judged = self.checker.summary();
        let start_ns = self.first_ns.unwrap_or(0);
        let mut html = start(&self.name);
        let _ = write!(html, "{}", cards(&summary, judged.fail, judged.unknown));
        section(
            &mut html,
            "findings",
            "Findings",
            &tables::findings(&listed, self.findings.more, &self.excerpt),
        );
        section(
            &mut html,
            "losses",
            "Losses and recovery",
            &tables::losses(&summary, &self.excerpt),
        );
        section(&mut html, "flows", "Messages by flow", &tables::flows(&summary));
        section(&mut html, "hosts", "Hosts", &tables::hosts(&summary));
        if !summary.pauses.is_empty() {
            section(&mut html, "pauses", "Pauses", &tables::pauses(&summary));
        }
        section(&mut html, "charts", "Over time", &charts(&summary, start_ns));
        section(&mut html, "packets", "Packets", &tables::packets(&self.excerpt));
        let _ = write!(
            html,
            "</main>\n<script>{}</script>\n</body>\n</html>\n",
            include_str!("script.js")
        );
        html
    }
}

impl Findings {
    fn add(&mut self, findings: &[Finding]) {
        for finding in findings {
            let list = match finding.verdict {
                Verdict::Fail => &mut self.failures,
                _ => &mut self.unknowns,
            };
            if list.len() < MOST_FINDINGS {
                list.push(finding.clone());
            } else {
                self.more += 1;
            }
        }
    }
}

fn is_nak(observed: &Observed<'_>) -> bool {
    let aeth = observed.transport().and_then(roce_codec::Transport::aeth);
    let kind = aeth.map(|aeth| aeth.syndrome.kind());
    matches!(kind, Some(AethKind::Nak(_) | AethKind::RnrNak(_)))
}

fn start(name: &str) -> String {
    let name = Escaped(name);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{name}: roce-pcap report</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\
         <h1>{name}</h1>\n<nav aria-label=\"Sections\"><a href=\"#findings\">Findings</a> \
         <a href=\"#losses\">Losses</a> <a href=\"#flows\">Flows</a> <a href=\"#hosts\">Hosts</a> \
         <a href=\"#charts\">Over time</a> <a href=\"#packets\">Packets</a></nav></header>\n<main>\n",
        include_str!("style.css")
    )
}

fn cards(summary: &Summary, fail: u64, unknown: u64) -> String {
    let total = &summary.total;
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let latency =
        |share| or_dash(total.latency.quantile_ns(share).map(|ns| Duration(ns).to_string()));
    let mut html = String::from("<dl class=\"cards\">");
    for (name, value) in [
        ("RoCE packets", total.packets.to_string()),
        ("packets in all", summary.packets.to_string()),
        ("time", or_dash(total.elapsed_ns().map(|ns| Duration(ns).to_string()))),
        ("messages", total.operations.total().to_string()),
        ("user data", Bytes(total.bytes).to_string()),
        ("goodput", or_dash(total.goodput_bps().map(|bps| Rate(bps).to_string()))),
        ("latency p50", latency(0.5)),
        ("latency p99", latency(0.99)),
        ("sent again", total.retransmitted_packets.to_string()),
        ("losses", total.losses().to_string()),
        ("CE marks", total.ce_packets.to_string()),
        ("CNPs", total.cnps.to_string()),
        ("rules broken", fail.to_string()),
        ("not to be told", unknown.to_string()),
    ] {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(value));
    }
    html + "</dl>\n"
}

fn section(html: &mut String, id: &str, title: &str, body: &str) {
    let _ = write!(
        html,
        "<section id=\"{id}\" aria-label=\"{title}\">\n<h2>{title}</h2>\n{body}</section>\n"
    );
}

fn charts(summary: &Summary, start_ns: u64) -> String {
    let drawn = summary.flows.iter().filter(|flow| flow.psns.is_some());
    let mut html = String::new();
    let count = drawn.clone().count();
    if count == 0 {
        html += "<p>No flow has requests and times.</p>\n";
    } else if count > MOST_CHARTS {
        let _ =
            writeln!(html, "<p>The {MOST_CHARTS} busiest of {count} flows that were followed.</p>");
    }
    for flow in drawn.take(MOST_CHARTS) {
        let _ =
            write!(html, "<h3>{}</h3>\n{}", Escaped(flow.name()), flow_charts::all(flow, start_ns));
    }
    html
}
