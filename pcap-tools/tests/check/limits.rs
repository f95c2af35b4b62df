//! What a requester may have under way: READs up to what was agreed, SENDs up to the credits. The
//! exchange is a real one, its limits changed; what follows it is made from its packets.

use roce_codec::cm::Message;
use roce_codec::ib::{Aeth, Credits, Msn, NakCode, Opcode, Psn, Syndrome};
use roce_pcap::check::{Finding, Rule, Verdict};

use crate::cm::message;
use crate::faults::{Parts, frame};
use crate::support::{Owned, failures, judge, load_own};

const STEP_NS: u64 = 100_000;

/// The server's requests to the client, in the connection of rping.
struct Talk {
    /// REQ, REP, RTU.
    exchange: Vec<Owned>,
    read: Owned,
    read_answer: Owned,
    send: Owned,
    ack: Owned,
    first: Psn,
    start_ns: u64,
}

impl Talk {
    fn new() -> Self {
        let packets = load_own("rxe-cm");
        let agreed = |packet: &Owned| {
            let mut parts = Parts::of(packet).unwrap();
            message(&mut parts, |m| match m {
                Message::Req(req) => (req.responder_resources, req.initiator_depth) = (4, 4),
                Message::Rep(rep) => {
                    (rep.responder_resources, rep.initiator_depth) = (4, 4);
                    rep.end_to_end_flow_control = true;
                }
                _ => {}
            });
            parts.emit(packet)
        };
        let exchange: Vec<_> = packets[..3].iter().map(agreed).collect();
        let server = frame(&packets[1]).unwrap().src();
        let find = |opcode: Opcode, from_server: bool| {
            let is = |packet: &&Owned| {
                frame(packet)
                    .is_some_and(|f| f.opcode() == opcode && (f.src() == server) == from_server)
            };
            packets[3..64].iter().find(is).unwrap().clone()
        };
        let read = find(Opcode::RC_RDMA_READ_REQUEST, true);
        Self {
            exchange,
            first: frame(&read).unwrap().psn(),
            read,
            read_answer: find(Opcode::RC_RDMA_READ_RESPONSE_ONLY, false),
            send: find(Opcode::RC_SEND_ONLY, true),
            ack: find(Opcode::RC_ACKNOWLEDGE, false),
            start_ns: packets[3].timestamp_ns.unwrap(),
        }
    }

    fn emit(&self, like: &Owned, number: u32, change: impl FnOnce(&mut Parts)) -> Owned {
        let mut parts = Parts::of(like).unwrap();
        parts.builder.bth.psn = self.first.add(number);
        change(&mut parts);
        parts.emit(like)
    }

    fn ask(&self, number: u32) -> Owned {
        self.emit(&self.read, number, |p| p.builder.ext.reth.as_mut().unwrap().dma_len = 64)
    }

    fn tell(&self, number: u32) -> Owned {
        self.emit(&self.read_answer, number, |p| {
            p.builder.ext.aeth.as_mut().unwrap().msn = Msn::new(number + 1);
            p.resize(64);
        })
    }

    fn say(&self, number: u32) -> Owned {
        self.emit(&self.send, number, |_| {})
    }

    /// `receives` of the responder are left.
    fn acknowledge(&self, number: u32, receives: Option<u32>) -> Owned {
        let credits = receives.map_or(Credits::NONE, Credits::of_receives);
        self.acknowledge_with(number, number + 1, Syndrome::ack(credits))
    }

    fn acknowledge_with(&self, number: u32, msn: u32, syndrome: Syndrome) -> Owned {
        self.emit(&self.ack, number, |p| {
            p.builder.ext.aeth = Some(Aeth { syndrome, msn: Msn::new(msn) });
        })
    }

    /// The exchange and what follows, a step each.
    fn with(&self, talk: impl IntoIterator<Item = Owned>) -> Vec<Owned> {
        let mut packets = self.exchange.clone();
        for (at, packet) in (0..).zip(talk) {
            packets.push(Owned { timestamp_ns: Some(self.start_ns + at * STEP_NS), ..packet });
        }
        packets
    }

    /// READs, four of them under way; behind answer number `extra` comes one more.
    fn reads(&self, extra: Option<u32>) -> Vec<Owned> {
        let mut talk: Vec<Owned> = (0..4).map(|number| self.ask(number)).collect();
        for number in 0..40 {
            let [answer, next] = [self.tell(number), self.ask(number + 4)];
            talk.extend(if extra == Some(number) { [next, answer] } else { [answer, next] });
        }
        talk
    }

    /// SENDs, two receives beyond the last acknowledged one; at `extra` two more come too early.
    fn sends(&self, extra: Option<u32>, receives: Option<u32>) -> Vec<Owned> {
        let mut talk = vec![self.say(0), self.acknowledge(0, receives), self.say(1), self.say(2)];
        for number in 1..40 {
            let ack = self.acknowledge(number, receives);
            if extra == Some(number) {
                talk.extend([self.say(number + 2), self.say(number + 3), ack]);
            } else if extra == number.checked_sub(1) && extra.is_some() {
                talk.push(ack);
            } else {
                talk.extend([ack, self.say(number + 2)]);
            }
        }
        talk
    }
}

