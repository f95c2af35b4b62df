//! A connection, from its handshake to its end, and what comes next on it.

use std::collections::VecDeque;

use roce_codec::cm::CmEmitError;
use roce_codec::dcqcn::{NotificationPoint, Params, ReactionPoint};
use roce_codec::ib::{Msn, Psn, QKey, Qpn, Service};

use super::exchange::Exchange;
use super::handshake::{Agreement, Step};
use super::planned::{Kind, Planned, Side};
use super::random::Random;

/// From an end to the other and back, the tap being at the passive end.
pub(super) const ROUND_TRIP_NS: u64 = 8_000;
/// What a sender's port does.
pub(super) const LINE_RATE_BPS: u64 = 25_000_000_000;

/// One end: its queue pair as requester and as responder.
#[derive(Debug)]
pub(super) struct End {
    pub(super) qpn: Qpn,
    /// The PSN of its next request.
    pub(super) psn: Psn,
    /// Messages of the other end that it has completed.
    pub(super) msn: Msn,
    /// READs and atomics of the other end that it serves at a time.
    pub(super) resources: u8,
    /// The key to the memory that it grants access to, and where that is.
    pub(super) rkey: u32,
    pub(super) va: u64,
    /// Of the requests it sends.
    pub(super) rate: ReactionPoint,
    /// Of the marks on the requests it receives.
    pub(super) marks: NotificationPoint,
}

/// How a connection begins and ends on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setup {
    /// Agreed on out of sight, as perftest does over TCP.
    Unseen,
    /// By the connection manager.
    Cm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Open,
    Closed,
}

/// What the user has asked for, and what is the same for all connections.
#[derive(Debug)]
pub(super) struct Wishes {
    /// Bytes of every message.
    pub(super) payload: Option<u32>,
    pub(super) dcqcn: Params,
    /// The longest pause between two exchanges of a connection.
    pub(super) pause_ns: u32,
}

/// Packets that may still be planned; what has begun is finished within them.
#[derive(Debug)]
pub(super) struct Budget(pub(super) u64);

impl Budget {
    /// Takes so many, if there are as many.
    pub(super) fn take(&mut self, packets: u64) -> bool {
        let left = self.0.checked_sub(packets);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) agreement: Agreement,
    pub(super) setup: Setup,
    pub(super) ends: [End; 2],
    pub(super) qkey: QKey,
    pub(super) congested: bool,
    /// Packets to come before it is closed.
    pub(super) life: u64,
    pub(super) queue: VecDeque<Planned>,
    pub(super) now_ns: u64,
    stage: Stage,
}

impl Connection {
    pub(super) fn new(
        agreement: Agreement,
        setup: Setup,
        ends: [End; 2],
        qkey: QKey,
        congested: bool,
        life: u64,
        now_ns: u64,
    ) -> Self {
        let stage = Stage::New;
        let queue = VecDeque::new();
        Self { agreement, setup, ends, qkey, congested, life, queue, now_ns, stage }
    }

    pub(super) fn end(&mut self, side: Side) -> &mut End {
        let [active, passive] = &mut self.ends;
        match side {
            Side::Active => active,
            Side::Passive => passive,
        }
    }

    pub(super) fn service(&self) -> Service {
        self.agreement.service
    }

    /// Plans what comes next, if anything does: the queue is empty once the connection is closed.
    pub(super) fn plan(&mut self, wishes: &Wishes, budget: &mut Budget, random: &mut Random) {
        self.now_ns += random.ns(500, wishes.pause_ns);
        let planned = match self.stage {
            Stage::Closed => return,
            Stage::New => self.open(budget),
            Stage::Open if self.life == 0 => self.close(),
            Stage::Open => {
                Exchange::new(self, wishes, random).run(budget);
                if self.queue.is_empty() { self.close() } else { Ok(()) }
            }
        };
        debug_assert_eq!(planned, Ok(()), "the messages fit their MADs");
        self.life = self.life.saturating_sub(u64::try_from(self.queue.len()).unwrap_or(u64::MAX));
        if let Some(last) = self.queue.back() {
            self.now_ns = self.now_ns.max(last.at_ns);
        }
    }

    /// The handshake; what the end takes is set aside with it.
    fn open(&mut self, budget: &mut Budget) -> Result<(), CmEmitError> {
        let steps: &[_] = match (self.setup, self.service()) {
            (Setup::Unseen, _) => &[],
            (Setup::Cm, Service::Ud) => {
                &[(Step::SidrReq, Side::Active), (Step::SidrRep, Side::Passive)]
            }
            (Setup::Cm, _) => {
                &[(Step::Req, Side::Active), (Step::Rep, Side::Passive), (Step::Rtu, Side::Active)]
            }
        };
        // With the least of exchanges, so that no connection is made for nothing.
        let set_aside = if self.closes_visibly() { 2 } else { 0 };
        let len = u64::try_from(steps.len()).unwrap_or(u64::MAX);
        if !budget.take(len + set_aside) {
            self.stage = Stage::Closed;
            return Ok(());
        }
        self.stage = Stage::Open;
        if steps.is_empty() {
            // Something must be planned for the connection to go on.
            return Ok(());
        }
        self.steps(steps)
    }

    fn closes_visibly(&self) -> bool {
        self.setup == Setup::Cm && self.service() != Service::Ud
    }

    fn close(&mut self) -> Result<(), CmEmitError> {
        self.stage = Stage::Closed;
        if !self.closes_visibly() {
            return Ok(());
        }
        self.steps(&[(Step::Dreq, Side::Active), (Step::Drep, Side::Passive)])
    }

    fn steps(&mut self, steps: &[(Step, Side)]) -> Result<(), CmEmitError> {
        let mut at_ns = self.now_ns;
        for (step, from) in steps {
            let mad = self.agreement.mad(*step, *from)?;
            self.queue.push_back(Planned { at_ns, from: *from, kind: Kind::Mad(mad) });
            // A connection manager is a program, and takes its time.
            at_ns += 250_000;
        }
        self.now_ns = at_ns;
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed && self.queue.is_empty()
    }
}
