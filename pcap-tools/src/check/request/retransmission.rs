//! What is sent again: whether it is what was sent before, and why it comes again.

use roce_codec::ib::{Operation, PathMtu, Psn};

use super::super::history::{Keyed, Past};
use super::super::judge::{At, Judge, Words};
use super::super::opcode;
use super::super::packet::Seen;
use super::super::recovery::WentBack;
use super::super::rule::Rule;
use super::{Known, RequestStream};

/// How soon after the first a copy of a packet comes, in nanoseconds: two mirrors of one switch.
/// The same packet later was sent again, by a sender that gives all of them one IP identification.
const COPY_NS: u64 = 100_000;

impl RequestStream {
    /// The requester goes back to `psn`.
    #[cold]
    pub(super) fn went_back(
        &mut self,
        past: Option<Past>,
        seen: &Seen<'_, '_>,
        known: Known,
        at: At,
    ) -> WentBack {
        let psn = seen.bth.psn;
        let answered_by_data =
            past.is_some_and(|past| {
                let operation = past.opcode.info().operation;
                opcode::is_read_like(operation) || opcode::is_atomic(operation)
            }) || self.reads.covering(psn, known.mtu.unwrap_or(PathMtu::Mtu256)).is_some();
        let reached = |answer: Option<Psn>| answer.is_some_and(|answer| !answer.is_before(psn));
        let implied = answered_by_data && reached(self.answered);
        let acknowledged = !answered_by_data && reached(self.acked);
        let sent_ns = past.and_then(|past| past.sent_ns);
        let like_before = past.is_some_and(|past| past.is_copy(seen));
        self.recovery.went_back(psn, sent_ns, like_before, implied, acknowledged, at)
    }

    /// What was sent before is sent again: the same opcode, length and contents. A READ may ask for
    /// what is still missing of an earlier one.
    #[cold]
    pub(super) fn check_retransmission(
        &mut self,
        seen: &Seen<'_, '_>,
        past: Option<Past>,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let psn = seen.bth.psn;
        if seen.info.operation == Operation::ReadRequest
            && let Some(mtu) = known.mtu
            && let Some(read) = self.reads.covering(psn, mtu)
            && let Some(first) = self.keyed.at(read.psn)
        {
            self.check_read_retry(seen, first, mtu, known, at, told, judge);
            return;
        }
        let Some(past) = past else { return };
        let len = usize::from(past.payload_len);
        let alike = past.opcode == seen.bth.opcode && len == seen.payload_len;
        let same = alike.then(|| past.has_contents_of(seen));
        if let Some(None | Some(true)) = same {
            judge.pass(Rule::RcRetransmission);
            return;
        }
        let before = self.keyed.at(psn).filter(|_| alike);
        let keys = before.zip(Keyed::of(seen)).filter(|(before, again)| before != again);
        let message = "another request was sent with this PSN before";
        let words = || {
            let (expected, found) = match keys {
                Some((before, again)) => (before.range(), again.range()),
                None if alike => ("the same payload".into(), "other bytes".into()),
                None => {
                    let found = format!("{} with {} bytes", seen.bth.opcode, seen.payload_len);
                    (format!("{} with {len} bytes", past.opcode), found)
                }
            };
            (expected, found, message.into())
        };
        let outstanding = self.acked.is_none_or(|acked| psn.is_after(acked));
        let is_known = judge.profile().resends_address_zero
            && opcode::is_read_like(seen.info.operation)
            && keys.is_some_and(|(_, again)| again.va == 0);
        // A requester reads its memory again, which an application may have changed meanwhile;
        // headers are its own.
        if is_known || (alike && keys.is_none()) {
            judge.unknown_once(Rule::RcRetransmission, at, told, words);
        } else {
            judge_again(Rule::RcRetransmission, outstanding, words, known, at, told, judge);
        }
    }

    /// A READ sent again asks for the rest of the first one, from where its answers broke off.
    #[expect(clippy::too_many_arguments, reason = "one step of the straight pipeline above")]
    fn check_read_retry(
        &self,
        seen: &Seen<'_, '_>,
        first: Keyed,
        mtu: PathMtu,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let Some(again) = Keyed::of(seen) else { return };
        let before = again.psn.distance_from(first.psn).unsigned_abs().saturating_mul(mtu.bytes());
        let va = first.va.wrapping_add(before.into());
        let left = first.len.saturating_sub(before);
        if again.va == va && again.rkey == first.rkey && again.len <= left {
            judge.pass(Rule::RcReadRetry);
            return;
        }
        let words = || {
            let rest = Keyed { va, len: left, ..first };
            let message =
                format!("it retries the READ of {} bytes at PSN {}", first.len, first.psn);
            (rest.range(), again.range(), message)
        };
        let psn = again.psn;
        let unanswered = self.answered.is_none_or(|answered| psn.is_after(answered));
        let outstanding = unanswered || self.read_gap == Some(psn);
        judge_again(Rule::RcReadRetry, outstanding, words, known, at, told, judge);
    }
}

/// Something else came under a PSN that was used before. What has been acknowledged is not sent
/// again, unless the answer was lost behind the tap; more likely the QPN serves a new connection.
fn judge_again(
    rule: Rule,
    outstanding: bool,
    words: impl FnOnce() -> Words,
    known: Known,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
) {
    if known.confident && outstanding {
        judge.fail(rule, at, words());
    } else {
        judge.unknown_once(rule, at, told, words);
    }
}

/// Whether a packet is one seen before and not sent again: the last one of its PSN, or one that was
/// sent before that and comes late.
pub(super) fn is_copy(past: &Past, seen: &Seen<'_, '_>, at: At) -> bool {
    match (past.sent_ns, at.time_ns) {
        (Some(then), Some(now)) => now < then || (now - then <= COPY_NS && past.is_copy(seen)),
        _ => past.is_copy(seen),
    }
}