fn verdicts(packets: &[Owned], rule: Rule) -> Vec<(Verdict, u64)> {
    let (_, findings) = judge(packets);
    let others: Vec<&Finding> =
        failures(&findings).into_iter().filter(|f| f.rule != rule).collect();
    assert_eq!(others, Vec::<&Finding>::new());
    let of_rule = findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(|finding| (finding.verdict, finding.packet)).collect()
}

#[test]
fn a_read_too_many_is_found() {
    let talk = Talk::new();
    assert_eq!(verdicts(&talk.with(talk.reads(None)), Rule::RcReadLimit), []);
    for extra in [4, 17, 33] {
        let packets = talk.with(talk.reads(Some(extra)));
        // Three of the exchange, four at first, two a step.
        let place = 3 + 4 + 2 * u64::from(extra) + 1;
        assert_eq!(verdicts(&packets, Rule::RcReadLimit), [(Verdict::Fail, place)]);
        // Late by less than the clocks of two mirrors may differ.
        let mut skewed = packets.clone();
        for packet in &mut skewed[3..] {
            let since = packet.timestamp_ns.unwrap() - talk.start_ns;
            packet.timestamp_ns = Some(talk.start_ns + since / 10);
        }
        assert_eq!(verdicts(&skewed, Rule::RcReadLimit), [(Verdict::Unknown, place)]);
    }
}

/// An answer that the tap has missed looks the same as a READ too many.
#[test]
fn a_read_answer_that_was_missed_is_no_fault() {
    let talk = Talk::new();
    let packets = talk.with(talk.reads(None));
    for at in (7..packets.len()).step_by(2) {
        let mut packets = packets.clone();
        packets.remove(at);
        let found = verdicts(&packets, Rule::RcReadLimit);
        assert!(found.iter().all(|(verdict, _)| *verdict == Verdict::Unknown), "{at}: {found:?}");
    }
}

#[test]
fn a_refusal_proves_a_read_too_many() {
    let talk = Talk::new();
    let mut packets: Vec<Owned> = (0..5).map(|number| talk.ask(number)).collect();
    packets.extend((0..4).map(|number| talk.tell(number)));
    let nak = Syndrome::nak(NakCode::InvalidRequest);
    packets.insert(5, talk.acknowledge_with(4, 0, nak));
    let found = verdicts(&talk.with(packets), Rule::RcReadLimit);
    assert_eq!(found, [(Verdict::Fail, 8)]);
}

/// Sent again, a READ takes no second slot.
#[test]
fn reads_sent_again_are_no_more_reads() {
    let talk = Talk::new();
    let mut packets = talk.reads(None);
    for at in [12, 30, 60] {
        let again = packets[at - 1].clone();
        packets.insert(at + 1, again);
    }
    assert_eq!(verdicts(&talk.with(packets), Rule::RcReadLimit), []);
}

#[test]
fn sends_beyond_the_credits_are_found() {
    let talk = Talk::new();
    assert_eq!(verdicts(&talk.with(talk.sends(None, Some(2))), Rule::RcCredit), []);
    assert_eq!(verdicts(&talk.with(talk.sends(Some(9), None)), Rule::RcCredit), []);
    assert_eq!(verdicts(&talk.with(talk.sends(Some(9), Some(8))), Rule::RcCredit), []);
    for extra in [3, 17, 35] {
        let packets = talk.with(talk.sends(Some(extra), Some(2)));
        // The exchange, four at first, two a step: the second of those that are early.
        let place = 3 + 4 + 2 * (u64::from(extra) - 1) + 2;
        assert_eq!(verdicts(&packets, Rule::RcCredit), [(Verdict::Fail, place)]);
        // The responder has receives again: the tap may have missed that it said so before.
        let ack = usize::try_from(place).unwrap();
        let mut posted = packets.clone();
        let mut later = talk.acknowledge(extra, Some(16));
        later.timestamp_ns = posted[ack].timestamp_ns;
        posted[ack] = later;
        assert_eq!(verdicts(&posted, Rule::RcCredit), [(Verdict::Unknown, place)]);
    }
}

/// One that did not say it heeds credits need not.
#[test]
fn credits_bind_those_who_heed_them() {
    let mut talk = Talk::new();
    let mut rep = Parts::of(&talk.exchange[1]).unwrap();
    message(&mut rep, |m| {
        if let Message::Rep(rep) = m {
            rep.end_to_end_flow_control = false;
        }
    });
    talk.exchange[1] = rep.emit(&talk.exchange[1]);
    assert_eq!(verdicts(&talk.with(talk.sends(Some(9), Some(2))), Rule::RcCredit), []);
}
