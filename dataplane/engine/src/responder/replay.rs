//! READs and atomics kept for replay, and what duplicates are answered from.

use roce_codec::ib::{Opcode, Operation, PathMtu, Psn, RKey};

use super::{Answer, INVALID, Refusal, Request};
use crate::access::Access;
use crate::counters::{DropReason, HwCounter};
use crate::engine::Engine;
use crate::scheduler::Class;

/// A READ or atomic that is kept until its slot is needed; part of
/// [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct ReplaySlot {
    pub(super) first: Psn,
    pub(super) last: Psn,
    pub(super) kept: Kept,
    /// The next answer to send; none when all are out.
    pub(super) next: Option<Psn>,
    /// All answers have been out once: what is being sent now is sent again.
    pub(super) answered: bool,
    /// It came again before all answers were out: the peer has gone back, and what it takes to be
    /// outstanding is no longer what is outstanding here.
    pub(super) retried: bool,
    /// Of a READ: the farthest PSN it was asked for from.
    asked_from: Psn,
    /// How often the peer has gone back from there while the answer was under way.
    back: u8,
}

/// How often a peer may go back in a READ that is being answered without having got any farther:
/// as often as a requester tries at most.
const MOST_BACK: u8 = 8;

#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    Nothing,
    Read {
        rkey: RKey,
        va: u64,
        len: u32,
        /// The pass that is being answered: the whole READ or, on a retry, its rest.
        pass: Pass,
    },
    Atomic {
        original: u64,
    },
    /// An ATOMIC WRITE or a FLUSH: there is nothing to say but that it is done.
    Done(Operation),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) first: Psn,
    pub(super) last: Psn,
    pub(super) va: u64,
    pub(super) len: u32,
}

impl ReplaySlot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        first: Psn::new(0),
        last: Psn::new(0),
        kept: Kept::Nothing,
        next: None,
        answered: false,
        retried: false,
        asked_from: Psn::new(0),
        back: 0,
    };

    pub(super) const fn new(first: Psn, last: Psn, kept: Kept) -> Self {
        Self { first, last, kept, next: Some(first), asked_from: first, ..Self::EMPTY }
    }

    /// Whether a READ that comes again from `psn` is answered. While its answer is under way, going
    /// back makes more of it: as often as there is progress, and else no more often than a
    /// requester tries, or a peer that repeats itself could have the start of an answer without end.
    /// Once an answer is out, it is.
    const fn may_go_back(&mut self, psn: Psn) -> bool {
        let farther = psn.is_after(self.asked_from);
        if farther {
            self.asked_from = psn;
        }
        match self.next {
            Some(next) if psn.is_before(next) => {
                let back = if farther { 0 } else { self.back };
                if back >= MOST_BACK {
                    return false;
                }
                self.back = back + 1;
            }
            Some(_) => {}
            None => self.back = 0,
        }
        true
    }

    /// Whether another request may take the place. A peer that sends one has all the answers it
    /// asked for; those that a late duplicate has called up again are of no use to it.
    pub(super) const fn is_free(&self) -> bool {
        self.next.is_none() || self.answered
    }
}

impl Pass {
    /// Where the packet with this PSN reads, and how much.
    pub(super) fn packet(&self, psn: Psn, mtu: PathMtu) -> (u64, u32) {
        let index = u32::try_from(psn.distance_from(self.first)).unwrap_or(0);
        let skipped = index.saturating_mul(mtu.bytes()).min(self.len);
        (self.va.wrapping_add(u64::from(skipped)), (self.len - skipped).min(mtu.bytes()))
    }

    pub(super) fn opcode(&self, psn: Psn) -> Opcode {
        match (psn == self.first, psn == self.last) {
            (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
        }
    }
}

impl Engine<'_> {
    /// Reads a little of the place that the next READ or atomic takes, so that it comes into the
    /// cache.
    #[inline]
    pub(crate) fn touch_replay(&self, slot: u32) -> bool {
        let Some(qp) = self.qps.get(slot) else { return false };
        let start = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(self.replay_share);
        let at = start.saturating_add(usize::from(qp.responder.replay_next));
        self.replays.get(at).is_some_and(|replay| replay.answered)
    }

    /// Whether the oldest kept READ or atomic may be forgotten: its answers are out. If not, more
    /// are outstanding than agreed. That is an invalid request (IBTA 9.7.4.1.4) unless the peer is
    /// sending again: then it may count some as answered that are being answered again, and the
    /// excess one is asked for again when there is a place. Nothing is held for it meanwhile.
    pub(super) fn check_place(&mut self, slot: u32) -> Result<(), Refusal> {
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let at = usize::from(qp.responder.replay_next);
        let cap = usize::from(qp.responder.replay_cap);
        match self.replays_of(slot).get(at).filter(|_| at < cap) {
            Some(oldest) if oldest.is_free() => Ok(()),
            Some(oldest) if oldest.retried => Err(Refusal::NotYet),
            _ => Err(INVALID),
        }
    }

