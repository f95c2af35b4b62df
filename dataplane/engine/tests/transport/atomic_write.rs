//! ATOMIC WRITE at both ends (IBTA Vol. 1, Annex A19).

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{
    Access, DropReason, Event, HwCounter, PostError, QpState, SendWr, WcOpcode, WcStatus, WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

/// Answered by an empty READ RESPONSE ONLY; a duplicate is answered again and not executed.
#[test]
fn executed_once_and_answered_twice() {
    let mut lone = Lone::with(Setup { observe_writes: true, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    let one = Packet::atomic_write(100, VA + 8, rkey, b"01234567").ask();
    assert_eq!(lone.answers(one.clone()), [Packet::done(100, 1)]);
    assert_eq!(lone.host.bytes(7, 10), b"\x0001234567\0");
    let qp = lone.host.qp;
    assert_eq!(lone.host.events(), [Event::RemoteWrite { qp, va: VA + 8, len: 8 }]);
    let two = Packet::atomic_write(101, VA + 8, rkey, b"abcdefgh");
    assert_eq!(lone.answers(two), [Packet::done(101, 2)]);
    assert_eq!(lone.answers(one), [Packet::done(100, 2)]);
    assert_eq!(lone.host.bytes(8, 8), b"abcdefgh", "the newer bytes stay");
    assert_eq!(lone.count(HwCounter::RxAtomicWriteRequests), 2);
    assert!(lone.expects(102));
    // Another operation at its PSN is no duplicate of it.
    assert_eq!(lone.answers(Packet::flush(100, 1, VA, rkey, 8)), []);
    assert_eq!(lone.answers(Packet::read(101, VA, rkey, 8)), []);
    assert_eq!(lone.dropped(DropReason::StaleDuplicate), 2);
}

/// It takes its turn between READs, and an ACK never names it.
#[test]
fn answers_keep_their_order() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let write =
        |psn| Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA, rkey, 1).payload(&[1]).ask();
    lone.burst(&[
        write(100),
        Packet::read(101, VA, rkey, 2048),
        Packet::atomic_write(103, VA, rkey, &[2; 8]),
        write(104),
    ]);
    let answers = lone.sends();
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102, 103, 104]);
    assert_eq!(answers[2], Packet::done(103, 4));
    lone.receives(Packet::atomic_write(105, VA, rkey, &[3; 8]));
    assert_eq!(lone.sends(), [Packet::done(105, 5)]);
    assert_eq!(lone.answers(write(104)), [Packet::ack(104, 5)], "not 105");
}

fn refused(mut lone: Lone, packet: &Packet, syndrome: u8) {
    let memory = lone.host.all_bytes();
    assert_eq!(lone.answers(packet.clone()), [Packet::answer(100, syndrome, 0)], "{packet:?}");
    assert_eq!(lone.host.all_bytes(), memory);
    assert_eq!(lone.state(), QpState::Error);
}

#[test]
fn refusals() {
    let rkey = Lone::new().rkey();
    let bytes = [1; 8];
    for off in 1..8 {
        refused(Lone::new(), &Packet::atomic_write(100, VA + off, rkey, &bytes), 0x61);
        refused(Lone::new(), &Packet::atomic_write(100, VA + off, RKey(1), &bytes), 0x61);
    }
    for len in [0, 4, 12, 16] {
        refused(Lone::new(), &Packet::atomic_write(100, VA, rkey, &vec![1; len]), 0x61);
    }
    for dma_len in [0, 7, 9, 16, u32::MAX] {
        let packet = Packet::atomic_write(100, VA, rkey, &bytes).reth(VA, rkey, dma_len);
        refused(Lone::new(), &packet, 0x61);
    }
    let denied = Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL;
    let setup = Setup { access: denied, ..Setup::DEFAULT };
    refused(Lone::with(setup), &Packet::atomic_write(100, VA, rkey, &bytes), 0x61);
    let none = Setup { max_dest_rd_atomic: 0, ..Setup::DEFAULT };
    refused(Lone::with(none), &Packet::atomic_write(100, VA, rkey, &bytes), 0x61);
    let len = LEN as u64;
    for (va, key) in [(VA - 8, rkey), (VA + len, rkey), (VA, RKey(rkey.0 ^ 0x100)), (VA, RKey(0))] {
        refused(Lone::new(), &Packet::atomic_write(100, va, key, &bytes), 0x62);
    }
    let mut lone = Lone::new();
    let rkey = lone.host.register(64, Access::REMOTE_READ | Access::REMOTE_ATOMIC).rkey;
    refused(lone, &Packet::atomic_write(100, VA, rkey, &bytes), 0x62);
    let mut lone = Lone::new();
    let rkey = lone.host.register(64, Access::REMOTE_WRITE).rkey;
    assert_eq!(lone.answers(Packet::atomic_write(100, VA, rkey, &bytes)), [Packet::done(100, 1)]);
}

