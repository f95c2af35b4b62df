//! The responder: executes the peer's requests and answers them in PSN order.
//!
//! One straight pipeline (IBTA 9.7.4): PSN, opcode sequence, opcode validity, resources, length,
//! keys, execution, acknowledgement. A step that refuses says with what; the NAK waits behind
//! the answers owed already.

use roce_codec::Frame;
use roce_codec::ib::{
    Aeth, AtomicAckEth, Bth, Credits, ExtHeaders, ImmDt, Msn, NakCode, Opcode, OpcodeInfo,
    Operation, PathMtu, Psn, RKey, RnrTimer, Syndrome,
};

use crate::backing::{AtomicOp, Backing};
use crate::counters::{DropReason, HwCounter};
use crate::cq::{Wc, WcOpcode, WcStatus};
use crate::engine::Engine;
use crate::event::Event;
use crate::memory::Access;
use crate::pool::Link;
use crate::qp::{QpSlot, QpState};
use crate::rules::length::{self, MAX_MESSAGE};
use crate::rules::psn::{PsnClass, classify};
use crate::rules::sequence::{self, InMessage};
use crate::scheduler::Class;
use crate::transmit::{Body, Transmit};

/// The responder half of a queue pair.
#[derive(Debug)]
pub(crate) struct Responder {
    /// The PSN expected next.
    pub(crate) expected: Psn,
    /// Messages completed.
    pub(crate) msn: Msn,
    message: Message,
    answer: Answer,
    /// A gap has been reported, or the peer told to wait; what comes ahead of `expected` is
    /// dropped until that PSN itself comes.
    waiting: Waiting,
    /// While waiting: the farthest PSN that was dropped.
    dropped_to: Psn,
    /// The first packet has been told as COMM_EST.
    established: bool,
    rnr_timer: RnrTimer,
    /// READs and atomics kept, and which slot the next one takes.
    replay_cap: u8,
    replay_next: u8,
    /// READs and atomics whose answers are not all out.
    unanswered: u8,
}

/// The message being received.
#[derive(Debug, Clone, Copy)]
enum Message {
    None,
    /// A SEND: the receive it fills, and how far.
    Send {
        receive: Link,
        filled: u32,
    },
    /// A WRITE: where the next byte goes, and where it all began.
    Write {
        rkey: RKey,
        start: u64,
        len: u32,
        written: u32,
    },
}

/// The acknowledgement owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    /// An ACK of everything executed; asked for by this PSN.
    Ack(Psn),
    Nak(Syndrome, Psn),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    No,
    ForMissing,
    ForReceive,
}

impl Responder {
    pub(crate) const EMPTY: Self = Self::new(Psn::new(0), 0, RnrTimer::new(0));

    pub(crate) const fn new(expected: Psn, replay_cap: u8, rnr_timer: RnrTimer) -> Self {
        Self {
            expected,
            msn: Msn::new(0),
            message: Message::None,
            answer: Answer::None,
            waiting: Waiting::No,
            dropped_to: expected,
            established: false,
            rnr_timer,
            replay_cap,
            replay_next: 0,
            unanswered: 0,
        }
    }

    fn note_dropped(&mut self, psn: Psn) {
        if self.waiting == Waiting::No || psn.is_after(self.dropped_to) {
            self.dropped_to = psn;
        }
    }

    const fn in_message(&self) -> InMessage {
        match self.message {
            Message::None => InMessage::None,
            Message::Send { .. } => InMessage::Send,
            Message::Write { .. } => InMessage::Write,
        }
    }
}

/// A READ or atomic that is kept until its slot is needed; part of
/// [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct ReplaySlot {
    first: Psn,
    last: Psn,
    kept: Kept,
    /// The next answer to send; none when all are out.
    next: Option<Psn>,
    /// All answers have been out once: what is being sent now is sent again.
    answered: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kept {
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
}

#[derive(Debug, Clone, Copy)]
struct Pass {
    first: Psn,
    last: Psn,
    va: u64,
    len: u32,
}

