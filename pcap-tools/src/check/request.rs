//! A flow's requests: their order, their PSNs, and what the other direction may answer to.

mod retransmission;

use roce_codec::ib::{Operation, PathMtu, Psn, Service};
use roce_engine::rules::Verdict as Ruled;
use roce_engine::rules::length;
use roce_engine::rules::psn::{self, PsnClass};
use roce_engine::rules::sequence::{self, InMessage, SequenceFault};

use super::gap::{Gap, Missing};
use super::history::{History, Keyed, KeyedRequests, Past, Read, Reads};
use super::judge::{At, Judge};
use super::opcode;
use super::packet::Seen;
use super::recovery::{Recovery, WentBack};
use super::rule::Rule;

/// PSNs around the expected one that belong to the same connection; what jumps farther is a new
/// connection on an old QPN, or the far side of an outage of the tap.
pub(super) const WINDOW: u32 = 1 << 14;

/// Requests that may still be on their way to the tap when it sees their answer: more than
/// reordering taps disturb.
const LATE_REQUESTS: u32 = 16;
/// Answers that must be in time meanwhile. Where mirrors of the two directions are merged whose
/// clocks differ, every answer comes early.
const TIMELY_ANSWERS: u32 = 2;

/// An answer to a request that was not seen yet.
#[derive(Debug, Clone, Copy)]
struct Early {
    psn: Psn,
    at: At,
    /// Whether the pair was sure when it came.
    confident: bool,
    /// Requests and timely answers left after which it is wrong.
    requests_left: u32,
    answers_left: u32,
}

/// The request that came last on the wire.
#[derive(Debug, Clone, Copy)]
struct Last {
    psn: Psn,
    /// The PSN after it, unless it was a READ whose packets nobody can count yet.
    next: Option<Psn>,
    /// The message it left unfinished.
    state: InMessage,
}

/// The WRITE in progress.
#[derive(Debug, Clone, Copy)]
struct Progress {
    dma_len: u32,
    remaining: u32,
}

/// How a request relates to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is the one that comes next.
    InOrder,
    /// It belongs to the same connection, but not here: a gap, a copy or a retransmission.
    Displaced,
    /// Nothing seen before has to do with it.
    NewConnection,
}

/// What is known of the other direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Whether the pair is sure enough to fail somebody by it.
    pub(super) confident: bool,
    /// The path MTU, from either direction.
    pub(super) mtu: Option<PathMtu>,
}

#[derive(Debug)]
pub(super) struct RequestStream {
    service: Service,
    first: Psn,
    /// The furthest PSN in use: of the last packet seen, or of the last response it calls for.
    highest: Psn,
    /// Whether `highest` is exact.
    exact: bool,
    /// The furthest PSN that a request was seen with.
    furthest: Psn,
    /// The number of that request's packet.
    furthest_packet: u64,
    last: Last,
    progress: Option<Progress>,
    history: History,
    reads: Reads,
    keyed: KeyedRequests,
    early: Option<Early>,
    acked: Option<Psn>,
    /// The furthest PSN of any answer.
    answered: Option<Psn>,
    /// The first READ response that was missing when a later one came.
    read_gap: Option<Psn>,
    retransmissions: u64,
    /// The furthest PSN in use when something was last sent again.
    again_up_to: Option<Psn>,
    recovery: Recovery,
}

impl RequestStream {
    pub(super) fn new(seen: &Seen<'_, '_>, known: Known, at: At, judge: &mut Judge) -> Self {
        let psn = seen.bth.psn;
        let mut stream = Self {
            service: seen.info.service,
            first: psn,
            highest: psn,
            exact: true,
            furthest: psn,
            furthest_packet: at.packet,
            last: Last { psn, next: None, state: InMessage::None },
            progress: None,
            history: History::new(),
            reads: Reads::default(),
            keyed: KeyedRequests::default(),
            early: None,
            acked: None,
            answered: None,
            read_gap: None,
            retransmissions: 0,
            again_up_to: None,
            recovery: Recovery::default(),
        };
        stream.advance(seen, known, at);
        stream.follow(seen, known, Past::new(seen, at.time_ns));
        stream.start_progress(seen);
        stream.check_write_length(seen, at, judge);
        stream
    }

