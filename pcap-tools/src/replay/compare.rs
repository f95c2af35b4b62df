//! All captured answers of a stream against all of ours, in their order.
//!
//! Both responders answer in the order they are asked, so that the two rows of answers run side by
//! side. Where they do not, one of them acknowledged more often, or something is wrong.

use std::collections::{HashMap, HashSet};

use roce_codec::Frame;
use roce_codec::ib::{Msn, Psn};

use super::answer::{Judged, Sides, is_ack, msn_distance};
use super::freedom::{Freedom, Unknown};
use super::own::{Executed, OwnAnswer};
use super::report::{Kind, Mismatch, Permitted, StreamReport};

/// Answers looked ahead over for one that fits.
const AHEAD: usize = 256;

/// What beside the answers themselves decides.
pub(super) struct Circumstances<'a> {
    /// The tap is the responder's own, or nothing was lost: what is missing was not sent.
    pub(super) certain: bool,
    /// From here in the recording on nothing is compared, and why.
    pub(super) unknown_from: Option<(usize, Unknown)>,
    /// The first PSN, where it is learned from the first request: answers before it are to requests
    /// before the capture.
    pub(super) learned_first: Option<Psn>,
    /// Captured answers that taught memory which its owner must have changed.
    pub(super) owner_stores: &'a HashSet<usize>,
    /// Requests that were given with their ICRC put right.
    pub(super) shared_icrc: &'a HashSet<usize>,
    /// Where in the recording the connection is seen to end, or to have had time to answer.
    pub(super) silent_from: usize,
}

/// Requests looked back over for one that asked for an ACK.
const OWED: usize = 4096;

/// How far an answer may lie behind the first request of a capture that begins between the two.
const WINDOW: i32 = 1 << 16;

struct Walk<'a> {
    sides: Sides<'a>,
    with: Circumstances<'a>,
    by_psn: HashMap<Psn, &'a Executed>,
    report: &'a mut StreamReport,
    /// The last captured answer that was one: where it is, and its PSN.
    last: Option<(usize, Psn)>,
    /// The PSN of our last answer.
    last_own: Option<Psn>,
}

/// Compares, and enters the findings into `report`.
pub(super) fn compare(mut sides: Sides<'_>, with: Circumstances<'_>, report: &mut StreamReport) {
    let by_psn: HashMap<Psn, &Executed> = sides
        .own
        .executed
        .iter()
        .filter(|request| request.acknowledged)
        .map(|request| (request.last, request))
        .collect();
    if sides.stream.agreed.is_none() {
        sides.msn_base = msn_base(&sides);
        report.msn_base = sides.msn_base.get();
    }
    Walk { sides, with, by_psn, report, last: None, last_own: None }.walk();
}

/// By how much the captured MSNs are ahead of ours, by what most answers of the same PSN say.
fn msn_base(sides: &Sides<'_>) -> Msn {
    let mut ours: HashMap<Psn, Msn> = HashMap::new();
    for answer in &sides.own.answers {
        let frame = sides.ours(answer);
        if let Some(aeth) = frame.aeth() {
            ours.entry(frame.psn()).or_insert(aeth.msn);
        }
    }
    let mut votes: HashMap<u32, usize> = HashMap::new();
    for index in &sides.stream.answers {
        let frame = sides.theirs(*index);
        if let (Some(aeth), Some(own)) = (frame.aeth(), ours.get(&frame.psn())) {
            let base = Msn::new(aeth.msn.get().wrapping_sub(own.get()));
            *votes.entry(base.get()).or_default() += 1;
        }
    }
    // Where as many say one thing as the other, a connection that was seen from its start.
    let best = votes.into_iter().max_by_key(|(base, votes)| (*votes, std::cmp::Reverse(*base)));
    Msn::new(best.map_or(0, |(base, _)| base))
}

