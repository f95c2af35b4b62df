//! Packets that come in another order than they were sent, within one burst and between bursts
//! (IBTA 9.7.5.2.8, C9-113).

use roce_codec::ib::Opcode;
use roce_engine::{DropReason, HwCounter};

use crate::host::VA;
use crate::lone::Lone;
use crate::packet::Packet;

fn write(lone: &Lone, psn: u32, byte: u8) -> Packet {
    let at = VA + u64::from(psn) * 8;
    Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(at, lone.rkey(), 1).payload(&[byte])
}

/// Case 39: the NAK carries the PSN that is missing, and says that all before it came.
#[test]
fn a_gap_is_reported_once_with_the_psn_expected() {
    let mut lone = Lone::new();
    let packets = [100, 102, 103].map(|psn| write(&lone, psn, 1).ask());
    lone.burst(&packets);
    assert_eq!(lone.sends(), [Packet::answer(101, 0x60, 1)]);
    lone.receives(write(&lone, 104, 1).ask());
    assert_eq!(lone.sends(), [], "one NAK a gap");
    assert_eq!(lone.dropped(DropReason::OutOfSequence), 2);
    assert_eq!(lone.count(HwCounter::OutOfSequence), 3);
    assert_eq!(lone.host.word(102 * 8), 0, "nothing behind the gap is executed");

    for psn in 101..=104 {
        lone.receives(write(&lone, psn, 2));
    }
    let packet = write(&lone, 105, 2).ask();
    assert_eq!(lone.answers(packet), [Packet::ack(105, 6)]);
    let packet = write(&lone, 107, 2);
    assert_eq!(lone.answers(packet), [Packet::answer(106, 0x60, 6)], "a second gap, a second NAK");
}

/// The hole fills in the burst that opened it: the packet behind it was dropped all the same, so
/// the peer must hear of that, or it waits for its timer.
#[test]
fn a_swap_within_a_burst_is_still_reported() {
    let mut lone = Lone::new();
    let packets = [write(&lone, 100, 1).ask(), write(&lone, 102, 1).ask(), write(&lone, 101, 1)];
    lone.burst(&packets);
    assert_eq!(lone.sends(), [Packet::answer(102, 0x60, 2)]);
    lone.receives(write(&lone, 103, 1));
    assert_eq!(lone.sends(), [], "that gap is reported");
    let packets = [write(&lone, 102, 1), write(&lone, 103, 1).ask()];
    lone.burst(&packets);
    assert_eq!(lone.sends(), [Packet::ack(103, 4)]);
}

#[test]
fn a_swap_within_a_burst_is_reported_although_an_ack_is_asked_for() {
    let mut lone = Lone::new();
    let packets = [write(&lone, 101, 1).ask(), write(&lone, 100, 1).ask()];
    lone.burst(&packets);
    assert_eq!(lone.sends(), [Packet::answer(101, 0x60, 1)]);
}

/// What was dropped came again before the NAK went out: the NAK would name a PSN that nobody
/// sent. What it would have acknowledged still is.
#[test]
fn a_gap_that_closes_before_the_nak_goes_out_is_acknowledged() {
    let mut lone = Lone::new();
    let packets = [100, 102, 101, 102].map(|psn| {
        let packet = write(&lone, psn, 1);
        if psn == 100 { packet.ask() } else { packet }
    });
    lone.burst(&packets);
    assert_eq!(lone.sends(), [Packet::ack(102, 3)]);
}

/// A READ jumps over its own PSNs; the NAK for what lies behind it waits for its answers.
#[test]
fn a_gap_behind_a_read_is_reported_behind_its_answers() {
    let mut lone = Lone::new();
    let packets = [write(&lone, 103, 1), Packet::read(100, VA, lone.rkey(), 2048)];
    lone.burst(&packets);
    let answers = lone.sends();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[0].opcode, Opcode::RC_RDMA_READ_RESPONSE_FIRST);
    assert_eq!(answers[1].opcode, Opcode::RC_RDMA_READ_RESPONSE_LAST);
    assert_eq!(answers[2], Packet::answer(102, 0x60, 1));
}

/// Transport rule 12: the split between "again" and "ahead" is half of the number space.
#[test]
fn the_number_space_is_split_in_half() {
    let mut lone = Lone::new();
    let behind = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100 + (1 << 23))
        .reth(VA, lone.rkey(), 1)
        .payload(&[1]);
    assert_eq!(lone.answers(behind.clone()), [Packet::ack(99, 0)], "farthest duplicate");
    let ahead = Packet { psn: behind.psn.sub(1), ..behind };
    assert_eq!(lone.answers(ahead), [Packet::answer(100, 0x60, 0)], "farthest gap");
    assert_eq!(lone.host.word(0), 0);
}

/// Transport rule 1: acknowledgements wait behind an unfinished READ, and come in PSN order.
#[test]
fn answers_leave_in_psn_order() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let packets = [
        write(&lone, 100, 1).ask(),
        Packet::read(101, VA, rkey, 2049),
        write(&lone, 104, 1).ask(),
        Packet::fetch_add(105, VA, rkey, 1),
        Packet::read(106, VA, rkey, 0),
        write(&lone, 107, 1).ask(),
    ];
    lone.burst(&packets);
    let answers = lone.sends();
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102, 103, 105, 106, 107]);
    assert_eq!(answers[5], Packet::ack(107, 6));
    assert!(lone.expects(108));
}

/// Transport rule 6: the expected PSN is past the whole READ before any of its answers are out,
/// and what follows it is executed meanwhile.
#[test]
fn requests_behind_a_read_are_executed_before_its_answers_are_out() {
    let mut lone = Lone::new();
    lone.host.put(0, &[7; 4096]);
    lone.receives(Packet::read(100, VA, lone.rkey(), 4096));
    let first = lone.sends_one().unwrap();
    let expect = Packet::response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 100, 1, &[7; 1024]);
    assert_eq!(first, expect);
    assert!(lone.expects(104));
    let at = VA + 8192;
    let packet =
        Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 104).reth(at, lone.rkey(), 3).payload(b"now").ask();
    lone.receives(packet);
    assert_eq!(lone.host.bytes(8192, 3), b"now");
    let psns: Vec<_> = lone.sends().iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102, 103, 104]);
}
