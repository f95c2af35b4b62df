//! What goes back to the peer: READ and atomic answers in PSN order, then the ACK or NAK owed.

use roce_codec::Frame;
use roce_codec::ib::{
    Aeth, AtomicAckEth, Bth, Credits, ExtHeaders, NakCode, Opcode, Psn, Syndrome,
};

use super::replay::Kept;
use super::{Answer, Message, Waiting};
use crate::access::Access;
use crate::counters::{DropReason, HwCounter};
use crate::cq::{WcOpcode, WcStatus};
use crate::engine::Engine;
use crate::event::Event;
use crate::held::Holding;
use crate::qp_state::QpState;
use crate::scheduler::Class;
use crate::transmit::{Body, Transmit};

impl Engine<'_> {
    /// Owes the peer an acknowledgement; it goes out first if no READ answer is before it (IBTA
    /// 9.7.5.2).
    pub(super) fn owe(&mut self, slot: u32, answer: Answer) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.answer = answer;
        let class = if qp.responder.unanswered == 0 { Class::Control } else { Class::Data };
        self.ready.push(class, slot);
    }

    /// A request ahead of the expected PSN: one NAK a gap (IBTA 9.7.5.2.8, C9-113). Behind an RNR
    /// NAK nothing is held: the peer will send it again.
    pub(super) fn ahead(&mut self, slot: u32, frame: &Frame<'_>) -> Result<(), DropReason> {
        self.counters.count(HwCounter::OutOfSequence);
        let psn = frame.psn();
        let waiting = self.qps.get(slot).map(|qp| qp.responder.waiting);
        let holding = match waiting.ok_or(DropReason::UnknownQp)? {
            Waiting::ForReceive => Holding::NoRoom,
            Waiting::ForMissing | Waiting::No => self.hold(slot, frame),
        };
        let Some(qp) = self.qps.get_mut(slot) else { return Err(DropReason::UnknownQp) };
        match (qp.responder.waiting, holding) {
            (Waiting::No, _) => qp.responder.wait_for_missing(psn, holding),
            (Waiting::ForMissing, Holding::Held) => return Ok(()),
            (Waiting::ForMissing, Holding::Already) => return Err(DropReason::OutOfSequence),
            (waiting, _) => {
                qp.responder.note_dropped(psn);
                return Err(match waiting {
                    Waiting::ForReceive => DropReason::ReceiverNotReady,
                    _ => DropReason::OutOfSequence,
                });
            }
        }
        let nak = Answer::Nak(Syndrome::nak(NakCode::PsnSequenceError), qp.responder.expected);
        let ack_owed = matches!(qp.responder.answer, Answer::Ack(_));
        qp.responder.ack_first = ack_owed && qp.responder.held.len() > 0;
        self.counters.count(HwCounter::SentSequenceNak);
        self.owe(slot, nak);
        Ok(())
    }

    /// No place for another READ or atomic: as if it had been lost, it is asked for again, behind
    /// the answers that take the places.
    pub(super) fn not_yet(&mut self, slot: u32, psn: Psn) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.note_dropped(psn);
        qp.responder.waiting = Waiting::ForMissing;
        self.counters.count(HwCounter::SentSequenceNak);
        self.owe(slot, Answer::Nak(Syndrome::nak(NakCode::PsnSequenceError), psn));
    }

    /// No receive is posted (IBTA 9.7.5.2.8, RNR NAK). The expected PSN stays.
    pub(super) fn not_ready(&mut self, slot: u32, psn: Psn) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        qp.responder.note_dropped(psn);
        qp.responder.waiting = Waiting::ForReceive;
        let nak = Answer::Nak(Syndrome::rnr_nak(qp.responder.rnr_timer), psn);
        self.counters.count(HwCounter::SentRnrNak);
        self.owe(slot, nak);
    }

    /// Refuses a request for good: the NAK goes out behind the answers owed, and the queue pair
    /// is in error (IBTA 9.9.3, classes B, C and D).
    pub(super) fn refuse(&mut self, slot: u32, psn: Psn, code: NakCode, receive: WcStatus) {
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
            let wr_id = self.free_recv(index).map_or(0, |wqe| wqe.wr_id);
            self.complete(slot, wr_id, receive, WcOpcode::Recv);
        }
        self.counters.count(HwCounter::SentFatalNak);
        self.events.push(Event::RequestRefused { qp: qpn, code });
        self.enter_error(slot);
    }

    /// Takes the receive of a SEND in progress out of the responder's hands.
    pub(crate) fn take_message_receive(&mut self, slot: u32) -> Option<u32> {
        let responder = &mut self.qps.get_mut(slot)?.responder;
        let receive = responder.receive_in_hand()?;
        responder.message = Message::None;
        Some(receive)
    }

    /// The next packet the responder owes, in PSN order: READ and atomic answers, then the
    /// acknowledgement.
    pub(crate) fn next_response(&mut self, slot: u32) -> Option<Transmit> {
        let qp = self.qps.get(slot)?;
        if qp.responder.unanswered == 0 {
            return self.acknowledgement(slot);
        }
        let (via, mtu) = (qp.via(), qp.path_mtu);
        let at = self.unanswered_from(slot, qp.responder.look_from)?;
        self.qps.get_mut(slot)?.responder.look_from = at;
        let replay = *self.replays_of(slot).get(usize::from(at))?;
        let psn = replay.next?;
        match replay.kept {
            Kept::Nothing => None,
            Kept::Atomic { original } => {
                self.answered(slot, at, psn, None);
                let mut transmit =
                    self.response(slot, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, None, Body::Empty);
                if let Some(transmit) = &mut transmit {
                    transmit.ext.atomic_ack_eth = Some(AtomicAckEth { original });
                }
                transmit
            }
            Kept::Done(_) => {
                self.answered(slot, at, psn, None);
                // IBTA Annex A19.
                let opcode = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
                self.response(slot, opcode, psn, None, Body::Empty)
            }
            Kept::Read { rkey, pass, .. } => {
                let (va, len) = pass.packet(psn, mtu);
                if !self.may_read(slot, len) {
                    return None;
                }
                let body = if len == 0 {
                    Body::Empty
                } else {
                    // The region may have gone since the request was taken.
                    match self.memory.remote(rkey, via, va, len, Access::REMOTE_READ) {
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
                self.response(slot, pass.opcode(psn), psn, None, body)
            }
        }
    }

    /// Where the first READ or atomic is, in the order of age from `from` on, whose answers are not
    /// all out.
    pub(super) fn unanswered_from(&mut self, slot: u32, from: u8) -> Option<u8> {
        let cap = self.qps.get(slot)?.responder.replay_cap;
        let replays = self.replays_of(slot);
        (from..cap)
            .chain(0..from)
            .find(|at| replays.get(usize::from(*at)).is_some_and(|replay| replay.next.is_some()))
    }

    /// Whether the next packet of a READ's answer may go, as far as the rate is concerned; if not,
    /// the queue pair is woken when it may.
    fn may_read(&mut self, slot: u32, len: u32) -> bool {
        let Some(qp) = self.qps.get_mut(slot) else { return false };
        match qp.read_pace.take(self.now, len) {
            Ok(()) => true,
            Err(at) => {
                if !self.pacers.is_armed(slot) {
                    self.pacers.arm(slot, self.now, at);
                    self.counters.count(HwCounter::ReadPaced);
                }
                false
            }
        }
    }

    /// Notes that the answer with this PSN is out, and which one follows.
    fn answered(&mut self, slot: u32, at: u8, psn: Psn, following: Option<Psn>) {
        if let Some(replay) = self.replays_of(slot).get_mut(usize::from(at)) {
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
        let mut answer = core::mem::replace(&mut qp.responder.answer, Answer::None);
        if core::mem::take(&mut qp.responder.ack_first) && answer != Answer::None {
            qp.responder.answer = core::mem::replace(&mut answer, Answer::Ack(qp.responder.newest));
            self.ready.push(Class::Control, slot);
        }
        let opcode = Opcode::RC_ACKNOWLEDGE;
        match answer {
            Answer::None => None,
            Answer::Ack(_) => {
                // IBTA 9.7.5.1.2: everything executed so far, not only what asked for it.
                let psn = qp.responder.newest;
                self.counters.count(HwCounter::SentAcks);
                self.response(slot, opcode, psn, None, Body::Empty)
            }
            Answer::Nak(syndrome, psn) => {
                self.response(slot, opcode, psn, Some(syndrome), Body::Empty)
            }
        }
    }

    /// An answer with an AETH: of this syndrome, or an ACK's with the credits of today.
    #[inline]
    fn response(
        &self,
        slot: u32,
        opcode: Opcode,
        psn: Psn,
        syndrome: Option<Syndrome>,
        body: Body,
    ) -> Option<Transmit> {
        let qp = self.qps.get(slot)?;
        // IBTA 9.7.7.2: receives that others may take, too, are no credits of this one's.
        let syndrome = syndrome.unwrap_or_else(|| {
            Syndrome::ack(match qp.srq {
                Some(_) => Credits::NONE,
                None => Credits::of_receives(qp.receives.len()),
            })
        });
        let aeth = Aeth { syndrome, msn: qp.responder.msn };
        let ext = ExtHeaders { aeth: Some(aeth), ..ExtHeaders::NONE };
        let mut bth = Bth::new(opcode, qp.dest_qpn, psn);
        bth.pkey = qp.pkey;
        Some(Transmit { qp: qp.qpn, path: qp.path, bth, ext, body })
    }
}