    /// How a request relates to those before it.
    #[inline]
    pub(super) fn arrival(&self, seen: &Seen<'_, '_>) -> Arrival {
        let psn = seen.bth.psn;
        let expected = self.highest.next();
        let distance = psn.distance_from(expected).unsigned_abs();
        match psn::classify(expected, psn) {
            PsnClass::Expected => Arrival::InOrder,
            // The same service is a question for requests in order; elsewhere the QPN has a new
            // owner.
            _ if seen.info.service != self.service => Arrival::NewConnection,
            PsnClass::Ahead if distance <= WINDOW => Arrival::Displaced,
            PsnClass::Duplicate if distance <= WINDOW => {
                // A connection that starts at the same PSN as the one before it, as some do.
                let restart = psn == self.first
                    && seen.info.position.starts()
                    && self.acked.is_some_and(|acked| !acked.is_before(psn));
                if restart { Arrival::NewConnection } else { Arrival::Displaced }
            }
            _ => Arrival::NewConnection,
        }
    }

    /// Judges a request of this connection and takes it in; says if the requester went back for
    /// it.
    pub(super) fn request(
        &mut self,
        seen: &Seen<'_, '_>,
        arrival: Arrival,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) -> Option<WentBack> {
        let psn = seen.bth.psn;
        if arrival == Arrival::InOrder {
            judge.check(Rule::QpService, at, seen.info.service == self.service, || {
                let expected = format!("{:?}", self.service);
                let found = format!("{:?}", seen.info.service);
                (expected, found, "the next request is of another service".into())
            });
        }
        let past = self.history.get(psn);
        let is_last =
            psn == self.last.psn && past.is_some_and(|past| past.opcode == seen.bth.opcode);
        if !is_last {
            self.check_order(seen, at, judge);
        }
        let mut now = Past::new(seen, at.time_ns);
        let mut went_back = None;
        let is_new = match psn::classify(self.highest.next(), psn) {
            // Behind a READ whose packets could not be counted, what comes next may be nearer.
            PsnClass::Duplicate if self.exact || !psn.is_after(self.furthest) => {
                if let Some(past) = past.filter(|past| retransmission::is_copy(past, seen, at)) {
                    now = past;
                    judge.unknown_once(Rule::RcPsnDuplicate, at, told, || {
                        let message =
                            "the same packet again: copies of two mirrors, or of the network";
                        (format!("PSN {psn} once"), "a copy".into(), message.into())
                    });
                } else {
                    now.sends = past.map_or(0, |past| past.sends).saturating_add(1);
                    judge.pass(Rule::RcPsnDuplicate);
                    self.check_retransmission(seen, past, known, at, told, judge);
                    self.retransmissions += 1;
                    if !psn.is_after(self.last.psn) {
                        went_back = Some(self.went_back(past, seen, known, at));
                    }
                }
                self.again_up_to = Some(self.highest);
                false
            }
            PsnClass::Ahead if self.exact => {
                self.gap(psn, known, at, judge);
                true
            }
            _ => {
                judge.pass(Rule::RcPsnGap);
                true
            }
        };
        if is_new {
            self.advance(seen, known, at);
        }
        self.follow(seen, known, now);
        self.settle_early(is_new, told, judge);
        went_back
    }

    /// First, Middle, Last, and the bytes of a WRITE: judged only against the request whose PSN
    /// is the one before, since what was lost between others is not known.
    #[inline]
    fn check_order(&mut self, seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
        let state = (self.last.next == Some(seen.bth.psn)).then_some(self.last.state);
        let mut continues = false;
        match sequence::check(state, seen.info.operation, seen.info.position) {
            Ruled::Unknown => {}
            Ruled::Pass => {
                judge.pass(Rule::RcMessageOrder);
                continues = !seen.info.position.starts();
            }
            Ruled::Fail(fault) => {
                let expected = match fault {
                    SequenceFault::NotStarted => "First or Only".into(),
                    SequenceFault::NotFinished => {
                        format!("Middle or Last of a {:?}", self.last.state)
                    }
                };
                let message = "the request does not continue the one before it".into();
                let words = (expected, seen.bth.opcode.to_string(), message);
                judge.fail(Rule::RcMessageOrder, at, words);
            }
        }
        if !continues {
            self.start_progress(seen);
        }
        self.check_write_length(seen, at, judge);
    }

