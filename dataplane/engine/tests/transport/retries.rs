//! Timeouts, sequence NAKs, RNR NAKs, and their limits (IBTA 9.7.5.2.8, 9.7.6.1, C9-140 ff.).

use roce_codec::ib::RKey;
use roce_engine::{DropReason, Event, HwCounter, QpState, WcStatus, WrOpcode};

use crate::host::Setup;
use crate::lone::Lone;
use crate::packet::Packet;

const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: 0x1000, rkey: RKey(1) };
/// 4.096 µs · 2¹⁴.
const TIMEOUT_NS: u64 = 67_108_864;
/// RNR timer code 12.
const RNR_NS: u64 = 640_000;

fn post(lone: &mut Lone, wr_id: u64, len: u32) {
    let sge = lone.host.sge(0, len);
    lone.host.post(wr_id, WRITE, sge);
}

fn ended(lone: &mut Lone) -> Vec<(u64, WcStatus)> {
    lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

fn psns(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.psn.get()).collect()
}

/// Requester rules 4, 5 and 7: T to 4T after the last progress everything unacknowledged goes
/// again, as it was, and the last packet asks for an answer.
#[test]
fn silence_for_the_timeout_sends_again() {
    let mut lone = Lone::new();
    lone.host.put(0, &[3; 2048]);
    post(&mut lone, 1, 2048);
    post(&mut lone, 2, 1);
    let sent = lone.sends();
    lone.wait(TIMEOUT_NS - 1);
    assert_eq!(lone.sends(), [], "not early");
    lone.wait(4096);
    let again = lone.sends();
    assert_eq!(again, sent);
    assert!(again.last().unwrap().ack_req);
    assert_eq!(lone.count(HwCounter::LocalAckTimeoutErr), 1);
    assert_eq!(lone.count(HwCounter::Retransmissions), 3);
    lone.receives(Packet::ack(5000, 0));
    lone.wait(TIMEOUT_NS - 8192);
    assert_eq!(lone.sends(), [], "progress starts the timer anew");
    lone.wait(3 * 8192);
    assert_eq!(psns(&lone.sends()), [5001, 5002], "only what is not acknowledged");
}

