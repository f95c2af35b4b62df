//! The completer: takes the peer's answers and completes requests.

use roce_codec::Frame;
use roce_codec::ib::{AethKind, Bth, NakCode, Operation, Position, Psn, Service};

use crate::backing::Backing;
use crate::counters::{DropReason, HwCounter};
use crate::cq::{Wc, WcStatus};
use crate::engine::{Engine, wc_opcode};
use crate::rules::credits::{self, is_beyond};
use crate::scheduler::Class;
use crate::wqe::SendWqe;
use crate::wr::WrOpcode;

impl Engine<'_> {
    /// Takes an answer for a queue pair.
    pub(crate) fn handle_response<B: Backing>(
        &mut self,
        slot: u32,
        frame: &Frame<'_>,
        bth: &Bth,
        backing: &B,
    ) -> Result<(), DropReason> {
        let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
        if !qp.state.sends() {
            return Err(DropReason::QpState);
        }
        // IBTA 9.7.5.2: an answer outside what is outstanding is a ghost, unless it says no more
        // than that there are new receives.
        if !qp.requester.is_outstanding(bth.psn) {
            let update = bth.psn.next() == qp.requester.una
                && bth.opcode.info().operation == Operation::Acknowledge
                && self.note_credits(slot, frame, true);
            return if update { Ok(()) } else { Err(DropReason::UnexpectedResponse) };
        }
        self.note_credits(slot, frame, false);
        match bth.opcode.info().operation {
            Operation::Acknowledge => self.handle_acknowledge(slot, frame, bth.psn),
            Operation::ReadResponse => self.handle_read_response(slot, frame, bth.psn, backing),
            _ => self.handle_atomic_acknowledge(slot, frame, bth.psn, backing),
        }
    }

    /// Takes the credits of an answer; with `only_more`, only if they reach farther than what is
    /// known. Says whether it did.
    fn note_credits(&mut self, slot: u32, frame: &Frame<'_>, only_more: bool) -> bool {
        let Some(aeth) = frame.aeth() else { return false };
        let AethKind::Ack(credits) = aeth.syndrome.kind() else { return false };
        let Some(qp) = self.qps.get_mut(slot) else { return false };
        let limit = credits::limit(aeth.msn, credits);
        let known = &mut qp.requester.credit_limit;
        if only_more && (known.is_none() || limit.is_some_and(|ssn| !is_beyond(ssn, *known))) {
            return false;
        }
        *known = limit;
        if only_more {
            self.ready.push(Class::Data, slot);
        }
        true
    }

    fn handle_acknowledge(
        &mut self,
        slot: u32,
        frame: &Frame<'_>,
        psn: Psn,
    ) -> Result<(), DropReason> {
        let Some(aeth) = frame.aeth() else { return Err(DropReason::Malformed) };
        match aeth.syndrome.kind() {
            AethKind::Ack(_) => self.acknowledge(slot, psn),
            // Ignored, since a later version may give it a meaning that old peers survive.
            AethKind::Reserved => Err(DropReason::ReservedSyndrome),
            _ if !self.acknowledge_before(slot, psn)? => Ok(()),
            AethKind::RnrNak(timer) => {
                // IBTA 9.7.5.2.8.
                self.counters.count(HwCounter::RcvdRnrNak);
                if self.wait_for_receiver(slot, timer.wait_ns()) {
                    Ok(())
                } else {
                    Err(DropReason::RepeatedNak)
                }
            }
            AethKind::Nak(NakCode::PsnSequenceError) => {
                self.counters.count(HwCounter::PacketSeqErr);
                if self.resend_once(slot) { Ok(()) } else { Err(DropReason::RepeatedNak) }
            }
            AethKind::Nak(code) => {
                // IBTA 9.9.2.
                self.counters.count(HwCounter::RcvdFatalNak);
                let status = match code {
                    NakCode::InvalidRequest => WcStatus::RemoteInvalidRequest,
                    NakCode::RemoteAccessError => WcStatus::RemoteAccess,
                    _ => WcStatus::RemoteOperation,
                };
                self.fail_request(slot, status);
                Ok(())
            }
        }
    }

    /// Everything up to `psn` arrived. A READ or atomic among it whose answer did not come is a
    /// sequence error by implication (IBTA 9.7.5.2.1): it is asked for again, once.
    fn acknowledge(&mut self, slot: u32, psn: Psn) -> Result<(), DropReason> {
        let mut progress = false;
        let mut lost_answer = false;
        while let Some(wqe) = self.oldest(slot) {
            if wqe.first_psn.is_after(psn) {
                break;
            }
            if wqe.opcode.awaits_response() {
                lost_answer = true;
                break;
            }
            progress = true;
            if wqe.last_psn.is_after(psn) {
                if let Some(qp) = self.qps.get_mut(slot) {
                    qp.requester.una = psn.next();
                }
                break;
            }
            self.complete_oldest(slot, 0);
        }
        if progress {
            self.progressed(slot);
        }
        if lost_answer {
            self.counters.count(HwCounter::ImpliedNakSeqErr);
            if !self.resend_once(slot) && !progress {
                return Err(DropReason::RepeatedNak);
            }
        }
        Ok(())
    }

    /// What is before `psn` arrived (IBTA 9.7.5.1.2). `false` if a READ or atomic before it is unanswered: that
    /// one's answer was lost and is being asked for again.
    fn acknowledge_before(&mut self, slot: u32, psn: Psn) -> Result<bool, DropReason> {
        let una = |engine: &Self| engine.qps.get(slot).map(|qp| qp.requester.una);
        if una(self) == Some(psn) {
            return Ok(true);
        }
        self.acknowledge(slot, psn.sub(1))?;
        Ok(una(self) == Some(psn))
    }

    fn handle_read_response<B: Backing>(
        &mut self,
        slot: u32,
        frame: &Frame<'_>,
        psn: Psn,
        backing: &B,
    ) -> Result<(), DropReason> {
        if !self.acknowledge_before(slot, psn)? {
            return Ok(());
        }
        let wqe = self.oldest(slot).ok_or(DropReason::UnexpectedResponse)?;
        let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
        match wqe.opcode {
            WrOpcode::RdmaRead { .. } => {}
            WrOpcode::AtomicWrite { .. } | WrOpcode::Flush { .. } => {
                self.handle_empty_response(slot, frame);
                return Ok(());
            }
            _ => return Err(DropReason::UnexpectedResponse),
        }
        let mtu = qp.path_mtu.bytes();
        let index = u32::try_from(psn.distance_from(wqe.first_psn)).unwrap_or(0);
        let offset = index.saturating_mul(mtu).min(wqe.local.len);
        let expected = (wqe.local.len - offset).min(mtu);
        // First or Middle, whichever pass it is of: PSN and length say where it belongs.
        if u32::try_from(frame.payload_len()).ok() != Some(expected) {
            self.fail_request(slot, WcStatus::BadResponse);
            return Ok(());
        }
        if !self.place(slot, &wqe, offset, expected, frame.payload(), backing) {
            return Ok(());
        }
        if psn == wqe.last_psn {
            self.complete_oldest(slot, wqe.local.len);
        } else if let Some(qp) = self.qps.get_mut(slot) {
            qp.requester.una = psn.next();
        }
        self.progressed(slot);
        Ok(())
    }

    /// ATOMIC WRITE and FLUSH are answered by READ RESPONSE ONLY without payload (IBTA Annex A19).
    fn handle_empty_response(&mut self, slot: u32, frame: &Frame<'_>) {
        if frame.info().position == Position::Only && frame.payload_len() == 0 {
            self.complete_oldest(slot, 0);
            self.progressed(slot);
        } else {
            self.fail_request(slot, WcStatus::BadResponse);
        }
    }

    fn handle_atomic_acknowledge<B: Backing>(
        &mut self,
        slot: u32,
        frame: &Frame<'_>,
        psn: Psn,
        backing: &B,
    ) -> Result<(), DropReason> {
        let answer = frame.atomic_ack_eth().ok_or(DropReason::Malformed)?;
        if !self.acknowledge_before(slot, psn)? {
            return Ok(());
        }
        let wqe = self.oldest(slot).ok_or(DropReason::UnexpectedResponse)?;
        let atomic = matches!(wqe.opcode, WrOpcode::CompareSwap { .. } | WrOpcode::FetchAdd { .. });
        if !atomic || wqe.first_psn != psn {
            return Err(DropReason::UnexpectedResponse);
        }
        let original = answer.original.to_ne_bytes();
        if self.place(slot, &wqe, 0, 8, [&original, &[]], backing) {
            self.complete_oldest(slot, 8);
            self.progressed(slot);
        }
        Ok(())
    }

    /// Puts received data into a request's memory; fails the request if it may not.
    fn place<B: Backing>(
        &mut self,
        slot: u32,
        wqe: &SendWqe,
        offset: u32,
        len: u32,
        data: [&[u8]; 2],
        backing: &B,
    ) -> bool {
        let Some(qp) = self.qps.get(slot) else { return false };
        let placed = self.scatter(qp.pd, &wqe.local, offset, len, data, backing);
        if !placed {
            self.fail_request(slot, WcStatus::LocalProtection);
        }
        placed
    }

    /// Nobody acknowledges an unreliable message (IBTA 9.8.2): it is complete when all its packets have been
    /// handed out. They have been sent when the next is asked for, or it failed.
    pub(crate) fn complete_unreliable(&mut self, slot: u32) {
        while let Some(qp) = self.qps.get_mut(slot)
            && matches!(qp.service, Service::Uc | Service::Ud)
            && qp.state.sends()
        {
            let sent = qp.requester.all_arrived();
            match self.oldest(slot) {
                Some(wqe) if wqe.last_psn.is_before(sent) && !wqe.opcode.is_local() => {
                    self.complete_oldest(slot, 0);
                }
                _ => return self.check_drained(slot),
            }
        }
    }

    fn oldest(&self, slot: u32) -> Option<SendWqe> {
        let head = self.qps.get(slot)?.requester.queue.head();
        self.sends.get(head.index()?).copied()
    }

    /// Completes the oldest request, and those behind it that no packet carries and that have been
    /// carried out: the oldest is never one of these.
    pub(crate) fn complete_oldest(&mut self, slot: u32, byte_len: u32) {
        self.complete_one(slot, byte_len);
        while self.oldest(slot).is_some_and(|wqe| wqe.done) {
            self.complete_one(slot, 0);
        }
    }

    fn complete_one(&mut self, slot: u32, byte_len: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let Some(index) = self.sends.pop_front(&mut qp.requester.queue) else { return };
        // What has been carried out is not gone past again.
        qp.requester.skip(index);
        let Some(wqe) = self.free_send(index) else { return };
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let requester = &mut qp.requester;
        requester.una = wqe.last_psn.next();
        if wqe.opcode.awaits_response() {
            requester.rd_outstanding = requester.rd_outstanding.saturating_sub(1);
        }
        // IBTA 10.7.3.1.
        if wqe.signaled {
            let wc = Wc {
                wr_id: wqe.wr_id,
                status: WcStatus::Success,
                opcode: wc_opcode(&wqe.opcode),
                byte_len,
                imm: None,
                invalidated: None,
                qp: qp.qpn,
                src_qp: None,
                solicited: false,
            };
            let cq = qp.send_cq;
            self.push_completion(cq, wc);
        }
    }
}
