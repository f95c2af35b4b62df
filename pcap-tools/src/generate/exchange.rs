//! A burst of messages and their answers: a requester and a responder as NICs are.

use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Credits, Deth, ExtHeaders, Ieth, ImmDt, Msn, Opcode, Operation,
    Position, Psn, RKey, Reth, Service, Syndrome,
};

use super::connection::{Budget, Connection, LINE_RATE_BPS, ROUND_TRIP_NS, Wishes};
use super::planned::{Kind, Planned, Side, Tail, opcode, position};
use super::random::Random;

/// Bytes of a packet besides its payload, as they count for the rate.
const HEADERS: u32 = 74;
/// Wireshark takes a shorter SEND for RPC-over-RDMA or Ethernet over InfiniBand, and calls it
/// malformed.
const SHORTEST_SEND: u32 = 16;
/// Requests after which an acknowledgement is asked for in the midst of a message.
const ASK_EVERY: u32 = 16;

/// An acknowledgement that the responder owes.
#[derive(Debug, Clone, Copy)]
struct Owed {
    due_ns: u64,
    psn: Psn,
    msn: Msn,
}

/// A burst of messages between two ends.
#[derive(Debug)]
pub(super) struct Exchange<'c> {
    connection: &'c mut Connection,
    wishes: &'c Wishes,
    random: &'c mut Random,
    planned: Vec<Planned>,
    /// Of the requester and the responder at hand.
    requester: Side,
    request_at_ns: u64,
    answer_at_ns: u64,
    owed: Option<Owed>,
    /// READs and atomics of this burst, which are all outstanding at once at worst.
    reads: u8,
    cnps: Vec<u64>,
    congested: bool,
}

