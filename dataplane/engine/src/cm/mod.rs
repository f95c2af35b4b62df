//! The connection manager (IBTA Vol. 1, chapter 12): how queue pairs find each other, as a
//! state machine that owns neither time nor wire.
//!
//! ```text
//!  active                                   passive
//!                                           listen
//!  connect                  REQ →           ConnectRequest
//!                         ← REP             accept                 (or reject)
//!  ConnectResponse                            the QP goes to RTR, to RTS
//!    the QP goes to RTR, to RTS
//!  ready                    RTU →           Established
//!                            …
//!  disconnect              DREQ →           DisconnectRequest      (either side)
//!  Disconnected          ← DREP             disconnect
//!  TimewaitExit                             TimewaitExit
//! ```
//!
//! A [`Cm`] works in pools the caller lends ([`CmStorage`]). MADs that came to QP 1 go into
//! [`Cm::handle_mad`], those to send come out of [`Cm::poll_transmit`], each with its path; what
//! the consumer must know comes out of [`Cm::poll_event`], and [`Cm::handle_timeout`] is called
//! at [`Cm::poll_timeout`]. Messages are sent again until they are answered, as often as the REQ
//! says; what comes twice is answered twice and done once.
//!
//! **Which PSN is whose.** The starting PSN one states is the one the *other* must send with:
//! what one hands to [`Cm::connect`] or [`Cm::accept`] is the PSN one's own responder expects
//! first. [`QpAttributes`] has both PSNs the right way round.
//!
//! **What a peer can cost.** A connection that is not established holds one slot, and a listener
//! has at most its backlog of them; a further REQ is rejected for want of resources. A message
//! that belongs to no connection holds one answer slot until the answer is sent. A message makes
//! us send one MAD at most; two if it shows that the peer has forgotten a connection. The times a
//! peer may ask us to wait are bounded by [`CmConfig::max_wait`].
//!
//! ```
//! use roce_codec::cm::{CaGuid, Mad, PortSpace, RdmaCmServiceId};
//! use roce_codec::ib::{Psn, Qpn};
//! use roce_engine::cm::{Accept, Cm, CmConfig, CmEvent, Connect, StaticCmStorage};
//! use roce_engine::{Instant, Path, SeededEntropy};
//!
//! let mut storage = [const { StaticCmStorage::<8, 1, 4>::EMPTY }; 2];
//! let [one, other] = &mut storage;
//! let mut client = Cm::new(CmConfig::new(CaGuid(1)), one.lend(), &mut SeededEntropy::new(1));
//! let mut server = Cm::new(CmConfig::new(CaGuid(2)), other.lend(), &mut SeededEntropy::new(2));
//! let there = Path {
//!     src: "192.0.2.1".parse()?,
//!     dst: "192.0.2.2".parse()?,
//!     src_port: 0xc000,
//!     ..Path::EMPTY
//! };
//! let back = Path { src: there.dst, dst: there.src, ..there };
//! let rping = RdmaCmServiceId { port_space: PortSpace::TCP, port: 7174 }.into();
//! let now = Instant::ZERO;
//!
//! server.listen(rping, 4)?;
//! client.connect(now, &Connect::new(rping, there, Qpn::new(0x11), Psn::new(100)))?;
//! let req = client.poll_transmit(now).expect("the REQ");
//! server.handle_mad(now, &Mad::parse(&req.mad)?, &back);
//! let Some(CmEvent::ConnectRequest { id, .. }) = server.poll_event() else { panic!() };
//! server.accept(now, id, &Accept::new(Qpn::new(0x22), Psn::new(7)))?;
//! let rep = server.poll_transmit(now).expect("the REP");
//! client.handle_mad(now, &Mad::parse(&rep.mad)?, &there);
//! let Some(CmEvent::ConnectResponse { id, qp, .. }) = client.poll_event() else { panic!() };
//! assert_eq!((qp.dest_qpn, qp.sq_psn, qp.rq_psn), (Qpn::new(0x22), Psn::new(7), Psn::new(100)));
//! client.ready(now, id, &[])?; // and the RTU goes out
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
mod answer;
mod attributes;
mod connection;
mod counters;
mod ending;
mod error;
mod event;
mod passive;
mod sidr;
mod slot;
mod state;
mod table;

use roce_codec::cm::{
    AttributeId, CaGuid, CmError, CommunicationId, MAD_LEN, Mad, Message, RejReason,
    RejectedMessage, Req, Timeout,
};
use roce_codec::ib::PathMtu;

