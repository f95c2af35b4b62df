//! How a requester recovers: why it sends again what it sent before, and whether it waited as long
//! as it had to.

use roce_codec::ib::Psn;

use super::judge::{At, Judge};
use super::rule::Rule;
use crate::connection::{Connection, Role};

/// What a tap's clock may be off, in nanoseconds: coarse timestamps.
const CLOCK_NS: u64 = 10_000;
/// How late a network may deliver a copy of a packet, in nanoseconds.
const LATE_COPY_NS: u64 = 1_000_000;
/// An `rnr_retry` that never ends.
const ENDLESS: u8 = 7;

/// An RNR NAK that the requester has not come back from.
#[derive(Debug, Clone, Copy)]
struct Rnr {
    psn: Psn,
    wait_ns: u64,
    time_ns: Option<u64>,
    /// Whether the request it refuses had been sent once: then none of it is on its way.
    sent_once: bool,
}

/// What a requester has been told, and how often it went back without getting farther.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    sequence_nak: Option<Psn>,
    rnr: Option<Rnr>,
    /// When an answer last got it farther.
    progress_ns: Option<u64>,
    /// When it last went back.
    back_ns: Option<u64>,
    timeouts: u32,
    rnr_retries: u32,
}

/// Why a requester went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// A sequence NAK named the PSN.
    SequenceNak,
    /// An RNR NAK did.
    Rnr { wait_ns: u64, waited_ns: Option<u64>, is_resend: bool },
    /// A READ's or atomic's answer is missing while later ones came.
    Implied,
    /// Nothing that was seen.
    Unseen { waited_ns: Option<u64> },
}

/// A requester sends again what it sent before.
#[derive(Debug, Clone, Copy)]
pub(super) struct WentBack {
    psn: Psn,
    reason: Reason,
    /// Whether the answer to it was seen.
    acknowledged: bool,
    timeouts: u32,
    rnr_retries: u32,
}

impl Recovery {
    /// A sequence NAK for `psn`.
    pub(super) fn sequence_nak(&mut self, psn: Psn) {
        self.sequence_nak = Some(psn);
    }

    /// An RNR NAK for `psn`, whose request was sent `sends` times.
    pub(super) fn rnr_nak(&mut self, psn: Psn, wait_ns: u64, sends: u8, at: At) {
        self.rnr = Some(Rnr { psn, wait_ns, time_ns: at.time_ns, sent_once: sends == 1 });
    }

    /// An answer got the requester farther.
    #[inline]
    pub(super) fn progress(&mut self, at: At) {
        self.progress_ns = at.time_ns;
        self.timeouts = 0;
        self.rnr_retries = 0;
    }

    /// The requester goes back to `psn`, last sent at `sent_ns`.
    pub(super) fn went_back(
        &mut self,
        psn: Psn,
        sent_ns: Option<u64>,
        like_before: bool,
        implied: bool,
        acknowledged: bool,
        at: At,
    ) -> WentBack {
        if at.time_ns < self.back_ns {
            // Another run under the same numbers, merged in behind this one.
            (self.timeouts, self.rnr_retries) = (0, 0);
        }
        self.back_ns = at.time_ns;
        let since = |then: Option<u64>| at.time_ns?.checked_sub(then?);
        let reason = if self.sequence_nak.take_if(|nak| *nak == psn).is_some() {
            Reason::SequenceNak
        } else if let Some(rnr) = self.rnr.take_if(|rnr| rnr.psn == psn) {
            self.rnr_retries += 1;
            let (wait_ns, waited_ns) = (rnr.wait_ns, since(rnr.time_ns));
            let late = like_before && waited_ns.is_none_or(|waited| waited < LATE_COPY_NS);
            Reason::Rnr { wait_ns, waited_ns, is_resend: rnr.sent_once && !late }
        } else if implied {
            Reason::Implied
        } else {
            self.timeouts += 1;
            Reason::Unseen { waited_ns: since(sent_ns.max(self.progress_ns)) }
        };
        let (timeouts, rnr_retries) = (self.timeouts, self.rnr_retries);
        WentBack { psn, reason, acknowledged, timeouts, rnr_retries }
    }
}

