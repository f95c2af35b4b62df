//! The engine's books, held against each other: for simulations, which ask after every step.

use core::fmt;

use roce_codec::ib::Qpn;

use crate::engine::Engine;
use crate::pool::List;
use crate::qp_state::QpState;

/// What does not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discrepancy {
    /// Slots that are taken out of a pool, and slots that somebody has.
    Slots {
        /// Which pool.
        pool: &'static str,
        /// Taken out of it.
        taken: u32,
        /// In a queue, or in hand.
        held: u32,
    },
    /// The PSNs of a requester: oldest unacknowledged, next, sent, posted, in this order.
    Psns(Qpn),
    /// More packets in flight than the window has room for.
    Window(Qpn),
    /// READs and atomics outstanding: not as many as were sent, or more than the peer keeps.
    RdAtomic(Qpn),
    /// A timer is armed with nothing outstanding, or not armed with something.
    Timer(Qpn),
    /// READs and atomics to be answered: not as many as are kept with answers to come, or the
    /// oldest is not where it is looked for.
    Unanswered(Qpn),
    /// An answer is owed, and the queue pair is in no queue to send it.
    Silent(Qpn),
    /// A queue pair in error still has work requests.
    NotFlushed(Qpn),
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { pool, taken, held } => {
                write!(f, "{pool}: {taken} slots taken, {held} in hand")
            }
            Self::Psns(qp) => write!(f, "{qp}: PSNs out of order"),
            Self::Window(qp) => write!(f, "{qp}: more in flight than the window"),
            Self::RdAtomic(qp) => write!(f, "{qp}: READs and atomics outstanding"),
            Self::Timer(qp) => write!(f, "{qp}: timer"),
            Self::Unanswered(qp) => write!(f, "{qp}: READs and atomics to be answered"),
            Self::Silent(qp) => write!(f, "{qp}: an answer that will not be sent"),
            Self::NotFlushed(qp) => write!(f, "{qp}: work requests in error"),
        }
    }
}

impl core::error::Error for Discrepancy {}

impl Engine<'_> {
    /// Holds the pools to the queues and each queue pair's halves to themselves. Takes a look at
    /// every queue pair and every work request: not for the poll loop.
    ///
    /// # Errors
    /// The first [`Discrepancy`]: a fault of the engine's, whatever peer and caller have done.
    pub fn audit(&mut self) -> Result<(), Discrepancy> {
        let mut sums = Sums::default();
        for slot in 0.. {
            let Some(qp) = self.qps.get(slot) else { break };
            if qp.live {
                self.audit_qp(slot, &mut sums)?;
            }
        }
        for slot in 0.. {
            let Some(shared) = self.srqs.receives_in(slot) else { break };
            sums.recvs += shared.len();
            self.count_locals(List::EMPTY, shared, None, &mut sums);
        }
        let pools = [
            ("send work requests", self.sends.taken(), sums.sends),
            ("receive work requests", self.recvs.taken(), sums.recvs),
            ("held packets", self.held.taken(), sums.held),
            ("completions", self.cqs.taken(), self.cqs.waiting()),
        ];
        let [sges, inlines] = self.locals.taken();
        let locals = [("list elements", sges, sums.sges), ("inline data", inlines, sums.inlines)];
        for (pool, taken, held) in pools.into_iter().chain(locals) {
            if taken != held {
                return Err(Discrepancy::Slots { pool, taken, held });
            }
        }
        Ok(())
    }

    fn audit_qp(&mut self, slot: u32, sums: &mut Sums) -> Result<(), Discrepancy> {
        let Some(qp) = self.qps.get(slot) else { return Ok(()) };
        let (qpn, state) = (qp.qpn, qp.state);
        let (queue, receives) = (qp.requester.queue, qp.receives);
        if state == QpState::Error && queue.len() + receives.len() > 0 {
            return Err(Discrepancy::NotFlushed(qpn));
        }
        let in_hand = qp.responder.receive_in_hand();
        sums.sends += queue.len();
        sums.recvs += receives.len() + u32::from(in_hand.is_some());
        sums.held += qp.responder.held_count();
        self.count_locals(queue, receives, in_hand, sums);
        self.audit_requester(slot)?;
        self.audit_responder(slot)
    }

    /// The slots behind the work requests of a queue pair's queues.
    fn count_locals(&mut self, queue: List, receives: List, in_hand: Option<u32>, sums: &mut Sums) {
        let mut count = |engine: &mut Self, local| {
            let (of, inline) = engine.locals.count(&local);
            if inline {
                sums.inlines += of;
            } else {
                sums.sges += of;
            }
        };
        let mut next = queue.head();
        while let Some(wqe) = next.index().and_then(|index| self.sends.get(index)).copied() {
            count(self, wqe.local);
            next = wqe.link;
        }
        let mut next = receives.head();
        while let Some(wqe) = next.index().and_then(|index| self.recvs.get(index)).copied() {
            count(self, wqe.local);
            next = wqe.link;
        }
        if let Some(wqe) = in_hand.and_then(|index| self.recvs.get(index)).copied() {
            count(self, wqe.local);
        }
    }
}

/// Slots that somebody has.
#[derive(Default)]
struct Sums {
    sends: u32,
    recvs: u32,
    held: u32,
    sges: u32,
    inlines: u32,
}