pub use active::Connect;
pub use attributes::QpAttributes;
pub use counters::{CmCounters, CmDropReason};
pub use error::CmCallError;
pub use event::CmEvent;
pub use passive::Accept;
pub use sidr::{SidrAnswer, SidrQuery};
#[cfg(feature = "std")]
pub use slot::HeapCmStorage;
pub use slot::{AnswerSlot, CmBucket, CmSlot, CmStorage, ListenSlot, StaticCmStorage};
pub use state::CmState;

use answer::{Answer, Answers, Ari, Says};
use state::{Input, Send, transition};
use table::{Queue, Table};

use crate::config::{Entropy, SeededEntropy};
use crate::engine::{More, TIMERS_PER_CALL};
use crate::qp::Path;
use crate::time::Instant;
use crate::timer::{TICK_NS, Wheel};

/// Settings of a connection manager, fixed at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmConfig {
    /// This channel adapter; a peer tells hosts apart by it.
    pub ca_guid: CaGuid,
    /// The largest path MTU a connection may have (what the port carries).
    pub max_path_mtu: PathMtu,
    /// The longest our queue pairs take to acknowledge: the REP's target ACK delay.
    pub ack_delay: Timeout,
    /// The longest a peer's message can make us wait before a message is sent again or a
    /// connection leaves time-wait, whatever it asks for (up to 2.4 hours otherwise).
    pub max_wait: Timeout,
}

impl CmConfig {
    /// Path MTU up to 4096, ACK delay 134 ms (what Linux rxe says), waits up to 69 s.
    #[must_use]
    pub const fn new(ca_guid: CaGuid) -> Self {
        Self {
            ca_guid,
            max_path_mtu: PathMtu::Mtu4096,
            ack_delay: Timeout::new(15),
            max_wait: Timeout::new(24),
        }
    }
}

/// A MAD to send: a UD SEND from QP 1 to QP 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CmTransmit {
    /// Addresses, next hop, port, traffic class.
    pub path: Path,
    /// Which message it is.
    pub attribute: AttributeId,
    /// The MAD.
    pub mad: [u8; MAD_LEN],
}

/// A connection manager. See the [module](self) for the calls and their order.
#[derive(Debug)]
pub struct Cm<'s> {
    config: CmConfig,
    now: Instant,
    table: Table<'s>,
    timers: Wheel<'s>,
    answers: Answers<'s>,
    listeners: &'s mut [ListenSlot],
    epoch: u32,
    counters: CmCounters,
    /// For IDs, which travel in clear: they need to differ, not to be secret.
    random: SeededEntropy,
    transaction_high: u32,
}

/// What a handler says of a message: acted on, or why not.
type Handled = Result<(), CmDropReason>;

