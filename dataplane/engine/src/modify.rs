//! The verb that moves a queue pair from state to state, by the table of
//! [`qp_state`](crate::qp_state).

use roce_codec::ib::{Psn, QKey, Qpn};

use crate::engine::Engine;
use crate::event::Event;
use crate::qp::{ModifyQp, QpError, QpSlot, RtrAttr, RtsAttr};
use crate::qp_state::{QpAttrMask, QpKind, QpState, transition};
use crate::requester::Requester;
use crate::responder::{ReplaySlot, Responder};
use crate::scheduler::Class;

impl ModifyQp {
    /// The state it leads to.
    const fn target(&self, from: QpState) -> QpState {
        match self {
            Self::Reset => QpState::Reset,
            Self::Init { .. } | Self::InitUd { .. } => QpState::Init,
            Self::Rtr(_) | Self::RtrUd => QpState::Rtr,
            Self::Rts(_) | Self::RtsUd { .. } | Self::Resume => QpState::Rts,
            Self::Sqd | Self::Retries(_) => QpState::Sqd,
            Self::Access(_) | Self::QKey(_) => from,
            Self::Error => QpState::Error,
        }
    }

    /// The attributes it gives, of those that such a queue pair has. The partition and the port of
    /// an engine are given with each other; queue pair 1 is of every port.
    fn attributes(&self, kind: QpKind) -> QpAttrMask {
        use QpAttrMask as A;
        let rc = kind == QpKind::Rc;
        let retries = A::TIMEOUT | A::RETRY_CNT | A::RNR_RETRY | A::MAX_QP_RD_ATOMIC;
        match self {
            Self::Reset | Self::RtrUd | Self::Resume | Self::Error => A::NONE,
            Self::Init { .. } => A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS,
            Self::InitUd { .. } if kind == QpKind::Gsi => A::PKEY_INDEX | A::QKEY,
            Self::InitUd { .. } => A::PKEY_INDEX | A::PORT | A::QKEY,
            Self::Rtr(_) => {
                let both = A::AV | A::PATH_MTU | A::DEST_QPN | A::RQ_PSN;
                if rc { both | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER } else { both }
            }
            Self::Rts(_) if rc => A::SQ_PSN | retries,
            Self::Rts(_) | Self::RtsUd { .. } => A::SQ_PSN,
            Self::Sqd => A::EN_SQD_ASYNC_NOTIFY,
            Self::Retries(_) => retries,
            Self::Access(_) => A::ACCESS_FLAGS,
            Self::QKey(_) => A::QKEY,
        }
    }
}

impl Engine<'_> {
    /// Changes a queue pair's state, or attributes of it that may change in the state it is in.
    ///
    /// # Errors
    /// [`QpError`]; the queue pair is as it was.
    pub fn modify_qp(&mut self, qpn: Qpn, change: &ModifyQp) -> Result<(), QpError> {
        let slot = self.find(qpn).ok_or(QpError::UnknownQp)?;
        let qp = self.qps.get(slot).ok_or(QpError::UnknownQp)?;
        let (from, kind) = (qp.state, qp.kind());
        let to = change.target(from);
        let row = transition(from, to).ok_or(QpError::Transition { from, to })?;
        let (required, given) = (row.required(kind), change.attributes(kind));
        let missing = required.without(given);
        let excess = given.without(required | row.optional(kind));
        if !missing.is_empty() || !excess.is_empty() {
            return Err(QpError::Attributes { missing, excess });
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
            ModifyQp::Rtr(attr) => self.enter_rtr(slot, attr)?,
            ModifyQp::Rts(attr) => self.enter_rts(slot, attr),
            ModifyQp::RtsUd { sq_psn } => self.enter_rts(slot, &RtsAttr::datagrams(*sq_psn)),
            ModifyQp::Sqd => {
                self.update_qp(slot, |qp| (qp.state, qp.drained) = (QpState::Sqd, false));
                // What was handed out last may be complete, and is looked at there.
                self.ready.push(Class::Data, slot);
                self.check_drained(slot);
            }
            ModifyQp::Resume => {
                self.update_qp(slot, |qp| qp.state = QpState::Rts);
                self.ready.push(Class::Data, slot);
            }
            ModifyQp::Init { pkey, access } => self.update_qp(slot, |qp| {
                (qp.state, qp.pkey, qp.access) = (QpState::Init, *pkey, *access);
            }),
            ModifyQp::InitUd { pkey, qkey } => {
                let path_mtu = self.config.max_path_mtu;
                self.update_qp(slot, |qp| {
                    (qp.state, qp.pkey, qp.path_mtu) = (QpState::Init, *pkey, path_mtu);
                    qp.set_qkey(*qkey);
                });
            }
            ModifyQp::RtrUd => self.update_qp(slot, |qp| qp.state = QpState::Rtr),
            ModifyQp::Retries(attr) => {
                self.update_qp(slot, |qp| qp.requester.set_retries(attr));
            }
            ModifyQp::Access(access) => self.update_qp(slot, |qp| qp.access = *access),
            ModifyQp::QKey(qkey) => self.update_qp(slot, |qp| qp.set_qkey(*qkey)),
        }
        Ok(())
    }

    fn update_qp(&mut self, slot: u32, change: impl FnOnce(&mut QpSlot)) {
        if let Some(qp) = self.qps.get_mut(slot) {
            change(qp);
        }
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
        self.update_qp(slot, |qp| {
            qp.state = QpState::Rtr;
            qp.path = attr.path;
            qp.path_mtu = attr.path_mtu;
            qp.dest_qpn = attr.dest_qpn;
            qp.responder = Responder::new(attr.rq_psn, attr.max_dest_rd_atomic, attr.min_rnr_timer);
        });
        Ok(())
    }

    fn enter_rts(&mut self, slot: u32, attr: &RtsAttr) {
        self.update_qp(slot, |qp| {
            qp.state = QpState::Rts;
            qp.requester = Requester::new(attr);
        });
    }

    /// Tells once that nothing which has been begun is left.
    pub(crate) fn check_drained(&mut self, slot: u32) {
        let Some(qp) = self.qps.get(slot) else { return };
        let begun = qp.requester.begun(&self.sends);
        let Some(qp) = self.qps.get_mut(slot) else { return };
        if qp.state == QpState::Sqd && !begun && !core::mem::replace(&mut qp.drained, true) {
            self.events.push(Event::SqDrained(qp.qpn));
        }
    }
}

impl QpSlot {
    const fn kind(&self) -> QpKind {
        QpKind::new(self.service, self.qpn.get() == Qpn::GSI.get())
    }

    /// Queue pair 1 has the key that everybody knows (IBTA 10.2.5).
    fn set_qkey(&mut self, qkey: QKey) {
        self.qkey = if self.qpn == Qpn::GSI { QKey::GSI } else { qkey };
    }
}

impl RtsAttr {
    /// What a datagram queue pair makes of it.
    const fn datagrams(sq_psn: Psn) -> Self {
        Self { sq_psn, timeout: 0, retry_cnt: 0, rnr_retry: 0, max_rd_atomic: 0 }
    }
}
