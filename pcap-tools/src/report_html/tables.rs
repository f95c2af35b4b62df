//! The tables of the page.

use std::fmt::{Display, Write};

use super::escape::Escaped;
use super::excerpt::Excerpt;
use crate::check::{Finding, Verdict};
use crate::stats::{Bytes, Duration, Figures, Rate, Summary};

/// Rows of a table of flows or hosts.
const MOST_ROWS: usize = 200;
/// Losses listed.
const MOST_LOSSES: usize = 200;

/// A table being written.
struct Table(String);

impl Table {
    /// Starts one. Columns whose name starts with `<` are text, and stand to the left.
    fn start(caption: &str, columns: &[&str]) -> Self {
        let mut html = format!(
            "<div class=\"scroll\" tabindex=\"0\"><table><caption><span>{}</span></caption><thead><tr>",
            Escaped(caption)
        );
        for column in columns {
            let _ = match column.strip_prefix('<') {
                Some(name) => {
                    write!(html, "<th scope=\"col\" class=\"left\">{}</th>", Escaped(name))
                }
                None => write!(html, "<th scope=\"col\">{}</th>", Escaped(column)),
            };
        }
        html += "</tr></thead><tbody>\n";
        Self(html)
    }

    fn row(&mut self, cells: &[Cell]) {
        self.0 += "<tr>";
        for cell in cells {
            let _ = match cell {
                Cell::Number(text) => write!(self.0, "<td>{}</td>", Escaped(text)),
                Cell::Text(text) => write!(self.0, "<td class=\"left\">{}</td>", Escaped(text)),
                Cell::Words(text) => write!(self.0, "<td class=\"wrap\">{}</td>", Escaped(text)),
                Cell::Class(class, text) => {
                    write!(self.0, "<td class=\"left {class}\">{}</td>", Escaped(text))
                }
                Cell::Packet(Some(number), true) => {
                    write!(self.0, "<td><a href=\"#p{number}\">{number}</a></td>")
                }
                Cell::Packet(Some(number), false) => write!(self.0, "<td>{number}</td>"),
                Cell::Packet(None, _) => write!(self.0, "<td>-</td>"),
            };
        }
        self.0 += "</tr>\n";
    }

    fn finish(mut self) -> String {
        self.0 += "</tbody></table></div>\n";
        self.0
    }
}

