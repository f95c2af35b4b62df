//! Requests and answers made by hand, and any others.

use roce_codec::ib::{
    Aeth, Bth, ExtHeaders, Msn, Opcode, Psn, Qpn, RKey, Reth, RnrTimer, Syndrome,
};
use roce_codec::ib::{AtomicAckEth, AtomicEth, Feth};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};
use roce_pcap::capture::{LinkType, Packet};
use roce_pcap::message::{Cause, Ending, Message, Recovery, Tracker};
use roce_pcap::observed::Observed;

/// Follows packets as they are made; 10 µs pass between two.
#[derive(Default)]
struct Wire {
    tracker: Tracker,
    number: u64,
    messages: Vec<Message>,
    recoveries: Vec<Recovery>,
}

impl Wire {
    fn send(&mut self, forward: bool, opcode: Opcode, psn: u32, ext: ExtHeaders, payload: usize) {
        let (src, dst, qp) = if forward { (1, 2, 0x52) } else { (2, 1, 0x21) };
        let mac = |host| MacAddr([2, 0, 0, 0, 0, host]);
        let ethernet = Ethernet::new(mac(dst), mac(src), EtherType::IPV4);
        let ip = Ip::V4(Ipv4::new([10, 0, 0, src].into(), [10, 0, 0, dst].into()));
        let bth = Bth::new(opcode, Qpn::new(qp), Psn::new(psn));
        let mut builder = FrameBuilder::new(Some(ethernet), ip, 0xc000, bth);
        builder.ext = ext;
        builder.set_payload_len(payload).unwrap();
        let (bytes, mut out) = (vec![0; payload], vec![0; 200 + payload]);
        let len = builder.emit::<Crc>([&bytes, b""], &mut out).unwrap();
        self.number += 1;
        let packet = Packet {
            number: self.number,
            timestamp_ns: Some(self.number * 10_000),
            ..Packet::new(LinkType::ETHERNET, &out[..len])
        };
        let tracked = self.tracker.packet(&Observed::new(&packet));
        self.messages.extend_from_slice(tracked.messages);
        self.recoveries.extend_from_slice(tracked.recoveries);
    }

    fn request(&mut self, opcode: Opcode, psn: u32, payload: usize) {
        self.send(true, opcode, psn, ExtHeaders::NONE, payload);
    }

    fn read(&mut self, psn: u32, dma_len: u32) {
        let reth = Some(Reth { va: 0, rkey: RKey(1), dma_len });
        let ext = ExtHeaders { reth, ..ExtHeaders::NONE };
        self.send(true, Opcode::RC_RDMA_READ_REQUEST, psn, ext, 0);
    }

    fn answer(&mut self, psn: u32, syndrome: Syndrome) {
        let aeth = Some(Aeth { syndrome, msn: Msn::new(0) });
        let ext = ExtHeaders { aeth, ..ExtHeaders::NONE };
        self.send(false, Opcode::RC_ACKNOWLEDGE, psn, ext, 0);
    }

    fn response(&mut self, opcode: Opcode, psn: u32, payload: usize) {
        let aeth = Some(Aeth { syndrome: Syndrome::ACK, msn: Msn::new(0) });
        self.send(false, opcode, psn, ExtHeaders { aeth, ..ExtHeaders::NONE }, payload);
    }

    fn finish(mut self) -> (Vec<Message>, Vec<Recovery>) {
        let tracked = self.tracker.finish();
        self.messages.extend_from_slice(tracked.messages);
        self.recoveries.extend_from_slice(tracked.recoveries);
        (self.messages, self.recoveries)
    }
}

/// Operations and lengths as they ended: first PSN, last PSN, bytes, packets, whole, ending.
fn told(messages: &[Message]) -> Vec<(u32, u32, u64, u32, bool, Ending)> {
    let row = |it: &Message| {
        (it.first_psn.get(), it.last_psn.get(), it.bytes, it.packets, it.whole, it.ending)
    };
    messages.iter().map(row).collect()
}

const DONE: Ending = Ending::Acknowledged;

#[test]
fn a_message_over_the_wrap_of_psns() {
    let mut wire = Wire::default();
    wire.request(Opcode::RC_SEND_FIRST, 0xff_fffe, 1024);
    wire.request(Opcode::RC_SEND_MIDDLE, 0xff_ffff, 1024);
    wire.request(Opcode::RC_SEND_LAST, 0, 10);
    wire.request(Opcode::RC_SEND_ONLY, 1, 7);
    wire.answer(0, Syndrome::ACK);
    wire.answer(1, Syndrome::ACK);
    let (messages, recoveries) = wire.finish();
    assert_eq!(told(&messages), [(0xff_fffe, 0, 2058, 3, true, DONE), (1, 1, 7, 1, true, DONE)]);
    assert_eq!(messages[0].latency_ns(), Some(40_000));
    assert_eq!(recoveries, []);
}

