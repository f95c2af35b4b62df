//! Carrying requests out: SEND, WRITE, READ, atomics, ATOMIC WRITE.

use roce_codec::ib::{ImmDt, NakCode, Operation};

use super::replay::{Kept, Pass, ReplaySlot};
use super::{INVALID, Message, Refusal, Request};
use crate::access::Access;
use crate::backing::{AtomicOp, Backing};
use crate::counters::HwCounter;
use crate::cq::{Wc, WcOpcode, WcStatus};
use crate::engine::Engine;
use crate::event::Event;
use crate::pool::Link;
use crate::rules::length::{self, MAX_MESSAGE};

impl Engine<'_> {
    pub(super) fn execute_send<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Request { info, len, .. } = *request;
        if info.position.starts()
            && let Some(index) = self.take_receive(slot)
            && let Some(qp) = self.qps.get_mut(slot)
        {
            qp.responder.message = Message::Send { receive: Link::to(index), filled: 0 };
        }
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let via = qp.via();
        let Message::Send { receive, filled } = qp.responder.message else {
            return Err(INVALID);
        };
        let Some(index) = receive.index() else { return Err(INVALID) };
        let Some(wqe) = self.recvs.get(index).copied() else { return Err(INVALID) };
        // IBTA 9.7.4.1.6: longer than the receive.
        if len > wqe.local.len.saturating_sub(filled) {
            return Err(Refusal::NakReceive(NakCode::InvalidRequest, WcStatus::LocalLength));
        }
        // IBTA 9.7.4.1.5: the key to invalidate is one of this domain that may be. Looked at before
        // the data is placed, so that nothing of a refused packet happens.
        let doomed = request.frame.ieth().map(|ieth| ieth.0);
        if let Some(rkey) = doomed {
            self.memory.may_invalidate(rkey, via).map_err(|_| {
                Refusal::NakReceive(NakCode::RemoteAccessError, WcStatus::RemoteInvalidate)
            })?;
        }
        if !self.scatter(wqe.pd, &wqe.local, filled, len, request.frame.payload(), backing) {
            let code = NakCode::RemoteOperationalError;
            return Err(Refusal::NakReceive(code, WcStatus::LocalProtection));
        }
        let filled = filled + len;
        if info.position.ends() {
            if let Some(qp) = self.qps.get_mut(slot) {
                qp.responder.message = Message::None;
            }
            if let Some(rkey) = doomed {
                self.invalidate(rkey);
                self.counters.count(HwCounter::RxInvalidateRequests);
            }
            self.free_recv(index);
            self.counters.count(HwCounter::RxSendRequests);
            self.complete_message(slot, request, wqe.wr_id, WcOpcode::Recv, filled);
        } else if let Some(qp) = self.qps.get_mut(slot) {
            qp.responder.message = Message::Send { receive, filled };
        }
        Ok(())
    }

    pub(super) fn execute_write<B: Backing>(
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
        // IBTA 9.7.4.1.6, C9-94: at most 2³¹ bytes, and as many as the DMA length said.
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
            let Ok(addr) = self.memory.remote(rkey, qp.via(), va, checked, Access::REMOTE_WRITE)
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
            && let Some(index) = self.take_receive(slot)
        {
            let wr_id = self.free_recv(index).map_or(0, |wqe| wqe.wr_id);
            self.complete_message(slot, request, wr_id, WcOpcode::RecvRdmaWithImm, total);
        }
        Ok(())
    }

    pub(super) fn complete_message(
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
            invalidated: request.frame.ieth().map(|ieth| ieth.0),
            qp: qp.qpn,
            src_qp: request.frame.deth().map(|deth| deth.src_qp),
            solicited: request.bth.solicited,
        };
        let cq = qp.recv_cq;
        self.push_completion(cq, wc);
    }

    /// The expected PSN moves past the whole answer before any of it is out (IBTA 9.7.4.1.1).
    pub(super) fn execute_read(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
    ) -> Result<u32, Refusal> {
        let Some(reth) = request.frame.reth() else { return Err(INVALID) };
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        if reth.dma_len > MAX_MESSAGE || request.len != 0 {
            return Err(INVALID);
        }
        // IBTA C9-88: no key is needed for no bytes.
        if reth.dma_len > 0
            && self
                .memory
                .remote(reth.rkey, qp.via(), reth.va, reth.dma_len, Access::REMOTE_READ)
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

    /// Eight bytes that become visible at once (IBTA Annex A19); whoever may WRITE may do this.
    pub(super) fn execute_atomic_write<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Some(reth) = request.frame.reth() else { return Err(INVALID) };
        // As for atomics, alignment is judged before the key.
        if reth.va % 8 != 0 || reth.dma_len != 8 || request.len != 8 {
            return Err(INVALID);
        }
        self.check_place(slot)?;
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let addr = self
            .memory
            .remote(reth.rkey, qp.via(), reth.va, 8, Access::REMOTE_WRITE)
            .map_err(|_| Refusal::Nak(NakCode::RemoteAccessError))?;
        let mut value = [0; 8];
        for (byte, from) in value.iter_mut().zip(request.frame.payload().into_iter().flatten()) {
            *byte = *from;
        }
        backing
            .atomic(addr, AtomicOp::Write(u64::from_ne_bytes(value)))
            .map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        if qp.observe_writes {
            self.events.push(Event::RemoteWrite { qp: qp.qpn, va: reth.va, len: 8 });
        }
        let psn = request.bth.psn;
        self.keep(slot, ReplaySlot::new(psn, psn, Kept::Done(Operation::AtomicWrite)))?;
        self.counters.count(HwCounter::RxAtomicWriteRequests);
        Ok(())
    }

    pub(super) fn execute_atomic<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let Some(eth) = request.frame.atomic_eth() else { return Err(INVALID) };
        // IBTA 9.7.4.1.3: aligned to eight bytes.
        if eth.va % 8 != 0 || request.len != 0 {
            return Err(INVALID);
        }
        self.check_place(slot)?;
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let addr = self
            .memory
            .remote(eth.rkey, qp.via(), eth.va, 8, Access::REMOTE_ATOMIC)
            .map_err(|_| Refusal::Nak(NakCode::RemoteAccessError))?;
        let op = if request.info.operation == Operation::CompareSwap {
            AtomicOp::CompareSwap { compare: eth.compare, swap: eth.swap_add }
        } else {
            AtomicOp::FetchAdd(eth.swap_add)
        };
        // IBTA 9.7.5.2.8: memory that fails is an operational error.
        let original =
            backing.atomic(addr, op).map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        let psn = request.bth.psn;
        let kept = Kept::Atomic { original };
        self.keep(slot, ReplaySlot::new(psn, psn, kept))?;
        self.counters.count(HwCounter::RxAtomicRequests);
        Ok(())
    }
}