/// What stands in a cell.
enum Cell {
    Number(String),
    Text(String),
    Words(String),
    Class(&'static str, String),
    /// A packet's number, and whether the page shows it.
    Packet(Option<u64>, bool),
}

fn number(value: impl Display) -> Cell {
    Cell::Number(value.to_string())
}

fn or_dash(value: Option<impl Display>) -> Cell {
    Cell::Number(value.map_or("-".into(), |value| value.to_string()))
}

/// What the checker found.
pub(super) fn findings(findings: &[Finding], more: u64, excerpt: &Excerpt) -> String {
    if findings.is_empty() {
        return "<p>None: no rule was found broken, and none that cannot be told.</p>\n".into();
    }
    let caption = match more {
        0 => "In the order of packets. `roce-pcap explain RULE` has a page on each rule.".into(),
        more => format!(
            "The first of each verdict; {more} more are not listed (`roce-pcap check` has all). \
             `roce-pcap explain RULE` has a page on each rule."
        ),
    };
    let columns = ["packet", "<verdict", "<severity", "<rule", "<flow", "<what"];
    let mut table = Table::start(&caption, &columns);
    for finding in findings {
        let class = if finding.verdict == Verdict::Fail { "fail" } else { "unknown" };
        let Finding { message, expected, found, .. } = finding;
        table.row(&[
            Cell::Packet(Some(finding.packet), excerpt.has(finding.packet)),
            Cell::Class(class, finding.verdict.to_string()),
            Cell::Text(finding.rule.severity().to_string()),
            Cell::Text(finding.rule.id().to_string()),
            Cell::Text(finding.flow.map_or("-".into(), |flow| flow.to_string())),
            Cell::Words(format!("{message}; expected {expected}, found {found}")),
        ]);
    }
    table.finish()
}

/// Losses and waits for a receive.
pub(super) fn losses(summary: &Summary, excerpt: &Excerpt) -> String {
    if summary.recoveries.is_empty() {
        return "<p>None was seen.</p>\n".into();
    }
    let listed = summary.recoveries.len().min(MOST_LOSSES);
    let all = u64::try_from(summary.recoveries.len()).unwrap_or(u64::MAX);
    let all = all.saturating_add(summary.recoveries_dropped);
    let caption = format!(
        "{listed} of {all}, and RNR waits among them. Time to recover: from the NAK, or the last packet \
         before a timeout, until the missing PSN was answered."
    );
    let columns = [
        "<flow",
        "<cause",
        "PSN",
        "shown by packet",
        "first sent again",
        "answered by",
        "packets sent again",
        "times",
        "time to recover",
    ];
    let mut table = Table::start(&caption, &columns);
    for recovery in summary.recoveries.iter().take(MOST_LOSSES) {
        let packet = |number: Option<u64>| {
            Cell::Packet(number, number.is_some_and(|number| excerpt.has(number)))
        };
        table.row(&[
            Cell::Text(recovery.flow.to_string()),
            Cell::Text(recovery.cause.to_string()),
            number(recovery.psn),
            packet(Some(recovery.detected_packet)),
            packet(recovery.resent_packet),
            packet(recovery.recovered_packet),
            number(recovery.packets_resent),
            number(recovery.rounds),
            or_dash(recovery.time_ns().map(Duration)),
        ]);
    }
    table.finish()
}

/// Messages, latency and trouble, by flow.
pub(super) fn flows(summary: &Summary) -> String {
    let columns = [
        "<requester > responder",
        "messages",
        "user data",
        "goodput",
        "p50",
        "p99",
        "p99.9",
        "max",
        "refused",
        "open or unseen",
        "sent again",
        "losses",
        "slowest recovery",
        "NAK",
        "RNR",
        "CE",
        "CNP",
    ];
    let busy: Vec<_> =
        summary.flows.iter().filter(|flow| flow.figures.operations.total() > 0).collect();
    let listed = busy.len().min(MOST_ROWS);
    let caption = format!(
        "{listed} of {} flows with requests, the busiest first. Latency is from a message's first packet \
         to its completion, both at the tap; quantiles are at most 1 % too high.",
        busy.len()
    );
    let mut table = Table::start(&caption, &columns);
    let named = busy.iter().take(MOST_ROWS).map(|flow| (flow.name(), &flow.figures));
    for (name, figures) in named.chain([("all".into(), &summary.total)]) {
        let Figures { latency, endings, .. } = figures;
        let quantile = |share| or_dash(latency.quantile_ns(share).map(Duration));
        table.row(&[
            Cell::Text(name),
            number(figures.operations.total()),
            number(Bytes(figures.bytes)),
            or_dash(figures.goodput_bps().map(Rate)),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            or_dash(latency.max_ns().map(Duration)),
            number(endings.refused),
            number(endings.open + endings.rnr + endings.answers_unseen),
            number(figures.retransmitted_packets),
            number(figures.losses()),
            or_dash(figures.recovery.max_ns().map(Duration)),
            number(figures.sequence_naks),
            number(figures.rnr_naks),
            number(figures.ce_packets),
            number(figures.cnps),
        ]);
    }
    table.finish()
}

/// Hosts.
pub(super) fn hosts(summary: &Summary) -> String {
    let columns = [
        "<host",
        "packets sent",
        "bytes sent",
        "packets received",
        "messages",
        "user data",
        "sent again",
        "CE sent",
        "CNP received",
    ];
    let listed = summary.hosts.len().min(MOST_ROWS);
    let caption = format!("{listed} of {} hosts, the busiest first.", summary.hosts.len());
    let mut table = Table::start(&caption, &columns);
    for host in summary.hosts.iter().take(MOST_ROWS) {
        let figures = &host.figures;
        table.row(&[
            Cell::Text(host.host.map_or("others".into(), |host| host.to_string())),
            number(figures.packets),
            number(Bytes(figures.wire_bytes)),
            number(host.received_packets),
            number(figures.operations.total()),
            number(Bytes(figures.bytes)),
            number(figures.retransmitted_packets),
            number(figures.ce_packets),
            number(figures.cnps),
        ]);
    }
    table.finish()
}

/// PAUSE and PFC.
pub(super) fn pauses(summary: &Summary) -> String {
    let columns = ["<asked for by", "<priority", "frames", "resumes", "quanta", "time of silence"];
    let caption = match summary.link_bps {
        Some(bps) => format!("At a link rate of {}.", Rate(bps.get())),
        None => "A quantum is 512 bit times: give --link-rate to have the time.".into(),
    };
    let mut table = Table::start(&caption, &columns);
    for pause in summary.pauses.iter().take(MOST_ROWS) {
        table.row(&[
            Cell::Text(pause.src.map_or("others".into(), |src| src.to_string())),
            Cell::Text(pause.priority.map_or("all".into(), |priority| priority.to_string())),
            number(pause.frames),
            number(pause.resumes),
            number(pause.quanta),
            or_dash(pause.paused_ns.map(Duration)),
        ]);
    }
    table.finish()
}

/// The packets of an excerpt, each with its number as an anchor.
pub(super) fn packets(excerpt: &Excerpt) -> String {
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"packets\"><caption><span>Packets that findings and \
         losses speak of, with two before and after them; at most 2,000, of which 1,000 for losses. Times \
         count from the first packet of the capture.</span></caption><tbody>\n",
    );
    let mut next = None;
    for (number, line) in excerpt.lines() {
        if next.is_some_and(|next| next != number) {
            html += "<tr class=\"skip\"><td>...</td></tr>\n";
        }
        next = Some(number + 1);
        let _ = writeln!(html, "<tr id=\"p{number}\"><td>{}</td></tr>", Escaped(line));
    }
    html += "</tbody></table></div>\n";
    html
}
