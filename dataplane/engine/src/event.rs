//! Asynchronous events: what happens to a queue pair outside its completions.

use roce_codec::ib::{NakCode, Qpn};

use crate::cq::{Cq, WcStatus};
use crate::srq::Srq;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The first packet came while the QP waited in RTR; it stands for a lost RTU.
    CommunicationEstablished(Qpn),
    /// In SQD, everything that had been begun is done.
    SqDrained(Qpn),
    /// The peer's request was refused for good; the QP is in error.
    RequestRefused {
        /// The QP.
        qp: Qpn,
        /// What the peer was told.
        code: NakCode,
    },
    /// A request of ours failed; the QP is in error. Its completion says more.
    RequestFailed {
        /// The QP.
        qp: Qpn,
        /// How it ended.
        status: WcStatus,
    },
    /// A whole RDMA WRITE is in memory. Only for QPs created with `observe_writes`: plain verbs
    /// tell nobody.
    RemoteWrite {
        /// The QP.
        qp: Qpn,
        /// Where it began.
        va: u64,
        /// Bytes.
        len: u32,
    },
    /// A shared receive queue holds fewer receives than its limit says. Told once; the limit is
    /// disarmed.
    SrqLimitReached(Srq),
    /// A queue pair that takes shared receives is in error, and has completed all that it took:
    /// none will come any more.
    LastWqeReached(Qpn),
    /// A completion found its queue full and is lost.
    CqOverrun(Cq),
}

impl Event {
    /// The queue pair that it is about, if it is about one.
    #[must_use]
    pub const fn qp(&self) -> Option<Qpn> {
        match self {
            Self::CommunicationEstablished(qp)
            | Self::SqDrained(qp)
            | Self::LastWqeReached(qp)
            | Self::RequestRefused { qp, .. }
            | Self::RequestFailed { qp, .. }
            | Self::RemoteWrite { qp, .. } => Some(*qp),
            Self::SrqLimitReached(_) | Self::CqOverrun(_) => None,
        }
    }
}

/// A bounded queue of events in lent slots.
#[derive(Debug)]
pub(crate) struct EventQueue<'s> {
    slots: &'s mut [Option<Event>],
    head: usize,
    len: usize,
    pub(crate) lost: u64,
}

impl<'s> EventQueue<'s> {
    pub(crate) fn new(slots: &'s mut [Option<Event>]) -> Self {
        Self { slots, head: 0, len: 0, lost: 0 }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.len == self.slots.len() {
            self.lost += 1;
            return;
        }
        let at = (self.head + self.len) % self.slots.len();
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some(event);
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.len == 0 {
            return None;
        }
        let event = self.slots.get_mut(self.head)?.take();
        self.head = (self.head + 1) % self.slots.len();
        self.len -= 1;
        event
    }
}
