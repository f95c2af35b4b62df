//! A flow's responses: their own order, and whether they answer what was asked.

use roce_codec::ib::{Aeth, AethKind, Msn, NakCode, Operation, PathMtu, Psn};

use super::gap::{Gap, Missing};
use super::history::Past;
use super::judge::{At, Judge};
use super::opcode;
use super::packet::Seen;
use super::refusal::{self, Refused};
use super::request::{Known, RequestStream, WINDOW};
use super::rule::Rule;

/// Old acknowledgements in a row after which the MSN is learned anew: the connection is new and
/// its start was not seen.
const STALE: u8 = 8;
/// What an MSN may run ahead of the messages that were seen: the tap may have lost some.
const MSN_SLACK: u32 = 64;

/// The last READ response on the wire.
#[derive(Debug, Clone, Copy)]
struct Last {
    psn: Psn,
    ends: bool,
    /// Its number in the capture.
    packet: u64,
}

/// The last sequence NAK.
#[derive(Debug, Clone, Copy)]
struct Nak {
    psn: Psn,
    /// Its ICRC: tells a copy from another NAK.
    icrc: [u8; 4],
    /// How often the requester had gone back by then.
    retransmissions: u64,
}

#[derive(Debug, Default)]
pub(super) struct ResponseStream {
    newest: Option<Psn>,
    last: Option<Last>,
    /// The furthest PSN that was executed for sure, and the MSN stated with it.
    msn: Option<(Psn, Msn)>,
    stale: u8,
    nak: Option<Nak>,
    /// The NAK that ended the connection.
    fatal: Option<Refused>,
}

/// Whether a response answers a request that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It carries the PSN of one.
    Confirmed,
    /// The tap may have missed the request.
    Open,
    /// It lies outside everything seen.
    Misfit,
}

impl ResponseStream {
    /// Forgets everything when the PSN is far from the last one: the connection is new. Says
    /// whether it did.
    #[inline]
    pub(super) fn restart_if_far(&mut self, psn: Psn) -> bool {
        let far =
            self.newest.is_some_and(|newest| psn.distance_from(newest).unsigned_abs() > WINDOW);
        if far {
            *self = Self::default();
        }
        if self.newest.is_none_or(|newest| psn.is_after(newest)) {
            self.newest = Some(psn);
        }
        far
    }

    /// Whether this response's PSN is the one after the last READ response's.
    #[inline]
    pub(super) fn continues(&self, psn: Psn) -> bool {
        self.last.is_some_and(|last| last.psn.next() == psn)
    }

    /// First, Middle, Last of READ responses. Whether a message ends at a PSN never changes; it
    /// may start anew where a retry does. Says which one is missing in front of this one.
    pub(super) fn check_read_order(
        &mut self,
        seen: &Seen<'_, '_>,
        requests: Option<(&RequestStream, Known)>,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) -> Option<Psn> {
        if seen.info.operation != Operation::ReadResponse {
            return None;
        }
        let psn = seen.bth.psn;
        let position = seen.info.position;
        if self.continues(psn) {
            let ended = self.last.is_some_and(|last| last.ends);
            if ended == position.starts() {
                judge.pass(Rule::RcReadOrder);
            } else {
                let words = || {
                    let expected = if ended { "First or Only" } else { "Middle or Last" };
                    let message = "the response does not continue the one before it";
                    (expected.into(), seen.bth.opcode.to_string(), message.into())
                };
                let retried = requests.is_some_and(|(requests, _)| requests.reads().starts_at(psn));
                let confident = requests.is_some_and(|(_, known)| known.confident);
                match (ended, retried) {
                    (false, true) => judge.pass(Rule::RcReadOrder),
                    (true, _) => judge.fail(Rule::RcReadOrder, at, words()),
                    (false, false) if confident => judge.fail(Rule::RcReadOrder, at, words()),
                    (false, false) => judge.unknown_once(Rule::RcReadOrder, at, told, words),
                }
            }
        } else if !position.starts()
            && let Some((requests, Known { confident: true, mtu: Some(mtu) })) = requests
            && requests.reads().starts_anew_at(psn, mtu)
            && requests.history().get(psn).is_some_and(|past| past.sends == 1)
        {
            judge.unknown_once(Rule::RcReadOrder, at, told, || {
                let message = "answers the start of a READ, unless that one asks again for the \
                               rest of another, which the tap has missed";
                ("First or Only".into(), seen.bth.opcode.to_string(), message.into())
            });
        }
        let mut first_missing = None;
        if let Some(last) = self.last
            && !last.ends
            && let missing @ 1.. = psn.distance_from(last.psn.next())
        {
            first_missing = Some(last.psn.next());
            let message = format!(
                "{missing} READ responses are missing: lost before the tap, late, or by it"
            );
            let words = (last.psn.next().to_string(), psn.to_string(), message);
            let gap = Gap {
                missing: Missing::ReadResponses,
                first: last.psn.next(),
                count: missing.unsigned_abs(),
                behind: last.packet,
                mtu: None,
            };
            judge.gap(at, words, gap);
        }
        self.last = Some(Last { psn, ends: position.ends(), packet: at.packet });
        first_missing
    }

