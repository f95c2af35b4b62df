//! Packets held behind a gap: what must not happen before their turn, and what must then.

use roce_codec::Start;
use roce_codec::ib::{Opcode, PathMtu};
use roce_engine::{
    Access, Addr, DropReason, HwCounter, ModifyQp, MrAttr, QpInit, QpState, Recovery, Rx, WcStatus,
    WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const SELECTIVE: Setup = Setup { recovery: Recovery::SelectiveAccept, ..Setup::DEFAULT };

fn lone() -> Lone {
    Lone::with(SELECTIVE)
}

fn write(lone: &Lone, psn: u32, offset: u64, bytes: &[u8]) -> Packet {
    let len = u32::try_from(bytes.len()).unwrap();
    Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA + offset, lone.rkey(), len).payload(bytes)
}

/// The NAK that asks for a PSN.
fn missing(psn: u32, msn: u32) -> Packet {
    Packet::answer(psn, 0x60, msn)
}

/// What is held, as the counters have it.
fn held(lone: &Lone) -> u64 {
    lone.count(HwCounter::RxHeld)
        - lone.count(HwCounter::RxHeldRun)
        - lone.count(HwCounter::RxHeldFreed)
}

/// Nothing of what is behind the gap is there before; then all of it is, and one ACK says so.
#[test]
fn a_gap_fills() {
    let mut lone = lone();
    let [a, b, c] = [100, 101, 102].map(|psn| write(&lone, psn, u64::from(psn), &[7]));
    assert_eq!(lone.answers(b.clone()), [missing(100, 0)]);
    assert_eq!(lone.answers(c), [], "one NAK a gap");
    assert_eq!(lone.answers(b), [], "nor for what is held already");
    assert_eq!(lone.dropped(DropReason::OutOfSequence), 1);
    assert_eq!(lone.host.bytes(100, 3), [0; 3]);
    assert!(lone.expects(100));
    assert_eq!(lone.answers(a), [Packet::ack(102, 3)], "though nobody asks");
    assert_eq!(lone.host.bytes(100, 3), [7; 3]);
    assert!(lone.expects(103));
    assert_eq!((lone.count(HwCounter::RxHeld), lone.count(HwCounter::RxHeldRun)), (2, 2));
    assert_eq!(lone.count(HwCounter::RxWriteRequests), 3);
}

/// In whatever order they come.
#[test]
fn packets_are_sorted() {
    let orders = [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [3, 1, 4, 2]];
    for order in orders {
        let mut lone = Lone::with(Setup { rq_psn: 0xff_fffe, ..SELECTIVE });
        // Each writes its number where the others do: the newest stays.
        let all: Vec<_> =
            (0..5u8).map(|at| write(&lone, 0xff_fffe + u32::from(at), 0, &[at])).collect();
        for at in order {
            lone.receives(all[at].clone());
        }
        assert_eq!(held(&lone), 4);
        lone.sends();
        assert_eq!(lone.answers(all[0].clone()), [Packet::ack(2, 5)], "{order:?}");
        assert_eq!(lone.host.bytes(0, 1), [4]);
    }
}

/// A late older WRITE does not overwrite a newer one.
#[test]
fn overlapping_writes() {
    let mut lone = lone();
    let older = write(&lone, 100, 0, &[1; 8]);
    let newer = write(&lone, 101, 4, &[2; 8]);
    lone.burst(&[newer, older.clone()]);
    let both = [[1; 4], [2; 4], [2; 4]].concat();
    assert_eq!(lone.host.bytes(0, 12), both);
    lone.receives(older);
    assert_eq!(lone.host.bytes(0, 12), both, "nor does it as a duplicate");
}

/// A key that a SEND in the gap takes away is gone for the WRITE behind it, though it was good when
/// that came.
#[test]
fn a_key_invalidated_in_the_gap() {
    let mut lone = lone();
    let access = Access::REMOTE_WRITE | Access::LOCAL_WRITE | Access::REMOTE_INVALIDATE;
    let doomed = lone.host.register(4096, access).rkey;
    lone.host.post_recv(1, 8192, 64);
    let send = Packet::new(Opcode::RC_SEND_ONLY_INV, 100).ieth(doomed).payload(b"bye");
    let behind = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 101).reth(VA, doomed, 4).payload(&[9; 4]);
    assert_eq!(lone.answers(behind), [missing(100, 0)]);
    assert_eq!(lone.answers(send), [Packet::answer(101, 0x62, 1)]);
    assert_eq!(lone.host.bytes(0, 4), [0; 4]);
    assert_eq!(lone.host.received()[0].invalidated, Some(doomed));
    assert_eq!(lone.state(), QpState::Error);
}

