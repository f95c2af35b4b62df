//! The responder: executes the peer's requests and answers them in PSN order.
//!
//! One straight pipeline (IBTA 9.7.4): PSN, opcode sequence, opcode validity, resources, length,
//! keys, execution, acknowledgement. A step that refuses says with what; the NAK waits behind
//! the answers owed already.
//!
//! [`unreliable`] is UC's and [`datagram`] UD's, which answer nothing. [`execute`] and [`flush`]
//! carry requests out, [`replay`] keeps READs and atomics and answers duplicates, [`answer`] builds
//! what goes back, [`selective`] runs what was held behind a gap.

mod answer;
mod audit;
mod datagram;
mod execute;
mod flush;
mod replay;
mod selective;
mod unreliable;

use roce_codec::Frame;
use roce_codec::ib::{
    Bth, Msn, NakCode, OpcodeInfo, Operation, Psn, RKey, RnrTimer, Service, Syndrome,
};

use crate::access::Access;
use crate::backing::Backing;
use crate::counters::DropReason;
use crate::cq::WcStatus;
use crate::engine::Engine;
use crate::event::Event;
use crate::pool::{Link, List};
use crate::qp_state::QpState;
use crate::rules::length;
use crate::rules::psn::{PsnClass, classify};
use crate::rules::sequence::{self, InMessage};

pub use replay::ReplaySlot;