/// An ACK does not stand for a READ; the READ's last response does, and acknowledges what was
/// before it.
#[test]
fn reads_are_completed_by_their_own_answers() {
    let mut wire = Wire::default();
    wire.request(Opcode::RC_SEND_ONLY, 10, 8);
    wire.read(11, 2500);
    wire.request(Opcode::RC_SEND_ONLY, 14, 8);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 11, 1024);
    assert_eq!(told(&wire.messages), [(10, 10, 8, 1, true, DONE)]);
    wire.send(false, Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 12, ExtHeaders::NONE, 1024);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 13, 452);
    wire.answer(14, Syndrome::ACK);
    let (messages, recoveries) = wire.finish();
    assert_eq!(told(&messages[1..]), [(11, 13, 2500, 1, true, DONE), (14, 14, 8, 1, true, DONE)]);
    assert_eq!(recoveries, []);
}

/// A READ response is lost: the next one shows it, the READ is asked for again from there.
#[test]
fn a_read_response_that_is_lost() {
    let mut wire = Wire::default();
    wire.read(11, 3000);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 11, 1024);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 13, 952);
    wire.read(12, 1976);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 12, 1024);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 13, 952);
    let (messages, recoveries) = wire.finish();
    assert_eq!(told(&messages), [(11, 13, 3000, 1, true, DONE)]);
    assert_eq!(messages[0].retransmitted, 1);
    assert_eq!(messages[0].latency_ns(), Some(50_000), "by the second time");
    let [loss] = recoveries[..] else { panic!("{recoveries:?}") };
    assert_eq!((loss.cause, loss.psn.get()), (Cause::ImpliedNak, 12));
    assert_eq!((loss.detected_packet, loss.resent_packet), (3, Some(4)));
    assert_eq!(loss.recovered_packet, Some(5));
}

/// Responses that come in another order, and are not asked for again, are no loss.
#[test]
fn read_responses_in_another_order() {
    let mut wire = Wire::default();
    wire.read(11, 2000);
    wire.read(13, 2000);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 11, 1024);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 13, 1024);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 12, 976);
    wire.response(Opcode::RC_RDMA_READ_RESPONSE_LAST, 14, 976);
    let (messages, recoveries) = wire.finish();
    assert!(messages.iter().all(|it| it.ending == DONE), "{messages:?}");
    assert_eq!((messages.len(), recoveries.len()), (2, 0));
}

/// The tap is behind the loss: it never sees the first packet the first time.
#[test]
fn a_first_packet_that_comes_late() {
    let mut wire = Wire::default();
    wire.request(Opcode::RC_SEND_ONLY, 1, 8);
    wire.answer(1, Syndrome::ACK);
    wire.request(Opcode::RC_SEND_MIDDLE, 3, 1024);
    wire.request(Opcode::RC_SEND_LAST, 4, 5);
    wire.answer(2, Syndrome(0x60));
    wire.request(Opcode::RC_SEND_FIRST, 2, 1024);
    wire.request(Opcode::RC_SEND_MIDDLE, 3, 1024);
    wire.request(Opcode::RC_SEND_LAST, 4, 5);
    wire.answer(4, Syndrome::ACK);
    let (messages, recoveries) = wire.finish();
    assert_eq!(told(&messages[1..]), [(2, 4, 2053, 3, true, DONE)]);
    let [loss] = recoveries[..] else { panic!("{recoveries:?}") };
    assert_eq!((loss.cause, loss.psn.get(), loss.packets_resent), (Cause::SequenceNak, 2, 3));
}

/// The tap saw the answer, the requester did not.
#[test]
fn an_answer_that_is_lost_behind_the_tap() {
    let mut wire = Wire::default();
    for psn in 1..4 {
        wire.request(Opcode::RC_SEND_ONLY, psn, 8);
        wire.answer(psn, Syndrome::ACK);
    }
    wire.number += 1_000;
    wire.request(Opcode::RC_SEND_ONLY, 3, 8);
    wire.answer(3, Syndrome::ACK);
    let (messages, recoveries) = wire.finish();
    assert_eq!(messages.len(), 3);
    let [loss] = recoveries[..] else { panic!("{recoveries:?}") };
    assert_eq!((loss.cause, loss.recovered_packet), (Cause::AnswerLost, Some(1_008)));
}

