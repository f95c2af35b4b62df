//! The verbs on queue pairs: create, modify, query, destroy, post.

use roce_codec::ib::{Qpn, Service};

use crate::config::Entropy;
use crate::cq::{WcOpcode, WcStatus};
use crate::engine::{Engine, wc_opcode};
use crate::flush::Selectivity;
use crate::memory::Access;
use crate::qp::{ModifyQp, QpError, QpInfo, QpInit, QpSlot, QpState, RtrAttr, RtsAttr};
use crate::requester::Requester;
use crate::responder::{ReplaySlot, Responder};
use crate::rules::length::MAX_MESSAGE;
use crate::scheduler::Class;
use crate::wr::{PostError, RecvWr, SendWr, WrOpcode};

impl Engine<'_> {
    /// A new queue pair, in [`QpState::Reset`].
    ///
    /// # Errors
    /// [`QpError::Service`], [`QpError::NoSlot`] and [`QpError::UnknownCq`].
    pub fn create_qp(&mut self, init: &QpInit, entropy: &mut impl Entropy) -> Result<Qpn, QpError> {
        if !matches!(init.service, Service::Rc | Service::Uc) {
            return Err(QpError::Service);
        }
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
            service: init.service,
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
        if qp.service == Service::Uc && !wr.opcode.is_unreliable() {
            return Err(PostError::Service);
        }
        let fits = match wr.opcode {
            WrOpcode::CompareSwap { .. }
            | WrOpcode::FetchAdd { .. }
            | WrOpcode::AtomicWrite { .. } => wr.sge.len == 8,
            WrOpcode::Flush { selectivity, .. } => {
                let long =
                    matches!(selectivity, Selectivity::Range { len, .. } if len > MAX_MESSAGE);
                wr.sge.len == 0 && !long
            }
            _ => wr.sge.len <= MAX_MESSAGE,
        };
        if !fits {
            return Err(PostError::Length);
        }
        let need = if wr.opcode.returns_data() { Access::LOCAL_WRITE } else { Access::NONE };
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
            wqe.ssn = qp.requester.next_ssn;
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
}
