//! What a responder does with requests that it accepts: acknowledgements, receives, message
//! sequence numbers, credits.

use roce_codec::ib::{Opcode, PathMtu};
use roce_engine::{DropReason, Event, HwCounter, QpState, WcOpcode, WcStatus};

use crate::host::{Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;

/// Case 38: a message counts when its last packet has been executed.
#[test]
fn the_msn_counts_messages() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.host.post_recv(1, 0, 4096);
    let first = Packet::new(Opcode::RC_SEND_FIRST, 100).payload(&[1; 1024]).ask();
    assert_eq!(lone.answers(first), [Packet::ack(100, 0)]);
    let middle = Packet::new(Opcode::RC_SEND_MIDDLE, 101).payload(&[2; 1024]).ask();
    assert_eq!(lone.answers(middle), [Packet::ack(101, 0)]);
    let last = Packet::new(Opcode::RC_SEND_LAST, 102).payload(&[3]).ask();
    assert_eq!(lone.answers(last), [Packet::ack(102, 1)]);
    // A READ may count at its start, and an atomic is a message too.
    let read = lone.answers(Packet::read(103, VA, rkey, 1025));
    assert!(read.iter().all(|packet| packet.ext.aeth.unwrap().msn.get() == 2));
    assert_eq!(lone.answers(Packet::fetch_add(105, VA, rkey, 0)).len(), 1);
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 106).reth(VA, rkey, 0).ask();
    assert_eq!(lone.answers(write), [Packet::ack(106, 4)]);
}

/// Acknowledgements are given where they are asked for, one for a burst.
#[test]
fn acknowledgements_are_coalesced() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let write = |psn| Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA, rkey, 0);
    lone.burst(&[write(100), write(101)]);
    assert_eq!(lone.sends(), [], "nobody asked");
    lone.burst(&[write(102).ask(), write(103).ask(), write(104)]);
    assert_eq!(lone.sends(), [Packet::ack(104, 5)], "of everything executed so far");
    assert_eq!(lone.count(HwCounter::SentAcks), 1);
}

#[test]
fn a_send_fills_the_oldest_receive() {
    let mut lone = Lone::new();
    for wr_id in 1..=3 {
        let offset = usize::try_from(wr_id).unwrap() * 4096;
        lone.host.post_recv(wr_id, offset, 4096);
    }
    let only = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(b"one").solicit();
    lone.receives(only);
    let first = Packet::new(Opcode::RC_SEND_FIRST, 101).payload(&[2; 1024]);
    let last = Packet::new(Opcode::RC_SEND_LAST_IMM, 102).payload(&[3; 5]).imm(0xcafe).ask();
    lone.burst(&[first, last]);
    assert_eq!(lone.sends(), [Packet::answer(102, 0x01, 2)], "one receive is left");
    let [one, two] = lone.host.received()[..] else { panic!("two messages") };
    assert_eq!((one.wr_id, one.byte_len, one.imm, one.solicited), (1, 3, None, true));
    assert_eq!((two.wr_id, two.byte_len, two.imm, two.solicited), (2, 1029, Some(0xcafe), false));
    assert_eq!((one.opcode, one.status), (WcOpcode::Recv, WcStatus::Success));
    assert_eq!(lone.host.bytes(4096, 4), b"one\0");
    assert_eq!(lone.host.bytes(8192, 1030), [&[2; 1024][..], &[3; 5], &[0]].concat());
}

/// Case 60: the completion says how many bytes were written; the receive's memory is not used.
#[test]
fn a_write_with_immediate_takes_a_receive_at_its_end() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.host.post_recv(7, 8192, 1);
    let first = Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100)
        .reth(VA, rkey, 1025)
        .payload(&[1; 1024])
        .ask();
    assert_eq!(lone.answers(first), [Packet::answer(100, 0x01, 0)], "not taken yet");
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST_IMM, 101).payload(&[2]).imm(9).ask();
    assert_eq!(lone.answers(last), [Packet::ack(101, 1)]);
    let wc = lone.host.received()[0];
    assert_eq!((wc.wr_id, wc.opcode), (7, WcOpcode::RecvRdmaWithImm));
    assert_eq!((wc.byte_len, wc.imm), (1025, Some(9)));
    assert_eq!(lone.host.bytes(8192, 1), [0]);
}