impl<'s> Cm<'s> {
    /// A connection manager in lent pools.
    pub fn new(config: CmConfig, mut storage: CmStorage<'s>, entropy: &mut impl Entropy) -> Self {
        let mut word = || u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32());
        let (seed, ids) = (word(), word());
        Self {
            config,
            now: Instant::ZERO,
            table: Table::new(&mut storage, seed),
            timers: Wheel::new(storage.timers, TICK_NS),
            answers: Answers::new(storage.answers),
            listeners: storage.listeners,
            epoch: 0,
            counters: CmCounters::default(),
            random: SeededEntropy::new(ids),
            transaction_high: entropy.next_u32(),
        }
    }

    /// What has happened so far.
    #[must_use]
    pub const fn counters(&self) -> &CmCounters {
        &self.counters
    }

    /// Slots in use: connections in whatever state, and what has still to be sent or polled.
    #[must_use]
    pub const fn in_use(&self) -> usize {
        self.table.live
    }

    /// The state of a connection; [`CmState::Idle`] if there is none.
    #[must_use]
    pub fn state(&self, id: CommunicationId) -> CmState {
        self.table
            .find(id)
            .and_then(|at| self.table.get(at))
            .map_or(CmState::Idle, |slot| slot.state)
    }

    /// Every connection and resolution that is not over, with its state.
    pub fn connections(&self) -> impl Iterator<Item = (CommunicationId, CmState)> {
        (0..).map_while(|index| self.table.get(index)).filter_map(|slot| {
            (slot.live && slot.state != CmState::Idle).then_some((slot.id, slot.state))
        })
    }

    /// Takes a MAD that came to QP 1. `from` is the way back: our address is its source, the
    /// sender's its destination. The packet's ICRC must have been checked.
    pub fn handle_mad(&mut self, now: Instant, mad: &Mad<'_>, from: &Path) {
        self.advance(now);
        self.counters.received += 1;
        match self.dispatch(mad, from) {
            Ok(()) => self.counters.acted_on += 1,
            Err(reason) => self.counters.count_drop(reason),
        }
    }

    fn dispatch(&mut self, mad: &Mad<'_>, from: &Path) -> Handled {
        let message = match Message::parse(mad) {
            Ok(message) => message,
            Err(CmError::ClassVersion(_)) if mad.header.attribute == AttributeId::REQ => {
                return self.refuse_version(mad, from);
            }
            Err(_) => return Err(CmDropReason::Malformed),
        };
        let tid = mad.header.transaction_id;
        match &message {
            Message::Req(req) => self.handle_req(tid, req, mad, from),
            Message::Rep(rep) => self.handle_rep(tid, rep, mad, from),
            Message::Rtu(rtu) => self.handle_rtu(rtu, mad, from),
            Message::Mra(mra) => self.handle_mra(mra, from),
            Message::Rej(rej) => self.handle_rej(rej, mad, from),
            Message::Dreq(dreq) => self.handle_dreq(tid, dreq, mad, from),
            Message::Drep(drep) => self.handle_drep(drep, mad, from),
            Message::Lap(lap) => self.handle_lap(tid, lap, from),
            Message::SidrReq(req) => self.handle_sidr_req(tid, req, mad, from),
            Message::SidrRep(rep) => self.handle_sidr_rep(rep, mad, from),
            _ => Err(CmDropReason::Unsupported),
        }
    }

    /// IBTA 12.6.7.2. A REQ of another class version: its ID lies where ours lies, more is not needed.
    fn refuse_version(&mut self, mad: &Mad<'_>, from: &Path) -> Handled {
        let req = Req::parse(mad.data).map_err(|_| CmDropReason::Malformed)?;
        let reason = RejReason::UNSUPPORTED_CLASS_VERSION;
        self.refuse_req(mad.header.transaction_id, &req, from, reason, Ari::None)
    }

    /// Serves timers whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> More {
        self.advance(now);
        for _ in 0..TIMERS_PER_CALL {
            match self.timers.expire(self.now) {
                Some(index) => self.timeout(index),
                None => return More::No,
            }
        }
        More::Yes
    }

    /// When to call [`Cm::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Sends again, or gives up and says so (IBTA 12.9.8, 12.6.7).
    fn timeout(&mut self, index: u32) {
        let Some(slot) = self.table.get_mut(index) else { return };
        let waits = slot.state != CmState::Timewait;
        let input = if waits && slot.retries_left == 0 {
            Input::RetriesExhausted
        } else {
            slot.retries_left = slot.retries_left.saturating_sub(1);
            Input::Timeout
        };
        let Some(row) = transition(slot.state, input) else { return };
        match input {
            Input::RetriesExhausted => self.counters.unreachable += 1,
            _ if row.send == Send::Again => self.counters.retransmitted += 1,
            _ => {}
        }
        if row.send == Send::Rej {
            self.write_timeout_rej(index);
        }
        self.commit(index, row);
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<CmTransmit> {
        self.advance(now);
        while let Some(index) = self.table.pop(Queue::Outgoing) {
            let Some(slot) = self.table.get_mut(index) else { continue };
            slot.queued = false;
            if !core::mem::take(&mut slot.outgoing) {
                self.release_if_done(index);
                continue;
            }
            let transmit =
                CmTransmit { path: slot.path, attribute: slot.sent_kind, mad: slot.sent };
            self.counters.sent += 1;
            self.release_if_done(index);
            return Some(transmit);
        }
        let answer = self.answers.pop()?;
        self.counters.sent += 1;
        let (attribute, mad) = answer.mad();
        Some(CmTransmit { path: answer.path, attribute, mad })
    }

    /// Time does not go back.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Owes an answer to a message that belongs to no connection.
    fn answer(&mut self, path: &Path, transaction_id: u64, says: Says) -> Handled {
        if self.answers.push(Answer { path: *path, transaction_id, says }) {
            Ok(())
        } else {
            Err(CmDropReason::NoAnswerSlot)
        }
    }

    fn refuse_req(
        &mut self,
        tid: u64,
        req: &Req<'_>,
        from: &Path,
        reason: RejReason,
        ari: Ari,
    ) -> Handled {
        let says = Says::Rej {
            local: CommunicationId(0),
            remote: req.local_comm_id,
            rejected: RejectedMessage::Req,
            reason,
            ari,
        };
        self.answer(from, tid, says)?;
        self.counters.rejects += 1;
        Ok(())
    }
}
