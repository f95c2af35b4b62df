//! Shared receive queues (IBTA 10.2.9): receives that several queue pairs take from.
//!
//! A queue pair takes a receive with the first packet of a SEND, or the last of a WRITE with
//! immediate; from then on the receive is the queue pair's. If a queue pair ends in error, what it
//! has taken is flushed, and the shared queue is not.

use core::fmt;

use crate::engine::Engine;
use crate::event::Event;
use crate::memory::Pd;
use crate::pool::{Link, Linked, List, Pool};

/// A shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Srq {
    slot: u32,
    generation: u32,
}

/// What a shared receive queue is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrqInit {
    /// The protection domain of its receives' memory; that of a queue pair may be another.
    pub pd: Pd,
    /// Receive work requests it may hold.
    pub max_wr: u32,
    /// Scatter-gather elements each may have.
    pub max_sge: u8,
}

/// What can be asked of a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrqInfo {
    /// Receive work requests it holds.
    pub wrs: u32,
    /// Below how many it will be told; 0 if it will not.
    pub limit: u32,
}

/// Why a verb on a shared receive queue was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SrqError {
    /// All slots of shared receive queues are taken.
    NoSlot,
    /// There is no such shared receive queue.
    UnknownSrq,
    /// Queue pairs still take from it.
    Busy,
    /// A limit above what it may hold.
    Limit,
}

impl fmt::Display for SrqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "all slots of shared receive queues are taken",
            Self::UnknownSrq => "no such shared receive queue",
            Self::Busy => "queue pairs still take from the shared receive queue",
            Self::Limit => "the limit is above what the shared receive queue may hold",
        })
    }
}

impl core::error::Error for SrqError {}

/// One shared receive queue; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct SrqSlot {
    link: Link,
    live: bool,
    /// How many queues the slot has held: an old handle finds nothing.
    generation: u32,
    pub(crate) pd: Pd,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u8,
    limit: u32,
    /// Queue pairs that take from it.
    users: u32,
    pub(crate) receives: List,
}

impl SrqSlot {
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        live: false,
        generation: 0,
        pd: Pd(0),
        max_wr: 0,
        max_sge: 0,
        limit: 0,
        users: 0,
        receives: List::EMPTY,
    };
}

impl Linked for SrqSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The shared receive queues of an engine.
#[derive(Debug)]
pub(crate) struct SrqTable<'s> {
    pool: Pool<'s, SrqSlot>,
}

impl<'s> SrqTable<'s> {
    pub(crate) fn new(slots: &'s mut [SrqSlot]) -> Self {
        Self { pool: Pool::new(slots) }
    }

    pub(crate) fn get(&self, srq: Srq) -> Option<&SrqSlot> {
        let slot = self.pool.get(srq.slot)?;
        (slot.live && slot.generation == srq.generation).then_some(slot)
    }

    pub(crate) fn get_mut(&mut self, srq: Srq) -> Option<&mut SrqSlot> {
        let slot = self.pool.get_mut(srq.slot)?;
        (slot.live && slot.generation == srq.generation).then_some(slot)
    }

    /// The receives of the queue that a slot holds; none at the end of the slots.
    pub(crate) fn receives_in(&self, slot: u32) -> Option<List> {
        self.pool.get(slot).map(|slot| slot.receives)
    }

    /// A queue pair begins to take from it.
    pub(crate) fn join(&mut self, srq: Srq) {
        if let Some(slot) = self.get_mut(srq) {
            slot.users += 1;
        }
    }

    /// A queue pair is gone.
    pub(crate) fn leave(&mut self, srq: Srq) {
        if let Some(slot) = self.get_mut(srq) {
            slot.users = slot.users.saturating_sub(1);
        }
    }
}

impl SrqSlot {
    /// Whether the limit is armed and has been passed: said once, then it is disarmed.
    fn passes_limit(&mut self) -> bool {
        let passed = self.receives.len() < self.limit;
        if passed {
            self.limit = 0;
        }
        passed
    }
}

impl Engine<'_> {
    /// A new shared receive queue.
    ///
    /// # Errors
    /// [`SrqError::NoSlot`].
    pub fn create_srq(&mut self, init: &SrqInit) -> Result<Srq, SrqError> {
        let index = self.srqs.pool.take().ok_or(SrqError::NoSlot)?;
        let Some(slot) = self.srqs.pool.get_mut(index) else { return Err(SrqError::NoSlot) };
        let generation = slot.generation.wrapping_add(1);
        *slot = SrqSlot {
            live: true,
            generation,
            pd: init.pd,
            max_wr: init.max_wr,
            max_sge: init.max_sge,
            ..SrqSlot::EMPTY
        };
        Ok(Srq { slot: index, generation })
    }

    /// Arms the limit: once there are fewer receives than this,
    /// [`Event::SrqLimitReached`] says so, once. At once, if there are fewer already. 0 disarms.
    ///
    /// # Errors
    /// [`SrqError::UnknownSrq`] and [`SrqError::Limit`].
    pub fn modify_srq(&mut self, srq: Srq, limit: u32) -> Result<(), SrqError> {
        let slot = self.srqs.get_mut(srq).ok_or(SrqError::UnknownSrq)?;
        if limit > slot.max_wr {
            return Err(SrqError::Limit);
        }
        slot.limit = limit;
        if slot.passes_limit() {
            self.events.push(Event::SrqLimitReached(srq));
        }
        Ok(())
    }

    /// What a shared receive queue holds.
    ///
    /// # Errors
    /// [`SrqError::UnknownSrq`].
    pub fn query_srq(&self, srq: Srq) -> Result<SrqInfo, SrqError> {
        let slot = self.srqs.get(srq).ok_or(SrqError::UnknownSrq)?;
        Ok(SrqInfo { wrs: slot.receives.len(), limit: slot.limit })
    }

    /// Takes a shared receive queue away; its receives end without completion.
    ///
    /// # Errors
    /// [`SrqError::UnknownSrq`], and [`SrqError::Busy`] while queue pairs take from it.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), SrqError> {
        let slot = self.srqs.get_mut(srq).ok_or(SrqError::UnknownSrq)?;
        if slot.users > 0 {
            return Err(SrqError::Busy);
        }
        slot.live = false;
        let mut receives = core::mem::replace(&mut slot.receives, List::EMPTY);
        self.srqs.pool.give(srq.slot);
        while let Some(index) = self.recvs.pop_front(&mut receives) {
            self.free_recv(index);
        }
        Ok(())
    }

    /// The receive for a queue pair's next message: of its own, or shared.
    #[inline]
    pub(crate) fn next_receive(&self, slot: u32) -> Option<u32> {
        let qp = self.qps.get(slot)?;
        let shared = || self.srqs.get(qp.srq?)?.receives.head().index();
        qp.receives.head().index().or_else(shared)
    }

    /// Takes a receive for a message of a queue pair's: of its own, or else shared.
    #[inline]
    pub(crate) fn take_receive(&mut self, slot: u32) -> Option<u32> {
        if let Some(index) = self.pop_receive(slot) {
            return Some(index);
        }
        let srq = self.qps.get(slot)?.srq?;
        let shared = self.srqs.get_mut(srq)?;
        let index = self.recvs.pop_front(&mut shared.receives)?;
        if shared.passes_limit() {
            self.events.push(Event::SrqLimitReached(srq));
        }
        Some(index)
    }
}
