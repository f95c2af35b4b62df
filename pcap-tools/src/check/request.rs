//! A flow's requests: their order, their PSNs, and what the other direction may answer to.

use roce_codec::ib::{Operation, PathMtu, Psn, Service};

use super::history::{History, Past, Read, Reads};
use super::judge::{At, Judge};
use super::packet::Seen;
use super::rule::Rule;
use super::transport::{self, PsnClass, SequenceError};

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
    /// The operation of the message it left open.
    open: Option<Operation>,
}

/// The WRITE in progress.
#[derive(Debug, Clone, Copy)]
struct Progress {
    dma_len: u32,
    bytes: u64,
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
    last: Last,
    progress: Option<Progress>,
    history: History,
    reads: Reads,
    early: Option<Early>,
    acked: Option<Psn>,
    retransmissions: u64,
}

impl RequestStream {
    pub(super) fn new(seen: &Seen<'_, '_>, known: Known) -> Self {
        let psn = seen.bth.psn;
        let mut stream = Self {
            service: seen.info.service,
            first: psn,
            highest: psn,
            exact: true,
            last: Last { psn, next: None, open: None },
            progress: None,
            history: History::new(),
            reads: Reads::default(),
            early: None,
            acked: None,
            retransmissions: 0,
        };
        stream.advance(seen, known);
        stream.follow(seen, known);
        stream.start_progress(seen);
        stream
    }

    /// How a request relates to those before it.
    #[inline]
    pub(super) fn arrival(&self, seen: &Seen<'_, '_>) -> Arrival {
        let psn = seen.bth.psn;
        match transport::classify(psn, self.highest.next()) {
            PsnClass::Expected => Arrival::InOrder,
            // The same service is a question for requests in order; elsewhere the QPN has a new
            // owner.
            _ if seen.info.service != self.service => Arrival::NewConnection,
            PsnClass::Ahead(distance) if distance <= WINDOW => Arrival::Displaced,
            PsnClass::Behind(distance) if distance <= WINDOW => {
                // A connection that starts at the same PSN as the one before it, as some do.
                let restart = psn == self.first
                    && seen.info.position.starts()
                    && self.acked.is_some_and(|acked| !acked.is_before(psn));
                if restart { Arrival::NewConnection } else { Arrival::Displaced }
            }
            _ => Arrival::NewConnection,
        }
    }

    /// Judges a request of this connection and takes it in.
    pub(super) fn request(
        &mut self,
        seen: &Seen<'_, '_>,
        arrival: Arrival,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let psn = seen.bth.psn;
        if arrival == Arrival::InOrder {
            judge.check(Rule::QpService, at, seen.info.service == self.service, || {
                let expected = format!("{:?}", self.service);
                let found = format!("{:?}", seen.info.service);
                (expected, found, "the next request is of another service".into())
            });
        }
        let is_copy = psn == self.last.psn
            && self.history.get(psn).is_some_and(|past| past.opcode == seen.bth.opcode);
        if !is_copy {
            self.check_order(seen, at, judge);
        }
        let is_new = match transport::classify(psn, self.highest.next()) {
            // Behind a READ whose packets could not be counted, what comes next may be nearer.
            PsnClass::Behind(_) if self.exact || !psn.is_after(self.last.psn) => {
                self.check_retransmission(seen, known, at, told, judge);
                self.retransmissions += u64::from(!psn.is_after(self.last.psn));
                false
            }
            PsnClass::Ahead(missing) if self.exact => {
                self.gap(missing, psn, at, judge);
                true
            }
            _ => {
                judge.pass(Rule::RcPsnGap);
                true
            }
        };
        if is_new {
            self.advance(seen, known);
        }
        self.follow(seen, known);
        self.settle_early(is_new, told, judge);
    }

    /// First, Middle, Last, and the bytes of a WRITE: judged only against the request whose PSN
    /// is the one before, since what was lost between others is not known.
    #[inline]
    fn check_order(&mut self, seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
        if self.last.next != Some(seen.bth.psn) {
            self.start_progress(seen);
            return;
        }
        match transport::next(self.last.open, seen.info) {
            Ok(_) => {
                judge.pass(Rule::RcMessageOrder);
                self.check_write_length(seen, at, judge);
            }
            Err(error) => {
                let expected = match error {
                    SequenceError::NothingToContinue => "First or Only".into(),
                    SequenceError::Unfinished(operation) => {
                        format!("Middle or Last of a {operation:?}")
                    }
                };
                let message = "the request does not continue the one before it".into();
                let words = (expected, seen.bth.opcode.to_string(), message);
                judge.fail(Rule::RcMessageOrder, at, words);
                self.start_progress(seen);
            }
        }
    }

