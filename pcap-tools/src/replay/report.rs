//! What a replay found.

use std::collections::BTreeMap;
use std::fmt;

use super::freedom::{Freedom, Unknown};
use super::plan::StreamPlan;
use super::recording::Skipped;
use super::taps::Drops;

/// One field in which our answer differs from the captured one, for which there is no freedom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What was captured.
    pub expected: String,
    /// What ours has.
    pub found: String,
}

/// The kinds of mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An answer has other contents.
    Different,
    /// Ours did not answer what the captured responder did.
    NotAnswered,
    /// Ours answered what the captured responder did not.
    NotCaptured,
    /// A message was not delivered as it was sent.
    Delivery,
    /// At the end, memory is not what the requests make it.
    Memory,
}

impl Kind {
    /// The name in output.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Different => "different",
            Self::NotAnswered => "not-answered",
            Self::NotCaptured => "not-captured",
            Self::Delivery => "delivery",
            Self::Memory => "memory",
        }
    }

    const fn says(self) -> &'static str {
        match self {
            Self::Different => "our answer is another",
            Self::NotAnswered => "our responder does not answer so",
            Self::NotCaptured => "only our responder answers so",
            Self::Delivery => "the message was not delivered as sent",
            Self::Memory => "memory is not what the requests make it",
        }
    }
}

/// A difference that no freedom explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What kind of difference.
    pub kind: Kind,
    /// The number of the request's packet.
    pub request: Option<u64>,
    /// The number of the captured answer's packet.
    pub packet: Option<u64>,
    /// What differs.
    pub fields: Vec<Field>,
    /// The answer that differs: the captured one, or ours where none was captured.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(packet) = self.packet {
            write!(f, "packet {packet}")?;
        }
        if let Some(request) = self.request {
            let comma = if self.packet.is_some() { ", " } else { "" };
            write!(f, "{comma}request {request}")?;
        }
        write!(f, ": {}: {}", self.kind.says(), self.message)?;
        for Field { name, expected, found } in &self.fields {
            write!(f, "; {name}: captured {expected}, ours {found}")?;
        }
        Ok(())
    }
}

/// A difference that a freedom explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permitted {
    /// Which one.
    pub freedom: Freedom,
    /// The number of the request's packet.
    pub request: u64,
    /// The number of the captured answer's packet; `None` where only ours answered.
    pub packet: Option<u64>,
}

/// Findings of each kind that a stream keeps in full; the rest are counted.
const MOST_KEPT: usize = 1000;

/// What became of one stream.
#[derive(Debug)]
#[non_exhaustive]
pub struct StreamReport {
    /// What our responder was given.
    pub plan: StreamPlan,
    /// Which of the captures it is of: 0, or 1 for the second tap.
    pub tap: usize,
    /// Requests given to our responder.
    pub given: u64,
    /// Requests that the capture cut, which are never given.
    pub cut: u64,
    /// Requests that a NAK shows to have been lost behind the tap.
    pub lost: u64,
    /// Requests with a wrong ICRC, which our responder dropped as the captured one did.
    pub damaged: u64,
    /// Captured answers compared.
    pub compared: u64,
    /// Those equal to ours in every field.
    pub equal: u64,
    /// Captured answers with a wrong ICRC, which say nothing.
    pub damaged_answers: u64,
    /// By how much the captured MSNs are ahead: the connection began before the capture.
    pub msn_base: u32,
    /// Messages that were delivered as they were sent.
    pub delivered: u64,
    /// Bytes of memory that captured answers taught.
    pub learned: u64,
    /// Differences that proved nothing, by why.
    pub unknown: BTreeMap<Unknown, u64>,
    /// Permitted differences, by freedom.
    pub freedoms: BTreeMap<Freedom, u64>,
    /// The first of the permitted differences.
    pub permitted: Vec<Permitted>,
    /// Differences that nothing explains.
    pub mismatches: u64,
    /// The first of them.
    pub mismatch: Vec<Mismatch>,
}

impl StreamReport {
    pub(super) fn new(plan: StreamPlan, tap: usize, damaged_answers: u64) -> Self {
        Self {
            plan,
            tap,
            given: 0,
            cut: 0,
            lost: 0,
            damaged: 0,
            compared: 0,
            equal: 0,
            damaged_answers,
            msn_base: 0,
            delivered: 0,
            learned: 0,
            unknown: BTreeMap::new(),
            freedoms: BTreeMap::new(),
            permitted: Vec::new(),
            mismatches: 0,
            mismatch: Vec::new(),
        }
    }

    pub(super) fn permit(&mut self, permitted: Permitted) {
        *self.freedoms.entry(permitted.freedom).or_default() += 1;
        if self.permitted.len() < MOST_KEPT {
            self.permitted.push(permitted);
        }
    }

    pub(super) fn leave(&mut self, why: Unknown, count: u64) {
        *self.unknown.entry(why).or_default() += count;
    }

    pub(super) fn mismatch(&mut self, mismatch: Mismatch) {
        self.mismatches += 1;
        if self.mismatch.len() < MOST_KEPT {
            self.mismatch.push(mismatch);
        }
    }
}

/// What a replay found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// By stream, in the order of their first requests.
    pub streams: Vec<StreamReport>,
    /// Packets of the first capture that are not replayed, by reason.
    pub skipped: Vec<(Skipped, u64)>,
    /// What was lost between two taps.
    pub drops: Option<Drops>,
    /// What passed over the wire, if one was used.
    pub wire: Option<Wire>,
}

/// What passed over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Wire {
    /// Requests sent.
    pub sent: u64,
    /// Requests that the port had no room for, for as long as an answer is waited for.
    pub not_sent: u64,
    /// How late a request was at most, in nanoseconds.
    pub latest_ns: u64,
    /// Streams in which an answer did not come in time.
    pub timeouts: u64,
    /// Frames received that are no answers to these requests.
    pub foreign: u64,
    /// Answers received with a wrong ICRC.
    pub damaged: u64,
}

/// The numbers of all streams together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Total {
    /// Requests given to our responder.
    pub given: u64,
    /// Captured answers compared.
    pub compared: u64,
    /// Those equal to ours in every field.
    pub equal: u64,
    /// Messages that were delivered as they were sent.
    pub delivered: u64,
    /// Requests that were never given: cut by the capture.
    pub cut: u64,
    /// Permitted differences, by freedom.
    pub freedoms: BTreeMap<Freedom, u64>,
    /// Differences that proved nothing, by why.
    pub unknown: BTreeMap<Unknown, u64>,
    /// Differences that nothing explains.
    pub mismatches: u64,
}

impl Report {
    /// Whether nothing differs but by the freedoms.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.streams.iter().all(|stream| stream.mismatches == 0)
    }

    /// The numbers of all streams together.
    #[must_use]
    pub fn total(&self) -> Total {
        let mut total = Total::default();
        for stream in &self.streams {
            total.given += stream.given;
            total.compared += stream.compared;
            total.equal += stream.equal;
            total.delivered += stream.delivered;
            total.cut += stream.cut;
            total.mismatches += stream.mismatches;
            for (freedom, count) in &stream.freedoms {
                *total.freedoms.entry(*freedom).or_default() += count;
            }
            for (why, count) in &stream.unknown {
                *total.unknown.entry(*why).or_default() += count;
            }
        }
        total
    }
}