impl Walk<'_> {
    fn walk(&mut self) {
        let theirs = &self.sides.stream.answers;
        let ours = &self.sides.own.answers;
        let mut at = self.pass_over_earlier();
        let mut own = 0;
        loop {
            let next = (theirs.get(at).copied(), ours.get(own));
            if let (Some(index), Some((from, why))) = (next.0, self.with.unknown_from)
                && index > from
            {
                return self.unknown(why, theirs.len() - at);
            }
            match next {
                (Some(index), Some(answer)) => {
                    let (one, other) = self.step(index, answer, (at, own));
                    at += one;
                    own += other;
                    if other > 0 {
                        self.last_own = Some(self.sides.ours(answer).psn());
                    }
                }
                (Some(index), None) => {
                    self.not_answered(index);
                    at += 1;
                }
                (None, Some(answer)) => {
                    self.not_captured(answer);
                    self.last_own = Some(self.sides.ours(answer).psn());
                    own += 1;
                }
                (None, None) => return,
            }
        }
    }

    /// Leaves the answers to what was asked before the capture; says how many there are.
    fn pass_over_earlier(&mut self) -> usize {
        let Some(first) = self.with.learned_first else { return 0 };
        let is_before = |index: usize| {
            (1..=WINDOW).contains(&first.distance_from(self.sides.theirs(index).psn()))
        };
        let answers = self.sides.stream.answers.iter();
        let count = answers.take_while(|index| is_before(**index)).count();
        if count > 0 {
            self.unknown(Unknown::CaptureBegins, count);
        }
        count
    }

    /// Compares what comes next on both sides; says how many of each are done with.
    fn step(&mut self, index: usize, answer: &OwnAnswer, at: (usize, usize)) -> (usize, usize) {
        let judged = self.sides.compare(index, answer);
        if judged.fields.is_empty() {
            self.equal(index, answer, &judged);
            return (1, 1);
        }
        let theirs = self.sides.theirs(index);
        let ours = self.sides.ours(answer);
        if self.is_covered(answer, &ours, Some((index, theirs.psn()))) {
            self.permitted(Freedom::Coalescing, None, answer);
            return (0, 1);
        }
        let own_is_later = ours.psn().is_after(theirs.psn());
        if own_is_later && self.may_acknowledge(index, &theirs) {
            self.permitted(Freedom::Coalescing, Some(index), answer);
            self.last = Some((index, theirs.psn()));
            self.report.compared += 1;
            return (1, 0);
        }
        if theirs.psn() == ours.psn() {
            self.differs(index, answer, judged);
            return (1, 1);
        }
        let fits = |index: usize, answer: &OwnAnswer| {
            self.sides.theirs(index).psn() == self.sides.ours(answer).psn()
                && self.sides.compare(index, answer).fields.is_empty()
        };
        let later_ours = self.sides.own.answers.iter().skip(at.1).take(AHEAD);
        let skip_ours = later_ours.into_iter().position(|answer| fits(index, answer));
        let later_theirs = self.sides.stream.answers.iter().skip(at.0).take(AHEAD);
        let skip_theirs = later_theirs.into_iter().position(|index| fits(*index, answer));
        match (skip_ours, skip_theirs) {
            // Where something was lost behind the tap, ours has more.
            (Some(skip), theirs)
                if !self.with.certain || theirs.is_none_or(|other| skip <= other) =>
            {
                self.not_captured(answer);
                (0, 1)
            }
            (_, Some(_)) => {
                self.not_answered(index);
                (1, 0)
            }
            _ => {
                self.differs(index, answer, judged);
                (1, 1)
            }
        }
    }

    /// Whether a captured answer acknowledges what an ACK of ours does: the next one, or the last,
    /// if it came after our responder was asked.
    fn is_covered(&self, answer: &OwnAnswer, ours: &Frame<'_>, next: Option<(usize, Psn)>) -> bool {
        let asked_at = self.sides.asked_at(answer);
        is_ack(ours)
            && (next.is_some_and(|(_, psn)| psn.is_after(ours.psn()))
                || self.last.is_some_and(|(at, psn)| at > asked_at && !psn.is_before(ours.psn())))
    }

    /// Whether a captured ACK that we have none for is right: it acknowledges for the first time what
    /// had been asked, with the MSN of that time.
    fn may_acknowledge(&self, index: usize, theirs: &Frame<'_>) -> bool {
        let is_new = self.last.is_none_or(|(_, psn)| theirs.psn().is_after(psn));
        is_new && self.is_true(index, theirs)
    }

    /// Whether something up to this PSN asked for an ACK, and ours has not acknowledged it.
    fn owes(&self, psn: Psn) -> bool {
        let executed = self.sides.own.executed.iter().rev();
        let up_to = executed.skip_while(|request| request.last.is_after(psn)).take(OWED);
        let since =
            up_to.take_while(|request| self.last_own.is_none_or(|own| request.last.is_after(own)));
        since.into_iter().any(|request| request.acknowledged && request.asks)
    }

    /// Whether a captured ACK says what held at its PSN.
    fn is_true(&self, index: usize, theirs: &Frame<'_>) -> bool {
        let Some(request) = self.by_psn.get(&theirs.psn()) else { return false };
        let base = self.sides.msn_base.get();
        let msn = Msn::new(request.msn.get().wrapping_add(base));
        is_ack(theirs)
            && request.index < index
            && theirs.aeth().is_some_and(|aeth| msn_distance(aeth.msn, msn) == 0)
    }

    fn equal(&mut self, index: usize, answer: &OwnAnswer, judged: &Judged) {
        self.report.compared += 1;
        self.last = Some((index, self.sides.theirs(index).psn()));
        let asked_at = self.sides.asked_at(answer);
        let mut freedoms = judged.freedoms.clone();
        if self.with.shared_icrc.contains(&asked_at) {
            freedoms.push(Freedom::SharedIcrc);
        }
        if self.with.owner_stores.contains(&index) {
            freedoms.push(Freedom::OwnerStore);
        }
        if freedoms.is_empty() {
            self.report.equal += 1;
        }
        for freedom in freedoms {
            self.permitted(freedom, Some(index), answer);
        }
    }

    fn permitted(&mut self, freedom: Freedom, index: Option<usize>, answer: &OwnAnswer) {
        let packet = index.map(|index| self.sides.recording.packet(index).number);
        let request = self.number(self.sides.asked_at(answer));
        self.report.permit(Permitted { freedom, request, packet });
    }

    fn number(&self, index: usize) -> u64 {
        self.sides.recording.packet(index).number
    }

    fn differs(&mut self, index: usize, answer: &OwnAnswer, judged: Judged) {
        self.report.compared += 1;
        self.last = Some((index, self.sides.theirs(index).psn()));
        self.report.mismatch(Mismatch {
            kind: Kind::Different,
            request: Some(self.number(self.sides.asked_at(answer))),
            packet: Some(self.number(index)),
            fields: judged.fields,
            message: describe(&self.sides.theirs(index)),
        });
    }

    /// A captured answer that we have none for.
    fn not_answered(&mut self, index: usize) {
        let theirs = self.sides.theirs(index);
        self.report.compared += 1;
        if self.may_acknowledge(index, &theirs) && !self.owes(theirs.psn()) {
            self.last = Some((index, theirs.psn()));
            let packet = Some(self.number(index));
            let request = self.by_psn.get(&theirs.psn()).map_or(0, |request| request.index);
            let request = self.number(request);
            let freedom = Freedom::Coalescing;
            return self.report.permit(Permitted { freedom, request, packet });
        }
        // What ours has executed since may have been lost on the way to the captured responder.
        if !self.with.certain && self.is_true(index, &theirs) {
            return self.report.leave(Unknown::LostBehindTap, 1);
        }
        self.report.mismatch(Mismatch {
            kind: Kind::NotAnswered,
            request: None,
            packet: Some(self.number(index)),
            fields: Vec::new(),
            message: describe(&theirs),
        });
    }

    /// An answer of ours that the capture has none for.
    fn not_captured(&mut self, answer: &OwnAnswer) {
        let ours = self.sides.ours(answer);
        let asked_at = self.sides.asked_at(answer);
        if self.is_covered(answer, &ours, None) {
            return self.permitted(Freedom::Coalescing, None, answer);
        }
        if !self.with.certain {
            return self.report.leave(Unknown::LostBehindTap, 1);
        }
        let last = self.sides.stream.answers.last();
        if last.is_none_or(|last| *last < asked_at) && asked_at >= self.with.silent_from {
            return self.report.leave(Unknown::CaptureEnds, 1);
        }
        self.report.mismatch(Mismatch {
            kind: Kind::NotCaptured,
            request: Some(self.number(asked_at)),
            packet: None,
            fields: Vec::new(),
            message: describe(&ours),
        });
    }

    fn unknown(&mut self, why: Unknown, count: usize) {
        self.report.leave(why, u64::try_from(count).unwrap_or(u64::MAX));
    }
}

/// An answer in a few words.
fn describe(frame: &Frame<'_>) -> String {
    match frame.aeth() {
        Some(aeth) => format!(
            "{} PSN {} {} msn={}",
            frame.opcode(),
            frame.psn(),
            aeth.syndrome,
            aeth.msn.get()
        ),
        None => format!("{} PSN {}", frame.opcode(), frame.psn()),
    }
}
