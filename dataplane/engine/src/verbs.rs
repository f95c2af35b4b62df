//! The verbs on queue pairs: create, query, destroy. [`modify`](crate::modify) has the one that
//! moves them, [`post`](crate::post) those that give them work.

use roce_codec::ib::{Qpn, Service};

use crate::config::Entropy;
use crate::engine::Engine;
use crate::pacing::{Bucket, Rate};
use crate::pool::Link;
use crate::qp::{QpError, QpInfo, QpInit, QpSlot};
use crate::scheduler::Class;

impl Engine<'_> {
    /// A new queue pair, in [`QpState::Reset`](crate::QpState::Reset).
    ///
    /// # Errors
    /// [`QpError::Service`], [`QpError::NoSlot`], [`QpError::UnknownCq`] and
    /// [`QpError::UnknownSrq`].
    pub fn create_qp(&mut self, init: &QpInit, entropy: &mut impl Entropy) -> Result<Qpn, QpError> {
        if !matches!(init.service, Service::Rc | Service::Uc | Service::Ud) {
            return Err(QpError::Service);
        }
        self.create(init, None, entropy)
    }

    /// Queue pair 1, the general services' (IBTA 10.2.5, "get special QP"), in
    /// [`QpState::Reset`](crate::QpState::Reset). An engine has one at most; of several shards,
    /// the one that datagrams to queue pair 1 are steered to.
    ///
    /// # Errors
    /// As [`Engine::create_qp`], and [`QpError::Gsi`].
    pub fn create_gsi_qp(
        &mut self,
        init: &QpInit,
        entropy: &mut impl Entropy,
    ) -> Result<Qpn, QpError> {
        if init.service != Service::Ud {
            return Err(QpError::Service);
        }
        if !self.gsi.is_none() {
            return Err(QpError::Gsi);
        }
        self.create(init, Some(Qpn::GSI), entropy)
    }

    fn create(
        &mut self,
        init: &QpInit,
        special: Option<Qpn>,
        entropy: &mut impl Entropy,
    ) -> Result<Qpn, QpError> {
        if !self.cqs.contains(init.send_cq) || !self.cqs.contains(init.recv_cq) {
            return Err(QpError::UnknownCq);
        }
        if init.srq.is_some_and(|srq| self.srqs.get(srq).is_none()) {
            return Err(QpError::UnknownSrq);
        }
        let index = self.qps.take().ok_or(QpError::NoSlot)?;
        let shard_bits = u32::from(self.config.shard_bits.min(6));
        let low_bits = self.slot_bits + shard_bits;
        let low = index << shard_bits | u32::from(self.config.shard) & !(u32::MAX << shard_bits);
        let Some(qp) = self.qps.get_mut(index) else { return Err(QpError::NoSlot) };
        let qpn = loop {
            if let Some(special) = special {
                self.gsi = Link::to(index);
                break special;
            }
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
            srq: init.srq,
            ..QpSlot::EMPTY
        };
        if let Some(srq) = init.srq {
            self.srqs.join(srq);
        }
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
            if let Some(srq) = qp.srq.take() {
                self.srqs.leave(srq);
            }
        }
        if qpn == Qpn::GSI {
            self.gsi = Link::NONE;
        }
        self.qps.give(slot);
        Ok(())
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
            recv_wrs: qp.outstanding_receives(),
        })
    }
}
