//! The engine: its tables, and the verbs on them.

use core::fmt;

use roce_codec::ib::{PathMtu, Qpn, RKey};

use crate::config::{Config, Entropy};
use crate::counters::Counters;
use crate::cq::{Cq, CqTable, Wc, WcOpcode, WcStatus};
use crate::event::{Event, EventQueue};
use crate::memory::{Access, MemoryError, Mr, MrAttr, MrTable, Pd};
use crate::pool::{List, Pool};
use crate::qp::{ModifyQp, QpInfo, QpInit, QpSlot, QpState, RtrAttr, RtsAttr};
use crate::requester::Requester;
use crate::responder::{ReplaySlot, Responder};
use crate::rules::length::MAX_MESSAGE;
use crate::scheduler::{Class, Scheduler};
use crate::storage::Storage;
use crate::time::Instant;
use crate::timer::Wheel;
use crate::transmit::Transmit;
use crate::wr::{PostError, RecvWqe, RecvWr, SendWqe, SendWr, WrOpcode};

/// Timers that one call of [`Engine::handle_timeout`] serves, at most.
pub const TIMERS_PER_CALL: u32 = 64;

/// Whether a call left work of its kind for another call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum More {
    /// All is done.
    No,
    /// Call again soon.
    Yes,
}

/// Why a verb on a queue pair was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QpError {
    /// All queue pair slots are taken.
    NoSlot,
    /// No queue pair has this number.
    UnknownQp,
    /// The completion queue does not exist.
    UnknownCq,
    /// The state machine has no such transition.
    Transition {
        /// The state it is in.
        from: QpState,
        /// The state asked for.
        to: QpState,
    },
    /// The path MTU is above what the engine's port carries.
    PathMtu {
        /// What was asked for.
        asked: PathMtu,
        /// What the port carries.
        most: PathMtu,
    },
    /// More READs and atomics than the storage keeps for replay.
    RdAtomic {
        /// What was asked for.
        asked: u8,
        /// What the storage keeps.
        most: u8,
    },
    /// Source and destination address are of different families.
    AddressFamily,
}

impl fmt::Display for QpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot => f.write_str("all queue pair slots are taken"),
            Self::UnknownQp => f.write_str("no queue pair has this number"),
            Self::UnknownCq => f.write_str("no such completion queue"),
            Self::Transition { from, to } => {
                write!(f, "a queue pair cannot go from {from:?} to {to:?}")
            }
            Self::PathMtu { asked, most } => {
                write!(f, "path MTU {asked} is above the {most} that the port carries")
            }
            Self::RdAtomic { asked, most } => {
                write!(f, "{asked} READs and atomics asked for, {most} are kept for replay")
            }
            Self::AddressFamily => f.write_str("addresses of different families"),
        }
    }
}

impl core::error::Error for QpError {}

/// One shard of the transport. See the [crate page](crate) for the calls and their order.
#[derive(Debug)]
pub struct Engine<'s> {
    pub(crate) config: Config,
    pub(crate) now: Instant,
    pub(crate) qps: Pool<'s, QpSlot>,
    pub(crate) replays: &'s mut [ReplaySlot],
    pub(crate) replay_share: usize,
    pub(crate) timers: Wheel<'s>,
    pub(crate) ready: Scheduler<'s>,
    pub(crate) memory: MrTable<'s>,
    pub(crate) cqs: CqTable<'s>,
    pub(crate) sends: Pool<'s, SendWqe>,
    pub(crate) recvs: Pool<'s, RecvWqe>,
    pub(crate) events: EventQueue<'s>,
    pub(crate) counters: Counters,
    slot_bits: u32,
    pds: u32,
}