    #[inline]
    fn start_progress(&mut self, seen: &Seen<'_, '_>) {
        let write = seen.info.operation == Operation::Write;
        self.progress = match seen.frame.reth() {
            Some(reth) if write => Some(Progress { dma_len: reth.dma_len, bytes: 0 }),
            _ => None,
        };
        self.add_bytes(seen);
    }

    #[inline]
    fn add_bytes(&mut self, seen: &Seen<'_, '_>) {
        if let Some(progress) = &mut self.progress {
            progress.bytes += u64::try_from(seen.payload_len).unwrap_or(u64::MAX);
        }
    }

    #[inline]
    fn check_write_length(&mut self, seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
        if seen.info.operation != Operation::Write {
            self.progress = None;
            return;
        }
        if seen.info.position.starts() {
            self.start_progress(seen);
        } else {
            self.add_bytes(seen);
        }
        let Some(Progress { dma_len, bytes }) = self.progress else { return };
        let promised = u64::from(dma_len);
        let ends = seen.info.position.ends();
        let kept = if ends { bytes == promised } else { bytes < promised };
        judge.check(Rule::RcWriteLength, at, kept, || {
            let so_far = if ends { "in the whole message" } else { "before its last packet" };
            let message = format!("the WRITE carries other than its DMA length {so_far}");
            (format!("DMALen {dma_len}"), format!("{bytes} bytes"), message)
        });
        if ends || !kept {
            self.progress = None;
        }
    }

    /// What was sent before is sent again: the same opcode and length, READs excepted.
    #[inline]
    fn check_retransmission(
        &mut self,
        seen: &Seen<'_, '_>,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let Some(past) = self.history.get(seen.bth.psn) else { return };
        let reads = Operation::ReadRequest;
        if seen.info.operation == reads && past.opcode.info().operation == reads {
            return;
        }
        let len = usize::from(past.payload_len);
        if past.opcode == seen.bth.opcode && len == seen.payload_len {
            judge.pass(Rule::RcRetransmission);
            return;
        }
        let words = || {
            let expected = format!("{} with {len} bytes", past.opcode);
            let found = format!("{} with {} bytes", seen.bth.opcode, seen.payload_len);
            (expected, found, "another request was sent with this PSN before".into())
        };
        // What has been acknowledged is not sent again, unless the answer was lost behind the
        // tap; more likely the QPN serves a new connection.
        let outstanding = self.acked.is_some_and(|acked| seen.bth.psn.is_after(acked));
        if known.confident && outstanding {
            judge.fail(Rule::RcRetransmission, at, words());
        } else {
            judge.unknown_once(Rule::RcRetransmission, at, told, words);
        }
    }

    #[cold]
    fn gap(&self, missing: u32, psn: Psn, at: At, judge: &mut Judge) {
        let message = format!("{missing} PSNs are missing: lost before the tap, late, or by it");
        let words = (self.highest.next().to_string(), psn.to_string(), message);
        judge.unknown(Rule::RcPsnGap, at, words);
    }

    /// Moves the furthest PSN on to this request.
    #[inline]
    fn advance(&mut self, seen: &Seen<'_, '_>, known: Known) {
        let psn = seen.bth.psn;
        let count = packets(seen, known.mtu);
        // Where the count is not known, the smallest path MTU gives the most there can be.
        self.highest = psn.add(count.unwrap_or_else(|| packets_at_most(seen)) - 1);
        self.exact = count.is_some();
    }

    /// Remembers this request as the one before the next.
    #[inline]
    fn follow(&mut self, seen: &Seen<'_, '_>, known: Known) {
        let psn = seen.bth.psn;
        self.last = Last {
            psn,
            next: packets(seen, known.mtu).map(|count| psn.add(count)),
            open: transport::left_open(seen.info),
        };
        self.history.insert(Past {
            psn,
            opcode: seen.bth.opcode,
            payload_len: u16::try_from(seen.payload_len).unwrap_or(u16::MAX),
        });
        if transport::is_read_like(seen.info.operation) {
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
    pub(super) fn acknowledge(&mut self, psn: Psn) {
        if self.acked.is_none_or(|acked| psn.is_after(acked)) {
            self.acked = Some(psn);
        }
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

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn reads(&self) -> &Reads {
        &self.reads
    }
}

fn unsettled(psn: Psn) -> super::judge::Words {
    let message = "the request it answers was not seen: lost by the tap, or later in its file";
    ("a request seen before".into(), psn.to_string(), message.into())
}

fn read_len(seen: &Seen<'_, '_>) -> u32 {
    match seen.frame.reth() {
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