/// Case 47: the credit code is the receives that are left, by the table.
#[test]
fn credits_say_how_many_receives_are_left() {
    for (receives, code) in [(0, 0), (1, 1), (4, 4), (5, 4), (6, 5), (8, 6), (11, 6), (64, 12)] {
        let mut lone = Lone::new();
        for wr_id in 0..receives {
            lone.host.post_recv(wr_id, 0, 0);
        }
        let rkey = lone.rkey();
        let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 0).ask();
        assert_eq!(lone.answers(write), [Packet::answer(100, code, 1)], "{receives}");
    }
}

/// Transport rule 7: only where a receive is needed; the expected PSN stays; what follows is
/// dropped without a sequence NAK.
#[test]
fn receiver_not_ready() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let send = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(b"x").ask();
    let behind = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 101).reth(VA, rkey, 1).payload(&[1]);
    lone.burst(&[send.clone(), behind.clone(), behind.clone()]);
    assert_eq!(lone.sends(), [Packet::answer(100, 0x2c, 0)]);
    assert_eq!(lone.dropped(DropReason::ReceiverNotReady), 2);
    assert_eq!(lone.answers(behind.clone()), []);
    assert!(lone.expects(100));
    assert_eq!(lone.answers(send.clone()), [Packet::answer(100, 0x2c, 0)], "still not ready");
    lone.host.post_recv(1, 64, 64);
    lone.burst(&[send, behind.ask()]);
    assert_eq!(lone.sends(), [Packet::ack(101, 2)]);
    assert_eq!(lone.count(HwCounter::SentRnrNak), 2);
    assert_eq!(lone.host.bytes(64, 1), b"x");
    assert_eq!(lone.state(), QpState::Rts);
}

/// The NAK says what is executed before it, and carries the timer that was agreed.
#[test]
fn an_rnr_nak_waits_behind_a_read() {
    let mut lone = Lone::with(Setup { rnr_timer: 25, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    lone.burst(&[
        Packet::read(100, VA, rkey, 2048),
        Packet::new(Opcode::RC_SEND_ONLY, 102).payload(b"x"),
    ]);
    let answers = lone.sends();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2], Packet::answer(102, 0x39, 1));
}

/// Transport rule 8: RNR at the Last; it is not executed, what came before stays.
#[test]
fn a_write_with_immediate_that_finds_no_receive() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let first =
        Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 1028).payload(&[1; 1024]);
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST_IMM, 101).payload(&[2; 4]).imm(1).ask();
    lone.burst(&[first, last.clone()]);
    assert_eq!(lone.sends(), [Packet::answer(101, 0x2c, 0)]);
    assert_eq!(lone.host.bytes(0, 1028), [&[1; 1024][..], &[0; 4]].concat());
    lone.host.post_recv(1, 0, 0);
    assert_eq!(lone.answers(last), [Packet::ack(101, 1)]);
    assert_eq!(lone.host.bytes(1024, 4), [2; 4]);
    assert_eq!(lone.host.received()[0].byte_len, 1028);
}

/// Middle and Last of a SEND need no further receive, and other requests need none at all.
#[test]
fn receiver_not_ready_only_where_a_receive_is_taken() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.host.post_recv(1, 0, 4096);
    lone.burst(&[
        Packet::new(Opcode::RC_SEND_FIRST, 100).payload(&[1; 1024]),
        Packet::new(Opcode::RC_SEND_MIDDLE, 101).payload(&[1; 1024]),
        Packet::new(Opcode::RC_SEND_LAST, 102).payload(&[1]),
        Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 103).reth(VA, rkey, 1).payload(&[1]),
        Packet::read(104, VA, rkey, 1),
        Packet::fetch_add(105, VA, rkey, 1),
    ]);
    assert!(lone.expects(106));
    assert_eq!(lone.count(HwCounter::SentRnrNak), 0);
}