impl<'s> Engine<'s> {
    /// An engine without queue pairs.
    #[must_use]
    pub fn new(config: Config, storage: Storage<'s>) -> Self {
        let Storage { qps, timers, ready, replays, mrs, cqs, cqes, send_wqes, recv_wqes, events } =
            storage;
        let count = qps.len().min(timers.len()).min(ready.len());
        // A QPN is generation, slot and shard. Two bits of generation must be left, so that there
        // is always one that is neither special nor the slot's last.
        let most = 1usize << (22 - u32::from(config.shard_bits.min(6)));
        let (qps, _) = qps.split_at_mut(count.min(most));
        let slot_bits = usize::BITS - qps.len().saturating_sub(1).leading_zeros();
        Self {
            config,
            now: Instant::ZERO,
            replay_share: replays.len().checked_div(qps.len()).unwrap_or(0).min(255),
            replays,
            qps: Pool::new(qps),
            timers: Wheel::new(timers),
            ready: Scheduler::new(ready, config.quantum),
            memory: MrTable::new(mrs),
            cqs: CqTable::new(cqs, cqes),
            sends: Pool::new(send_wqes),
            recvs: Pool::new(recv_wqes),
            events: EventQueue::new(events),
            counters: Counters::ZERO,
            slot_bits,
            pds: 0,
        }
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Events that found their queue full.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.events.lost
    }

    /// READs and atomics that can be kept for replay, a queue pair.
    #[must_use]
    pub fn max_dest_rd_atomic(&self) -> u8 {
        u8::try_from(self.replay_share).unwrap_or(u8::MAX)
    }

    /// A new protection domain.
    pub fn alloc_pd(&mut self) -> Pd {
        self.pds += 1;
        Pd(self.pds)
    }

    /// Registers a memory region.
    ///
    /// # Errors
    /// [`MemoryError::NoSlot`] and [`MemoryError::Range`].
    pub fn register_mr(
        &mut self,
        attr: &MrAttr,
        entropy: &mut impl Entropy,
    ) -> Result<Mr, MemoryError> {
        self.memory.register(attr, entropy)
    }

    /// Takes a region away: its keys are dead from here on, also for what is in progress.
    ///
    /// # Errors
    /// [`MemoryError::UnknownKey`].
    pub fn deregister_mr(&mut self, rkey: RKey) -> Result<(), MemoryError> {
        self.memory.deregister(rkey)
    }

    /// A new completion queue of `depth` completions; `None` if there is no slot.
    pub fn create_cq(&mut self, depth: u32) -> Option<Cq> {
        self.cqs.create(depth)
    }

    /// The oldest completion of a queue.
    pub fn poll_cq(&mut self, cq: Cq) -> Option<Wc> {
        self.cqs.pop(cq)
    }

    /// The oldest asynchronous event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// A new queue pair, in [`QpState::Reset`].
    ///
    /// # Errors
    /// [`QpError::NoSlot`] and [`QpError::UnknownCq`].
    pub fn create_qp(&mut self, init: &QpInit, entropy: &mut impl Entropy) -> Result<Qpn, QpError> {
        if !self.cqs.contains(init.send_cq) || !self.cqs.contains(init.recv_cq) {
            return Err(QpError::UnknownCq);
        }
        let index = self.qps.take().ok_or(QpError::NoSlot)?;
        let shard_bits = u32::from(self.config.shard_bits.min(6));
        let low_bits = self.slot_bits + shard_bits;
        let low = index << shard_bits | u32::from(self.config.shard) & !(u32::MAX << shard_bits);
        let Some(qp) = self.qps.get_mut(index) else { return Err(QpError::NoSlot) };
        let qpn = loop {
            let qpn = Qpn::new(entropy.next_u32() << low_bits | low);
            // 0 and 1 are the management QPs, all ones is multicast, and packets for the slot's
            // last owner may still be under way.
            if ![Qpn::SMI, Qpn::GSI, Qpn::MULTICAST, qp.qpn].contains(&qpn) {
                break qpn;
            }
        };
        *qp = QpSlot {
            live: true,
            qpn,
            observe_writes: init.observe_writes,
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            max_send_wr: init.max_send_wr,
            max_recv_wr: init.max_recv_wr,
            ..QpSlot::EMPTY
        };
        Ok(qpn)
    }

