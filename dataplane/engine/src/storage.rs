//! The memory an engine works in, lent by the caller.

#[cfg(feature = "std")]
use roce_codec::ib::PathMtu;

use crate::ah::AhSlot;
use crate::cq::{CqSlot, CqeSlot};
use crate::event::Event;
use crate::held::HeldSlot;
#[cfg(feature = "std")]
use crate::held::held_len;
use crate::memory::MrSlot;
use crate::qp::QpSlot;
use crate::responder::ReplaySlot;
use crate::scheduler::ReadyNode;
use crate::sge::{InlineSlot, SgeSlot};
use crate::srq::SrqSlot;
use crate::timer::TimerNode;
use crate::wqe::{RecvWqe, SendWqe};

/// Pools of slots. An engine allocates nothing: how much it can hold is how much it was lent.
///
/// `timers`, `pacers` and `ready` must be as long as `qps`; the shortest of the four counts.
/// `replays` is shared out evenly: `replays.len() / qps.len()` READs and atomics a queue pair.
#[derive(Debug)]
pub struct Storage<'s> {
    /// Queue pairs.
    pub qps: &'s mut [QpSlot],
    /// A timer for each queue pair.
    pub timers: &'s mut [TimerNode],
    /// Another one for each queue pair, for pacing.
    pub pacers: &'s mut [TimerNode],
    /// A place in the send queues for each queue pair.
    pub ready: &'s mut [ReadyNode],
    /// READs and atomics kept for replay.
    pub replays: &'s mut [ReplaySlot],
    /// Memory regions.
    pub mrs: &'s mut [MrSlot],
    /// Completion queues.
    pub cqs: &'s mut [CqSlot],
    /// Completions, shared by all queues.
    pub cqes: &'s mut [CqeSlot],
    /// Send work requests, shared by all queue pairs.
    pub send_wqes: &'s mut [SendWqe],
    /// Receive work requests, shared by all queue pairs.
    pub recv_wqes: &'s mut [RecvWqe],
    /// Scatter-gather elements beyond the first of each work request, shared by all.
    pub sges: &'s mut [SgeSlot],
    /// Inline data, [`InlineSlot::BYTES`] a slot, shared by all send work requests.
    pub inlines: &'s mut [InlineSlot],
    /// Address handles.
    pub ahs: &'s mut [AhSlot],
    /// Shared receive queues.
    pub srqs: &'s mut [SrqSlot],
    /// Asynchronous events waiting to be polled.
    pub events: &'s mut [Option<Event>],
    /// Packets held behind a gap, for [`Recovery::SelectiveAccept`](crate::Recovery); may be empty.
    pub held: &'s mut [HeldSlot],
    /// Their bytes, [`held_len`](crate::held_len) a slot.
    pub held_bytes: &'s mut [u8],
}

/// Pools of fixed sizes for a `static` or a stack: queue pairs, replays in all, regions,
/// completion queues, completions, send and receive work requests, events; and, where work
/// requests have more than one scatter-gather element, or inline data, slots for these; and address
/// handles; and shared receive queues. Nothing is held behind a gap; who wants that sets `held` and
/// `held_bytes` of what [`StaticStorage::lend`] returns.
#[derive(Debug)]
pub struct StaticStorage<
    const QPS: usize,
    const REPLAYS: usize,
    const MRS: usize,
    const CQS: usize,
    const CQES: usize,
    const SENDS: usize,
    const RECVS: usize,
    const EVENTS: usize,
    const SGES: usize = 0,
    const INLINES: usize = 0,
    const AHS: usize = 0,
    const SRQS: usize = 0,
