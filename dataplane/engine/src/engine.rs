//! The engine: its tables, and the verbs on them.

use roce_codec::ib::{Qpn, RKey};

use crate::ah::AhTable;
use crate::config::{Config, Entropy};
use crate::counters::Counters;
use crate::cq::{Cq, CqTable, Wc, WcOpcode, WcStatus};
use crate::event::{Event, EventQueue};
use crate::held::Held;
use crate::memory::{MemoryError, Mr, MrAttr, MrTable, Pd};
use crate::pool::{Link, List, Pool};
use crate::qp::QpSlot;
use crate::qp_state::QpState;
use crate::requester::Requester;
use crate::responder::{ReplaySlot, Responder};
use crate::scheduler::{Class, Scheduler};
use crate::sge::Locals;
use crate::srq::SrqTable;
use crate::storage::Storage;
use crate::time::Instant;
use crate::timer::{PACING_TICK_NS, TICK_NS, Wheel};
use crate::transmit::Transmit;
use crate::wqe::{RecvWqe, SendWqe};
use crate::wr::WrOpcode;

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

/// One shard of the transport. See the [crate page](crate) for the calls and their order.
#[derive(Debug)]
pub struct Engine<'s> {
    pub(crate) config: Config,
    pub(crate) now: Instant,
    pub(crate) qps: Pool<'s, QpSlot>,
    pub(crate) replays: &'s mut [ReplaySlot],
    pub(crate) replay_share: usize,
    pub(crate) timers: Wheel<'s>,
    pub(crate) pacers: Wheel<'s>,
    pub(crate) ready: Scheduler<'s>,
    pub(crate) memory: MrTable<'s>,
    pub(crate) cqs: CqTable<'s>,
    pub(crate) sends: Pool<'s, SendWqe>,
    pub(crate) recvs: Pool<'s, RecvWqe>,
    pub(crate) locals: Locals<'s>,
    pub(crate) ahs: AhTable<'s>,
    pub(crate) srqs: SrqTable<'s>,
    pub(crate) events: EventQueue<'s>,
    pub(crate) held: Held<'s>,
    pub(crate) counters: Counters,
    pub(crate) slot_bits: u32,
    /// Where queue pair 1 is, whose number does not tell.
    pub(crate) gsi: Link,
    pds: u32,
}

impl<'s> Engine<'s> {
    /// An engine without queue pairs.
    #[must_use]
    pub fn new(config: Config, storage: Storage<'s>) -> Self {
        let Storage {
            qps,
            timers,
            pacers,
            ready,
            replays,
            mrs,
            cqs,
            cqes,
            send_wqes,
            recv_wqes,
            sges,
            inlines,
            ahs,
            srqs,
            events,
            held,
            held_bytes,
        } = storage;
        let count = qps.len().min(timers.len()).min(pacers.len()).min(ready.len());
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
            timers: Wheel::new(timers, TICK_NS),
            pacers: Wheel::new(pacers, PACING_TICK_NS),
            ready: Scheduler::new(ready, config.quantum),
            memory: MrTable::new(mrs),
            cqs: CqTable::new(cqs, cqes),
            sends: Pool::new(send_wqes),
            recvs: Pool::new(recv_wqes),
            locals: Locals::new(sges, inlines),
            ahs: AhTable::new(ahs),
            srqs: SrqTable::new(srqs),
            events: EventQueue::new(events),
            held: Held::new(held, held_bytes, &config),
            counters: Counters::ZERO,
            slot_bits,
            gsi: Link::NONE,
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
    /// [`MemoryError::UnknownKey`], and [`MemoryError::WindowsBound`] while windows lead to it.
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

    /// Serves timers whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> More {
        self.advance(now);
        for _ in 0..TIMERS_PER_CALL {
            if let Some(slot) = self.pacers.expire(self.now) {
                self.ready.push(Class::Data, slot);
            } else if let Some(slot) = self.timers.expire(self.now) {
                self.requester_timeout(slot);
            } else {
                return More::No;
            }
        }
        More::Yes
    }

