//! A replay's report for people and programs.

use std::io::{self, Write};

use super::freedom::Freedom;
use super::report::{Field, Mismatch, Permitted, Report, StreamReport};
use crate::json::Object;

impl Report {
    /// Writes the report for people: what differs, a row a stream, the sums. `freedoms` lists the
    /// permitted differences, too.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_text(&self, freedoms: bool, out: &mut dyn Write) -> io::Result<()> {
        for stream in &self.streams {
            for mismatch in &stream.mismatch {
                writeln!(out, "{}: {mismatch}", name(stream))?;
            }
            let more = stream.mismatches - count(stream.mismatch.len());
            if more > 0 {
                writeln!(out, "{}: and {more} more", name(stream))?;
            }
            if freedoms {
                for permitted in &stream.permitted {
                    write_permitted(stream, permitted, out)?;
                }
            }
        }
        for stream in &self.streams {
            write_row(stream, out)?;
        }
        let total = self.total();
        writeln!(
            out,
            "{} requests given, {} answers compared, {} equal, {} messages delivered",
            total.given, total.compared, total.equal, total.delivered
        )?;
        for (freedom, count) in &total.freedoms {
            writeln!(
                out,
                "permitted: {freedom} {count} ({}: {})",
                freedom.clause(),
                freedom.why()
            )?;
        }
        for (why, count) in &total.unknown {
            writeln!(out, "unknown: {why} {count}")?;
        }
        if total.cut > 0 {
            let cut = total.cut;
            writeln!(out, "{cut} requests not given: cut by the capture (snap length)")?;
        }
        if let Some(drops) = self.drops {
            writeln!(
                out,
                "lost between the taps: {} requests, {} answers",
                drops.requests, drops.answers
            )?;
            if drops.strays > 0 {
                writeln!(out, "seen by the farther tap alone: {} packets", drops.strays)?;
            }
        }
        if let Some(wire) = self.wire {
            let late = wire.latest_ns / 1000;
            writeln!(out, "{} requests sent, at most {late} us late", wire.sent)?;
            let rest = [
                ("requests not sent, the port was full", wire.not_sent),
                ("streams in which an answer did not come in time", wire.timeouts),
                ("frames received that are no answers", wire.foreign),
                ("answers received with a wrong ICRC", wire.damaged),
            ];
            for (what, count) in rest.into_iter().filter(|(_, count)| *count > 0) {
                writeln!(out, "{what}: {count}")?;
            }
        }
        for (why, count) in &self.skipped {
            writeln!(out, "not replayed: {why} {count}")?;
        }
        writeln!(out, "{} mismatches", total.mismatches)
    }

    /// Writes the report as JSON, an object a line: `{"mismatch":...}`, `{"permitted":...}`,
    /// `{"stream":...}`, and last `{"summary":...}`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for stream in &self.streams {
            for mismatch in &stream.mismatch {
                write_mismatch(stream, mismatch, out)?;
            }
            for permitted in &stream.permitted {
                out.write_all(b"{\"permitted\":")?;
                Object::start(out)?
                    .text("stream", name(stream))?
                    .text("freedom", permitted.freedom)?
                    .raw("request", permitted.request)?
                    .option("packet", permitted.packet)?
                    .end()?;
                out.write_all(b"}\n")?;
            }
        }
        for stream in &self.streams {
            out.write_all(b"{\"stream\":")?;
            let mut object = Object::start(out)?;
            object
                .text("stream", name(stream))?
                .raw("tap", stream.tap)?
                .raw("requests", stream.plan.requests)?
                .raw("given", stream.given)?
                .raw("cut", stream.cut)?
                .raw("lost", stream.lost)?
                .raw("damaged", stream.damaged)?
                .raw("answers", stream.plan.answers)?
                .raw("compared", stream.compared)?
                .raw("equal", stream.equal)?
                .raw("delivered", stream.delivered)?
                .raw("learned_bytes", stream.learned)?
                .raw("msn_base", stream.msn_base)?;
            counts(
                &mut object,
                stream.freedoms.iter().map(|(freedom, count)| (freedom.id(), *count)),
            )?;
            counts(&mut object, stream.unknown.iter().map(|(why, count)| (why.id(), *count)))?;
            object.raw("mismatches", stream.mismatches)?.end()?;
            out.write_all(b"}\n")?;
        }
        let total = self.total();
        out.write_all(b"{\"summary\":")?;
        let mut object = Object::start(out)?;
        object
            .raw("given", total.given)?
            .raw("compared", total.compared)?
            .raw("equal", total.equal)?
            .raw("delivered", total.delivered)?
            .raw("cut", total.cut)?;
        counts(&mut object, total.freedoms.iter().map(|(freedom, count)| (freedom.id(), *count)))?;
        counts(&mut object, total.unknown.iter().map(|(why, count)| (why.id(), *count)))?;
        if let Some(drops) = self.drops {
            object
                .raw("lost_requests", drops.requests)?
                .raw("lost_answers", drops.answers)?
                .raw("strays", drops.strays)?;
        }
        if let Some(wire) = self.wire {
            object
                .raw("sent", wire.sent)?
                .raw("not_sent", wire.not_sent)?
                .raw("latest_ns", wire.latest_ns)?
                .raw("timeouts", wire.timeouts)?
                .raw("foreign", wire.foreign)?
                .raw("damaged", wire.damaged)?;
        }
        for (why, count) in &self.skipped {
            object.raw(&format!("not replayed: {why}"), count)?;
        }
        object.raw("mismatches", total.mismatches)?.end()?;
        out.write_all(b"}\n")
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A stream in a few words.
fn name(stream: &StreamReport) -> String {
    let plan = &stream.plan;
    format!("{:?} {} > {} QP {}", plan.service, plan.requester, plan.responder, plan.qpn)
}

