//! Losses: how each was noticed, what was sent again, and when the requester was past it.

use std::fmt;

use roce_codec::ib::Psn;

use super::packet::At;
use crate::observed::FlowKey;

/// Why a requester went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The responder said that a PSN is missing.
    SequenceNak,
    /// A READ response or atomic acknowledge is missing: later answers came without it.
    ImpliedNak,
    /// No loss: the responder had no receive posted (RNR NAK).
    ReceiverNotReady,
    /// Nothing was answered, the requester was silent, and began again.
    Timeout,
    /// The tap saw the answer; the requester did not, or not in time.
    AnswerLost,
    /// The capture does not tell: it shows no answers, or nothing that explains it.
    Unknown,
}

impl Cause {
    /// In the order of severity they are listed by.
    pub const ALL: [Self; 6] = [
        Self::SequenceNak,
        Self::ImpliedNak,
        Self::ReceiverNotReady,
        Self::Timeout,
        Self::AnswerLost,
        Self::Unknown,
    ];

    /// A word: `sequence_nak`, `implied_nak`, `rnr`, `timeout`, `answer_lost` or `unknown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SequenceNak => "sequence_nak",
            Self::ImpliedNak => "implied_nak",
            Self::ReceiverNotReady => "rnr",
            Self::Timeout => "timeout",
            Self::AnswerLost => "answer_lost",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a packet was lost, or came too late: all but RNR.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        !matches!(self, Self::ReceiverNotReady)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A requester went back, or was told to. All times are the tap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// The flow of its requests.
    pub flow: FlowKey,
    /// Why.
    pub cause: Cause,
    /// The PSN that was missing, or was sent again first.
    pub psn: Psn,
    /// When progress stopped, nanoseconds since 1970: a NAK's arrival, the answer that came without
    /// an earlier one, or before a timeout the last packet of the connection.
    pub stalled_ns: Option<u64>,
    /// When the loss showed: as `stalled_ns`, but for a timeout, which shows when it is over.
    pub detected_ns: Option<u64>,
    /// The packet that showed it.
    pub detected_packet: u64,
    /// When the requester first went back; `None` if it was not seen to.
    pub resent_ns: Option<u64>,
    /// The packet it went back with.
    pub resent_packet: Option<u64>,
    /// When an answer said that `psn` had arrived; `None` if none was seen.
    pub recovered_ns: Option<u64>,
    /// That answer.
    pub recovered_packet: Option<u64>,
    /// Request packets sent again, up to the next new one.
    pub packets_resent: u32,
    /// Times it went back until then.
    pub rounds: u32,
}

impl Recovery {
    /// Nanoseconds from the stall until `psn` was answered.
    #[must_use]
    pub fn time_ns(&self) -> Option<u64> {
        Some(self.recovered_ns?.saturating_sub(self.stalled_ns?))
    }
}

/// The recovery a flow is in, if it is in one.
#[derive(Debug, Default)]
pub(super) struct Recovering {
    /// What was missing is still missing.
    open: Option<Recovery>,
    /// What was missing has come, and the requester goes on sending again what followed.
    passing: Option<Recovery>,
}

impl Recovering {
    /// A NAK, or what amounts to one, for `psn`. Everything before that had arrived.
    pub(super) fn refused(
        &mut self,
        flow: FlowKey,
        cause: Cause,
        psn: Psn,
        at: At,
        done: &mut Vec<Recovery>,
    ) {
        if let Some(open) = &self.open {
            // The same one again, an old one, or one that follows from it.
            let known = open.psn.is_after(psn) || (open.psn == psn && open.cause == cause);
            if known || cause == Cause::ImpliedNak {
                return;
            }
            self.recovered(at);
        }
        self.settle(done);
        self.open = Some(start(flow, cause, psn, at));
    }

    /// A request was sent again; `goes_back` says that it does not just follow the one before.
    pub(super) fn resent(
        &mut self,
        request: &Resent,
        at: At,
        goes_back: bool,
        done: &mut Vec<Recovery>,
    ) {
        if self.open.is_none() {
            if !goes_back {
                if let Some(passing) = &mut self.passing {
                    passing.packets_resent = passing.packets_resent.saturating_add(1);
                }
                return;
            }
            self.settle(done);
        }
        let Resent { flow, cause, psn, stalled_ns } = *request;
        let open = self.open.get_or_insert_with(|| Recovery {
            stalled_ns: if cause == Cause::Timeout { stalled_ns } else { at.time_ns },
            ..start(flow, cause, psn, at)
        });
        if open.resent_packet.is_none() {
            (open.resent_ns, open.resent_packet) = (at.time_ns, Some(at.packet));
            open.rounds = 1;
        } else if goes_back {
            open.rounds = open.rounds.saturating_add(1);
        }
        open.packets_resent = open.packets_resent.saturating_add(1);
    }

    /// Whether one is going on.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether a packet that came late belongs to one: what is only overtaken does not.
    #[inline]
    pub(super) fn takes_late(&self, goes_back: bool) -> bool {
        self.open.is_some() || (self.passing.is_some() && !goes_back)
    }

    /// An answer says that everything up to `psn` has arrived. `in_order` says that this holds of
    /// READ responses, too.
    #[inline]
    pub(super) fn answered(&mut self, psn: Psn, in_order: bool, at: At) {
        if let Some(open) = &self.open
            && !open.psn.is_after(psn)
            && (in_order || open.cause != Cause::ImpliedNak)
        {
            self.recovered(at);
        }
    }

    fn recovered(&mut self, at: At) {
        if let Some(mut open) = self.open.take() {
            (open.recovered_ns, open.recovered_packet) = (at.time_ns, Some(at.packet));
            self.passing = Some(open);
        }
    }

    /// Something new was sent, or the requester goes back once more: what was made good is over.
    #[inline]
    pub(super) fn settle(&mut self, done: &mut Vec<Recovery>) {
        if let Some(passing) = self.passing.take() {
            push(passing, done);
        }
    }

    /// The connection or the capture ends.
    pub(super) fn finish(&mut self, done: &mut Vec<Recovery>) {
        self.settle(done);
        if let Some(open) = self.open.take() {
            push(open, done);
        }
    }
}

/// A request that was sent again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resent {
    pub(super) flow: FlowKey,
    /// Why, unless it is known already.
    pub(super) cause: Cause,
    pub(super) psn: Psn,
    /// When the connection was last heard of.
    pub(super) stalled_ns: Option<u64>,
}

fn start(flow: FlowKey, cause: Cause, psn: Psn, at: At) -> Recovery {
    Recovery {
        flow,
        cause,
        psn,
        stalled_ns: at.time_ns,
        detected_ns: at.time_ns,
        detected_packet: at.packet,
        resent_ns: None,
        resent_packet: None,
        recovered_ns: None,
        recovered_packet: None,
        packets_resent: 0,
        rounds: 0,
    }
}

/// An answer that seemed missing and came without being asked for again was only late.
fn push(recovery: Recovery, done: &mut Vec<Recovery>) {
    if recovery.cause != Cause::ImpliedNak || recovery.resent_packet.is_some() {
        done.push(recovery);
    }
}