impl ReplaySlot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        first: Psn::new(0),
        last: Psn::new(0),
        kept: Kept::Nothing,
        next: None,
        answered: false,
    };

    const fn new(first: Psn, last: Psn, kept: Kept) -> Self {
        Self { first, last, kept, next: Some(first), answered: false }
    }

    /// Whether another request may take the place. A peer that sends one has all the answers it
    /// asked for; those that a late duplicate has called up again are of no use to it.
    const fn is_free(&self) -> bool {
        self.next.is_none() || self.answered
    }
}

/// What a step of the pipeline refuses with.
enum Refusal {
    Drop(DropReason),
    /// Invalid request, access error, operational error: the connection ends.
    Nak(NakCode),
    /// As `Nak`, with a receive that ends in an error of its own.
    NakReceive(NakCode, WcStatus),
    NotReady,
}

const INVALID: Refusal = Refusal::Nak(NakCode::InvalidRequest);

/// One request and its place in the pipeline.
struct Request<'f, 'a> {
    frame: &'f Frame<'a>,
    bth: &'f Bth,
    info: &'static OpcodeInfo,
    len: u32,
}

impl Engine<'_> {
    /// Takes a request for a queue pair that is in RTR or RTS.
    pub(crate) fn handle_request<B: Backing>(
        &mut self,
        slot: u32,
        frame: &Frame<'_>,
        bth: &Bth,
        backing: &B,
    ) -> Result<(), DropReason> {
        let request = Request {
            frame,
            bth,
            info: bth.opcode.info(),
            len: u32::try_from(frame.payload_len()).unwrap_or(u32::MAX),
        };
        let Some(qp) = self.qps.get_mut(slot) else { return Err(DropReason::UnknownQp) };
        // IBTA 9.7.4.1.1, PSN verification (C9-58, C9-110, C9-111).
        match classify(qp.responder.expected, bth.psn) {
            PsnClass::Duplicate => return self.duplicate(slot, &request),
            PsnClass::Ahead => return self.ahead(slot, bth.psn),
            PsnClass::Expected => {}
        }
        if !qp.responder.established {
            qp.responder.established = true;
            if qp.state == QpState::Rtr {
                self.events.push(Event::CommunicationEstablished(qp.qpn));
            }
        }
        match self.execute(slot, &request, backing) {
            Ok(packets) => {
                self.executed(slot, bth, packets);
                Ok(())
            }
            Err(Refusal::Drop(reason)) => Err(reason),
            Err(Refusal::NotReady) => {
                self.not_ready(slot, bth.psn);
                Ok(())
            }
            Err(Refusal::Nak(code)) => {
                self.refuse(slot, bth.psn, code, WcStatus::WrFlush);
                Ok(())
            }
            Err(Refusal::NakReceive(code, status)) => {
                self.refuse(slot, bth.psn, code, status);
                Ok(())
            }
        }
    }

    /// The pipeline from the opcode sequence to execution; says how many PSNs the request takes.
    fn execute<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<u32, Refusal> {
        let Some(qp) = self.qps.get_mut(slot) else {
            return Err(Refusal::Drop(DropReason::UnknownQp));
        };
        let Request { info, len, .. } = *request;
        // IBTA 9.7.4.1.2, OpCode sequence (C9-93 to C9-95).
        if sequence::check(Some(qp.responder.in_message()), info.operation, info.position)
            .fault()
            .is_some()
        {
            return Err(INVALID);
        }
        // IBTA 9.7.4.1.3, OpCode validity: what the queue pair allows (C9-101, C9-103).
        let allowed = match info.operation {
            Operation::Send => !info.headers.contains(roce_codec::ib::HeaderKind::Ieth),
            Operation::Write => qp.access.contains(Access::REMOTE_WRITE),
            Operation::ReadRequest => qp.access.contains(Access::REMOTE_READ),
            Operation::CompareSwap | Operation::FetchAdd => {
                qp.access.contains(Access::REMOTE_ATOMIC)
            }
            _ => false,
        };
        if !allowed {
            return Err(INVALID);
        }
        // IBTA 9.7.4.1.4, resources (C9-109): a receive where one is consumed and not yet taken.
        let takes_receive = match info.operation {
            Operation::Send => info.position.starts(),
            Operation::Write => info.position.ends() && info.has_immediate(),
            _ => false,
        };
        if takes_receive && qp.receives.len() == 0 {
            return Err(Refusal::NotReady);
        }
        // IBTA 9.7.4.1.6, length (C9-92).
        if info.payload && length::packet(info.position, len, Some(qp.path_mtu)).fault().is_some() {
            return Err(INVALID);
        }
        match info.operation {
            Operation::Send => self.execute_send(slot, request, backing)?,
            Operation::Write => self.execute_write(slot, request, backing)?,
            Operation::ReadRequest => return self.execute_read(slot, request),
            _ => self.execute_atomic(slot, request, backing)?,
        }
        Ok(1)
    }

    fn execute_send<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Request { info, len, .. } = *request;
        if info.position.starts()
            && let Some(index) = self.pop_receive(slot)
            && let Some(qp) = self.qps.get_mut(slot)
        {
            qp.responder.message = Message::Send { receive: Link::to(index), filled: 0 };
        }
        let Some(qp) = self.qps.get_mut(slot) else { return Err(INVALID) };
        let Message::Send { receive, filled } = qp.responder.message else {
            return Err(INVALID);
        };
        let Some(index) = receive.index() else { return Err(INVALID) };
        let Some(wr) = self.recvs.get(index).map(|wqe| wqe.wr) else { return Err(INVALID) };
        // IBTA 9.7.4.1.6 (C9-98): longer than the receive.
        if len > wr.sge.len.saturating_sub(filled) {
            return Err(Refusal::NakReceive(NakCode::InvalidRequest, WcStatus::LocalLength));
        }
        if len > 0 {
            let local_fault =
                || Refusal::NakReceive(NakCode::RemoteOperationalError, WcStatus::LocalProtection);
            let va = wr.sge.va.wrapping_add(u64::from(filled));
            let addr = self
                .memory
                .local(wr.sge.lkey, qp.pd, va, len, Access::LOCAL_WRITE)
                .map_err(|_| local_fault())?;
            backing.write(addr, request.frame.payload()).map_err(|_| local_fault())?;
        }
        let filled = filled + len;
        if info.position.ends() {
            qp.responder.message = Message::None;
            self.recvs.give(index);
            self.counters.count(HwCounter::RxSendRequests);
            self.complete_message(slot, request, wr.wr_id, WcOpcode::Recv, filled);
        } else {
            qp.responder.message = Message::Send { receive, filled };
        }
        Ok(())
    }

    fn execute_write<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Request { info, len, frame, .. } = *request;
        let Some(qp) = self.qps.get_mut(slot) else { return Err(INVALID) };
        let (rkey, start, total, written) = match (frame.reth(), qp.responder.message) {
            (Some(reth), _) => (reth.rkey, reth.va, reth.dma_len, 0),
            (None, Message::Write { rkey, start, len, written }) => (rkey, start, len, written),
            (None, _) => return Err(INVALID),
        };
        // IBTA C9-97: at most 2³¹ bytes; C9-99: as many as the DMA length said.
        if total > MAX_MESSAGE
            || length::write(info.position, len, Some(total - written)).fault().is_some()
        {
            return Err(INVALID);
        }
        if total > 0 {
            // IBTA 9.7.4.1.5, R_Key validation (C9-88): the whole range at the first packet, and
            // again what each packet touches, since the region may have gone meanwhile.
            let access = Refusal::Nak(NakCode::RemoteAccessError);
            let (va, checked) = if info.position.starts() {
                (start, total)
            } else {
                (start.wrapping_add(u64::from(written)), len)
            };
            let Ok(addr) = self.memory.remote(rkey, qp.pd, va, checked, Access::REMOTE_WRITE)
            else {
                return Err(access);
            };
            backing
                .write(addr, frame.payload())
                .map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        }
        if !info.position.ends() {
            qp.responder.message =
                Message::Write { rkey, start, len: total, written: written + len };
            return Ok(());
        }
        qp.responder.message = Message::None;
        self.counters.count(HwCounter::RxWriteRequests);
        if qp.observe_writes {
            self.events.push(Event::RemoteWrite { qp: qp.qpn, va: start, len: total });
        }
        if info.has_immediate()
            && let Some(index) = self.pop_receive(slot)
        {
            let wr_id = self.recvs.get(index).map_or(0, |wqe| wqe.wr.wr_id);
            self.recvs.give(index);
            self.complete_message(slot, request, wr_id, WcOpcode::RecvRdmaWithImm, total);
        }
        Ok(())
    }

    fn complete_message(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        wr_id: u64,
        opcode: WcOpcode,
        byte_len: u32,
    ) {
        let Some(qp) = self.qps.get(slot) else { return };
        let wc = Wc {
            wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: request.frame.imm_dt().map(|ImmDt(imm)| imm),
            qp: qp.qpn,
            solicited: request.bth.solicited,
        };
        let cq = qp.recv_cq;
        self.push_completion(cq, wc);
    }

    /// The expected PSN moves past the whole answer before any of it is out (IBTA 9.7.4.1.1).
    fn execute_read(&mut self, slot: u32, request: &Request<'_, '_>) -> Result<u32, Refusal> {
        let Some(reth) = request.frame.reth() else { return Err(INVALID) };
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        if reth.dma_len > MAX_MESSAGE || request.len != 0 {
            return Err(INVALID);
        }
        // IBTA C9-88: no key is needed for no bytes.
        if reth.dma_len > 0
            && self
                .memory
                .remote(reth.rkey, qp.pd, reth.va, reth.dma_len, Access::REMOTE_READ)
                .is_err()
        {
            return Err(Refusal::Nak(NakCode::RemoteAccessError));
        }
        let first = request.bth.psn;
        let packets = qp.path_mtu.packets(reth.dma_len);
        let last = first.add(packets - 1);
        let pass = Pass { first, last, va: reth.va, len: reth.dma_len };
        let kept = Kept::Read { rkey: reth.rkey, va: reth.va, len: reth.dma_len, pass };
        self.keep(slot, ReplaySlot::new(first, last, kept))?;
        self.counters.count(HwCounter::RxReadRequests);
        Ok(packets)
    }

    fn execute_atomic<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Some(eth) = request.frame.atomic_eth() else { return Err(INVALID) };
        // IBTA 9.7.4.1.3 (C9-103): aligned to eight bytes.
        if eth.va % 8 != 0 || request.len != 0 {
            return Err(INVALID);
        }
        if !self.can_keep(slot) {
            return Err(INVALID);
        }
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let addr = self
            .memory
            .remote(eth.rkey, qp.pd, eth.va, 8, Access::REMOTE_ATOMIC)
            .map_err(|_| Refusal::Nak(NakCode::RemoteAccessError))?;
        let op = if request.info.operation == Operation::CompareSwap {
            AtomicOp::CompareSwap { compare: eth.compare, swap: eth.swap_add }
        } else {
            AtomicOp::FetchAdd(eth.swap_add)
        };
        let original =
            backing.atomic(addr, op).map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        let psn = request.bth.psn;
        let kept = Kept::Atomic { original };
        self.keep(slot, ReplaySlot::new(psn, psn, kept))?;
        self.counters.count(HwCounter::RxAtomicRequests);
        Ok(())
    }

    /// Whether the oldest kept READ or atomic may be forgotten: its answers are out.
    fn can_keep(&mut self, slot: u32) -> bool {
        let Some(qp) = self.qps.get(slot) else { return false };
        let at = usize::from(qp.responder.replay_next);
        let cap = usize::from(qp.responder.replay_cap);
        self.replays_of(slot).get(at).is_some_and(|replay| at < cap && replay.is_free())
    }

    /// Keeps a READ or atomic in the place of the oldest one. More outstanding than agreed is an
    /// invalid request (IBTA 9.7.4.1.4).
    fn keep(&mut self, slot: u32, replay: ReplaySlot) -> Result<(), Refusal> {
        if !self.can_keep(slot) {
            return Err(INVALID);
        }
        let Some(qp) = self.qps.get_mut(slot) else { return Err(INVALID) };
        let at = qp.responder.replay_next;
        qp.responder.replay_next = (at + 1) % qp.responder.replay_cap.max(1);
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

    /// Moves on past an executed request and owes an acknowledgement if it asks for one.
    fn executed(&mut self, slot: u32, bth: &Bth, packets: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let info = bth.opcode.info();
        let responder = &mut qp.responder;
        responder.expected = bth.psn.add(packets);
        let dropped =
            responder.waiting != Waiting::No && !responder.dropped_to.is_before(responder.expected);
        responder.waiting = Waiting::No;
        let nak_owed = matches!(responder.answer, Answer::Nak(..));
        if nak_owed {
            // What the NAK asks for has come before the NAK went out. If something behind it was
            // dropped, that is what is missing now; otherwise what the NAK would have
            // acknowledged still has to be.
            responder.answer = if dropped {
                responder.waiting = Waiting::ForMissing;
                Answer::Nak(Syndrome::nak(NakCode::PsnSequenceError), responder.expected)
            } else {
                Answer::Ack(responder.expected.sub(1))
            };
        }
        // IBTA C9-148: a message counts when its last packet has been executed; a READ may count
        // when it starts.
        if info.position.ends() {
            responder.msn = responder.msn.next();
        }
        let answered_by_data = matches!(
            info.operation,
            Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
        );
        // A NAK acknowledges what is before it.
        if bth.ack_req && !answered_by_data && !(nak_owed && dropped) {
            self.owe(slot, Answer::Ack(bth.psn));
        }
    }

    /// Owes the peer an acknowledgement; it goes out first if no READ answer is before it.
    fn owe(&mut self, slot: u32, answer: Answer) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.answer = answer;
        let class = if qp.responder.unanswered == 0 { Class::Control } else { Class::Data };
        self.ready.push(class, slot);
    }

    /// A request ahead of the expected PSN: one NAK a gap (IBTA 9.7.5.2.8, C9-113).
    fn ahead(&mut self, slot: u32, psn: Psn) -> Result<(), DropReason> {
        self.counters.count(HwCounter::OutOfSequence);
        let Some(qp) = self.qps.get_mut(slot) else { return Err(DropReason::UnknownQp) };
        qp.responder.note_dropped(psn);
        match qp.responder.waiting {
            Waiting::ForMissing => return Err(DropReason::OutOfSequence),
            Waiting::ForReceive => return Err(DropReason::ReceiverNotReady),
            Waiting::No => qp.responder.waiting = Waiting::ForMissing,
        }
        let nak = Answer::Nak(Syndrome::nak(NakCode::PsnSequenceError), qp.responder.expected);
        self.counters.count(HwCounter::SentSequenceNak);
        self.owe(slot, nak);
        Ok(())
    }

    /// No receive is posted (IBTA 9.7.5.2.8, RNR NAK). The expected PSN stays.
    fn not_ready(&mut self, slot: u32, psn: Psn) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.note_dropped(psn);
        qp.responder.waiting = Waiting::ForReceive;
        let nak = Answer::Nak(Syndrome::rnr_nak(qp.responder.rnr_timer), psn);
        self.counters.count(HwCounter::SentRnrNak);
        self.owe(slot, nak);
    }

    /// Refuses a request for good: the NAK goes out behind the answers owed, and the queue pair
    /// is in error (IBTA 9.9.3, classes B, C and D).
    fn refuse(&mut self, slot: u32, psn: Psn, code: NakCode, receive: WcStatus) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let (qpn, state) = (qp.qpn, qp.state);
        self.owe(slot, Answer::Nak(Syndrome::nak(code), psn));
        if state == QpState::Error {
            // Refused already; an answer owed before that has failed since.
            return;
        }
        if receive != WcStatus::WrFlush
            && let Some(index) = self.take_message_receive(slot)
        {
            let wr_id = self.recvs.get(index).map_or(0, |wqe| wqe.wr.wr_id);
            self.recvs.give(index);
            self.complete(slot, wr_id, receive, WcOpcode::Recv);
        }
        self.counters.count(HwCounter::SentFatalNak);
        self.events.push(Event::RequestRefused { qp: qpn, code });
        self.enter_error(slot);
    }

    /// Takes the receive of a SEND in progress out of the responder's hands.
    pub(crate) fn take_message_receive(&mut self, slot: u32) -> Option<u32> {
        let responder = &mut self.qps.get_mut(slot)?.responder;
        let Message::Send { receive, .. } = responder.message else { return None };
        responder.message = Message::None;
        receive.index()
    }

    /// A request seen before (IBTA 9.7.5.1.1, C9-105): SEND and WRITE are acknowledged again and
    /// never executed again, READ and atomic are answered from what is kept.
    fn duplicate(&mut self, slot: u32, request: &Request<'_, '_>) -> Result<(), DropReason> {
        self.counters.count(HwCounter::DuplicateRequest);
        let psn = request.bth.psn;
        match request.info.operation {
            Operation::Send | Operation::Write => {
                let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
                if !matches!(qp.responder.answer, Answer::Nak(..)) {
                    self.owe(slot, Answer::Ack(qp.responder.expected.sub(1)));
                }
                Ok(())
            }
            Operation::ReadRequest => self.replay_read(slot, request),
            Operation::CompareSwap | Operation::FetchAdd => {
                let atomic = |replay: &ReplaySlot| {
                    matches!(replay.kept, Kept::Atomic { .. }) && replay.first == psn
                };
                let replay = self.kept(slot, atomic).ok_or(DropReason::StaleDuplicate)?;
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
        let (pd, mtu) = (qp.pd, qp.path_mtu);
        if reth.dma_len > 0 {
            self.memory
                .remote(reth.rkey, pd, reth.va, reth.dma_len, Access::REMOTE_READ)
                .map_err(|_| stale)?;
        }
        let read = |replay: &ReplaySlot| {
            matches!(replay.kept, Kept::Read { .. }) && psn.is_within(replay.first, replay.last)
        };
        let replay = self.kept(slot, read).ok_or(stale)?;
        let Kept::Read { rkey, va, len, ref mut pass } = replay.kept else { return Err(stale) };
        let last = psn.add(mtu.packets(reth.dma_len) - 1);
        let left = reth.va.checked_sub(va).and_then(|skipped| u64::from(len).checked_sub(skipped));
        let inside = reth.rkey == rkey
            && left.is_some_and(|left| u64::from(reth.dma_len) <= left)
            && !last.is_after(replay.last);
        if !inside {
            return Err(stale);
        }
        *pass = Pass { first: psn, last, va: reth.va, len: reth.dma_len };
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
        }
        self.ready.push(Class::Data, slot);
    }

    /// The next packet the responder owes, in PSN order: READ and atomic answers, then the
    /// acknowledgement.
    pub(crate) fn next_response(&mut self, slot: u32) -> Option<Transmit> {
        let qp = self.qps.get(slot)?;
        if qp.responder.unanswered == 0 {
            return self.acknowledgement(slot);
        }
        let (start, cap) =
            (usize::from(qp.responder.replay_next), usize::from(qp.responder.replay_cap));
        let (pd, mtu) = (qp.pd, qp.path_mtu);
        let replays = self.replays_of(slot);
        // From the slot that is replaced next, the oldest, to the newest.
        let at = (0..cap)
            .map(|step| (start + step) % cap)
            .find(|at| replays.get(*at).is_some_and(|replay| replay.next.is_some()))?;
        let replay = *replays.get(at)?;
        let psn = replay.next?;
        match replay.kept {
            Kept::Nothing => None,
            Kept::Atomic { original } => {
                self.answered(slot, at, psn, None);
                let ext = ExtHeaders {
                    atomic_ack_eth: Some(AtomicAckEth { original }),
                    ..ExtHeaders::NONE
                };
                self.response(slot, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, ext, Body::Empty)
            }
            Kept::Read { rkey, pass, .. } => {
                let (va, len) = pass.packet(psn, mtu);
                let body = if len == 0 {
                    Body::Empty
                } else {
                    // The region may have gone since the request was taken.
                    match self.memory.remote(rkey, pd, va, len, Access::REMOTE_READ) {
                        Ok(addr) => Body::Region { addr, len },
                        // A late duplicate of what has been answered: nobody waits for it.
                        Err(_) if replay.answered => {
                            self.answered(slot, at, psn, None);
                            return self.next_response(slot);
                        }
                        Err(_) => {
                            self.response_failed(slot, psn);
                            return self.acknowledgement(slot);
                        }
                    }
                };
                let following = (psn != pass.last).then(|| psn.next());
                self.answered(slot, at, psn, following);
                self.response(slot, pass.opcode(psn), psn, ExtHeaders::NONE, body)
            }
        }
    }

    /// Notes that the answer with this PSN is out, and which one follows.
    fn answered(&mut self, slot: u32, at: usize, psn: Psn, following: Option<Psn>) {
        if let Some(replay) = self.replays_of(slot).get_mut(at) {
            replay.next = following;
            replay.answered |= following.is_none();
        }
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let responder = &mut qp.responder;
        if following.is_none() {
            responder.unanswered = responder.unanswered.saturating_sub(1);
            // A later answer acknowledges what came before it.
            if matches!(responder.answer, Answer::Ack(asked) if !asked.is_after(psn)) {
                responder.answer = Answer::None;
            }
        }
    }

    /// The memory behind the READ answer with this PSN is gone: an operational error instead of
    /// it and of what follows.
    pub(crate) fn response_failed(&mut self, slot: u32, psn: Psn) {
        self.forget_answers(slot);
        self.refuse(slot, psn, NakCode::RemoteOperationalError, WcStatus::WrFlush);
    }

    /// Owes the peer nothing any more.
    pub(crate) fn forget_answers(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.unanswered = 0;
        qp.responder.answer = Answer::None;
        for replay in self.replays_of(slot) {
            replay.next = None;
        }
    }

    /// The ACK or NAK that is owed, once no READ or atomic answer is before it.
    pub(crate) fn acknowledgement(&mut self, slot: u32) -> Option<Transmit> {
        let qp = self.qps.get_mut(slot)?;
        if qp.responder.unanswered > 0 {
            self.ready.push(Class::Data, slot);
            return None;
        }
        let answer = core::mem::replace(&mut qp.responder.answer, Answer::None);
        let opcode = Opcode::RC_ACKNOWLEDGE;
        match answer {
            Answer::None => None,
            Answer::Ack(_) => {
                // Everything executed so far, not only what asked for it.
                let psn = qp.responder.expected.sub(1);
                self.counters.count(HwCounter::SentAcks);
                self.response(slot, opcode, psn, ExtHeaders::NONE, Body::Empty)
            }
            Answer::Nak(syndrome, psn) => {
                let ext = ExtHeaders { aeth: Some(qp.aeth(syndrome)), ..ExtHeaders::NONE };
                self.response(slot, opcode, psn, ext, Body::Empty)
            }
        }
    }

    fn response(
        &mut self,
        slot: u32,
        opcode: Opcode,
        psn: Psn,
        mut ext: ExtHeaders,
        body: Body,
    ) -> Option<Transmit> {
        let qp = self.qps.get(slot)?;
        if ext.aeth.is_none() {
            let credits = Credits::of_receives(qp.receives.len());
            ext.aeth = Some(qp.aeth(Syndrome::ack(credits)));
        }
        let mut bth = Bth::new(opcode, qp.dest_qpn, psn);
        bth.pkey = qp.pkey;
        Some(Transmit { qp: qp.qpn, path: qp.path, bth, ext, body })
    }
}

impl QpSlot {
    const fn aeth(&self, syndrome: Syndrome) -> Aeth {
        Aeth { syndrome, msn: self.responder.msn }
    }
}

impl Pass {
    /// Where the packet with this PSN reads, and how much.
    fn packet(&self, psn: Psn, mtu: PathMtu) -> (u64, u32) {
        let index = u32::try_from(psn.distance_from(self.first)).unwrap_or(0);
        let skipped = index.saturating_mul(mtu.bytes()).min(self.len);
        (self.va.wrapping_add(u64::from(skipped)), (self.len - skipped).min(mtu.bytes()))
    }

    fn opcode(&self, psn: Psn) -> Opcode {
        match (psn == self.first, psn == self.last) {
            (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
        }
    }
}