fn write_row(stream: &StreamReport, out: &mut dyn Write) -> io::Result<()> {
    write!(
        out,
        "{}: {} of {} requests given, {} of {} answers compared, {} equal",
        name(stream),
        stream.given,
        stream.plan.requests,
        stream.compared,
        stream.plan.answers,
        stream.equal
    )?;
    for (freedom, count) in &stream.freedoms {
        write!(out, ", {freedom} {count}")?;
    }
    for (why, count) in &stream.unknown {
        write!(out, ", unknown ({why}) {count}")?;
    }
    let rest = [
        ("delivered", stream.delivered),
        ("lost behind the tap", stream.lost),
        ("damaged requests", stream.damaged),
        ("damaged answers", stream.damaged_answers),
        ("cut", stream.cut),
        ("bytes of memory learned", stream.learned),
        ("MSN ahead by", stream.msn_base.into()),
        ("mismatches", stream.mismatches),
    ];
    for (what, count) in rest.into_iter().filter(|(_, count)| *count > 0) {
        write!(out, ", {what} {count}")?;
    }
    writeln!(out)
}

fn write_permitted(
    stream: &StreamReport,
    permitted: &Permitted,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Permitted { freedom, request, packet } = permitted;
    write!(out, "{}: request {request}", name(stream))?;
    if let Some(packet) = packet {
        write!(out, ", packet {packet}")?;
    }
    writeln!(out, ": {freedom}")
}

fn write_mismatch(
    stream: &StreamReport,
    mismatch: &Mismatch,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Mismatch { kind, request, packet, fields, message } = mismatch;
    out.write_all(b"{\"mismatch\":")?;
    let mut object = Object::start(out)?;
    object
        .text("stream", name(stream))?
        .text("kind", kind.id())?
        .option("request", *request)?
        .option("packet", *packet)?
        .text("message", message)?;
    for Field { name, expected, found } in fields {
        object.text(&format!("captured {name}"), expected)?;
        object.text(&format!("our {name}"), found)?;
    }
    object.end()?;
    out.write_all(b"}\n")
}

fn counts<'a>(
    object: &mut Object<'_>,
    counts: impl Iterator<Item = (&'a str, u64)>,
) -> io::Result<()> {
    for (name, count) in counts {
        object.raw(name, count)?;
    }
    Ok(())
}

impl Freedom {
    /// The freedom of this name.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|freedom| freedom.id() == id)
    }
}