/// Whoever polls on the last byte of a WRITE sees it last.
#[test]
fn the_last_byte_comes_last() {
    let mut lone = lone();
    let rkey = lone.rkey();
    let first = Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 2052);
    let middle = Packet::new(Opcode::RC_RDMA_WRITE_MIDDLE, 101).payload(&[2; 1024]);
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST, 102).payload(&[3; 4]).ask();
    lone.burst(&[first.payload(&[1; 1024]), last]);
    assert_eq!(lone.host.bytes(1024, 1028), [0; 1028]);
    lone.sends();
    assert_eq!(lone.answers(middle), [Packet::ack(102, 1)]);
    assert_eq!(lone.host.bytes(0, 2052), [&[1; 1024][..], &[2; 1024], &[3; 4]].concat());
}

/// What has no place yet waits for the packet that says where.
#[test]
fn a_middle_whose_first_is_lost() {
    let mut lone = lone();
    let rkey = lone.rkey();
    let first = Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA + 8, rkey, 2052);
    lone.burst(&[
        Packet::new(Opcode::RC_RDMA_WRITE_MIDDLE, 101).payload(&[2; 1024]),
        Packet::new(Opcode::RC_RDMA_WRITE_LAST, 102).payload(&[3; 4]),
    ]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    assert_eq!(lone.host.all_bytes(), vec![0; LEN]);
    assert_eq!(lone.answers(first.payload(&[1; 1024])), [Packet::ack(102, 1)]);
    assert_eq!(lone.host.bytes(8, 2052), [&[1; 1024][..], &[2; 1024], &[3; 4]].concat());
}

/// A SEND behind the gap takes the receive behind the one that the gap takes.
#[test]
fn receives_are_taken_in_order() {
    let mut lone = lone();
    lone.host.post_recv(1, 0, 64);
    lone.host.post_recv(2, 64, 64);
    let send = |psn, bytes: &[u8]| Packet::new(Opcode::RC_SEND_ONLY, psn).payload(bytes);
    lone.receives(send(101, b"second"));
    assert_eq!(lone.host.received(), []);
    lone.receives(send(100, b"first"));
    let [one, two] = lone.host.received()[..] else { panic!("two messages") };
    assert_eq!((one.wr_id, one.byte_len, two.wr_id, two.byte_len), (1, 5, 2, 6));
    assert_eq!(lone.host.bytes(0, 5), b"first");
    assert_eq!(lone.host.bytes(64, 6), b"second");
}