    /// Everything that needs the requests of the other direction.
    pub(super) fn check_against(
        &mut self,
        seen: &Seen<'_, '_>,
        requests: &mut RequestStream,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) -> Fit {
        let psn = seen.bth.psn;
        if psn.is_after(requests.highest()) {
            requests.answered_early(psn, known, at, told, judge);
            return Fit::Misfit;
        }
        if psn.is_before(requests.first()) {
            judge.unknown_once(Rule::RcAckPsn, at, told, || {
                let message = "the request it answers was sent before the capture began";
                ("a request seen before".into(), psn.to_string(), message.into())
            });
            return Fit::Open;
        }
        judge.pass(Rule::RcAckPsn);
        self.check_silence(seen, known, at, told, judge);
        requests.answered(psn);
        requests.answered_in_time();
        let past = requests.history().get(psn);
        let fit = match seen.info.operation {
            Operation::ReadResponse => {
                self.check_read_response(seen, requests, past, known, at, told, judge)
            }
            Operation::AtomicAcknowledge => {
                check_answer(Rule::RcAtomicAck, seen, past, known, at, told, judge, |past| {
                    opcode::is_atomic(past.opcode.info().operation)
                })
            }
            _ if past.is_some() => Fit::Confirmed,
            _ => Fit::Open,
        };
        if let Some(aeth) = seen.transport.aeth() {
            self.check_msn(seen, aeth, requests, known, at, told, judge);
            self.check_nak(seen, aeth, requests, known, at, told, judge);
            match aeth.syndrome.kind() {
                AethKind::Ack(_) => {
                    judge.pass(Rule::RcRefused);
                    requests.acknowledge(psn, at);
                }
                // A NAK has an opcode of its own.
                _ if seen.info.operation != Operation::Acknowledge => {}
                kind => {
                    requests.acknowledge(psn.sub(1), at);
                    self.refused(seen, kind, requests, at, told, judge);
                }
            }
        }
        fit
    }

    /// After a NAK that ends the connection there is nothing but silence, copies of it excepted.
    #[inline]
    fn check_silence(
        &mut self,
        seen: &Seen<'_, '_>,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let Some(fatal) = self.fatal else { return };
        let psn = seen.bth.psn;
        if psn.is_before(fatal.psn) || fatal.icrc == seen.transport.icrc() {
            judge.pass(Rule::RcAfterNak);
            return;
        }
        let words = || {
            let message = format!("the connection ended with a NAK for PSN {}", fatal.psn);
            ("silence".into(), format!("{} for PSN {psn}", seen.bth.opcode), message)
        };
        if known.confident {
            judge.fail(Rule::RcAfterNak, at, words());
        } else {
            judge.unknown_once(Rule::RcAfterNak, at, told, words);
        }
    }