    /// When to call [`Engine::handle_timeout`] next: a timer is due, or a paced queue pair may send
    /// again.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = [self.timers.next_deadline(), self.pacers.next_deadline()];
        timers.into_iter().flatten().min()
    }

    /// The next packet to send. Acknowledgements come first, then queue pairs take turns. A packet
    /// must have left its memory before the next call: an unreliable request completes there.
    #[expect(
        clippy::redundant_pattern_matching,
        reason = "a method would borrow it: the compiler then builds it elsewhere and moves it"
    )]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.advance(now);
        // What is found is built where it is returned: it is too large to be moved from hand to
        // hand for each packet.
        let mut transmit = None;
        while let Some(slot) = self.ready.front(Class::Control) {
            self.ready.pop(Class::Control);
            transmit = self.acknowledgement(slot);
            if matches!(transmit, Some(_)) {
                self.counters.count(crate::HwCounter::SentPackets);
                return transmit;
            }
        }
        while let Some(slot) = self.ready.front(Class::Data) {
            transmit = self.next_response(slot);
            if matches!(transmit, None) {
                transmit = self.next_request(slot);
            }
            if let Some(Transmit { body, .. }) = transmit {
                self.ready.charge(64 + usize::try_from(body.len()).unwrap_or(0));
                self.counters.count(crate::HwCounter::SentPackets);
                break;
            }
            self.ready.pop(Class::Data);
        }
        transmit
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

    /// The slot that a queue pair of this number has, if there is one.
    #[inline]
    pub(crate) fn slot_of(&self, qpn: Qpn) -> u32 {
        let shard_bits = u32::from(self.config.shard_bits.min(6));
        qpn.get() >> shard_bits & !(u32::MAX << self.slot_bits)
    }

    /// The slot of a live queue pair.
    #[inline]
    pub(crate) fn find(&self, qpn: Qpn) -> Option<u32> {
        let slot = self.slot_of(qpn);
        let qp = self.qps.get(slot)?;
        if qp.live && qp.qpn == qpn {
            return Some(slot);
        }
        if qpn == Qpn::GSI { self.gsi.index() } else { None }
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
        let wc = Wc {
            wr_id,
            status,
            opcode,
            byte_len: 0,
            imm: None,
            invalidated: None,
            qp: qp.qpn,
            src_qp: None,
            solicited: false,
        };
        let receive = matches!(opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
        let cq = if receive { qp.recv_cq } else { qp.send_cq };
        self.push_completion(cq, wc);
    }

    pub(crate) fn push_completion(&mut self, cq: Cq, wc: Wc) {
        if !self.cqs.push(cq, wc) {
            self.events.push(Event::CqOverrun(cq));
        }
    }

    /// Moves a queue pair to error (IBTA 10.3.1): what is queued completes as flushed. Answers that are owed to
    /// the peer, and the NAK behind them, still go out.
    pub(crate) fn enter_error(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let before = core::mem::replace(&mut qp.state, QpState::Error);
        let last = qp.srq.is_some() && before != QpState::Error;
        let qpn = qp.qpn;
        self.timers.disarm(slot);
        self.release_held(slot);
        self.flush_sends(slot);
        if let Some(index) = self.take_message_receive(slot) {
            self.complete_receive(slot, index, WcStatus::WrFlush);
        }
        while let Some(index) = self.pop_receive(slot) {
            self.complete_receive(slot, index, WcStatus::WrFlush);
        }
        if last {
            self.events.push(Event::LastWqeReached(qpn));
        }
    }

    fn complete_receive(&mut self, slot: u32, index: u32, status: WcStatus) {
        let wr_id = self.free_recv(index).map_or(0, |wqe| wqe.wr_id);
        self.complete(slot, wr_id, status, WcOpcode::Recv);
    }

    pub(crate) fn pop_receive(&mut self, slot: u32) -> Option<u32> {
        let qp = self.qps.get_mut(slot)?;
        self.recvs.pop_front(&mut qp.receives)
    }

    /// Forgets everything about a queue pair but what it was created with.
    pub(crate) fn reset(&mut self, slot: u32) {
        self.timers.disarm(slot);
        self.pacers.disarm(slot);
        self.release_held(slot);
        self.close_windows(slot);
        if let Some(index) = self.take_message_receive(slot) {
            self.free_recv(index);
        }
        while let Some(index) = self.pop_receive(slot) {
            self.free_recv(index);
        }
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let mut queue = core::mem::replace(&mut qp.requester.queue, List::EMPTY);
        qp.requester = Requester::EMPTY;
        qp.responder = Responder::EMPTY;
        qp.state = QpState::Reset;
        while let Some(index) = self.sends.pop_front(&mut queue) {
            self.free_send(index);
        }
    }
}

/// The completion opcode of a send work request.
pub(crate) const fn wc_opcode(opcode: &WrOpcode) -> WcOpcode {
    match opcode {
        WrOpcode::Send | WrOpcode::SendWithImm(_) | WrOpcode::SendWithInvalidate(_) => {
            WcOpcode::Send
        }
        WrOpcode::RdmaWrite { .. } | WrOpcode::RdmaWriteWithImm { .. } => WcOpcode::RdmaWrite,
        WrOpcode::RdmaRead { .. } => WcOpcode::RdmaRead,
        WrOpcode::CompareSwap { .. } => WcOpcode::CompareSwap,
        WrOpcode::FetchAdd { .. } => WcOpcode::FetchAdd,
        WrOpcode::AtomicWrite { .. } => WcOpcode::AtomicWrite,
        WrOpcode::Flush { .. } => WcOpcode::Flush,
        WrOpcode::BindMw { .. } => WcOpcode::BindMw,
        WrOpcode::LocalInvalidate(_) => WcOpcode::LocalInvalidate,
    }
}