impl WentBack {
    /// Judges it. `agreed` is the connection and the requester's side of it, where the exchange
    /// that made it was seen.
    pub(super) fn judge(
        &self,
        agreed: Option<(&Connection, Role)>,
        confident: bool,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        match self.reason {
            Reason::SequenceNak | Reason::Implied => {}
            Reason::Rnr { wait_ns, waited_ns, is_resend } => {
                let kept = waited_ns.map(|waited| waited.saturating_add(slack(wait_ns)) >= wait_ns);
                let words = || {
                    let found = waited_ns.map_or("unknown".into(), milliseconds);
                    let message = "the request comes again before the RNR NAK's timer has run out";
                    (format!("at least {}", milliseconds(wait_ns)), found, message.into())
                };
                match kept {
                    Some(true) => judge.pass(Rule::RcRnrTimer),
                    Some(false) if confident && is_resend => {
                        judge.fail(Rule::RcRnrTimer, at, words());
                    }
                    _ => judge.unknown_once(Rule::RcRnrTimer, at, told, words),
                }
            }
            Reason::Unseen { waited_ns } => {
                self.judge_timeout(agreed, waited_ns, confident, at, told, judge);
            }
        }
        self.judge_counts(agreed, confident, at, told, judge);
    }

    /// It went back without a NAK: was it time, and was anything lost?
    fn judge_timeout(
        &self,
        agreed: Option<(&Connection, Role)>,
        waited_ns: Option<u64>,
        confident: bool,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let timeout = agreed.map(|(connection, _)| connection.local_ack_timeout);
        if let Some(timeout) = timeout.filter(|timeout| timeout.code() > 0)
            && let Some(waited) = waited_ns
        {
            let timeout = timeout.ns();
            if waited.saturating_add(slack(timeout)) >= timeout {
                judge.pass(Rule::RcRetryTime);
            } else {
                let words = || {
                    let message = "the request comes again sooner than its timer allows, and \
                                   nothing seen calls for it";
                    let expected = format!("at least {}", milliseconds(timeout));
                    (expected, milliseconds(waited), message.into())
                };
                match judge.profile().adaptive_retransmission {
                    Some(false) if confident => judge.fail(Rule::RcRetryTime, at, words()),
                    _ => judge.unknown_once(Rule::RcRetryTime, at, told, words),
                }
            }
        }
        if self.acknowledged {
            judge.unknown(Rule::RcTimeout, at, {
                let found = waited_ns.map_or("sent again".into(), |waited| {
                    format!("sent again after {}", milliseconds(waited))
                });
                let message = "its acknowledgement was seen: lost behind the tap, or too late";
                (format!("PSN {} acknowledged once", self.psn), found, message.into())
            });
        } else {
            judge.pass(Rule::RcTimeout);
        }
    }

    fn judge_counts(
        &self,
        agreed: Option<(&Connection, Role)>,
        confident: bool,
        at: At,
        told: &mut u64,
        judge: &mut Judge,
    ) {
        let Some((connection, role)) = agreed else { return };
        let (retries, limit, what) = match self.reason {
            Reason::Unseen { .. } => (self.timeouts, connection.retry_count, "retry_cnt"),
            Reason::Rnr { .. } => match connection.side(role.peer()) {
                Some(peer) if peer.rnr_retry_count != ENDLESS => {
                    (self.rnr_retries, peer.rnr_retry_count, "rnr_retry")
                }
                _ => return,
            },
            _ => return,
        };
        if retries <= limit.into() {
            judge.pass(Rule::RcRetryCount);
            return;
        }
        let words = || {
            let message = "the requester goes on where it should give up";
            (format!("{what} {limit}"), format!("{retries} without progress"), message.into())
        };
        // Linux takes a retry_cnt of 7 for one without end.
        if confident && limit != ENDLESS {
            judge.fail(Rule::RcRetryCount, at, words());
        } else {
            judge.unknown_once(Rule::RcRetryCount, at, told, words);
        }
    }
}

fn slack(wait_ns: u64) -> u64 {
    (wait_ns / 100).max(CLOCK_NS)
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}