> {
    qps: [QpSlot; QPS],
    timers: [TimerNode; QPS],
    pacers: [TimerNode; QPS],
    ready: [ReadyNode; QPS],
    replays: [ReplaySlot; REPLAYS],
    mrs: [MrSlot; MRS],
    cqs: [CqSlot; CQS],
    cqes: [CqeSlot; CQES],
    send_wqes: [SendWqe; SENDS],
    recv_wqes: [RecvWqe; RECVS],
    sges: [SgeSlot; SGES],
    inlines: [InlineSlot; INLINES],
    ahs: [AhSlot; AHS],
    srqs: [SrqSlot; SRQS],
    events: [Option<Event>; EVENTS],
}

impl<
    const QPS: usize,
    const REPLAYS: usize,
    const MRS: usize,
    const CQS: usize,
    const CQES: usize,
    const SENDS: usize,
    const RECVS: usize,
    const EVENTS: usize,
    const SGES: usize,
    const INLINES: usize,
    const AHS: usize,
    const SRQS: usize,
> StaticStorage<QPS, REPLAYS, MRS, CQS, CQES, SENDS, RECVS, EVENTS, SGES, INLINES, AHS, SRQS>
{
    /// Empty pools.
    pub const EMPTY: Self = Self {
        qps: [const { QpSlot::EMPTY }; QPS],
        timers: [TimerNode::EMPTY; QPS],
        pacers: [TimerNode::EMPTY; QPS],
        ready: [ReadyNode::EMPTY; QPS],
        replays: [ReplaySlot::EMPTY; REPLAYS],
        mrs: [MrSlot::EMPTY; MRS],
        cqs: [CqSlot::EMPTY; CQS],
        cqes: [CqeSlot::EMPTY; CQES],
        send_wqes: [SendWqe::EMPTY; SENDS],
        recv_wqes: [RecvWqe::EMPTY; RECVS],
        sges: [SgeSlot::EMPTY; SGES],
        inlines: [InlineSlot::EMPTY; INLINES],
        ahs: [AhSlot::EMPTY; AHS],
        srqs: [SrqSlot::EMPTY; SRQS],
        events: [None; EVENTS],
    };

    /// Lends the pools to an engine.
    pub fn lend(&mut self) -> Storage<'_> {
        Storage {
            qps: &mut self.qps,
            timers: &mut self.timers,
            pacers: &mut self.pacers,
            ready: &mut self.ready,
            replays: &mut self.replays,
            mrs: &mut self.mrs,
            cqs: &mut self.cqs,
            cqes: &mut self.cqes,
            send_wqes: &mut self.send_wqes,
            recv_wqes: &mut self.recv_wqes,
            sges: &mut self.sges,
            inlines: &mut self.inlines,
            ahs: &mut self.ahs,
            srqs: &mut self.srqs,
            events: &mut self.events,
            held: &mut [],
            held_bytes: &mut [],
        }
    }
}

/// How large the pools of a [`HeapStorage`] are.
#[cfg(feature = "std")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub qps: usize,
    /// READs and atomics kept for replay, a queue pair.
    pub replays_per_qp: usize,
    /// Memory regions.
    pub mrs: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Completions.
    pub cqes: usize,
    /// Send work requests.
    pub send_wqes: usize,
    /// Receive work requests.
    pub recv_wqes: usize,
    /// Scatter-gather elements beyond the first of each work request.
    pub sges: usize,
    /// Inline data, [`InlineSlot::BYTES`] a slot.
    pub inlines: usize,
    /// Address handles.
    pub ahs: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Events.
    pub events: usize,
}

#[cfg(feature = "std")]
impl Limits {
    /// Enough for a small server: 64 queue pairs of 512 work requests each way.
    pub const SMALL: Self = Self {
        qps: 64,
        replays_per_qp: 16,
        mrs: 256,
        cqs: 64,
        cqes: 65536,
        send_wqes: 32768,
        recv_wqes: 32768,
        sges: 4096,
        inlines: 1024,
        ahs: 64,
        srqs: 16,
        events: 4096,
    };
}

