//! The figures as tables for people.

use std::io::{self, Write};

use super::figures::Figures;
use super::quantity::{Bytes, Duration, Rate};
use super::{FlowSummary, Summary};
use crate::message::Cause;

/// Flows listed; JSON and CSV have all.
const MOST_FLOWS: usize = 50;
/// Losses listed.
const MOST_LOSSES: usize = 20;

/// A table: columns are as wide as their widest cell, all but the first to the right.
#[derive(Default)]
struct Table(Vec<Vec<String>>);

impl Table {
    fn headed(cells: &[&str]) -> Self {
        let mut table = Self::default();
        table.row(cells.iter().map(ToString::to_string));
        table
    }

    fn row(&mut self, cells: impl Iterator<Item = String>) {
        self.0.push(cells.collect());
    }

    fn write(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.0.len() < 2 {
            return Ok(());
        }
        writeln!(out, "\n{title}")?;
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match at {
                    0 => line += &format!("  {cell:<width$}"),
                    _ => line += &format!("  {cell:>width$}"),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Summary {
    /// Writes the figures as tables.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let Figures { packets, damaged_packets, .. } = self.total;
        write!(out, "{} packets, {packets} RoCE ({damaged_packets} damaged), ", self.packets)?;
        write!(out, "{} flows", self.flows.len())?;
        if let Some((_, count)) = &self.forgotten {
            write!(out, " and {count} that were forgotten")?;
        }
        writeln!(out, ", {}", self.total.elapsed_ns().map_or("no times".into(), duration))?;
        self.hosts(out)?;
        self.messages(out)?;
        self.trouble(out)?;
        self.losses(out)?;
        self.pauses(out)?;
        writeln!(
            out,
            "\nLatency: from a message's first packet to its completion, both as the tap saw them;"
        )?;
        writeln!(out, "quantiles are at most 1 % too high, the greatest is exact.")
    }

    fn hosts(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::headed(&[
            "host",
            "packets sent",
            "bytes sent",
            "received",
            "messages",
            "user data",
            "CE sent",
            "CNP received",
        ]);
        for host in &self.hosts {
            let figures = &host.figures;
            table.row(
                [
                    host.host.map_or("others".into(), |host| host.to_string()),
                    figures.packets.to_string(),
                    Bytes(figures.wire_bytes).to_string(),
                    host.received_packets.to_string(),
                    figures.operations.total().to_string(),
                    Bytes(figures.bytes).to_string(),
                    figures.ce_packets.to_string(),
                    figures.cnps.to_string(),
                ]
                .into_iter(),
            );
        }
        table.write("Hosts", out)
    }

    /// The flows that asked for something, as they are called, and the sum of all.
    fn requesters(&self) -> impl Iterator<Item = (String, &Figures)> {
        let flows = self.flows.iter().filter(|flow| flow.figures.operations.total() > 0);
        let named = flows.take(MOST_FLOWS).map(|flow| (flow.name(), &flow.figures));
        named.chain([("total".to_owned(), &self.total)])
    }

    fn messages(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::headed(&[
            "requester > responder",
            "messages",
            "what",
            "user data",
            "goodput",
            "p50",
            "p99",
            "p99.9",
            "max",
            "not acknowledged",
        ]);
        for (name, figures) in self.requesters() {
            let latency = &figures.latency;
            let quantile = |share| or_dash(latency.quantile_ns(share).map(duration));
            table.row(
                [
                    name,
                    figures.operations.total().to_string(),
                    what(figures),
                    Bytes(figures.bytes).to_string(),
                    or_dash(figures.goodput_bps().map(|bps| Rate(bps).to_string())),
                    quantile(0.5),
                    quantile(0.99),
                    quantile(0.999),
                    or_dash(latency.max_ns().map(duration)),
                    not_acknowledged(figures),
                ]
                .into_iter(),
            );
        }
        table.write("Messages", out)?;
        let asking = self.flows.iter().filter(|flow| flow.figures.operations.total() > 0).count();
        if asking > MOST_FLOWS {
            writeln!(out, "  ({} more flows: --format csv has all)", asking - MOST_FLOWS)?;
        }
        Ok(())
    }

    fn trouble(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::headed(&[
            "flow",
            "sent again",
            "late",
            "losses",
            "recovery p50",
            "max",
            "seq. NAK",
            "RNR NAK",
            "refused",
            "CE",
            "CNP",
        ]);
        let flows = self.flows.iter().map(|flow| (flow.name(), &flow.figures));
        let troubled = flows.filter(|(_, figures)| has_trouble(figures)).take(MOST_FLOWS);
        for (name, figures) in troubled.chain([("total".to_owned(), &self.total)]) {
            table.row(
                [
                    name,
                    figures.retransmitted_packets.to_string(),
                    figures.late_packets.to_string(),
                    figures.losses().to_string(),
                    or_dash(figures.recovery.quantile_ns(0.5).map(duration)),
                    or_dash(figures.recovery.max_ns().map(duration)),
                    figures.sequence_naks.to_string(),
                    figures.rnr_naks.to_string(),
                    figures.refusals.to_string(),
                    figures.ce_packets.to_string(),
                    figures.cnps.to_string(),
                ]
                .into_iter(),
            );
        }
        table.write("Loss and congestion", out)
    }

    fn losses(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::headed(&[
            "loss, or wait for a receive",
            "PSN",
            "packet",
            "cause",
            "resent from",
            "packets resent",
            "rounds",
            "time to recover",
        ]);
        for recovery in self.recoveries.iter().take(MOST_LOSSES) {
            table.row(
                [
                    recovery.flow.to_string(),
                    recovery.psn.to_string(),
                    recovery.detected_packet.to_string(),
                    recovery.cause.to_string(),
                    or_dash(recovery.resent_packet.map(|packet| packet.to_string())),
                    recovery.packets_resent.to_string(),
                    recovery.rounds.to_string(),
                    or_dash(recovery.time_ns().map(duration)),
                ]
                .into_iter(),
            );
        }
        table.write("Losses", out)?;
        let listed = self.recoveries.len().min(MOST_LOSSES);
        let all: u64 = Cause::ALL.iter().map(|cause| self.total.recoveries_by(*cause)).sum();
        let more = all.saturating_sub(u64::try_from(listed).unwrap_or(all));
        if more > 0 {
            writeln!(out, "  ({more} more: --format json has the first {})", Self::MAX_RECOVERIES)?;
        }
        Ok(())
    }

    fn pauses(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::headed(&[
            "pauses asked for by",
            "priority",
            "frames",
            "resumes",
            "quanta",
            "time",
        ]);
        for pause in &self.pauses {
            table.row(
                [
                    pause.src.map_or("others".into(), |src| src.to_string()),
                    pause.priority.map_or("all".into(), |priority| priority.to_string()),
                    pause.frames.to_string(),
                    pause.resumes.to_string(),
                    pause.quanta.to_string(),
                    pause.paused_ns.map_or("needs --link-rate".into(), duration),
                ]
                .into_iter(),
            );
        }
        table.write("Pauses", out)
    }
}

impl FlowSummary {
    /// `10.0.0.1 QP 18 > 10.0.0.2 QP 17`; a queue pair that is not known is left out.
    #[must_use]
    pub fn name(&self) -> String {
        let own = self.peer.map_or(String::new(), |peer| format!(" QP {}", peer.dest_qp));
        format!("{}{own} > {} QP {}", self.key.src, self.key.dst, self.key.dest_qp)
    }
}

fn has_trouble(figures: &Figures) -> bool {
    let troubles = figures.retransmitted_packets
        + figures.late_packets
        + figures.losses()
        + figures.sequence_naks
        + figures.rnr_naks
        + figures.refusals
        + figures.ce_packets
        + figures.cnps;
    troubles > 0
}

fn duration(ns: u64) -> String {
    Duration(ns).to_string()
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".into())
}

fn what(figures: &Figures) -> String {
    let operations = &figures.operations;
    list([
        (operations.send, "SEND"),
        (operations.write, "WRITE"),
        (operations.read, "READ"),
        (operations.atomic, "ATOMIC"),
        (operations.flush, "FLUSH"),
        (operations.atomic_write, "ATOMIC WRITE"),
        (operations.datagram, "UD SEND"),
    ])
}

fn not_acknowledged(figures: &Figures) -> String {
    let endings = &figures.endings;
    list([
        (endings.refused, "refused"),
        (endings.rnr, "RNR"),
        (endings.open, "open"),
        (endings.answers_unseen, "answers unseen"),
        (endings.unreliable, "unreliable"),
    ])
}

fn list<const N: usize>(counts: [(u64, &str); N]) -> String {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = some.map(|(count, name)| format!("{count} {name}")).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}