/// The responder half of a queue pair.
#[derive(Debug)]
pub(crate) struct Responder {
    /// The PSN expected next.
    pub(crate) expected: Psn,
    /// The newest SEND or WRITE packet executed: what an ACK names. Never a READ or an atomic:
    /// its answer may have been lost, and there are requesters (Linux rxe) that take an ACK with
    /// its PSN for its completion, without the data.
    newest: Psn,
    /// Messages completed.
    pub(crate) msn: Msn,
    message: Message,
    answer: Answer,
    /// A gap has been reported, or the peer told to wait; what comes ahead of `expected` is
    /// dropped until that PSN itself comes.
    waiting: Waiting,
    /// While waiting: the farthest PSN that was dropped.
    dropped_to: Psn,
    /// Packets held behind a gap, in PSN order.
    held: List,
    /// An ACK goes before the NAK that is owed.
    ack_first: bool,
    /// The first packet has been told as COMM_EST.
    established: bool,
    rnr_timer: RnrTimer,
    /// READs and atomics kept, and which slot the next one takes.
    replay_cap: u8,
    replay_next: u8,
    /// READs and atomics whose answers are not all out.
    unanswered: u8,
    /// Where to look for the oldest of these: there it is, or behind that. To look at all that are
    /// kept would fetch their memory for each packet.
    look_from: u8,
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
            newest: expected.sub(1),
            msn: Msn::new(0),
            message: Message::None,
            answer: Answer::None,
            waiting: Waiting::No,
            dropped_to: expected,
            held: List::EMPTY,
            ack_first: false,
            established: false,
            rnr_timer,
            replay_cap,
            replay_next: 0,
            unanswered: 0,
            look_from: 0,
        }
    }

    /// The receive that the SEND in progress fills.
    #[inline]
    pub(crate) const fn receive_in_hand(&self) -> Option<u32> {
        match self.message {
            Message::Send { receive, .. } => receive.index(),
            _ => None,
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

/// What a step of the pipeline refuses with.
enum Refusal {
    Drop(DropReason),
    /// Invalid request, access error, operational error: the connection ends.
    Nak(NakCode),
    /// As `Nak`, with a receive that ends in an error of its own.
    NakReceive(NakCode, WcStatus),
    NotReady,
    /// No place for another READ or atomic, by no clear fault of the peer's.
    NotYet,
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
        let taken = self.take_request(slot, frame, bth, backing);
        if self.qps.get(slot).is_some_and(|qp| qp.responder.held.len() > 0) {
            self.run_held(slot, backing);
        }
        taken
    }

    fn take_request<B: Backing>(
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
        match qp.service {
            // IBTA 9.8.2.2: nothing is refused aloud.
            Service::Uc => return self.handle_unreliable(slot, &request, backing),
            Service::Ud => return self.handle_datagram(slot, &request, backing),
            _ => {}
        }
        // IBTA 9.7.4.1.1, PSN verification (C9-58, C9-110, C9-111).
        match classify(qp.responder.expected, bth.psn) {
            PsnClass::Duplicate => return self.duplicate(slot, &request),
            PsnClass::Ahead => return self.ahead(slot, frame),
            PsnClass::Expected => {}
        }
        self.established(slot);
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
            Err(Refusal::NotYet) => {
                self.not_yet(slot, bth.psn);
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

    /// The first packet has come; in RTR, it stands for what was to say so (IBTA 10.3.1).
    fn established(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        if !core::mem::replace(&mut qp.responder.established, true) && qp.state == QpState::Rtr {
            self.events.push(Event::CommunicationEstablished(qp.qpn));
        }
    }

    /// The pipeline from the opcode sequence to execution; says how many PSNs the request takes.
    fn execute<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<u32, Refusal> {
        let Some(qp) = self.qps.get(slot) else {
            return Err(Refusal::Drop(DropReason::UnknownQp));
        };
        let Request { info, len, .. } = *request;
        // IBTA 9.7.4.1.2, OpCode sequence.
        if sequence::check(Some(qp.responder.in_message()), info.operation, info.position)
            .fault()
            .is_some()
        {
            return Err(INVALID);
        }
        // IBTA 9.7.4.1.3, OpCode validity: what the queue pair allows.
        let allowed = match info.operation {
            Operation::Send => true,
            Operation::Write => qp.access.contains(Access::REMOTE_WRITE),
            Operation::AtomicWrite => qp.access.contains(Access::REMOTE_WRITE),
            Operation::Flush => self.may_flush(slot, request),
            Operation::ReadRequest => qp.access.contains(Access::REMOTE_READ),
            Operation::CompareSwap | Operation::FetchAdd => {
                qp.access.contains(Access::REMOTE_ATOMIC)
            }
            _ => false,
        };
        if !allowed {
            return Err(INVALID);
        }
        // IBTA 9.7.4.1.4, resources: a receive where one is consumed and not yet taken.
        let takes_receive = match info.operation {
            Operation::Send => info.position.starts(),
            Operation::Write => info.position.ends() && info.has_immediate(),
            _ => false,
        };
        if takes_receive && self.next_receive(slot).is_none() {
            return Err(Refusal::NotReady);
        }
        // IBTA 9.7.4.1.5: a key goes when the answers that need it are out; the peer may send it again then.
        if let Some(ieth) = request.frame.ieth()
            && self.is_being_read(slot, ieth.0)
        {
            return Err(Refusal::NotReady);
        }
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        // IBTA 9.7.4.1.6, length (C9-92).
        if info.payload && length::packet(info.position, len, Some(qp.path_mtu)).fault().is_some() {
            return Err(INVALID);
        }
        match info.operation {
            Operation::Send => self.execute_send(slot, request, backing)?,
            Operation::Write => self.execute_write(slot, request, backing)?,
            Operation::ReadRequest => return self.execute_read(slot, request),
            Operation::AtomicWrite => self.execute_atomic_write(slot, request, backing)?,
            Operation::Flush => self.execute_flush(slot, request, backing)?,
            _ => self.execute_atomic(slot, request, backing)?,
        }
        Ok(1)
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
        // IBTA 9.7.5.1.2: an ACK says nothing of answers that may have been lost.
        let acknowledged = info.answer() == roce_codec::ib::Answer::Acknowledge;
        if acknowledged {
            responder.newest = bth.psn;
        }
        let nak_owed = matches!(responder.answer, Answer::Nak(..));
        if nak_owed {
            responder.ack_first = false;
            // What the NAK asks for has come before the NAK went out. If something behind it was
            // dropped, that is what is missing now; otherwise what the NAK would have
            // acknowledged still has to be.
            responder.answer = if dropped {
                responder.waiting = Waiting::ForMissing;
                Answer::Nak(Syndrome::nak(NakCode::PsnSequenceError), responder.expected)
            } else {
                Answer::Ack(responder.newest)
            };
        }
        // IBTA C9-148: a message counts when its last packet has been executed; a READ may count
        // when it starts.
        if info.position.ends() {
            responder.msn = responder.msn.next();
        }
        // A NAK acknowledges what is before it.
        if bth.ack_req && acknowledged && !(nak_owed && dropped) {
            self.owe(slot, Answer::Ack(bth.psn));
        }
    }
}