/// Pools on the heap, allocated once.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct HeapStorage {
    qps: Box<[QpSlot]>,
    timers: Box<[TimerNode]>,
    pacers: Box<[TimerNode]>,
    ready: Box<[ReadyNode]>,
    replays: Box<[ReplaySlot]>,
    mrs: Box<[MrSlot]>,
    cqs: Box<[CqSlot]>,
    cqes: Box<[CqeSlot]>,
    send_wqes: Box<[SendWqe]>,
    recv_wqes: Box<[RecvWqe]>,
    sges: Box<[SgeSlot]>,
    inlines: Box<[InlineSlot]>,
    ahs: Box<[AhSlot]>,
    srqs: Box<[SrqSlot]>,
    events: Box<[Option<Event>]>,
    held: Box<[HeldSlot]>,
    held_bytes: Box<[u8]>,
}

#[cfg(feature = "std")]
impl HeapStorage {
    /// Allocates pools of these sizes.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            qps: (0..limits.qps).map(|_| QpSlot::EMPTY).collect(),
            timers: vec![TimerNode::EMPTY; limits.qps].into(),
            pacers: vec![TimerNode::EMPTY; limits.qps].into(),
            ready: vec![ReadyNode::EMPTY; limits.qps].into(),
            replays: vec![ReplaySlot::EMPTY; limits.qps * limits.replays_per_qp].into(),
            mrs: vec![MrSlot::EMPTY; limits.mrs].into(),
            cqs: vec![CqSlot::EMPTY; limits.cqs].into(),
            cqes: vec![CqeSlot::EMPTY; limits.cqes].into(),
            send_wqes: vec![SendWqe::EMPTY; limits.send_wqes].into(),
            recv_wqes: vec![RecvWqe::EMPTY; limits.recv_wqes].into(),
            sges: vec![SgeSlot::EMPTY; limits.sges].into(),
            inlines: vec![InlineSlot::EMPTY; limits.inlines].into(),
            ahs: vec![AhSlot::EMPTY; limits.ahs].into(),
            srqs: vec![SrqSlot::EMPTY; limits.srqs].into(),
            events: vec![None; limits.events].into(),
            held: Box::default(),
            held_bytes: Box::default(),
        }
    }

    /// With room for so many packets held behind gaps, of up to this path MTU.
    #[must_use]
    pub fn with_held(mut self, packets: usize, path_mtu: PathMtu) -> Self {
        self.held = vec![HeldSlot::EMPTY; packets].into();
        self.held_bytes = vec![0; packets * held_len(path_mtu)].into();
        self
    }

    /// Lends the pools to an engine.
    pub fn lend(&mut self) -> Storage<'_> {
        Storage {
            qps: &mut self.qps,
            timers: &mut self.timers,
            pacers: &mut self.pacers,
            ready: &mut self.ready,
            replays: &mut self.replays,
            mrs: &mut self.mrs,
            cqs: &mut self.cqs,
            cqes: &mut self.cqes,
            send_wqes: &mut self.send_wqes,
            recv_wqes: &mut self.recv_wqes,
            sges: &mut self.sges,
            inlines: &mut self.inlines,
            ahs: &mut self.ahs,
            srqs: &mut self.srqs,
            events: &mut self.events,
            held: &mut self.held,
            held_bytes: &mut self.held_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue pair of a server with very many: its slots, four kept READs or atomics, one send
    /// and two receives under way.
    #[test]
    fn a_queue_pair_takes_less_than_a_kibibyte() {
        let slots = size_of::<QpSlot>() + 2 * size_of::<TimerNode>() + size_of::<ReadyNode>();
        let work = 4 * size_of::<ReplaySlot>() + size_of::<SendWqe>() + 2 * size_of::<RecvWqe>();
        assert!(slots + work < 1024, "{slots} and {work} bytes");
        assert!(size_of::<SendWqe>() <= 128 && size_of::<RecvWqe>() <= 48);
        assert!(size_of::<InlineSlot>() == 64 && size_of::<SgeSlot>() == 24);
    }
}