/// A COMPARE SWAP that does not match changes nothing and returns what it found; values are
/// 64-bit numbers on the wire, whatever the host's byte order.
#[test]
fn atomics() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.host.put(16, &0x0102_0304_0506_0708u64.to_ne_bytes());
    let miss = Packet::compare_swap(100, VA + 16, rkey, 1, 2);
    assert_eq!(lone.answers(miss), [Packet::atomic_answer(100, 1, 0x0102_0304_0506_0708)]);
    assert_eq!(lone.host.word(16), 0x0102_0304_0506_0708);
    let hit = Packet::compare_swap(101, VA + 16, rkey, u64::MAX, 0x0102_0304_0506_0708);
    assert_eq!(lone.answers(hit), [Packet::atomic_answer(101, 2, 0x0102_0304_0506_0708)]);
    let wrap = Packet::fetch_add(102, VA + 16, rkey, 3);
    assert_eq!(lone.answers(wrap), [Packet::atomic_answer(102, 3, u64::MAX)]);
    assert_eq!(lone.host.word(16), 2);
}

#[test]
fn psns_and_msns_wrap() {
    let mut lone = Lone::with(Setup { rq_psn: 0xff_ffff, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    lone.host.put(0, &[5; 3000]);
    let answers = lone.answers(Packet::read(0xff_ffff, VA, rkey, 3000));
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [0xff_ffff, 0, 1]);
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 2).reth(VA, rkey, 0).ask();
    assert_eq!(lone.answers(write), [Packet::ack(2, 2)]);
    assert_eq!(lone.answers(Packet::read(0xff_ffff, VA, rkey, 3000)).len(), 3, "and again");
}

/// A READ of any length is answered in packets of the path MTU.
#[test]
fn reads_are_cut_at_the_path_mtu() {
    use Opcode as O;
    for mtu in PathMtu::ALL {
        for len in [mtu.bytes() - 1, mtu.bytes(), mtu.bytes() + 1, 3 * mtu.bytes()] {
            let mut lone = Lone::with(Setup { path_mtu: mtu, ..Setup::DEFAULT });
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7).to_le_bytes()[0]).collect();
            lone.host.put(3, &bytes);
            let rkey = lone.rkey();
            let answers = lone.answers(Packet::read(100, VA + 3, rkey, len));
            let packets = usize::try_from(mtu.packets(len)).unwrap();
            assert_eq!(answers.len(), packets);
            let chunks = bytes.chunks(usize::try_from(mtu.bytes()).unwrap());
            for (number, (answer, chunk)) in answers.iter().zip(chunks).enumerate() {
                let opcode = match (number, number + 1 == packets) {
                    (0, true) => O::RC_RDMA_READ_RESPONSE_ONLY,
                    (0, false) => O::RC_RDMA_READ_RESPONSE_FIRST,
                    (_, true) => O::RC_RDMA_READ_RESPONSE_LAST,
                    (_, false) => O::RC_RDMA_READ_RESPONSE_MIDDLE,
                };
                let psn = 100 + u32::try_from(number).unwrap();
                assert_eq!(*answer, Packet::response(opcode, psn, 1, chunk));
            }
        }
    }
}

/// Whole WRITEs are told to those who asked, once, when the last byte is there.
#[test]
fn writes_are_observed() {
    let mut lone = Lone::with(Setup { observe_writes: true, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    let first =
        Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA + 8, rkey, 1030).payload(&[1; 1024]);
    lone.receives(first);
    assert_eq!(lone.host.events(), []);
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST, 101).payload(&[1; 6]);
    lone.receives(last.clone());
    let qp = lone.host.qp;
    assert_eq!(lone.host.events(), [Event::RemoteWrite { qp, va: VA + 8, len: 1030 }]);
    lone.receives(last);
    assert_eq!(lone.host.events(), [], "a duplicate is no news");
    let mut lone = Lone::new();
    lone.receives(Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 0));
    assert_eq!(lone.host.events(), [], "not asked for");
}

/// A completion queue that is full loses completions, and says so.
#[test]
fn a_full_completion_queue_is_told() {
    let mut lone = Lone::new();
    for psn in 100..230 {
        lone.host.post_recv(u64::from(psn), 0, 0);
        lone.receives(Packet::new(Opcode::RC_SEND_ONLY, psn));
    }
    assert_eq!(lone.host.received().len(), 128);
    let overrun = Event::CqOverrun(lone.host.recv_cq);
    assert_eq!(lone.host.events(), [overrun, overrun]);
}