    /// The first packet of a WRITE, or the middle of one that nothing is known of.
    #[inline]
    fn start_progress(&mut self, seen: &Seen<'_, '_>) {
        let write = seen.info.operation == Operation::Write;
        let dma_len = seen.transport.reth().filter(|_| write).map(|reth| reth.dma_len);
        self.progress = dma_len.map(|dma_len| Progress { dma_len, remaining: dma_len });
    }

    /// The bytes of a WRITE against its DMA length.
    #[inline]
    fn check_write_length(&mut self, seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
        let Some(Progress { dma_len, remaining }) = self.progress else { return };
        let position = seen.info.position;
        let len = u32::try_from(seen.payload_len).unwrap_or(u32::MAX);
        let kept = length::write(position, len, Some(remaining)).fault().is_none();
        judge.check(Rule::RcWriteLength, at, kept, || {
            let bytes = u64::from(dma_len - remaining) + u64::from(len);
            let so_far = if position.ends() { "in the whole" } else { "before its last packet" };
            let message = format!("the WRITE carries other than its DMA length {so_far}");
            (format!("DMALen {dma_len}"), format!("{bytes} bytes"), message)
        });
        self.progress = (kept && !position.ends())
            .then_some(Progress { dma_len, remaining: remaining.saturating_sub(len) });
    }

    #[cold]
    fn gap(&self, psn: Psn, known: Known, at: At, judge: &mut Judge) {
        let missing = psn.distance_from(self.highest.next());
        let message = format!("{missing} PSNs are missing: lost before the tap, late, or by it");
        let words = (self.highest.next().to_string(), psn.to_string(), message);
        let gap = Gap {
            missing: Missing::Requests,
            first: self.highest.next(),
            count: missing.unsigned_abs(),
            behind: self.furthest_packet,
            mtu: known.mtu,
        };
        judge.gap(at, words, gap);
    }

    /// Moves the furthest PSN on to this request.
    #[inline]
    fn advance(&mut self, seen: &Seen<'_, '_>, known: Known, at: At) {
        let psn = seen.bth.psn;
        self.furthest = psn;
        self.furthest_packet = at.packet;
        let count = packets(seen, known.mtu);
        // Where the count is not known, the smallest path MTU gives the most there can be.
        self.highest = psn.add(count.unwrap_or_else(|| packets_at_most(seen)) - 1);
        self.exact = count.is_some();
    }

    /// Remembers this request as the one before the next.
    #[inline]
    fn follow(&mut self, seen: &Seen<'_, '_>, known: Known, past: Past) {
        let psn = seen.bth.psn;
        self.last = Last {
            psn,
            next: packets(seen, known.mtu).map(|count| psn.add(count)),
            state: InMessage::after(seen.info.operation, seen.info.position),
        };
        self.history.insert(past);
        if let Some(keyed) = Keyed::of(seen) {
            self.keyed.push(keyed);
        }
        if opcode::is_read_like(seen.info.operation) {
            self.reads.push(Read { psn, operation: seen.info.operation, len: read_len(seen) });
        }
    }

    /// An answer came for a PSN beyond every request seen. It is wrong only when many more
    /// requests come and still do not reach it.
    pub(super) fn answered_early(
        &mut self,
        psn: Psn,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        if let Some(early) = &mut self.early {
            // One early answer may be wrong; several mean that the tap shows them so.
            early.confident = false;
            judge.unknown_once(Rule::RcAckPsn, at, told, || unsettled(psn));
        } else {
            self.early = Some(Early {
                psn,
                at,
                confident: known.confident,
                requests_left: LATE_REQUESTS,
                answers_left: TIMELY_ANSWERS,
            });
        }
    }

