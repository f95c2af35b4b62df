//! The verbs on queue pairs: create, modify, query, destroy.

use roce_codec::ib::{Qpn, Service};

use crate::config::Entropy;
use crate::engine::Engine;
use crate::pacing::{Bucket, Rate};
use crate::qp::{ModifyQp, QpError, QpInfo, QpInit, QpSlot, QpState, RtrAttr, RtsAttr};
use crate::requester::Requester;
use crate::responder::{ReplaySlot, Responder};
use crate::scheduler::Class;

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
            max_send_sge: init.max_send_sge,
            max_recv_sge: init.max_recv_sge,
            max_inline_data: init.max_inline_data,
            read_pace: Bucket::new(self.config.read_rate, self.now),
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

    /// How fast a queue pair's READ answers may go from now on, in whatever state it is.
    ///
    /// # Errors
    /// [`QpError::UnknownQp`].
    pub fn set_read_rate(&mut self, qpn: Qpn, rate: Rate) -> Result<(), QpError> {
        let slot = self.find(qpn).ok_or(QpError::UnknownQp)?;
        let qp = self.qps.get_mut(slot).ok_or(QpError::UnknownQp)?;
        qp.read_pace.set_rate(rate, self.now);
        // What waits may have to wait longer or less.
        self.pacers.disarm(slot);
        self.ready.push(Class::Data, slot);
        Ok(())
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
}
