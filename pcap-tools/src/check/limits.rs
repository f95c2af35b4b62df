//! What a requester may have under way: READs and atomics up to what was agreed, and messages that
//! take a receive up to the credits it was given.
//!
//! Both are held against what the tap has seen answered. What it has missed, and answers that it
//! shows late, look the same as an excess: nobody fails unless what comes next proves it.

use std::collections::VecDeque;

use roce_codec::ib::{Aeth, AethKind, HeaderKind, Msn, NakCode, Operation, Psn};
use roce_engine::rules::credits;

use super::Checker;
use super::flow::{Flow, FlowId};
use super::judge::{At, Judge, Words};
use super::opcode;
use super::packet::Seen;
use super::request::Arrival;
use super::rule::Rule;

/// Requests under way that are remembered; more than any device agrees to.
const MAX_UNDER_WAY: usize = 512;
/// What merged mirrors may show an answer late by.
const SKEW_NS: u64 = 50_000;

/// One too many: proved by the answer to the oldest, if that comes later.
#[derive(Debug, Clone, Copy)]
struct Excess {
    at: At,
    psn: Psn,
    /// The oldest one under way.
    oldest: Psn,
}

/// An answer: everything up to a PSN is done, but for a READ whose data goes on.
#[derive(Debug, Clone, Copy)]
struct Answer {
    done: Psn,
    by_data: bool,
    ends: bool,
}

/// READs and atomics against what was agreed.
#[derive(Debug, Clone, Default)]
struct Reads {
    /// The PSNs of those that are not answered to the end.
    under_way: VecDeque<Psn>,
    excess: Option<Excess>,
}

/// A message, and whether it takes a READ's slot: those may count when they start.
#[derive(Debug, Clone, Copy)]
struct Message {
    last: Psn,
    read: bool,
}

/// A message beyond the credits.
#[derive(Debug, Clone, Copy)]
struct Overrun {
    at: At,
    number: Msn,
    limit: Msn,
}

/// Messages against the credits.
#[derive(Debug, Clone, Default)]
struct Credit {
    /// What the last acknowledgement said: its MSN, and the newest message there is a receive for.
    stated: Option<(Msn, Option<Msn>)>,
    /// Messages behind that acknowledgement.
    under_way: VecDeque<Message>,
    /// Packets beyond the limit; one may be sent to ask for more.
    beyond: u32,
    overrun: Option<Overrun>,
}

/// What a flow's requester may have under way, and has.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    read_limit: Option<u8>,
    /// Whether its requester said that it heeds credits.
    heeds_credits: bool,
    reads: Reads,
    credit: Credit,
}

impl Limits {
    pub(super) fn new(read_limit: Option<u8>, heeds_credits: bool) -> Self {
        Self { read_limit, heeds_credits, reads: Reads::default(), credit: Credit::default() }
    }

    /// The same limits for a connection that starts anew.
    pub(super) fn restart(&mut self) {
        *self = Self::new(self.read_limit, self.heeds_credits);
    }

    /// A request.
    fn asked(&mut self, seen: &Seen<'_, '_>, arrival: Arrival, at: At, judge: &mut Judge) {
        if arrival == Arrival::Displaced {
            // The requester went back, or the tap missed what is between.
            self.reads.excess = None;
            self.credit = Credit::default();
        }
        let operation = seen.info.operation;
        let read = opcode::is_read_like(operation) || opcode::is_atomic(operation);
        if read && let Some(limit) = self.read_limit {
            self.reads.asked(seen.bth.psn, limit.into(), at, judge);
        }
        self.credit.sent(seen, read, self.heeds_credits, at, judge);
    }

    /// An answer.
    fn answered(&mut self, seen: &Seen<'_, '_>, at: At, told: &mut u64, judge: &mut Judge) {
        let aeth = seen.transport.aeth();
        let nak = aeth.and_then(|aeth| match aeth.syndrome.kind() {
            AethKind::Nak(code) => Some(code),
            _ => None,
        });
        let positive = aeth.is_none_or(|aeth| matches!(aeth.syndrome.kind(), AethKind::Ack(_)));
        let psn = seen.bth.psn;
        if nak == Some(NakCode::InvalidRequest) {
            self.reads.refused(psn, judge);
        }
        let answer = Answer {
            done: if positive { psn } else { psn.sub(1) },
            by_data: seen.info.operation != Operation::Acknowledge,
            ends: seen.info.position.ends(),
        };
        let done = answer.done;
        self.reads.answered(answer, at, told, judge);
        if let Some(aeth) = aeth {
            self.credit.stated(aeth, done, at, told, judge);
        }
    }
}

impl Reads {
    fn asked(&mut self, psn: Psn, limit: usize, at: At, judge: &mut Judge) {
        if self.under_way.back().is_some_and(|newest| !psn.is_after(*newest)) {
            return;
        }
        if self.under_way.len() >= MAX_UNDER_WAY {
            self.under_way.clear();
        }
        self.under_way.push_back(psn);
        if self.under_way.len() <= limit {
            return judge.pass(Rule::RcReadLimit);
        }
        let oldest = self.under_way.front().copied().unwrap_or(psn);
        let excess = Excess { at, psn, oldest };
        if limit == 0 {
            let message = "the other side serves none on this connection".into();
            judge.fail(Rule::RcReadLimit, at, ("no READ or atomic".into(), "one".into(), message));
        } else {
            self.excess.get_or_insert(excess);
        }
    }