#[test]
fn a_receive_that_is_not_posted() {
    let mut wire = Wire::default();
    wire.request(Opcode::RC_SEND_ONLY, 1, 8);
    wire.answer(1, Syndrome::rnr_nak(RnrTimer::new(1)));
    wire.request(Opcode::RC_SEND_ONLY, 1, 8);
    wire.answer(1, Syndrome::rnr_nak(RnrTimer::new(1)));
    wire.request(Opcode::RC_SEND_ONLY, 1, 8);
    wire.answer(1, Syndrome::ACK);
    let (messages, recoveries) = wire.finish();
    assert_eq!((messages[0].rnr_naks, messages[0].ending), (2, DONE));
    let [wait] = recoveries[..] else { panic!("{recoveries:?}") };
    assert_eq!((wait.cause, wait.rounds), (Cause::ReceiverNotReady, 2));
    assert_eq!(wait.time_ns(), Some(40_000));
}

/// The queue pair serves another connection, which starts at the same PSN.
#[test]
fn a_queue_pair_in_use_again() {
    let mut wire = Wire::default();
    for _ in 0..3 {
        for psn in 0..5 {
            wire.request(Opcode::RC_SEND_ONLY, psn, 8);
            wire.answer(psn, Syndrome::ACK);
        }
    }
    let (messages, recoveries) = wire.finish();
    assert_eq!(messages.len(), 15);
    assert!(messages.iter().all(|it| it.ending == DONE && it.retransmitted == 0));
    assert_eq!(recoveries, []);
}

#[test]
fn unreliable_messages_end_with_their_last_packet() {
    let mut wire = Wire::default();
    wire.request(Opcode::UC_SEND_FIRST, 1, 1024);
    wire.request(Opcode::UC_SEND_LAST, 2, 9);
    assert_eq!(told(&wire.messages), [(1, 2, 1033, 2, true, Ending::Unreliable)]);
    wire.request(Opcode::UC_SEND_FIRST, 3, 1024);
    wire.request(Opcode::UC_SEND_ONLY, 5, 9);
    let (messages, recoveries) = wire.finish();
    assert!(!messages[1].whole, "its last packet is missing: {:?}", messages[1]);
    assert_eq!((messages.len(), recoveries.len()), (3, 0));
}

/// Anything at all: nothing panics, and what is remembered ends.
#[test]
fn any_packets_at_all() {
    let opcodes = [0x00, 0x01, 0x02, 0x04, 0x06, 0x07, 0x08, 0x0a, 0x0c, 0x13, 0x14, 0x1c, 0x1d];
    let answers = [0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x11, 0x11, 0x12];
    for seed in 1..40_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from((state >> 11) % below).unwrap()
        };
        let mut wire = Wire::default();
        let (mut requests, mut at) = (0, random(1 << 24));
        for _ in 0..800 {
            at = match random(60) {
                0 => random(1 << 24),
                1..8 => at.wrapping_sub(random(20)) & 0xff_ffff,
                _ => at.wrapping_add(random(3)) & 0xff_ffff,
            };
            let syndrome = Syndrome([0x1f, 0x20, 0x60, 0x61, 0x62, 0x45][random(6) as usize]);
            if random(3) > 0 {
                let opcode = Opcode(opcodes[random(13) as usize]);
                let longest = [100, 5_000, 1 << 31][random(3) as usize];
                let dma_len = random(longest);
                let reth = Some(Reth { va: 0, rkey: RKey(0), dma_len });
                let atomic_eth = Some(AtomicEth { va: 0, rkey: RKey(0), swap_add: 0, compare: 0 });
                let feth = Some(Feth(0));
                let ext = ExtHeaders { reth, atomic_eth, feth, ..ExtHeaders::NONE };
                let payload = if opcode.info().payload { 8 << random(8) } else { 0 };
                requests += 1;
                wire.send(true, opcode, at, ext, payload);
            } else {
                let opcode = Opcode(answers[random(8) as usize]);
                let aeth = Some(Aeth { syndrome, msn: Msn::new(0) });
                let atomic_ack_eth = Some(AtomicAckEth { original: 0 });
                let ext = ExtHeaders { aeth, atomic_ack_eth, ..ExtHeaders::NONE };
                let payload = if opcode.info().payload { 8 << random(8) } else { 0 };
                wire.send(false, opcode, at, ext, payload);
            }
        }
        let (messages, _) = wire.finish();
        assert!(messages.len() <= requests, "seed {seed}");
        assert!(messages.iter().map(|it| u64::from(it.packets)).sum::<u64>() <= requests as u64);
        assert!(!messages.is_empty(), "seed {seed}");
    }
}

/// Nothing is ever answered: messages are given up, the oldest first, and none is lost.
#[test]
fn what_waits_is_bounded() {
    let mut wire = Wire::default();
    for psn in 0..3_000 {
        wire.request(Opcode::RC_SEND_ONLY, psn, 8);
    }
    assert_eq!(wire.messages.len(), 3_000 - 1_024);
    assert!(wire.messages.is_sorted_by_key(|it| it.first_psn.get()));
    let (messages, _) = wire.finish();
    assert_eq!(messages.len(), 3_000);
    assert!(messages.iter().all(|it| it.ending == Ending::AnswersUnseen));
}