    /// Takes a queue pair away; its work requests end without completion.
    ///
    /// # Errors
    /// [`QpError::UnknownQp`].
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let slot = self.find(qpn).ok_or(QpError::UnknownQp)?;
        self.reset(slot);
        if let Some(qp) = self.qps.get_mut(slot) {
            qp.live = false;
        }
        self.qps.give(slot);
        Ok(())
    }

    /// Changes a queue pair's state.
    ///
    /// # Errors
    /// [`QpError`]; the queue pair is as it was.
    pub fn modify_qp(&mut self, qpn: Qpn, change: &ModifyQp) -> Result<(), QpError> {
        let slot = self.find(qpn).ok_or(QpError::UnknownQp)?;
        let from = self.qps.get(slot).map_or(QpState::Reset, |qp| qp.state);
        let to = match change {
            ModifyQp::Reset => QpState::Reset,
            ModifyQp::Init { .. } => QpState::Init,
            ModifyQp::Rtr(_) => QpState::Rtr,
            ModifyQp::Rts(_) => QpState::Rts,
            ModifyQp::Error => QpState::Error,
        };
        if !from.may_become(to) {
            return Err(QpError::Transition { from, to });
        }
        match change {
            ModifyQp::Reset => self.reset(slot),
            ModifyQp::Error => {
                // The caller's own decision is silent at once; a NAK that ends the connection
                // still goes out.
                if from != QpState::Error {
                    self.forget_answers(slot);
                }
                self.enter_error(slot);
            }
            ModifyQp::Init { pkey, access } => {
                if let Some(qp) = self.qps.get_mut(slot) {
                    qp.state = QpState::Init;
                    qp.pkey = *pkey;
                    qp.access = *access;
                }
            }
            ModifyQp::Rtr(attr) => self.enter_rtr(slot, attr)?,
            ModifyQp::Rts(attr) => self.enter_rts(slot, from, attr),
        }
        Ok(())
    }

    fn enter_rtr(&mut self, slot: u32, attr: &RtrAttr) -> Result<(), QpError> {
        let most = self.config.max_path_mtu;
        if attr.path_mtu > most {
            return Err(QpError::PathMtu { asked: attr.path_mtu, most });
        }
        let most = self.max_dest_rd_atomic();
        if attr.max_dest_rd_atomic > most {
            return Err(QpError::RdAtomic { asked: attr.max_dest_rd_atomic, most });
        }
        if attr.path.src.is_ipv4() != attr.path.dst.is_ipv4() {
            return Err(QpError::AddressFamily);
        }
        for replay in self.replays_of(slot) {
            *replay = ReplaySlot::EMPTY;
        }
        if let Some(qp) = self.qps.get_mut(slot) {
            qp.state = QpState::Rtr;
            qp.path = attr.path;
            qp.path_mtu = attr.path_mtu;
            qp.dest_qpn = attr.dest_qpn;
            qp.responder = Responder::new(attr.rq_psn, attr.max_dest_rd_atomic, attr.min_rnr_timer);
        }
        Ok(())
    }

    fn enter_rts(&mut self, slot: u32, from: QpState, attr: &RtsAttr) {
        if let Some(qp) = self.qps.get_mut(slot) {
            qp.state = QpState::Rts;
            if from == QpState::Rtr {
                qp.requester = Requester::new(attr);
            } else {
                qp.requester.set_retries(attr);
            }
        }
    }

    /// What a queue pair is doing.
    ///
    /// # Errors
    /// [`QpError::UnknownQp`].
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, QpError> {
        let qp = self.find(qpn).and_then(|slot| self.qps.get(slot)).ok_or(QpError::UnknownQp)?;
        Ok(QpInfo {
            state: qp.state,
            expected_psn: qp.responder.expected,
            msn: qp.responder.msn,
            unacknowledged_psn: qp.requester.una,
            next_psn: qp.requester.next_psn,
            send_wrs: qp.requester.queue.len(),
            recv_wrs: qp.receives.len(),
        })
    }

    /// Posts a send work request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued. On a queue pair in error it is taken and completes as
    /// flushed.
    pub fn post_send(&mut self, qpn: Qpn, wr: &SendWr) -> Result<(), PostError> {
        let slot = self.find(qpn).ok_or(PostError::UnknownQp)?;
        let qp = self.qps.get(slot).ok_or(PostError::UnknownQp)?;
        if !matches!(qp.state, QpState::Rts | QpState::Error) {
            return Err(PostError::State);
        }
        let atomic = matches!(wr.opcode, WrOpcode::CompareSwap { .. } | WrOpcode::FetchAdd { .. });
        if wr.sge.len > MAX_MESSAGE || atomic && wr.sge.len != 8 {
            return Err(PostError::Length);
        }
        let need = if wr.opcode.awaits_response() { Access::LOCAL_WRITE } else { Access::NONE };
        if wr.sge.len > 0 {
            self.memory
                .local(wr.sge.lkey, qp.pd, wr.sge.va, wr.sge.len, need)
                .map_err(|_| PostError::LocalProtection)?;
        }
        if wr.opcode.awaits_response() && qp.state == QpState::Rts && !qp.requester.may_read() {
            return Err(PostError::RdAtomic);
        }
        if qp.requester.queue.len() >= qp.max_send_wr {
            return Err(PostError::QueueFull);
        }
        if qp.state == QpState::Error {
            self.complete(slot, wr.wr_id, WcStatus::WrFlush, wc_opcode(&wr.opcode));
            return Ok(());
        }
        let index = self.sends.take().ok_or(PostError::QueueFull)?;
        let Some(qp) = self.qps.get_mut(slot) else { return Err(PostError::UnknownQp) };
        let first = qp.requester.next_psn;
        // An atomic's answer is one packet; so is every message's at least.
        let last = first.add(qp.path_mtu.packets(wr.sge.len) - 1);
        if let Some(wqe) = self.sends.get_mut(index) {
            wqe.wr = *wr;
            wqe.first_psn = first;
            wqe.last_psn = last;
        }
        self.sends.push_back(&mut qp.requester.queue, index);
        qp.requester.posted(index, last.next());
        self.ready.push(Class::Data, slot);
        Ok(())
    }

    /// Posts a receive work request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued. On a queue pair in error it is taken and completes as
    /// flushed.
    pub fn post_recv(&mut self, qpn: Qpn, wr: &RecvWr) -> Result<(), PostError> {
        let slot = self.find(qpn).ok_or(PostError::UnknownQp)?;
        let qp = self.qps.get_mut(slot).ok_or(PostError::UnknownQp)?;
        if qp.state == QpState::Reset {
            return Err(PostError::State);
        }
        if wr.sge.len > MAX_MESSAGE {
            return Err(PostError::Length);
        }
        if wr.sge.len > 0 {
            self.memory
                .local(wr.sge.lkey, qp.pd, wr.sge.va, wr.sge.len, Access::LOCAL_WRITE)
                .map_err(|_| PostError::LocalProtection)?;
        }
        if qp.receives.len() >= qp.max_recv_wr {
            return Err(PostError::QueueFull);
        }
        if qp.state == QpState::Error {
            self.complete(slot, wr.wr_id, WcStatus::WrFlush, WcOpcode::Recv);
            return Ok(());
        }
        let index = self.recvs.take().ok_or(PostError::QueueFull)?;
        if let Some(wqe) = self.recvs.get_mut(index) {
            wqe.wr = *wr;
        }
        self.recvs.push_back(&mut qp.receives, index);
        Ok(())
    }

    /// Serves timers whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> More {
        self.advance(now);
        for _ in 0..TIMERS_PER_CALL {
            match self.timers.expire(self.now) {
                Some(slot) => self.requester_timeout(slot),
                None => return More::No,
            }
        }
        More::Yes
    }

    /// When to call [`Engine::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// The next packet to send. Acknowledgements come first, then queue pairs take turns.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.advance(now);
        while let Some(slot) = self.ready.front(Class::Control) {
            self.ready.pop(Class::Control);
            if let Some(transmit) = self.acknowledgement(slot) {
                self.counters.count(crate::HwCounter::SentPackets);
                return Some(transmit);
            }
        }
        while let Some(slot) = self.ready.front(Class::Data) {
            let transmit = self.next_response(slot).or_else(|| self.next_request(slot));
            if let Some(transmit) = transmit {
                self.ready.charge(64 + usize::try_from(transmit.body.len()).unwrap_or(0));
                self.counters.count(crate::HwCounter::SentPackets);
                return Some(transmit);
            }
            self.ready.pop(Class::Data);
        }
        None
    }

    /// Tells the engine that the memory behind a packet from [`Engine::poll_transmit`] could not
    /// be read: the request it belongs to fails, here or at the peer.
    pub fn transmit_failed(&mut self, transmit: &Transmit) {
        let Some(slot) = self.find(transmit.qp) else { return };
        if transmit.bth.opcode.info().is_response() {
            self.response_failed(slot, transmit.bth.psn);
        } else {
            self.fail_request_at(slot, transmit.bth.psn, WcStatus::LocalProtection);
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// The slot of a live queue pair.
    #[inline]
    pub(crate) fn find(&self, qpn: Qpn) -> Option<u32> {
        let shard_bits = u32::from(self.config.shard_bits.min(6));
        let slot = qpn.get() >> shard_bits & !(u32::MAX << self.slot_bits);
        let qp = self.qps.get(slot)?;
        (qp.live && qp.qpn == qpn).then_some(slot)
    }

    /// A queue pair's share of the replay slots, as many as were agreed.
    #[inline]
    pub(crate) fn replays_of(&mut self, slot: u32) -> &mut [ReplaySlot] {
        let start = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(self.replay_share);
        self.replays.get_mut(start..start.saturating_add(self.replay_share)).unwrap_or_default()
    }

    /// Completes a work request that carries no data.
    pub(crate) fn complete(&mut self, slot: u32, wr_id: u64, status: WcStatus, opcode: WcOpcode) {
        let Some(qp) = self.qps.get(slot) else { return };
        let wc = Wc { wr_id, status, opcode, byte_len: 0, imm: None, qp: qp.qpn, solicited: false };
        let receive = matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
        let cq = if receive { qp.recv_cq } else { qp.send_cq };
        self.push_completion(cq, wc);
    }

    pub(crate) fn push_completion(&mut self, cq: Cq, wc: Wc) {
        if !self.cqs.push(cq, wc) {
            self.events.push(Event::CqOverrun(cq));
        }
    }

    /// Moves a queue pair to error: what is queued completes as flushed. Answers that are owed to
    /// the peer, and the NAK behind them, still go out.
    pub(crate) fn enter_error(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.state = QpState::Error;
        self.timers.disarm(slot);
        self.flush_sends(slot);
        if let Some(index) = self.take_message_receive(slot) {
            self.complete_receive(slot, index, WcStatus::WrFlush);
        }
        while let Some(index) = self.pop_receive(slot) {
            self.complete_receive(slot, index, WcStatus::WrFlush);
        }
    }

    fn complete_receive(&mut self, slot: u32, index: u32, status: WcStatus) {
        let wr_id = self.recvs.get(index).map_or(0, |wqe| wqe.wr.wr_id);
        self.recvs.give(index);
        self.complete(slot, wr_id, status, WcOpcode::Recv);
    }

    pub(crate) fn pop_receive(&mut self, slot: u32) -> Option<u32> {
        let qp = self.qps.get_mut(slot)?;
        self.recvs.pop_front(&mut qp.receives)
    }

    /// Forgets everything about a queue pair but what it was created with.
    fn reset(&mut self, slot: u32) {
        self.timers.disarm(slot);
        if let Some(index) = self.take_message_receive(slot) {
            self.recvs.give(index);
        }
        while let Some(index) = self.pop_receive(slot) {
            self.recvs.give(index);
        }
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let mut queue = core::mem::replace(&mut qp.requester.queue, List::EMPTY);
        qp.requester = Requester::EMPTY;
        qp.responder = Responder::EMPTY;
        qp.state = QpState::Reset;
        while let Some(index) = self.sends.pop_front(&mut queue) {
            self.sends.give(index);
        }
    }
}

/// The completion opcode of a send work request.
pub(crate) const fn wc_opcode(opcode: &WrOpcode) -> WcOpcode {
    match opcode {
        WrOpcode::Send | WrOpcode::SendWithImm(_) => WcOpcode::Send,
        WrOpcode::RdmaWrite { .. } | WrOpcode::RdmaWriteWithImm { .. } => WcOpcode::RdmaWrite,
        WrOpcode::RdmaRead { .. } => WcOpcode::RdmaRead,
        WrOpcode::CompareSwap { .. } => WcOpcode::CompareSwap,
        WrOpcode::FetchAdd { .. } => WcOpcode::FetchAdd,
    }
}