impl<'c> Exchange<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        wishes: &'c Wishes,
        random: &'c mut Random,
    ) -> Self {
        let now_ns = connection.now_ns;
        let congested = connection.congested && random.once_in(96);
        Self {
            connection,
            wishes,
            random,
            planned: Vec::new(),
            requester: Side::Active,
            request_at_ns: now_ns,
            answer_at_ns: now_ns,
            owed: None,
            reads: 0,
            cnps: Vec::new(),
            congested,
        }
    }

    /// Plans as much as the budget allows, and puts it into the connection's queue.
    pub(super) fn run(mut self, budget: &mut Budget) {
        let start_ns = self.connection.now_ns;
        let available = budget.0;
        let sides = match self.random.below(10) {
            0..=5 => &[Side::Active][..],
            6..=7 => &[Side::Passive],
            _ => &Side::BOTH,
        };
        for side in sides {
            self.requester = *side;
            self.request_at_ns = start_ns + self.random.ns(0, 400);
            self.answer_at_ns = self.request_at_ns;
            self.reads = 0;
            if self.congested && *side == Side::Active {
                self.stream(budget);
                continue;
            }
            for _ in 0..=self.random.below(6) {
                self.message(budget);
            }
            self.settle();
        }
        // What was allowed for and not needed is given back.
        budget.0 = available.saturating_sub(u64::try_from(self.planned.len()).unwrap_or(u64::MAX));
        self.planned.sort_by_key(|packet| packet.at_ns);
        self.connection.queue.extend(self.planned);
    }

    /// One long WRITE that meets congestion half way.
    fn stream(&mut self, budget: &mut Budget) {
        let packets = 128;
        let len = packets * self.connection.agreement.mtu.bytes();
        // Every request, an acknowledgement for each that asks for one, a CNP each 55 µs.
        if self.connection.service() == Service::Rc && budget.take(u64::from(packets) + 16 + 64) {
            self.write_or_send(Operation::Write, len, Tail::None);
            self.settle();
        }
    }

    fn len(&mut self) -> u32 {
        if let Some(payload) = self.wishes.payload {
            return payload;
        }
        let mtu = self.connection.agreement.mtu.bytes();
        match self.random.below(100) {
            0..=2 => 0,
            3..=63 => self.random.below(65),
            64..=89 => self.random.below(257),
            90..=95 => self.random.below(mtu + 1),
            96..=98 => mtu + self.random.below(2 * mtu),
            _ => mtu * 3 + self.random.below(6 * mtu),
        }
    }

    /// One message of a kind that the service has, if the budget allows it.
    fn message(&mut self, budget: &mut Budget) {
        let service = self.connection.service();
        let len = self.len();
        let mtu = self.connection.agreement.mtu;
        let packets = u64::from(mtu.packets(len));
        let kind = self.random.below(20);
        match service {
            Service::Ud if budget.take(1) => {
                let tail = if kind < 2 { self.immediate() } else { Tail::None };
                self.write_or_send(Operation::Send, len.min(mtu.bytes()), tail);
            }
            Service::Ud => {}
            Service::Uc if budget.take(packets) => {
                let operation = if kind < 8 { Operation::Send } else { Operation::Write };
                let tail = if kind.is_multiple_of(7) { self.immediate() } else { Tail::None };
                self.write_or_send(operation, len, tail);
            }
            Service::Uc => {}
            _ => match kind {
                0..=3 if self.may_read() && budget.take(1 + packets) => self.read(len),
                4..=5 if self.may_read() && budget.take(2) => self.atomic(kind == 4),
                _ if budget.take(packets + 1 + packets / u64::from(ASK_EVERY)) => {
                    let operation = if kind < 12 { Operation::Send } else { Operation::Write };
                    let tail = match kind {
                        10 | 12 => self.immediate(),
                        11 => Tail::Invalidate(self.random.u32()),
                        _ => Tail::None,
                    };
                    self.write_or_send(operation, len, tail);
                }
                _ => {}
            },
        }
    }

    fn immediate(&mut self) -> Tail {
        Tail::Immediate(self.random.u32())
    }

    fn may_read(&self) -> bool {
        let [active, passive] = &self.connection.ends;
        let responder = if self.requester == Side::Active { passive } else { active };
        self.reads < responder.resources
    }

    fn push(&mut self, at_ns: u64, from: Side, kind: Kind) {
        self.planned.push(Planned { at_ns, from, kind });
    }

    /// When the next request leaves, and the time it takes at the present rate.
    fn paced(&mut self, payload_len: u32) -> u64 {
        let at_ns = self.request_at_ns;
        let due = self.cnps.iter().take_while(|cnp| **cnp <= at_ns).count();
        let cnps: Vec<_> = self.cnps.drain(..due).collect();
        let dcqcn = &self.wishes.dcqcn;
        let rate = &mut self.connection.end(self.requester).rate;
        for cnp in cnps {
            rate.on_cnp(dcqcn, cnp);
        }
        rate.on_timeout(dcqcn, at_ns);
        rate.on_bytes_sent(dcqcn, at_ns, payload_len + HEADERS);
        self.request_at_ns += rate.gap_ns(payload_len + HEADERS);
        at_ns
    }

    /// A SEND or WRITE; `len` is at most one path MTU on UD.
    fn write_or_send(&mut self, operation: Operation, len: u32, tail: Tail) {
        let len = match (operation, self.wishes.payload) {
            (Operation::Send, None) => len.max(SHORTEST_SEND),
            _ => len,
        };
        let service = self.connection.service();
        let reliable = service == Service::Rc;
        let mtu = self.connection.agreement.mtu;
        let count = mtu.packets(len);
        let asks = self.random.once_in(2) || self.wishes.payload.is_some();
        let solicited =
            self.random.once_in(16) && (operation == Operation::Send || tail != Tail::None);
        let responder = self.requester.other();
        for index in 0..count {
            let position = position(index, count);
            let payload_len = (len - index * mtu.bytes()).min(mtu.bytes());
            let mut ext = self.target(operation, position, len);
            match tail {
                Tail::Immediate(value) => ext.imm_dt = Some(ImmDt(value)),
                Tail::Invalidate(key) => ext.ieth = Some(Ieth(RKey(key))),
                Tail::None => {}
            }
            let at_ns = self.paced(payload_len);
            let requester = self.connection.end(self.requester);
            let psn = requester.psn;
            requester.psn = psn.next();
            let last = position.ends();
            let ack_req = reliable && ((last && asks) || index % ASK_EVERY == ASK_EVERY - 1);
            let ce = self.congested && (48..96).contains(&index) && self.random.once_in(3);
            self.push(
                at_ns,
                self.requester,
                Kind::Transport {
                    opcode: opcode(service, operation, position, tail),
                    psn,
                    ack_req,
                    solicited: solicited && last,
                    ce,
                    ext,
                    payload_len: u16::try_from(payload_len).unwrap_or(u16::MAX),
                },
            );
            if ce {
                self.mark(at_ns);
            }
            let receiver = self.connection.end(responder);
            if last {
                receiver.msn = receiver.msn.next();
            }
            let msn = receiver.msn;
            if reliable && (ack_req || last) {
                self.owe(at_ns, psn, msn, ack_req);
            }
        }
    }

    /// What stands behind the BTH of a request's packet.
    fn target(&mut self, operation: Operation, position: Position, dma_len: u32) -> ExtHeaders {
        let mut ext = ExtHeaders::NONE;
        let qkey = self.connection.qkey;
        let src_qp = self.connection.end(self.requester).qpn;
        let responder = self.connection.end(self.requester.other());
        if operation == Operation::Write && position.starts() {
            let va = responder.va + u64::from(self.random.below(1 << 16)) * 64;
            ext.reth = Some(Reth { va, rkey: RKey(responder.rkey), dma_len });
        }
        if self.connection.service() == Service::Ud {
            ext.deth = Some(Deth { qkey, resv8: 0, src_qp });
        }
        ext
    }

    /// A marked packet came: the responder may notify its sender.
    fn mark(&mut self, at_ns: u64) {
        let responder = self.requester.other();
        let marks = &mut self.connection.end(responder).marks;
        if marks.on_packet(&self.wishes.dcqcn, at_ns, true) {
            let sent_ns = at_ns + 1_500;
            self.push(sent_ns, responder, Kind::Cnp);
            self.cnps.push(sent_ns + ROUND_TRIP_NS / 2);
        }
    }

    /// How long after a request its answer is seen, at the least: the tap is beside the passive
    /// end.
    fn turn(&self) -> u64 {
        match self.requester {
            Side::Active => 1_200,
            Side::Passive => ROUND_TRIP_NS,
        }
    }

    fn answered(&mut self, at_ns: u64) -> u64 {
        at_ns + self.random.ns(self.turn(), 600)
    }

    /// The responder owes an acknowledgement. One that is about to leave may take this request
    /// along; one that nobody has asked for waits for the end of the burst.
    fn owe(&mut self, at_ns: u64, psn: Psn, msn: Msn, asked: bool) {
        let mut due_ns = if asked { self.answered(at_ns) } else { u64::MAX };
        match self.owed {
            Some(Owed { due_ns: u64::MAX, .. }) | None => {}
            Some(owed) if asked && at_ns + self.turn() <= owed.due_ns => due_ns = owed.due_ns,
            Some(_) => self.pay(),
        }
        self.owed = Some(Owed { due_ns, psn, msn });
    }

    /// Sends the acknowledgement that is owed and was asked for.
    fn pay(&mut self) {
        let Some(owed) = self.owed.take() else { return };
        let at_ns = self.after(owed.due_ns, 0);
        let syndrome = self.syndrome();
        let aeth = Some(Aeth { syndrome, msn: owed.msn });
        let ext = ExtHeaders { aeth, ..ExtHeaders::NONE };
        self.answer(at_ns, Opcode::RC_ACKNOWLEDGE, owed.psn, ext, 0);
    }

    /// The end of a burst: a requester asks for an acknowledgement before it falls silent.
    fn settle(&mut self) {
        if let Some(Owed { due_ns: u64::MAX, psn, msn }) = self.owed {
            let due_ns = self.ask_last();
            self.owed = Some(Owed { due_ns, psn, msn });
        }
        self.pay();
    }

    /// Sets AckReq on the last request; says when it is answered.
    fn ask_last(&mut self) -> u64 {
        let requester = self.requester;
        let mut at_ns = self.request_at_ns;
        let last = self.planned.iter_mut().rev().find(|packet| packet.from == requester);
        if let Some(Planned { at_ns: sent_ns, kind: Kind::Transport { ack_req, .. }, .. }) = last {
            *ack_req = true;
            at_ns = *sent_ns;
        }
        self.answered(at_ns)
    }

    /// When the responder can send, no sooner than `at_ns`; it is then busy with `payload_len`.
    fn after(&mut self, at_ns: u64, payload_len: u32) -> u64 {
        let start_ns = at_ns.max(self.answer_at_ns);
        self.answer_at_ns =
            start_ns + u64::from(payload_len + HEADERS) * 8_000_000_000 / LINE_RATE_BPS;
        start_ns
    }

    fn syndrome(&mut self) -> Syndrome {
        if self.connection.agreement.credits {
            Syndrome::ack(Credits::of_receives(96 + self.random.below(160)))
        } else {
            Syndrome::ACK
        }
    }

    fn answer(&mut self, at_ns: u64, opcode: Opcode, psn: Psn, ext: ExtHeaders, len: u32) {
        self.push(
            at_ns,
            self.requester.other(),
            Kind::Transport {
                opcode,
                psn,
                ack_req: false,
                solicited: false,
                ce: false,
                ext,
                payload_len: u16::try_from(len).unwrap_or(u16::MAX),
            },
        );
    }

    /// A request that is answered by itself; says when it was sent, its PSN and the MSN.
    fn ask(&mut self, opcode: Opcode, ext: ExtHeaders, psns: u32) -> (u64, Psn, Msn) {
        self.reads += 1;
        let at_ns = self.paced(0);
        let requester = self.connection.end(self.requester);
        let psn = requester.psn;
        requester.psn = psn.add(psns);
        self.push(
            at_ns,
            self.requester,
            Kind::Transport {
                opcode,
                psn,
                ack_req: false,
                solicited: false,
                ce: false,
                ext,
                payload_len: 0,
            },
        );
        // Answers leave in order of PSN: an acknowledgement that was asked for goes first. The
        // answer to this request stands for one that was not.
        match self.owed {
            Some(Owed { due_ns: u64::MAX, .. }) => self.owed = None,
            _ => self.pay(),
        }
        let responder = self.connection.end(self.requester.other());
        responder.msn = responder.msn.next();
        (at_ns, psn, responder.msn)
    }

    fn read(&mut self, dma_len: u32) {
        let mtu = self.connection.agreement.mtu;
        let count = mtu.packets(dma_len);
        let responder = self.connection.end(self.requester.other());
        let (va, rkey) = (responder.va, RKey(responder.rkey));
        let va = va + u64::from(self.random.below(1 << 16)) * 64;
        let ext = ExtHeaders { reth: Some(Reth { va, rkey, dma_len }), ..ExtHeaders::NONE };
        let (asked_ns, psn, msn) = self.ask(Opcode::RC_RDMA_READ_REQUEST, ext, count);
        let ready_ns = self.answered(asked_ns);
        for index in 0..count {
            let len = (dma_len - index * mtu.bytes()).min(mtu.bytes());
            let (opcode, headed) = match position(index, count) {
                Position::First => (Opcode::RC_RDMA_READ_RESPONSE_FIRST, true),
                Position::Middle => (Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, false),
                Position::Last => (Opcode::RC_RDMA_READ_RESPONSE_LAST, true),
                Position::Only => (Opcode::RC_RDMA_READ_RESPONSE_ONLY, true),
            };
            let syndrome = self.syndrome();
            let aeth = headed.then_some(Aeth { syndrome, msn });
            let at_ns = self.after(ready_ns, len);
            self.answer(
                at_ns,
                opcode,
                psn.add(index),
                ExtHeaders { aeth, ..ExtHeaders::NONE },
                len,
            );
        }
    }

    fn atomic(&mut self, swap: bool) {
        let responder = self.connection.end(self.requester.other());
        let (va, rkey) = (responder.va, RKey(responder.rkey));
        let va = va + u64::from(self.random.below(1 << 10)) * 8;
        let compare = if swap { self.random.u64() } else { 0 };
        let atomic = AtomicEth { va, rkey, swap_add: self.random.u64(), compare };
        let ext = ExtHeaders { atomic_eth: Some(atomic), ..ExtHeaders::NONE };
        let opcode = if swap { Opcode::RC_COMPARE_SWAP } else { Opcode::RC_FETCH_ADD };
        let (asked_ns, psn, msn) = self.ask(opcode, ext, 1);
        let ready_ns = self.answered(asked_ns);
        let at_ns = self.after(ready_ns, 0);
        let ext = ExtHeaders {
            aeth: Some(Aeth { syndrome: self.syndrome(), msn }),
            atomic_ack_eth: Some(AtomicAckEth { original: self.random.u64() }),
            ..ExtHeaders::NONE
        };
        self.answer(at_ns, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, ext, 0);
    }
}