    /// A request was refused as invalid.
    fn refused(&mut self, psn: Psn, judge: &mut Judge) {
        if let Some(excess) = self.excess.take_if(|excess| excess.psn == psn) {
            judge.fail(Rule::RcReadLimit, excess.at, excess_words("the responder refused it"));
        }
    }

    fn answered(&mut self, answer: Answer, at: At, told: &mut u64, judge: &mut Judge) {
        let Answer { done, by_data, ends } = answer;
        let mut newest = None;
        while let Some(oldest) = self.under_way.front().copied().filter(|psn| !psn.is_after(done)) {
            // Data that goes on leaves its own READ open, and none before it.
            let next_too = self.under_way.get(1).is_some_and(|next| !next.is_after(done));
            if by_data && !ends && !next_too {
                break;
            }
            self.under_way.pop_front();
            newest = Some(oldest);
        }
        let Some(newest) = newest else { return };
        let Some(excess) = self.excess.take_if(|excess| !excess.oldest.is_after(newest)) else {
            return;
        };
        if by_data && newest == excess.oldest && is_later(excess.at, at) {
            let words = excess_words("the oldest was answered after it");
            judge.fail(Rule::RcReadLimit, excess.at, words);
        } else {
            judge.unknown_once(Rule::RcReadLimit, excess.at, told, || {
                excess_words("an answer may have been missed, or be shown late")
            });
        }
    }
}

fn excess_words(message: &str) -> Words {
    let message = format!("more READs and atomics under way than agreed: {message}");
    ("as many as agreed".into(), "one more".into(), message)
}

impl Credit {
    fn sent(&mut self, seen: &Seen<'_, '_>, read: bool, heeds: bool, at: At, judge: &mut Judge) {
        let Some((msn, limit)) = self.stated else { return };
        match self.under_way.back_mut() {
            Some(newest) if !seen.info.position.starts() => newest.last = seen.bth.psn,
            _ => self.under_way.push_back(Message { last: seen.bth.psn, read }),
        }
        if self.under_way.len() >= MAX_UNDER_WAY {
            *self = Self::default();
            return;
        }
        let takes_receive = match seen.info.operation {
            Operation::Send => true,
            Operation::Write => seen.info.headers.contains(HeaderKind::ImmDt),
            _ => false,
        };
        if !takes_receive {
            return;
        }
        // READs may have been counted already: the number is this or a greater one.
        let behind = self.under_way.iter().filter(|message| !message.read).count();
        let number = Msn::new(msn.get().wrapping_add(u32::try_from(behind).unwrap_or(u32::MAX)));
        let Some(limit) = limit.filter(|limit| credits::is_beyond(number, Some(*limit))) else {
            return judge.pass(Rule::RcCredit);
        };
        self.beyond += 1;
        if self.beyond > 1 && heeds {
            self.overrun.get_or_insert(Overrun { at, number, limit });
        }
    }

    fn stated(&mut self, aeth: Aeth, done: Psn, at: At, told: &mut u64, judge: &mut Judge) {
        while self.under_way.front().is_some_and(|message| !message.last.is_after(done)) {
            self.under_way.pop_front();
        }
        let AethKind::Ack(credits) = aeth.syndrome.kind() else { return };
        let limit = credits::limit(aeth.msn, credits);
        self.stated = Some((aeth.msn, limit));
        self.beyond = 0;
        let Some(overrun) = self.overrun.take() else { return };
        let words = |message: &str| {
            let expected = format!("messages up to {:#x}", overrun.limit.get());
            (expected, format!("{:#x}", overrun.number.get()), message.into())
        };
        // A limit never goes back: none that the tap has missed was any higher.
        if credits::is_beyond(overrun.number, limit) && is_later(overrun.at, at) {
            let message = "more than one packet beyond the receives that the responder states";
            judge.fail(Rule::RcCredit, overrun.at, words(message));
        } else {
            judge.unknown_once(Rule::RcCredit, overrun.at, told, || {
                words("beyond the credits seen; others may have been missed, or be shown late")
            });
        }
    }
}

/// Whether an answer certainly came after a request.
fn is_later(request: At, answer: At) -> bool {
    let ns = request.time_ns.zip(answer.time_ns).map(|(from, to)| to.checked_sub(from));
    ns.flatten().is_some_and(|ns| ns >= SKEW_NS)
}

impl Checker {
    /// Counts a request that was taken in.
    #[inline]
    pub(super) fn count_request(
        &mut self,
        seen: &Seen<'_, '_>,
        id: FlowId,
        arrival: Arrival,
        at: At,
    ) {
        if let Some(agreed) = &mut self.flows.get_mut(id).agreed
            && agreed.has_begun()
        {
            agreed.limits.asked(seen, arrival, at, &mut self.judge);
        }
    }

    /// Counts an answer; `asked` is the flow of the requests.
    #[inline]
    pub(super) fn count_answer(&mut self, seen: &Seen<'_, '_>, asked: FlowId, at: At) {
        let Flow { agreed, told, .. } = self.flows.get_mut(asked);
        if let Some(agreed) = agreed
            && agreed.has_begun()
        {
            agreed.limits.answered(seen, at, told, &mut self.judge);
        }
    }
}