    /// Keeps a READ or atomic in the place of the oldest one.
    pub(super) fn keep(&mut self, slot: u32, replay: ReplaySlot) -> Result<(), Refusal> {
        self.check_place(slot)?;
        let Some(qp) = self.qps.get_mut(slot) else { return Err(INVALID) };
        let responder = &mut qp.responder;
        let at = responder.replay_next;
        responder.replay_next = (at + 1) % responder.replay_cap.max(1);
        if responder.unanswered == 0 {
            responder.look_from = at;
        } else if responder.look_from == at {
            // What was here is forgotten, and what comes here is the newest.
            responder.look_from = responder.replay_next;
        }
        let Some(place) = self.replays_of(slot).get_mut(usize::from(at)) else {
            return Err(INVALID);
        };
        let replaced = core::mem::replace(place, replay);
        if replaced.next.is_none()
            && let Some(qp) = self.qps.get_mut(slot)
        {
            qp.responder.unanswered += 1;
        }
        self.ready.push(Class::Data, slot);
        Ok(())
    }

    /// Whether answers by this key are still owed: the key cannot go before they are out. Those
    /// that a late duplicate called up again do not count; nobody waits for them.
    pub(super) fn is_being_read(&mut self, slot: u32, key: RKey) -> bool {
        self.replays_of(slot).iter().any(|replay| {
            matches!(replay.kept, Kept::Read { rkey, .. } if rkey == key) && !replay.is_free()
        })
    }

    /// A request seen before (IBTA 9.7.5.1.1, C9-105): SEND and WRITE are acknowledged again and
    /// never executed again, READ and atomic are answered from what is kept.
    pub(super) fn duplicate(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
    ) -> Result<(), DropReason> {
        self.counters.count(HwCounter::DuplicateRequest);
        let psn = request.bth.psn;
        match request.info.operation {
            Operation::Send | Operation::Write => {
                let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
                if !matches!(qp.responder.answer, Answer::Nak(..)) {
                    self.owe(slot, Answer::Ack(qp.responder.newest));
                }
                Ok(())
            }
            Operation::ReadRequest => self.replay_read(slot, request),
            Operation::CompareSwap | Operation::FetchAdd => {
                let atomic = |replay: &ReplaySlot| {
                    matches!(replay.kept, Kept::Atomic { .. }) && replay.first == psn
                };
                let replay = self.kept(slot, atomic).ok_or(DropReason::StaleDuplicate)?;
                replay.retried = true;
                let was_answered = replay.next.replace(psn).is_none();
                self.unanswered_again(slot, was_answered);
                Ok(())
            }
            Operation::AtomicWrite | Operation::Flush => {
                let same = |replay: &ReplaySlot| {
                    matches!(replay.kept, Kept::Done(operation)
                        if operation == request.info.operation && replay.first == psn)
                };
                let replay = self.kept(slot, same).ok_or(DropReason::StaleDuplicate)?;
                replay.retried = true;
                let was_answered = replay.next.replace(psn).is_none();
                self.unanswered_again(slot, was_answered);
                Ok(())
            }
            _ => Err(DropReason::StaleDuplicate),
        }
    }

    /// A READ again, or its rest: it must lie inside the one that is kept, and its key must still
    /// be good (IBTA 9.7.5.1.3). Memory is read anew.
    fn replay_read(&mut self, slot: u32, request: &Request<'_, '_>) -> Result<(), DropReason> {
        let stale = DropReason::StaleDuplicate;
        let psn = request.bth.psn;
        let reth = request.frame.reth().ok_or(stale)?;
        let qp = self.qps.get(slot).ok_or(stale)?;
        let (via, mtu) = (qp.via(), qp.path_mtu);
        if reth.dma_len > 0 {
            self.memory
                .remote(reth.rkey, via, reth.va, reth.dma_len, Access::REMOTE_READ)
                .map_err(|_| stale)?;
        }
        let read = |replay: &ReplaySlot| {
            matches!(replay.kept, Kept::Read { .. }) && psn.is_within(replay.first, replay.last)
        };
        let replay = self.kept(slot, read).ok_or(stale)?;
        let Kept::Read { rkey, va, len, .. } = replay.kept else { return Err(stale) };
        let last = psn.add(mtu.packets(reth.dma_len) - 1);
        let left = reth.va.checked_sub(va).and_then(|skipped| u64::from(len).checked_sub(skipped));
        let inside = reth.rkey == rkey
            && left.is_some_and(|left| u64::from(reth.dma_len) <= left)
            && !last.is_after(replay.last);
        if !inside || !replay.may_go_back(psn) {
            return Err(stale);
        }
        let pass = Pass { first: psn, last, va: reth.va, len: reth.dma_len };
        replay.kept = Kept::Read { rkey, va, len, pass };
        replay.retried = true;
        let was_answered = replay.next.replace(psn).is_none();
        self.unanswered_again(slot, was_answered);
        Ok(())
    }

    /// The newest kept READ or atomic of which `which` holds: an older one may have the same PSN,
    /// 2²⁴ packets ago.
    fn kept(&mut self, slot: u32, which: impl Fn(&ReplaySlot) -> bool) -> Option<&mut ReplaySlot> {
        let responder = &self.qps.get(slot)?.responder;
        let next = usize::from(responder.replay_next);
        let cap = usize::from(responder.replay_cap);
        let replays = self.replays_of(slot);
        let at = (1..=cap)
            .map(|back| (next + cap - back) % cap)
            .find(|at| replays.get(*at).is_some_and(&which))?;
        replays.get_mut(at)
    }

    fn unanswered_again(&mut self, slot: u32, was_answered: bool) {
        if was_answered && let Some(qp) = self.qps.get_mut(slot) {
            qp.responder.unanswered += 1;
            qp.responder.look_from = qp.responder.replay_next;
        }
        self.ready.push(Class::Data, slot);
    }
}