/// Inside a message it has no place.
#[test]
fn not_inside_a_message() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let first = Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000);
    lone.receives(first.payload(&[1; 1024]));
    let answers = lone.answers(Packet::atomic_write(101, VA, rkey, &[2; 8]));
    assert_eq!(answers, [Packet::answer(101, 0x61, 0)]);
}

#[test]
fn the_requesters_packet_and_what_completes_it() {
    let mut lone = Lone::new();
    lone.host.put(16, b"payload!");
    let opcode = WrOpcode::AtomicWrite { va: 0x9000, rkey: RKey(7) };
    let sge = lone.host.sge(16, 8);
    lone.host.post(1, opcode, sge);
    let expect = Packet::atomic_write(5000, 0x9000, RKey(7), b"payload!");
    assert_eq!(lone.sends(), std::slice::from_ref(&expect));
    // An ACK past it means that its answer was lost.
    assert_eq!(lone.answers(Packet::answer(5000, 0x1f, 1)), [expect]);
    assert_eq!(lone.count(HwCounter::ImpliedNakSeqErr), 1);
    assert_eq!(lone.host.sent(), []);
    lone.receives(Packet::done(5000, 1));
    let wc = lone.host.sent()[0];
    assert_eq!((wc.status, wc.opcode, wc.byte_len), (WcStatus::Success, WcOpcode::AtomicWrite, 0));

    for wrong in [
        Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5001, 2, &[1; 8]),
        Packet::response(Opcode::RC_RDMA_READ_RESPONSE_FIRST, 5001, 2, &[]),
    ] {
        let mut lone = Lone::with(Setup { sq_psn: 5001, ..Setup::DEFAULT });
        let sge = lone.host.sge(0, 8);
        lone.host.post(1, opcode, sge);
        lone.sends();
        lone.receives(wrong);
        assert_eq!(lone.host.sent()[0].status, WcStatus::BadResponse);
    }
    let mut lone = Lone::new();
    for len in [0, 7, 9] {
        let sge = lone.host.sge(0, len);
        let sges = [sge];
        let wr = SendWr::new(1, opcode, &sges);
        let refused = lone.host.engine.post_send(lone.host.qp, &wr);
        assert_eq!(refused, Err(PostError::Length));
    }
}

/// It takes one of the places for READs and atomics at the requester.
#[test]
fn no_more_outstanding_than_agreed() {
    let mut lone = Lone::with(Setup { max_rd_atomic: 1, ..Setup::DEFAULT });
    for wr_id in 0..2 {
        let sge = lone.host.sge(0, 8);
        lone.host.post(wr_id, WrOpcode::AtomicWrite { va: 0, rkey: RKey(7) }, sge);
    }
    assert_eq!(lone.sends().len(), 1);
    lone.receives(Packet::done(5000, 1));
    assert_eq!(lone.sends().len(), 1);
    let mut none = Lone::with(Setup { max_rd_atomic: 0, ..Setup::DEFAULT });
    let opcode = WrOpcode::AtomicWrite { va: 0, rkey: RKey(7) };
    let sge = none.host.sge(0, 8);
    let sges = [sge];
    let wr = SendWr::new(1, opcode, &sges);
    assert_eq!(none.host.engine.post_send(none.host.qp, &wr), Err(PostError::RdAtomic));
}

#[test]
fn under_loss_the_last_one_stays() {
    for side in [0, 1] {
        let mut pair = Pair::new(Setup::DEFAULT);
        for psn in [5001, 5002, 5002] {
            pair.lose(side, psn);
        }
        let rkey = pair.hosts[1].mr.rkey;
        for wr_id in 0..4u64 {
            let offset = usize::try_from(wr_id).unwrap() * 8;
            pair.hosts[0].put(offset, &(wr_id + 1).to_ne_bytes());
            let sge = pair.hosts[0].sge(offset, 8);
            pair.hosts[0].post(wr_id, WrOpcode::AtomicWrite { va: VA + 64, rkey }, sge);
        }
        pair.run();
        assert_eq!(pair.hosts[1].word(64), 4);
        let sent = pair.hosts[0].sent();
        assert!(sent.len() == 4 && sent.iter().all(|wc| wc.status == WcStatus::Success));
    }
}