/// A packet that will be refused is refused in its turn; what is behind it is forgotten.
#[test]
fn a_bad_packet_is_not_refused_early() {
    let mut lone = lone();
    let bad = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 101)
        .reth(VA + LEN as u64, lone.rkey(), 1)
        .payload(&[1]);
    let behind = write(&lone, 102, 0, &[2]);
    lone.burst(&[bad, behind]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    assert_eq!(lone.state(), QpState::Rts);
    let filling = write(&lone, 100, 8, &[1]);
    assert_eq!(lone.answers(filling), [Packet::answer(101, 0x62, 1)]);
    assert_eq!(lone.state(), QpState::Error);
    assert_eq!(lone.host.bytes(0, 9), [0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(held(&lone), 0);
    assert_eq!(lone.count(HwCounter::RxHeldFreed), 1);
}

/// A READ in the gap takes the PSNs of its answer; a packet held with one of them is no request.
#[test]
fn a_read_in_the_gap_spans_held_packets() {
    let mut lone = lone();
    lone.host.put(0, &[5; 3072]);
    let [inside, last, behind] =
        [101, 102, 103].map(|psn| write(&lone, psn, 4096 + u64::from(psn), &[9]));
    lone.burst(&[inside, last, behind]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    let read = Packet::read(100, VA, lone.rkey(), 3072);
    let answers = lone.answers(read);
    assert_eq!(answers.len(), 4);
    assert!(answers[..3].iter().all(|answer| answer.payload == [5; 1024]));
    assert_eq!(answers[3], Packet::ack(103, 2));
    assert_eq!(lone.host.bytes(4096 + 101, 3), [0, 0, 9]);
    assert_eq!(lone.count(HwCounter::RxHeldFreed), 2);
    assert!(lone.expects(104));
}

/// READs and atomics behind the gap keep their places and their answers' order.
#[test]
fn reads_and_atomics_behind_the_gap() {
    let mut lone = lone();
    let rkey = lone.rkey();
    lone.host.put(8, &41u64.to_ne_bytes());
    lone.burst(&[
        Packet::fetch_add(101, VA + 8, rkey, 1),
        Packet::read(102, VA + 8, rkey, 8),
        write(&lone, 103, 8, &[0; 8]).ask(),
    ]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    assert_eq!(lone.host.word(8), 41);
    let filling = write(&lone, 100, 64, &[1]);
    let answers = lone.answers(filling);
    assert_eq!(answers[0], Packet::atomic_answer(101, 4, 41));
    // Memory is read when the answer goes; the WRITE behind has been executed by then.
    assert_eq!(answers[1].psn.get(), 102);
    assert_eq!(answers[2..], [Packet::ack(103, 4)]);
    assert_eq!(lone.host.word(8), 0);
}

/// The first gap is acknowledged before the second one is reported, which is when a packet behind
/// it comes again: the peer that goes back fills it by itself otherwise.
#[test]
fn a_second_gap() {
    let mut lone = lone();
    let all: Vec<_> = (100..106).map(|psn| write(&lone, psn, u64::from(psn), &[1])).collect();
    let at = |psn: usize| all[psn - 100].clone();
    lone.burst(&[at(101), at(102), at(104)]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    assert_eq!(lone.answers(at(100)), [Packet::ack(102, 3)]);
    assert!(lone.expects(103));
    assert_eq!(lone.answers(at(104)), [missing(103, 3)], "it was passed over again");
    assert_eq!(lone.answers(at(105)), []);
    assert_eq!(lone.answers(at(103)), [Packet::ack(105, 6)]);
}

/// In one burst, too: both go out, the acknowledgement first.
#[test]
fn a_second_gap_in_the_same_burst() {
    let mut lone = lone();
    let all: Vec<_> = (100..105).map(|psn| write(&lone, psn, u64::from(psn), &[1])).collect();
    let at = |psn: usize| all[psn - 100].clone();
    lone.burst(&[at(101), at(102), at(104)]);
    lone.sends();
    lone.burst(&[at(100), at(104)]);
    assert_eq!(lone.sends(), [Packet::ack(102, 3), missing(103, 3)]);
    // What the NAK asks for comes before it has gone out: nothing is missing any more.
    let mut lone = Lone::with(SELECTIVE);
    lone.burst(&[at(101), at(103)]);
    lone.sends();
    lone.burst(&[at(100), at(103), at(102)]);
    assert_eq!(lone.sends(), [Packet::ack(103, 4)]);
}

/// What was dropped for want of room behind what was held is asked for in its turn.
#[test]
fn dropped_behind_held() {
    let mut lone = Lone::with(Setup { held: 4, ..SELECTIVE });
    let all: Vec<_> = (100..106).map(|psn| write(&lone, psn, u64::from(psn), &[1])).collect();
    lone.burst(&all[1..]);
    assert_eq!(held(&lone), 2, "of four, two are for the next queue pair");
    assert_eq!(lone.dropped(DropReason::OutOfSequence), 3);
    lone.receives(all[0].clone());
    assert_eq!(lone.sends(), [missing(103, 3)], "before the first NAK went out");
    lone.burst(&[all[3].clone(), all[4].clone(), all[5].clone().ask()]);
    assert_eq!(lone.sends(), [Packet::ack(105, 6)]);
}

/// What was dropped behind an earlier gap has come since: nothing is asked for that was never sent.
#[test]
fn dropped_behind_an_earlier_gap() {
    let mut lone = Lone::with(Setup { held: 4, ..SELECTIVE });
    let all: Vec<_> = (100..120).map(|psn| write(&lone, psn, u64::from(psn), &[1])).collect();
    lone.burst(&all[1..10]);
    assert_eq!(lone.sends(), [missing(100, 0)]);
    lone.burst(&all[..5]);
    assert_eq!(lone.sends(), [Packet::ack(104, 5)], "105 to 109 will come");
    // A gap at once behind it, which fills before it has been told.
    lone.burst(&[all[6].clone(), all[5].clone()]);
    assert_eq!(lone.sends(), [Packet::ack(106, 7)]);
}

/// A peer that has no use for an ACK beyond what it has sent again hears it again with each.
#[test]
fn duplicates_are_acknowledged_again() {
    let mut lone = lone();
    let all: Vec<_> = (100..104).map(|psn| write(&lone, psn, u64::from(psn), &[1])).collect();
    lone.burst(&all[1..]);
    lone.sends();
    assert_eq!(lone.answers(all[0].clone()), [Packet::ack(103, 4)]);
    for again in &all {
        assert_eq!(lone.answers(again.clone()), [Packet::ack(103, 4)]);
    }
    assert_eq!(lone.count(HwCounter::RxWriteRequests), 4);
}

/// Whether there is a receive is asked in turn, and the expected PSN stays; what is held behind
/// stays held.
#[test]
fn receiver_not_ready_in_order() {
    let mut lone = lone();
    let send = Packet::new(Opcode::RC_SEND_ONLY, 101).payload(b"x");
    let behind = write(&lone, 102, 0, &[2]);
    lone.burst(&[send.clone(), behind]);
    assert_eq!(lone.sends(), [missing(100, 0)], "no RNR NAK yet");
    let filling = write(&lone, 100, 8, &[1]);
    assert_eq!(lone.answers(filling), [Packet::answer(101, 0x2c, 1)]);
    assert!(lone.expects(101));
    let late = write(&lone, 103, 1, &[3]);
    assert_eq!(lone.answers(late), []);
    assert_eq!(lone.dropped(DropReason::ReceiverNotReady), 1, "nothing is held behind it");
    lone.host.post_recv(1, 64, 64);
    assert_eq!(lone.answers(send), [Packet::ack(102, 3)]);
    assert_eq!(lone.host.bytes(0, 2), [2, 0]);
    assert_eq!(lone.host.bytes(64, 1), b"x");
}

/// A receive posted while the SEND was held is there in time.
#[test]
fn a_receive_in_time() {
    let mut lone = lone();
    lone.receives(Packet::new(Opcode::RC_SEND_ONLY, 101).payload(b"x"));
    lone.sends();
    lone.host.post_recv(1, 64, 64);
    let filling = write(&lone, 100, 0, &[1]);
    assert_eq!(lone.answers(filling), [Packet::ack(101, 2)]);
}

/// A queue pair that ends gives back what it holds, however it ends.
#[test]
fn what_is_held_is_given_back() {
    let hold = |lone: &mut Lone| {
        let all: Vec<_> = (101..120).map(|psn| write(lone, psn, 0, &[1])).collect();
        lone.burst(&all);
        assert_eq!(held(lone), 8, "half of the pool");
    };
    let mut lone = lone();
    for change in [ModifyQp::Error, ModifyQp::Reset] {
        hold(&mut lone);
        lone.host.engine.modify_qp(lone.host.qp, &change).unwrap();
        assert_eq!(held(&lone), 0, "{change:?}");
        lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Reset).unwrap();
        let setup = lone.setup;
        lone.host.init(&setup);
        lone.host.rtr(&setup, crate::lone::PEER_QPN, setup.addresses());
    }
    hold(&mut lone);
    lone.host.engine.destroy_qp(lone.host.qp).unwrap();
    assert_eq!(held(&lone), 0);
    assert_eq!(lone.count(HwCounter::RxHeldFreed), 24);
    assert_eq!(lone.host.all_bytes(), vec![0; LEN], "none of it ran");
}

/// A request of our own that fails ends the queue pair, too.
#[test]
fn a_failed_request_gives_back_what_is_held() {
    let mut lone = lone();
    let behind = write(&lone, 101, 0, &[1]);
    lone.receives(behind);
    let sge = lone.host.sge(0, 4);
    let rkey = lone.rkey();
    lone.host.post(1, WrOpcode::RdmaWrite { va: VA, rkey }, sge);
    lone.sends();
    lone.receives(Packet::answer(5000, 0x62, 0));
    assert_eq!(lone.host.sent()[0].status, WcStatus::RemoteAccess);
    assert_eq!(held(&lone), 0);
}

/// However much one holds, the next finds its share.
#[test]
fn one_peer_leaves_room_for_another() {
    let mut lone = lone();
    let host = &mut lone.host;
    let init = QpInit::new(lone.setup.service, host.pd, host.cq, host.recv_cq);
    let mut qps = vec![host.qp];
    for _ in 0..3 {
        let qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
        qps.push(qp);
    }
    let mut shares = Vec::new();
    for qp in qps {
        if qp != lone.host.qp {
            let first = std::mem::replace(&mut lone.host.qp, qp);
            lone.host.init(&SELECTIVE);
            lone.host.rtr(&SELECTIVE, crate::lone::PEER_QPN, SELECTIVE.addresses());
            lone.host.qp = first;
        }
        let before = held(&lone);
        for psn in 101..150 {
            lone.receives(Packet { dest_qp: Some(qp), ..write(&lone, psn, 0, &[1]) });
        }
        shares.push(held(&lone) - before);
    }
    assert_eq!(shares, [8, 4, 2, 1], "of sixteen");
}

/// Without a pool, or without the option, what is behind a gap is dropped.
#[test]
fn without_a_pool_it_goes_back() {
    let without = [Setup { held: 0, ..SELECTIVE }, Setup { held: 16, ..Setup::DEFAULT }];
    for setup in without {
        let mut lone = Lone::with(setup);
        let [a, b] = [100, 101].map(|psn| write(&lone, psn, 0, &[1]).ask());
        assert_eq!(lone.answers(b), [missing(100, 0)]);
        assert_eq!(lone.answers(a), [Packet::ack(100, 1)]);
        assert_eq!(lone.count(HwCounter::RxHeld), 0);
    }
}

/// The largest packets there are, over IPv6 and in two pieces, come out as they went in.
#[test]
fn whole_packets_are_held() {
    for ipv6 in [false, true] {
        let setup = Setup { ipv6, path_mtu: PathMtu::Mtu4096, ..SELECTIVE };
        let mut lone = Lone::with(setup);
        let bytes: Vec<u8> = (0..4096u32).map(|at| (at * 3).to_le_bytes()[0]).collect();
        lone.host.post_recv(1, 0, 0);
        let whole = Packet::new(Opcode::RC_RDMA_WRITE_ONLY_IMM, 101)
            .reth(VA + 8, lone.rkey(), 4096)
            .imm(0xabcd)
            .payload(&bytes);
        let odd = write(&lone, 102, 8192, &bytes[..4093]).ask();
        for packet in [whole, odd] {
            let frame = lone.frame(&packet);
            let (first, second) = frame.split_at(1000);
            let segments = [first, second];
            let rx = Rx { segments, start: Start::Ip, icrc_verified: false };
            lone.host.engine.handle_burst(lone.now, &[rx], &lone.host.memory);
        }
        assert_eq!(held(&lone), 2);
        lone.sends();
        let add = Packet::fetch_add(100, VA, lone.rkey(), 0);
        let answers = lone.answers(add);
        assert_eq!(answers[1..], [Packet::ack(102, 3)]);
        assert_eq!(lone.host.bytes(8, 4096), bytes);
        assert_eq!(lone.host.bytes(8192, 4094), [&bytes[..4093], &[0]].concat());
        assert_eq!(lone.host.received()[0].imm, Some(0xabcd));
    }
}

/// A region that went while the packet was held is gone for it.
#[test]
fn keys_are_looked_at_in_turn() {
    let mut lone = lone();
    let mr = MrAttr {
        pd: lone.host.pd,
        va: VA,
        len: 64,
        access: Access::ALL,
        backing: Addr { region: 0, offset: 0 },
    };
    let mr = lone.host.engine.register_mr(&mr, &mut lone.host.entropy).unwrap();
    let behind = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 101).reth(VA, mr.rkey, 1).payload(&[1]);
    lone.receives(behind);
    lone.sends();
    lone.host.engine.deregister_mr(mr.rkey).unwrap();
    let filling = write(&lone, 100, 8, &[1]);
    assert_eq!(lone.answers(filling), [Packet::answer(101, 0x62, 1)]);
    assert_eq!(lone.host.bytes(0, 1), [0]);
}

/// Two engines: of a message of 32 packets, one is lost. What was held is not executed again when
/// it comes again.
#[test]
fn what_comes_again_is_a_duplicate() {
    let duplicates = |recovery| {
        let mut pair = Pair::new(Setup { recovery, held: 64, ..Setup::DEFAULT });
        let bytes: Vec<u8> = (0..32 << 10).map(|at: u32| (at / 7).to_le_bytes()[0]).collect();
        pair.hosts[0].put(0, &bytes);
        let rkey = pair.hosts[1].mr.rkey;
        let sge = pair.hosts[0].sge(0, 32 << 10);
        pair.lose(0, 5003);
        pair.hosts[0].post(1, WrOpcode::RdmaWrite { va: VA, rkey }, sge);
        pair.run();
        assert_eq!(pair.hosts[0].sent().len(), 1);
        assert_eq!(pair.hosts[1].bytes(0, 32 << 10), bytes);
        let counters = pair.hosts[1].engine.counters();
        assert_eq!(counters.event(HwCounter::SentSequenceNak), 1);
        counters.event(HwCounter::DuplicateRequest)
    };
    // The pair's wire has no width: all is sent again at once, whatever is acknowledged.
    assert_eq!(duplicates(Recovery::GoBackN), 0);
    assert_eq!(duplicates(Recovery::SelectiveAccept), 28);
}
