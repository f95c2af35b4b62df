//! End-to-end credits at the requester (IBTA 9.7.7.2, transport rule 6).

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{DropReason, HwCounter, WcStatus, WrOpcode};

use crate::host::{Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: 0x9000, rkey: RKey(7) };
const WRITE_IMM: WrOpcode = WrOpcode::RdmaWriteWithImm { va: 0x9000, rkey: RKey(7), imm: 1 };
const READ: WrOpcode = WrOpcode::RdmaRead { va: 0x9000, rkey: RKey(7) };

/// A requester whose first message, at PSN 5000, was acknowledged with this syndrome.
fn told(syndrome: u8) -> Lone {
    let mut lone = Lone::new();
    post(&mut lone, &[(WRITE, 1)]);
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(lone.answers(Packet::answer(5000, syndrome, 1)), []);
    lone.host.sent();
    lone
}

fn post(lone: &mut Lone, requests: &[(WrOpcode, u32)]) {
    for (opcode, len) in requests {
        let sge = lone.host.sge(0, *len);
        lone.host.post(0, *opcode, sge);
    }
}

fn psns(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.psn.get()).collect()
}

/// Two receives: two messages, and one packet more that asks for news.
#[test]
fn as_many_messages_as_credits_and_one_packet() {
    let mut lone = told(0x02);
    post(&mut lone, &[(WrOpcode::Send, 1); 6]);
    let sends = lone.sends();
    assert_eq!(psns(&sends), [5001, 5002, 5003]);
    assert!(sends[2].ack_req);
    // Relative to the MSN beside them: three done and two receives are two more, and one.
    assert_eq!(psns(&lone.answers(Packet::answer(5002, 0x02, 3))), [5004, 5005]);
    assert_eq!(lone.sends(), []);
    // The one beyond arrived: the next one may try.
    assert_eq!(psns(&lone.answers(Packet::answer(5005, 0x00, 6))), [5006]);
}

/// Before the peer has said anything, and when it states none, nothing is held back.
#[test]
fn no_statement_is_no_limit() {
    let mut lone = Lone::new();
    post(&mut lone, &[(WrOpcode::Send, 1); 5]);
    assert_eq!(lone.sends().len(), 5);
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 1); 5]);
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(lone.answers(Packet::answer(5001, 0x1f, 2)).len(), 4);
}

/// Of a long SEND, the first packet; the rest when it has found its receive, which was the last.
#[test]
fn a_long_send_waits_behind_its_first_packet() {
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 3000)]);
    let sends = lone.sends();
    assert_eq!((psns(&sends), sends[0].ack_req), (vec![5001], true));
    assert_eq!(psns(&lone.answers(Packet::answer(5001, 0x00, 1))), [5002, 5003]);
    // Not ready, and again, after the wait: still one packet.
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 3000)]);
    lone.sends();
    assert_eq!(lone.answers(Packet::answer(5001, 0x2c, 1)), []);
    lone.wait(700_000);
    assert_eq!(psns(&lone.sends()), [5001]);
}

/// Only what takes a receive is held back; but order is order.
#[test]
fn writes_and_reads_need_no_credits() {
    let mut lone = told(0x00);
    post(&mut lone, &[(WRITE, 2000), (READ, 1), (WrOpcode::Send, 1), (WRITE, 1), (WRITE_IMM, 1)]);
    post(&mut lone, &[(WRITE, 1)]);
    assert_eq!(psns(&lone.sends()), [5001, 5002, 5003, 5004, 5005], "the last two behind a probe");
}

/// A WRITE with immediate needs its receive at its end.
#[test]
fn a_write_with_immediate_waits_before_its_last_packet() {
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 1), (WRITE_IMM, 3000)]);
    assert_eq!(psns(&lone.sends()), [5001, 5002, 5003]);
    assert_eq!(psns(&lone.answers(Packet::answer(5003, 0x00, 2))), [5004]);
}

/// READ answers carry credits, too.
#[test]
fn credits_of_a_read_answer() {
    let mut lone = Lone::new();
    post(&mut lone, &[(READ, 1)]);
    lone.sends();
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[1]));
    post(&mut lone, &[(WrOpcode::Send, 1); 3]);
    assert_eq!(lone.sends().len(), 1);
}

/// An acknowledgement of nothing new may say that there are new receives; it never takes back.
#[test]
fn news_of_receives_without_an_acknowledgement() {
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 1); 4]);
    assert_eq!(lone.sends().len(), 1);
    assert_eq!(psns(&lone.answers(Packet::answer(5000, 0x03, 1))), [5002, 5003, 5004]);
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 0);
    for (psn, syndrome) in [(5000, 0x03), (5000, 0x01), (4999, 0x1f)] {
        assert_eq!(lone.answers(Packet::answer(psn, syndrome, 1)), []);
    }
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 3);
}

/// An MSN that does not count our messages: it costs speed, and nothing else.
#[test]
fn a_strange_msn() {
    let mut lone = told(0x00);
    post(&mut lone, &[(WrOpcode::Send, 1); 3]);
    for psn in 5001..5004 {
        assert_eq!(psns(&lone.sends()), [psn]);
        lone.receives(Packet::answer(psn, 0x05, 0xff_0000));
    }
    assert_eq!(lone.host.sent().len(), 3);
}

/// Two engines: with a receive for each message there is no RNR NAK; where receives run out, each
/// wait costs one packet.
#[test]
fn credits_spare_packets() {
    let mut pair = Pair::new(Setup::DEFAULT);
    for wr_id in 0..40u64 {
        let sge = pair.hosts[0].sge(0, 10);
        let rkey = pair.hosts[1].mr.rkey;
        let opcode = if wr_id == 0 { WrOpcode::RdmaWrite { va: VA, rkey } } else { WrOpcode::Send };
        pair.hosts[0].post(wr_id, opcode, sge);
        if wr_id == 0 {
            // It hears of the receives that there are: none.
            pair.run();
            assert_eq!(pair.hosts[0].sent().len(), 1);
        }
    }
    pair.run_for(100_000);
    let before = pair.log[0].len();
    assert_eq!(before, 2, "the WRITE, and one SEND that nobody has a receive for");
    for wr_id in 0..39 {
        pair.hosts[1].post_recv(wr_id, 4096, 10);
    }
    pair.run();
    let sent = pair.hosts[0].sent();
    assert!(sent.len() == 39 && sent.iter().all(|wc| wc.status == WcStatus::Success));
    assert_eq!(pair.hosts[1].engine.counters().event(HwCounter::SentRnrNak), 1);
    assert_eq!(pair.log[0].len(), before + 39, "one sent again, none too many");
}
