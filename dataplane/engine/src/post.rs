//! The verbs that post work requests.

use roce_codec::ib::{Qpn, Service};

use crate::access::Access;
use crate::cq::{WcOpcode, WcStatus};
use crate::engine::{Engine, wc_opcode};
use crate::flush::Selectivity;
use crate::memory::Pd;
use crate::qp_state::QpState;
use crate::rules::length::MAX_MESSAGE;
use crate::scheduler::Class;
use crate::sge::Sge;
use crate::srq::Srq;
use crate::window::MwType;
use crate::wqe::{RecvWqe, SendWqe};
use crate::wr::{Data, PostError, RecvWr, SendWr, WrOpcode};

impl Engine<'_> {
    /// Posts a send work request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued. On a queue pair in error it is taken and completes as
    /// flushed.
    pub fn post_send(&mut self, qpn: Qpn, wr: &SendWr<'_>) -> Result<(), PostError> {
        if let WrOpcode::BindMw { rkey, .. } = wr.opcode
            && self.memory.window(rkey).is_none_or(|(_, kind)| kind != MwType::Type2)
        {
            return Err(PostError::Window);
        }
        self.post(qpn, wr)
    }

    /// Posts a send work request, whatever type a window is of.
    pub(crate) fn post(&mut self, qpn: Qpn, wr: &SendWr<'_>) -> Result<(), PostError> {
        let slot = self.find(qpn).ok_or(PostError::UnknownQp)?;
        let qp = self.qps.get(slot).ok_or(PostError::UnknownQp)?;
        let flushes = matches!(qp.state, QpState::Error | QpState::Sqe);
        if !qp.state.sends() && !flushes {
            return Err(PostError::State);
        }
        match qp.service {
            Service::Uc if !wr.opcode.is_unreliable() => return Err(PostError::Service),
            Service::Ud if !wr.opcode.is_datagram() => return Err(PostError::Service),
            _ => {}
        }
        let known = wr.to.is_none_or(|to| self.ahs.path(to.ah).is_some());
        if wr.to.is_some() != (qp.service == Service::Ud) || !known {
            return Err(PostError::Address);
        }
        // IBTA 9.8.3: a datagram is one packet.
        let most = if qp.service == Service::Ud { qp.path_mtu.bytes() } else { MAX_MESSAGE };
        let len = match wr.data {
            Data::Sges(sges) => {
                let need =
                    if wr.opcode.returns_data() { Access::LOCAL_WRITE } else { Access::NONE };
                let len = length(sges, qp.max_send_sge)?;
                if len > most || !wr.opcode.takes_length(len) {
                    return Err(PostError::Length);
                }
                self.check_local(sges, qp.pd, need)?;
                len
            }
            Data::Inline(bytes) => {
                if wr.opcode.returns_data() || bytes.len() > usize::from(qp.max_inline_data) {
                    return Err(PostError::Inline);
                }
                let len = u32::try_from(bytes.len()).map_err(|_| PostError::Inline)?;
                if len > most || !wr.opcode.takes_length(len) {
                    return Err(PostError::Length);
                }
                len
            }
        };
        if wr.opcode.awaits_response() && !flushes && !qp.requester.may_read() {
            return Err(PostError::RdAtomic);
        }
        if qp.requester.queue.len() >= qp.max_send_wr {
            return Err(PostError::QueueFull);
        }
        if flushes {
            self.complete(slot, wr.wr_id, WcStatus::WrFlush, wc_opcode(&wr.opcode));
            return Ok(());
        }
        let first_psn = qp.requester.next_psn;
        // An atomic's answer is one packet; so is every message's at least. What no packet carries
        // ends before it begins.
        let packets = if wr.opcode.is_local() { 0 } else { qp.path_mtu.packets(len) };
        let last_psn = first_psn.add(packets).sub(1);
        let local = match wr.data {
            Data::Sges(sges) => self.locals.keep(sges, len),
            Data::Inline(bytes) => self.locals.keep_inline(bytes, len),
        }
        .ok_or(PostError::QueueFull)?;
        let Some(index) = self.sends.take() else {
            self.locals.give(local);
            return Err(PostError::QueueFull);
        };
        let Some(qp) = self.qps.get_mut(slot) else { return Err(PostError::UnknownQp) };
        if let Some(wqe) = self.sends.get_mut(index) {
            *wqe = SendWqe {
                wr_id: wr.wr_id,
                opcode: wr.opcode,
                local,
                signaled: wr.signaled,
                solicited: wr.solicited,
                fence: wr.fence || wr.opcode.is_fenced(),
                first_psn,
                last_psn,
                ssn: qp.requester.next_ssn,
                to: wr.to,
                ..SendWqe::EMPTY
            };
        }
        self.sends.push_back(&mut qp.requester.queue, index);
        qp.requester.posted(index, last_psn.next(), packets > 0);
        self.ready.push(Class::Data, slot);
        Ok(())
    }

    /// Posts a receive work request.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued. On a queue pair in error it is taken and completes as
    /// flushed.
    pub fn post_recv(&mut self, qpn: Qpn, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let slot = self.find(qpn).ok_or(PostError::UnknownQp)?;
        let qp = self.qps.get(slot).ok_or(PostError::UnknownQp)?;
        if qp.state == QpState::Reset {
            return Err(PostError::State);
        }
        if qp.srq.is_some() {
            return Err(PostError::SharedReceives);
        }
        let len = length(wr.sges, qp.max_recv_sge)?;
        self.check_local(wr.sges, qp.pd, Access::LOCAL_WRITE)?;
        if qp.outstanding_receives() >= qp.max_recv_wr {
            return Err(PostError::QueueFull);
        }
        if qp.state == QpState::Error {
            self.complete(slot, wr.wr_id, WcStatus::WrFlush, WcOpcode::Recv);
            return Ok(());
        }
        let index = self.keep_receive(wr, len, qp.pd)?;
        let Some(qp) = self.qps.get_mut(slot) else { return Err(PostError::UnknownQp) };
        self.recvs.push_back(&mut qp.receives, index);
        Ok(())
    }

    /// Posts a receive work request to a shared receive queue.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued.
    pub fn post_srq_recv(&mut self, srq: Srq, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let shared = self.srqs.get(srq).ok_or(PostError::UnknownSrq)?;
        let len = length(wr.sges, shared.max_sge)?;
        self.check_local(wr.sges, shared.pd, Access::LOCAL_WRITE)?;
        if shared.receives.len() >= shared.max_wr {
            return Err(PostError::QueueFull);
        }
        let index = self.keep_receive(wr, len, shared.pd)?;
        if let Some(shared) = self.srqs.get_mut(srq) {
            self.recvs.push_back(&mut shared.receives, index);
        }
        Ok(())
    }

    /// A slot with a receive work request.
    fn keep_receive(&mut self, wr: &RecvWr<'_>, len: u32, pd: Pd) -> Result<u32, PostError> {
        let local = self.locals.keep(wr.sges, len).ok_or(PostError::QueueFull)?;
        let Some(index) = self.recvs.take() else {
            self.locals.give(local);
            return Err(PostError::QueueFull);
        };
        if let Some(wqe) = self.recvs.get_mut(index) {
            *wqe = RecvWqe { wr_id: wr.wr_id, local, pd, ..RecvWqe::EMPTY };
        }
        Ok(index)
    }

    /// Whether all elements are memory of the protection domain's with this right.
    fn check_local(&self, sges: &[Sge], pd: Pd, need: Access) -> Result<(), PostError> {
        for sge in sges.iter().filter(|sge| sge.len > 0) {
            self.memory
                .local(sge.lkey, pd, sge.va, sge.len, need)
                .map_err(|_| PostError::LocalProtection)?;
        }
        Ok(())
    }
}

/// The bytes of a list in all.
fn length(sges: &[Sge], most: u8) -> Result<u32, PostError> {
    if sges.len() > usize::from(most) {
        return Err(PostError::TooManySges);
    }
    sges.iter()
        .try_fold(0, |sum: u32, sge| sum.checked_add(sge.len))
        .filter(|len| *len <= MAX_MESSAGE)
        .ok_or(PostError::Length)
}

impl WrOpcode {
    /// Whether it may have this much local memory.
    fn takes_length(self, len: u32) -> bool {
        match self {
            Self::CompareSwap { .. } | Self::FetchAdd { .. } | Self::AtomicWrite { .. } => len == 8,
            Self::Flush { selectivity, .. } => {
                let long =
                    matches!(selectivity, Selectivity::Range { len, .. } if len > MAX_MESSAGE);
                len == 0 && !long
            }
            Self::BindMw { .. } | Self::LocalInvalidate(_) => len == 0,
            _ => true,
        }
    }
}
