//! The figures as JSON: one object, or one a line and row.

use std::io::{self, Write};

use super::figures::Figures;
use super::measure::measures;
use super::rate::Interval;
use super::{FlowSummary, HostSummary, Pause, Summary};
use crate::json::{Object, Seconds};
use crate::message::Recovery;
use crate::observed::FlowKey;

impl Summary {
    /// Writes one object: `total`, and the arrays `hosts`, `flows`, `losses`, `pauses` and
    /// `intervals`, the last of the flows that DCQCN is followed for.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, file: &str, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{\"file\":")?;
        serde_json::to_writer(&mut *out, file)?;
        out.write_all(b",\"total\":")?;
        self.total(&mut Object::start(out)?)?.end()?;
        for (_, name, rows) in self.tables() {
            write!(out, ",\n\"{name}\":[")?;
            for (at, row) in rows.into_iter().enumerate() {
                out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
                row.write(self, &mut Object::start(out)?)?.end()?;
            }
            out.write_all(b"]")?;
        }
        out.write_all(b"}\n")
    }

    /// Writes one object a line, each with `table`: `total`, `host`, `flow`, `loss`, `pause` or
    /// `interval`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_jsonl(&self, file: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut object = start("total", file, out)?;
        self.total(&mut object)?.end()?;
        out.write_all(b"\n")?;
        for (name, _, rows) in self.tables() {
            for row in rows {
                row.write(self, &mut start(name, file, out)?)?.end()?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn total<'o, 'w>(&self, object: &'o mut Object<'w>) -> io::Result<&'o mut Object<'w>> {
        object
            .raw("capture_packets", self.packets)?
            .option("link_bps", self.link_bps)?
            .raw("losses_dropped", self.recoveries_dropped)?;
        figures(object, &self.total)
    }

    /// What one row is called, and all of them, and the rows.
    fn tables(&self) -> [(&'static str, &'static str, Vec<Row<'_>>); 5] {
        let mut flows: Vec<_> = self.flows.iter().map(Row::Flow).collect();
        flows.extend(self.forgotten.iter().map(|(sum, count)| Row::Forgotten(sum, *count)));
        let limited = self.flows.iter().filter(|flow| flow.allowed_bps.is_some());
        let intervals = limited.flat_map(|flow| {
            let rates = flow.rates.iter().flat_map(super::rate::Rates::intervals);
            rates.map(move |interval| Row::Interval(flow.key, interval))
        });
        [
            ("host", "hosts", self.hosts.iter().map(Row::Host).collect()),
            ("flow", "flows", flows),
            ("loss", "losses", self.recoveries.iter().map(Row::Recovery).collect()),
            ("pause", "pauses", self.pauses.iter().map(Row::Pause).collect()),
            ("interval", "intervals", intervals.collect()),
        ]
    }
}

/// Starts a line's object.
fn start<'w>(table: &str, file: &str, out: &'w mut dyn Write) -> io::Result<Object<'w>> {
    let mut object = Object::start(out)?;
    object.text("table", table)?.text("file", file)?;
    Ok(object)
}

/// A row of one of the tables.
enum Row<'s> {
    Host(&'s HostSummary),
    Flow(&'s FlowSummary),
    Forgotten(&'s Figures, u64),
    Recovery(&'s Recovery),
    Pause(&'s Pause),
    Interval(FlowKey, Interval),
}

impl Row<'_> {
    fn write<'o, 'w>(
        &self,
        summary: &Summary,
        object: &'o mut Object<'w>,
    ) -> io::Result<&'o mut Object<'w>> {
        match self {
            Self::Host(host) => {
                let name = host.host.map_or("others".into(), |host| host.to_string());
                object
                    .text("host", name)?
                    .raw("received_packets", host.received_packets)?
                    .raw("received_wire_bytes", host.received_bytes)?;
                figures(object, &host.figures)
            }
            Self::Flow(flow) => {
                key(object, &flow.key)?
                    .option("src_qp", flow.peer.map(|peer| peer.dest_qp.get()))?
                    .option("dcqcn_rate_bps", flow.allowed_bps)?;
                figures(object, &flow.figures)
            }
            Self::Forgotten(sum, count) => {
                object.raw("other_flows", count)?;
                figures(object, sum)
            }
            Self::Recovery(recovery) => recovery_fields(object, recovery),
            Self::Pause(pause) => {
                match pause.src {
                    Some(src) => object.text("src", src)?,
                    None => object.raw("src", "null")?,
                };
                object
                    .option("priority", pause.priority)?
                    .raw("frames", pause.frames)?
                    .raw("resumes", pause.resumes)?
                    .raw("quanta", pause.quanta)?
                    .option("paused_ns", pause.paused_ns)
            }
            Self::Interval(flow, interval) => {
                let start = summary.total.span_ns.map_or(0, |(first, _)| first);
                key(object, flow)?
                    .raw("since_start_ns", interval.start_ns.saturating_sub(start))?
                    .raw("width_ns", interval.width_ns)?
                    .raw("sent_bps", format_args!("{:.0}", interval.sent_bps))?
                    .option("dcqcn_bps", interval.allowed_bps.map(|bps| format!("{bps:.0}")))?
                    .option("dcqcn_alpha", interval.alpha.map(|alpha| format!("{alpha:.6}")))?
                    .raw("ce_packets", interval.ce)?
                    .raw("cnp_packets", interval.cnps)
            }
        }
    }
}

fn key<'o, 'w>(object: &'o mut Object<'w>, key: &FlowKey) -> io::Result<&'o mut Object<'w>> {
    object.text("src", key.src)?.text("dst", key.dst)?.raw("dest_qp", key.dest_qp.get())
}

fn figures<'o, 'w>(
    object: &'o mut Object<'w>,
    figures: &Figures,
) -> io::Result<&'o mut Object<'w>> {
    for (name, measure) in measures() {
        object.option(name, measure(figures))?;
    }
    Ok(object)
}

fn recovery_fields<'o, 'w>(
    object: &'o mut Object<'w>,
    recovery: &Recovery,
) -> io::Result<&'o mut Object<'w>> {
    key(object, &recovery.flow)?
        .text("cause", recovery.cause)?
        .raw("psn", recovery.psn.get())?
        .option("stalled", recovery.stalled_ns.map(Seconds))?
        .option("detected", recovery.detected_ns.map(Seconds))?
        .raw("detected_packet", recovery.detected_packet)?
        .option("resent", recovery.resent_ns.map(Seconds))?
        .option("resent_packet", recovery.resent_packet)?
        .option("recovered", recovery.recovered_ns.map(Seconds))?
        .option("recovered_packet", recovery.recovered_packet)?
        .option("recovery_ns", recovery.time_ns())?
        .raw("packets_resent", recovery.packets_resent)?
        .raw("rounds", recovery.rounds)
}