    /// Something was not carried out: what was it, and why.
    #[cold]
    fn refused(
        &mut self,
        seen: &Seen<'_, '_>,
        kind: AethKind,
        requests: &mut RequestStream,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let psn = seen.bth.psn;
        let past = requests.history().get(psn);
        match kind {
            AethKind::Nak(NakCode::PsnSequenceError) => {
                requests.recovery_mut().sequence_nak(psn);
            }
            AethKind::RnrNak(timer) => {
                let sends = past.map_or(0, |past| past.sends);
                requests.recovery_mut().rnr_nak(psn, timer.wait_ns(), sends, at);
                refusal::not_ready(psn, timer, past, at, told, judge);
            }
            AethKind::Nak(code) if self.fatal.is_none_or(|fatal| fatal.psn != psn) => {
                self.fatal = Some(Refused { psn, icrc: seen.transport.icrc() });
                refusal::refused(psn, code, past, requests, at, judge);
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the straight pipeline above")]
    fn check_read_response(
        &mut self,
        seen: &Seen<'_, '_>,
        requests: &RequestStream,
        past: Option<Past>,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) -> Fit {
        let rule = Rule::RcReadResponse;
        let psn = seen.bth.psn;
        // One packet of a longer response shows the path MTU by itself.
        let shown = if seen.info.position.ends() { None } else { opcode::mtu_of(seen.payload_len) };
        let mtu = known.mtu.or(shown);
        // Without it, a response that is alone can still be held against a request of its PSN.
        let alone = seen.info.position.starts() && seen.info.position.ends();
        let request = match mtu {
            Some(mtu) => requests.reads().covering(psn, mtu),
            None if alone => requests.reads().covering(psn, PathMtu::Mtu4096),
            None => None,
        };
        let Some(request) = request else {
            return check_answer(rule, seen, past, known, at, told, judge, |past| {
                opcode::is_read_like(past.opcode.info().operation)
            });
        };
        let (len, ends) = match mtu {
            Some(mtu) => request.response(psn, mtu),
            None => (request.len, true),
        };
        let found_len = u32::try_from(seen.payload_len).unwrap_or(u32::MAX);
        if found_len == len && seen.info.position.ends() == ends {
            judge.pass(rule);
        } else {
            let words = || {
                let which = if ends { "Last or Only" } else { "First or Middle" };
                let expected = format!("{which} with {len} bytes");
                let found = format!("{} with {found_len} bytes", seen.bth.opcode);
                let message = format!(
                    "other than the {:?} of {} bytes at PSN {} asks for",
                    request.operation, request.len, request.psn
                );
                (expected, found, message)
            };
            if known.confident && known.mtu.is_some() {
                judge.fail(rule, at, words());
            } else {
                judge.unknown_once(rule, at, told, words);
            }
        }
        Fit::Confirmed
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the straight pipeline above")]
    fn check_msn(
        &mut self,
        seen: &Seen<'_, '_>,
        aeth: Aeth,
        requests: &RequestStream,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        if requests.may_be_answered_again(seen.bth.psn) {
            return;
        }
        // A NAK's own PSN has not been executed.
        let executed = match aeth.syndrome.kind() {
            AethKind::Ack(_) => seen.bth.psn,
            _ => seen.bth.psn.sub(1),
        };
        let Some((before, msn)) = self.msn else {
            self.msn = Some((executed, aeth.msn));
            return;
        };
        // A PSN subtracts as an MSN does: both are 24 bits that wrap.
        let grown = Psn::new(aeth.msn.get()).distance_from(Psn::new(msn.get()));
        let ahead = executed.distance_from(before);
        if ahead < 0 {
            // An old answer, late or repeated. Many that count less in a row: a new connection.
            self.stale = if grown < 0 { self.stale + 1 } else { 0 };
            if self.stale >= STALE {
                *self = Self { newest: self.newest, ..Self::default() };
            }
            return;
        }
        self.stale = 0;
        let furthest = requests.highest().distance_from(before).max(ahead).unsigned_abs();
        let kept = grown >= 0 && grown.unsigned_abs() <= furthest.saturating_add(MSN_SLACK);
        if kept {
            judge.pass(Rule::RcMsn);
            self.msn = Some((executed, aeth.msn));
            return;
        }
        let words = || {
            let expected =
                format!("{:#x} to {:#x}", msn.get(), Msn::new(msn.get() + furthest).get());
            let message = format!("the MSN was {:#x} at PSN {before}", msn.get());
            (expected, format!("{:#x}", aeth.msn.get()), message)
        };
        if known.confident && ahead > 0 {
            judge.fail(Rule::RcMsn, at, words());
        } else {
            judge.unknown_once(Rule::RcMsn, at, told, words);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of the straight pipeline above")]
    fn check_nak(
        &mut self,
        seen: &Seen<'_, '_>,
        aeth: Aeth,
        requests: &RequestStream,
        known: Known,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let psn = seen.bth.psn;
        if aeth.syndrome.kind() != AethKind::Nak(NakCode::PsnSequenceError) {
            if self.nak.is_some_and(|nak| !psn.is_before(nak.psn)) {
                self.nak = None;
            }
            return;
        }
        let icrc = seen.transport.icrc();
        let retransmissions = requests.retransmissions();
        let again = self.nak.filter(|nak| nak.psn == psn);
        self.nak = Some(Nak { psn, icrc, retransmissions });
        match again {
            // A copy by a mirror is the same to the last bit.
            Some(nak) if nak.retransmissions == retransmissions && nak.icrc != icrc => {
                let words = || {
                    let message = "a second NAK for one gap, with nothing sent again in between";
                    ("one NAK".into(), format!("another for PSN {psn}"), message.into())
                };
                if known.confident {
                    judge.fail(Rule::RcNakRepeat, at, words());
                } else {
                    judge.unknown_once(Rule::RcNakRepeat, at, told, words);
                }
            }
            _ => judge.pass(Rule::RcNakRepeat),
        }
    }
}

/// Judges an answer by the request of the same PSN, if that was seen.
#[expect(clippy::too_many_arguments, reason = "one step of the straight pipeline above")]
fn check_answer(
    rule: Rule,
    seen: &Seen<'_, '_>,
    past: Option<Past>,
    known: Known,
    at: At,
    told: &mut u64,
    judge: &mut Judge,
    answers: impl FnOnce(Past) -> bool,
) -> Fit {
    match past {
        Some(past) if answers(past) => {
            judge.pass(rule);
            Fit::Confirmed
        }
        Some(past) if known.confident => {
            let expected = format!("an answer to {}", past.opcode);
            let message = "the request with this PSN calls for another answer".into();
            judge.fail(rule, at, (expected, seen.bth.opcode.to_string(), message));
            Fit::Misfit
        }
        _ => {
            judge.unknown_once(rule, at, told, || {
                let found = format!("{} for PSN {}", seen.bth.opcode, seen.bth.psn);
                let message = "the request it answers was not seen, or its flow is not known";
                ("an answer to a request".into(), found, message.into())
            });
            Fit::Open
        }
    }
}