#[test]
fn the_retry_count_bounds_the_timeouts() {
    let mut lone = Lone::with(Setup { retry_cnt: 2, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    post(&mut lone, 2, 1);
    lone.host.post_recv(3, 0, 1);
    for _ in 0..=2 {
        assert_eq!(psns(&lone.sends()), [5000, 5001]);
        lone.wait(TIMEOUT_NS + 4096);
    }
    assert_eq!(lone.sends(), []);
    assert_eq!(ended(&mut lone), [(1, WcStatus::RetryExceeded), (2, WcStatus::WrFlush)]);
    assert_eq!(lone.host.received()[0].status, WcStatus::WrFlush);
    let qp = lone.host.qp;
    let failed = Event::RequestFailed { qp, status: WcStatus::RetryExceeded };
    assert_eq!(lone.host.events(), [failed]);
    assert_eq!(lone.count(HwCounter::RetryExceededErr), 1);
    assert_eq!(lone.state(), QpState::Error);
    assert_eq!(lone.host.engine.poll_timeout(), None);
}

#[test]
fn progress_gives_all_retries_back() {
    let mut lone = Lone::with(Setup { retry_cnt: 1, ..Setup::DEFAULT });
    post(&mut lone, 1, 4096);
    for psn in 5000..5004 {
        lone.sends();
        lone.wait(TIMEOUT_NS + 4096);
        assert_eq!(lone.sends()[0].psn.get(), psn);
        lone.receives(Packet::ack(psn, 0));
    }
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
}

#[test]
fn no_timeout_waits_for_ever() {
    let mut lone = Lone::with(Setup { timeout: 0, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    lone.sends();
    assert_eq!(lone.host.engine.poll_timeout(), None);
    lone.wait(1 << 50);
    assert_eq!(lone.sends(), []);
}

/// Case 39: everything before the PSN of a sequence NAK is acknowledged, the rest goes again.
#[test]
fn a_sequence_nak_acknowledges_and_sends_again() {
    let mut lone = Lone::new();
    for wr_id in 0..4 {
        post(&mut lone, wr_id, 1);
    }
    lone.sends();
    lone.receives(Packet::answer(5002, 0x60, 2));
    assert_eq!(ended(&mut lone), [(0, WcStatus::Success), (1, WcStatus::Success)]);
    assert_eq!(psns(&lone.sends()), [5002, 5003]);
    assert_eq!(lone.count(HwCounter::PacketSeqErr), 1);
    lone.receives(Packet::answer(5002, 0x60, 2));
    assert_eq!(lone.sends(), [], "the same NAK again, from the same gap");
    assert_eq!(lone.dropped(DropReason::RepeatedNak), 1);
    lone.receives(Packet::answer(5003, 0x60, 3));
    assert_eq!(psns(&lone.sends()), [5003], "a new gap");
}

#[test]
fn sequence_naks_use_up_retries_too() {
    let mut lone = Lone::with(Setup { retry_cnt: 1, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    lone.sends();
    lone.receives(Packet::answer(5000, 0x60, 0));
    assert_eq!(psns(&lone.sends()), [5000]);
    lone.wait(TIMEOUT_NS + 4096);
    assert_eq!(ended(&mut lone), [(1, WcStatus::RetryExceeded)]);
}

/// Requester rule 5: only progress gives retries back, and a NAK that acknowledges nothing is none.
#[test]
fn a_nak_without_progress_gives_no_retry_back() {
    let mut lone = Lone::with(Setup { retry_cnt: 1, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    lone.sends();
    lone.wait(TIMEOUT_NS + 4096);
    assert_eq!(psns(&lone.sends()), [5000], "the one retry");
    lone.receives(Packet::answer(5000, 0x60, 0));
    assert_eq!(ended(&mut lone), [(1, WcStatus::RetryExceeded)]);
}

/// A NAK that was under way when the timer went off tells nothing new: the retransmission has not
/// even begun.
#[test]
fn a_nak_before_the_retransmission_begins_costs_nothing() {
    let mut lone = Lone::with(Setup { retry_cnt: 1, ..Setup::DEFAULT });
    post(&mut lone, 1, 2048);
    lone.sends();
    lone.wait(TIMEOUT_NS + 4096);
    lone.receives(Packet::answer(5000, 0x60, 0));
    assert_eq!(lone.dropped(DropReason::RepeatedNak), 1);
    assert_eq!(psns(&lone.sends()), [5000, 5001]);
    assert_eq!(lone.state(), QpState::Rts);
}

/// Requester rule 4: what was on its way goes again, and its last packet asks for an answer,
/// although the message goes on behind it.
#[test]
fn the_last_packet_sent_again_asks_for_an_answer() {
    let mut lone = Lone::new();
    post(&mut lone, 1, 5 * 1024);
    for psn in [5000, 5001] {
        assert_eq!(lone.sends_one().map(|packet| packet.psn.get()), Some(psn));
    }
    lone.receives(Packet::answer(5000, 0x60, 0));
    let again = lone.sends();
    assert_eq!(psns(&again), [5000, 5001, 5002, 5003, 5004]);
    let asks: Vec<_> = again.iter().map(|packet| packet.ack_req).collect();
    assert_eq!(asks, [false, true, false, false, true]);
}

/// An ACK of what is being sent again: the rest of the pass starts behind it.
#[test]
fn an_ack_overtakes_the_retransmission() {
    let mut lone = Lone::new();
    post(&mut lone, 1, 5 * 1024);
    lone.sends();
    lone.receives(Packet::answer(5000, 0x60, 0));
    assert_eq!(lone.sends_one().unwrap().psn.get(), 5000);
    lone.receives(Packet::ack(5002, 0));
    assert_eq!(psns(&lone.sends()), [5003, 5004]);
}

/// Case 43: the wait comes from the table. Requester rule 5: the timer stops meanwhile.
#[test]
fn an_rnr_nak_waits_and_sends_again() {
    for (code, wait_ns) in [(0, 655_360_000), (1, 10_000), (12, RNR_NS), (31, 491_520_000)] {
        let mut lone = Lone::new();
        post(&mut lone, 1, 1);
        post(&mut lone, 2, 1);
        lone.sends();
        lone.receives(Packet::answer(5000, 0x20 | code, 0));
        lone.wait(wait_ns - 4096);
        assert_eq!(lone.sends(), [], "code {code}: early");
        lone.wait(2 * 4096);
        assert_eq!(psns(&lone.sends()), [5000, 5001], "code {code}");
        assert_eq!(lone.count(HwCounter::LocalAckTimeoutErr), 0);
        lone.receives(Packet::ack(5001, 2));
        assert_eq!(ended(&mut lone).len(), 2);
    }
}

#[test]
fn the_rnr_retry_count_bounds_the_waits() {
    let mut lone = Lone::with(Setup { rnr_retry: 2, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    for _ in 0..2 {
        lone.sends();
        lone.receives(Packet::answer(5000, 0x2c, 0));
        lone.wait(RNR_NS + 4096);
    }
    assert_eq!(psns(&lone.sends()), [5000]);
    lone.receives(Packet::answer(5000, 0x2c, 0));
    assert_eq!(ended(&mut lone), [(1, WcStatus::RnrRetryExceeded)]);
    assert_eq!(lone.count(HwCounter::RnrNakRetryErr), 1);
    assert_eq!(lone.state(), QpState::Error);
}

/// Case 46: seven is for ever.
#[test]
fn seven_rnr_retries_are_without_end() {
    let mut lone = Lone::with(Setup { retry_cnt: 0, ..Setup::DEFAULT });
    post(&mut lone, 1, 1);
    for _ in 0..1000 {
        assert_eq!(psns(&lone.sends()), [5000]);
        lone.receives(Packet::answer(5000, 0x2c, 0));
        lone.wait(RNR_NS + 4096);
    }
    lone.sends();
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
}

/// During an RNR wait, further NAKs change nothing: not the timer, even where there is no other,
/// and not the retries.
#[test]
fn naks_during_an_rnr_wait_change_nothing() {
    for timeout in [0, 14] {
        let mut lone = Lone::with(Setup { timeout, retry_cnt: 0, ..Setup::DEFAULT });
        post(&mut lone, 1, 1);
        post(&mut lone, 2, 1);
        lone.sends();
        lone.receives(Packet::answer(5000, 0x2c, 0));
        lone.receives(Packet::answer(5000, 0x2c, 0));
        lone.receives(Packet::answer(5000, 0x60, 0));
        assert_eq!(lone.dropped(DropReason::RepeatedNak), 2);
        assert_eq!(lone.sends(), []);
        lone.wait(RNR_NS + 4096);
        assert_eq!(psns(&lone.sends()), [5000, 5001], "timeout code {timeout}");
        assert_eq!(lone.state(), QpState::Rts);
    }
}

/// The NAK was a stray: the request is executed, the wait is over.
#[test]
fn an_ack_ends_an_rnr_wait() {
    let mut lone = Lone::new();
    post(&mut lone, 1, 1);
    post(&mut lone, 2, 1);
    lone.sends();
    lone.receives(Packet::answer(5000, 0x20, 0));
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(psns(&lone.sends()), [5001]);
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
}

/// An RNR NAK acknowledges what is before it; a fatal one during the wait is final.
#[test]
fn a_fatal_nak_ends_an_rnr_wait() {
    let mut lone = Lone::new();
    for wr_id in 1..=3 {
        post(&mut lone, wr_id, 1);
    }
    lone.sends();
    lone.receives(Packet::answer(5001, 0x2c, 1));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
    lone.receives(Packet::answer(5001, 0x61, 1));
    let expect = [(2, WcStatus::RemoteInvalidRequest), (3, WcStatus::WrFlush)];
    assert_eq!(ended(&mut lone), expect);
    assert_eq!(lone.host.engine.poll_timeout(), None);
    lone.wait(1 << 40);
    assert_eq!(lone.sends(), []);
}
