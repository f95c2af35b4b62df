//! Work requests that wait: the slots of the queues.

use roce_codec::ib::{Msn, Psn};

use crate::ah::UdAddress;
use crate::engine::Engine;
use crate::memory::Pd;
use crate::pool::{Link, Linked};
use crate::sge::Local;
use crate::wr::WrOpcode;

/// A waiting send request; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct SendWqe {
    pub(crate) link: Link,
    pub(crate) wr_id: u64,
    pub(crate) opcode: WrOpcode,
    pub(crate) local: Local,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    /// Waits until no READ or atomic before it is outstanding.
    pub(crate) fence: bool,
    /// The PSNs it takes: a READ as many as its answer has packets.
    pub(crate) first_psn: Psn,
    pub(crate) last_psn: Psn,
    /// Which message it is, as the peer's MSN counts: from 1.
    pub(crate) ssn: Msn,
    /// Of a request that no packet carries: it has been carried out.
    pub(crate) done: bool,
    /// Where a datagram goes.
    pub(crate) to: Option<UdAddress>,
}

impl SendWqe {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        wr_id: 0,
        opcode: WrOpcode::Send,
        local: Local::EMPTY,
        signaled: false,
        solicited: false,
        fence: false,
        first_psn: Psn::new(0),
        last_psn: Psn::new(0),
        ssn: Msn::new(0),
        done: false,
        to: None,
    };
}

impl Linked for SendWqe {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// A waiting receive request; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct RecvWqe {
    pub(crate) link: Link,
    pub(crate) wr_id: u64,
    pub(crate) local: Local,
    /// Whose memory it is: the protection domain of the queue it was posted to.
    pub(crate) pd: Pd,
}

impl RecvWqe {
    /// An empty slot.
    pub const EMPTY: Self = Self { link: Link::NONE, wr_id: 0, local: Local::EMPTY, pd: Pd(0) };
}

impl Linked for RecvWqe {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Engine<'_> {
    /// Gives a send request's slots back; says what it was.
    #[inline]
    pub(crate) fn free_send(&mut self, index: u32) -> Option<SendWqe> {
        let wqe = self.sends.get(index).copied()?;
        self.sends.give(index);
        self.locals.give(wqe.local);
        Some(wqe)
    }

    /// Gives a receive request's slots back; says what it was.
    #[inline]
    pub(crate) fn free_recv(&mut self, index: u32) -> Option<RecvWqe> {
        let wqe = self.recvs.get(index).copied()?;
        self.recvs.give(index);
        self.locals.give(wqe.local);
        Some(wqe)
    }
}