    /// An answer came for a request that was seen.
    #[inline]
    pub(super) fn answered_in_time(&mut self) {
        if let Some(early) = &mut self.early {
            early.answers_left = early.answers_left.saturating_sub(1);
        }
    }

    #[inline]
    fn settle_early(&mut self, is_new: bool, told: &mut u64, judge: &mut Judge) {
        let Some(early) = &mut self.early else { return };
        early.requests_left = early.requests_left.saturating_sub(u32::from(is_new));
        let Early { psn, at, confident, requests_left, answers_left } = *early;
        // It came after all, late or unseen.
        let reached = !psn.is_after(self.highest);
        if reached || (requests_left == 0 && answers_left == 0) {
            self.early = None;
            if reached || !confident {
                judge.unknown_once(Rule::RcAckPsn, at, told, || unsettled(psn));
            } else {
                let expected = format!("at most {}", self.highest.sub(LATE_REQUESTS));
                let message = "the answer is for a request that was never sent".into();
                judge.fail(Rule::RcAckPsn, at, (expected, psn.to_string(), message));
            }
        }
    }

    /// The capture ends, or the connection does.
    pub(super) fn finish(&mut self, told: &mut u64, judge: &mut Judge) {
        if let Some(early) = self.early.take() {
            judge.unknown_once(Rule::RcAckPsn, early.at, told, || unsettled(early.psn));
        }
    }

    /// A response acknowledged everything up to `psn`.
    #[inline]
    pub(super) fn acknowledge(&mut self, psn: Psn, at: At) {
        if self.acked.is_none_or(|acked| psn.is_after(acked)) {
            self.acked = Some(psn);
            self.recovery.progress(at);
        }
        if !self.may_be_answered_again(psn) {
            self.again_up_to = None;
        }
    }

    /// A response of any kind carried `psn`.
    #[inline]
    pub(super) fn answered(&mut self, psn: Psn) {
        if self.answered.is_none_or(|answered| psn.is_after(answered)) {
            self.answered = Some(psn);
        }
    }

    /// The READ response of that PSN was missing when a later one came.
    pub(super) fn missed_response(&mut self, psn: Psn) {
        self.read_gap = Some(psn);
    }

    /// What the requester has been told.
    pub(super) fn recovery_mut(&mut self) -> &mut Recovery {
        &mut self.recovery
    }

    pub(super) fn first(&self) -> Psn {
        self.first
    }

    pub(super) fn highest(&self) -> Psn {
        self.highest
    }

    pub(super) fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// Whether `psn` may be answered a second time, with the state of then or of now.
    #[inline]
    pub(super) fn may_be_answered_again(&self, psn: Psn) -> bool {
        self.again_up_to.is_some_and(|again| !psn.is_after(again))
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }

    pub(super) fn keyed(&self) -> &KeyedRequests {
        &self.keyed
    }
}

fn unsettled(psn: Psn) -> super::judge::Words {
    let message = "the request it answers was not seen: lost by the tap, or later in its file";
    ("a request seen before".into(), psn.to_string(), message.into())
}

fn read_len(seen: &Seen<'_, '_>) -> u32 {
    match seen.transport.reth() {
        Some(reth) if seen.info.operation == Operation::ReadRequest => reth.dma_len,
        _ => 0,
    }
}

/// PSNs that a request takes; `None` for a READ whose path MTU is not known.
#[inline]
fn packets(seen: &Seen<'_, '_>, mtu: Option<PathMtu>) -> Option<u32> {
    if seen.info.operation != Operation::ReadRequest {
        return Some(1);
    }
    let len = read_len(seen);
    match mtu {
        _ if len <= PathMtu::Mtu256.bytes() => Some(1),
        Some(mtu) => Some(mtu.packets(len).min(Psn::HALF)),
        None => None,
    }
}

fn packets_at_most(seen: &Seen<'_, '_>) -> u32 {
    PathMtu::Mtu256.packets(read_len(seen)).min(Psn::HALF)
}
