//! Requests that come again (IBTA 9.7.5.1.1 to 9.7.5.1.4, C9-105).

use roce_codec::ib::Opcode;
use roce_engine::{DropReason, HwCounter, QpState};

use crate::host::{Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;

/// Transport rule 3: never executed again, acknowledged with the newest executed PSN.
#[test]
fn a_write_again_is_acknowledged_and_not_executed() {
    let mut lone = Lone::new();
    let write = |psn, byte| {
        Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA, lone.host.mr.rkey, 1).payload(&[byte])
    };
    let (old, new) = (write(100, 1), write(101, 2));
    lone.burst(&[old.clone(), new]);
    assert_eq!(lone.sends(), [], "nobody asked");
    assert_eq!(lone.answers(old), [Packet::ack(101, 2)], "a duplicate is answered unasked");
    assert_eq!(lone.host.bytes(0, 1), [2], "the newer bytes stay");
    assert_eq!(lone.count(HwCounter::DuplicateRequest), 1);
}

#[test]
fn a_send_again_takes_no_second_receive() {
    let mut lone = Lone::new();
    lone.host.post_recv(1, 0, 64);
    lone.host.post_recv(2, 64, 64);
    let send = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(b"once").ask();
    assert_eq!(lone.answers(send.clone()), [Packet::answer(100, 0x01, 1)]);
    assert_eq!(lone.answers(send), [Packet::answer(100, 0x01, 1)]);
    let received = lone.host.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].wr_id, 1);
    assert_eq!(lone.host.bytes(64, 4), [0; 4]);
}

/// A READ's answer may have been lost, and some requesters take an ACK with its PSN for its
/// completion: only the answer itself acknowledges it.
#[test]
fn an_acknowledgement_never_names_a_read_or_an_atomic() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]);
    lone.receives(write.clone());
    lone.answers(Packet::read(101, VA, rkey, 1));
    assert_eq!(lone.answers(write.clone()), [Packet::ack(100, 2)]);
    lone.answers(Packet::fetch_add(102, VA + 8, rkey, 1));
    assert_eq!(lone.answers(write), [Packet::ack(100, 3)]);
    assert!(lone.expects(103));
}

/// The middle of a message in progress again: the message goes on.
#[test]
fn a_duplicate_within_a_message_does_not_disturb_it() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let first = Packet::new(Opcode::RC_RDMA_WRITE_FIRST, 100)
        .reth(VA, rkey, 2050)
        .payload(&[1; 1024])
        .ask();
    let middle = Packet::new(Opcode::RC_RDMA_WRITE_MIDDLE, 101).payload(&[2; 1024]);
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST, 102).payload(&[3; 2]).ask();
    assert_eq!(lone.answers(first.clone()), [Packet::ack(100, 0)]);
    lone.receives(middle.clone());
    assert_eq!(lone.answers(first), [Packet::ack(101, 0)]);
    assert_eq!(lone.answers(middle), [Packet::ack(101, 0)]);
    assert_eq!(lone.answers(last), [Packet::ack(102, 1)]);
    assert_eq!(lone.host.bytes(0, 2050), [vec![1; 1024], vec![2; 1024], vec![3; 2]].concat());
}

/// Case 54: executed once, answered twice with the same value.
#[test]
fn an_atomic_again_returns_what_it_returned() {
    let mut lone = Lone::new();
    lone.host.put(8, &41u64.to_ne_bytes());
    let add = Packet::fetch_add(100, VA + 8, lone.rkey(), 1);
    assert_eq!(lone.answers(add.clone()), [Packet::atomic_answer(100, 1, 41)]);
    let swap = Packet::compare_swap(101, VA + 8, lone.rkey(), 7, 42);
    assert_eq!(lone.answers(swap.clone()), [Packet::atomic_answer(101, 2, 42)]);
    assert_eq!(lone.answers(add), [Packet::atomic_answer(100, 2, 41)], "the MSN is current");
    assert_eq!(lone.answers(swap), [Packet::atomic_answer(101, 2, 42)]);
    assert_eq!(lone.host.word(8), 7);
}

/// Transport rule 4: memory is read again.
#[test]
fn a_read_again_reads_memory_again() {
    let mut lone = Lone::new();
    lone.host.put(0, b"then");
    let read = Packet::read(100, VA, lone.rkey(), 4);
    let only = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
    assert_eq!(lone.answers(read.clone()), [Packet::response(only, 100, 1, b"then")]);
    lone.host.put(0, b"now!");
    assert_eq!(lone.answers(read), [Packet::response(only, 100, 1, b"now!")]);
    assert!(lone.expects(101));
}

/// Case 56: a retry may start midway, with the address and length that are left.
#[test]
fn the_rest_of_a_read_is_answered_from_first() {
    use Opcode as O;
    let mut lone = Lone::with(Setup { rq_psn: 41, ..Setup::DEFAULT });
    let bytes: Vec<u8> = (0..3000u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1]).collect();
    lone.host.put(0, &bytes);
    let rkey = lone.rkey();
    let whole = lone.answers(Packet::read(41, VA, rkey, 3000));
    let expect = [
        Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 41, 1, &bytes[..1024]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_MIDDLE, 42, 1, &bytes[1024..2048]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 43, 1, &bytes[2048..]),
    ];
    assert_eq!(whole, expect);
    let rest = lone.answers(Packet::read(42, VA + 1024, rkey, 1976));
    let expect = [
        Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 42, 1, &bytes[1024..2048]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 43, 1, &bytes[2048..]),
    ];
    assert_eq!(rest, expect);
    let end = lone.answers(Packet::read(43, VA + 2048, rkey, 952));
    assert_eq!(end, [Packet::response(O::RC_RDMA_READ_RESPONSE_ONLY, 43, 1, &bytes[2048..])]);
}

/// A retry of a READ that is still being answered starts over from where it says.
#[test]
fn a_retry_of_a_read_in_progress_starts_over() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.receives(Packet::read(100, VA, rkey, 5 * 1024));
    for psn in 100..103 {
        assert_eq!(lone.sends_one().unwrap().psn.get(), psn);
    }
    lone.receives(Packet::read(101, VA + 1024, rkey, 4 * 1024));
    let answers = lone.sends();
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102, 103, 104]);
    assert_eq!(answers[0].opcode, Opcode::RC_RDMA_READ_RESPONSE_FIRST);
}

/// Transport rule 4 and case 52: a "retry" that leaves the original is not served.
#[test]
fn a_read_again_must_lie_inside_the_original() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    assert_eq!(lone.answers(Packet::read(100, VA + 4096, rkey, 2048)).len(), 2);
    let other = {
        let attr = roce_engine::MrAttr {
            pd: lone.host.pd,
            va: VA,
            len: 8192,
            access: roce_engine::Access::ALL,
            backing: roce_engine::Addr { region: 0, offset: 0 },
        };
        lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap().rkey
    };
    for (number, packet) in [
        Packet::read(100, VA + 4095, rkey, 2048),
        Packet::read(100, VA + 4096, rkey, 2049),
        Packet::read(101, VA + 4096 + 1024, rkey, 1025),
        Packet::read(101, VA + 4096 + 1025, rkey, 1024),
        Packet::read(100, u64::MAX - 1, rkey, 8),
        Packet::read(100, VA + 4096, other, 2048),
        Packet::read(100, VA + 4096, roce_codec::ib::RKey(rkey.0 ^ 1 << 30), 2048),
        Packet::read(99, VA + 4096, rkey, 2048),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(lone.answers(packet), [], "{number}");
        let dropped = u64::try_from(number).unwrap() + 1;
        assert_eq!(lone.dropped(DropReason::StaleDuplicate), dropped);
    }
    assert_eq!(lone.state(), QpState::Rts, "a duplicate is never fatal");
}

/// Transport rule 4: the key is checked again.
#[test]
fn a_read_again_after_its_region_went_is_not_served() {
    let mut lone = Lone::new();
    let read = Packet::read(100, VA, lone.rkey(), 4);
    assert_eq!(lone.answers(read.clone()).len(), 1);
    let rkey = lone.rkey();
    lone.host.engine.deregister_mr(rkey).unwrap();
    assert_eq!(lone.answers(read), []);
    assert_eq!(lone.dropped(DropReason::StaleDuplicate), 1);
}

/// Transport rule 5: as many are kept as were agreed; older ones are dropped silently.
#[test]
fn duplicates_after_their_slot_was_used_again_are_dropped() {
    let mut lone = Lone::with(Setup { max_dest_rd_atomic: 2, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    let add = |psn| Packet::fetch_add(psn, VA, rkey, 1);
    for (psn, original) in [(100, 0), (101, 1), (102, 2)] {
        let msn = psn - 99;
        assert_eq!(lone.answers(add(psn)), [Packet::atomic_answer(psn, msn, original)]);
    }
    assert_eq!(lone.answers(add(100)), [], "forgotten");
    assert_eq!(lone.dropped(DropReason::StaleDuplicate), 1);
    assert_eq!(lone.answers(add(101)), [Packet::atomic_answer(101, 3, 1)]);
    assert_eq!(lone.answers(add(102)), [Packet::atomic_answer(102, 3, 2)]);
    assert_eq!(lone.host.word(0), 3);
    let read = Packet::read(101, VA, rkey, 8);
    assert_eq!(lone.answers(read), [], "another operation at an atomic's PSN");
}

/// A duplicate that the network held back makes an answered READ be answered again. A peer that
/// has all its answers may send the next READ meanwhile: its place is free.
#[test]
fn a_late_duplicate_does_not_keep_a_slot_from_the_next_read() {
    let mut lone = Lone::with(Setup { max_dest_rd_atomic: 1, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    assert_eq!(lone.answers(Packet::read(100, VA, rkey, 2048)).len(), 2);
    lone.burst(&[Packet::read(100, VA, rkey, 2048), Packet::fetch_add(102, VA, rkey, 1)]);
    assert_eq!(lone.sends(), [Packet::atomic_answer(102, 2, 0)]);
    // And with the replay half out.
    let read = Packet::read(103, VA, rkey, 3072);
    assert_eq!(lone.answers(read.clone()).len(), 3);
    lone.receives(read);
    assert_eq!(lone.sends_one().unwrap().psn.get(), 103);
    let next = lone.answers(Packet::read(106, VA, rkey, 1));
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].psn.get(), 106);
    assert_eq!(lone.state(), QpState::Rts);
}

/// PSNs come again after 2²⁴ packets; a slot may be older than that. The newest one counts.
#[test]
fn the_newest_of_two_kept_requests_with_one_psn_is_meant() {
    let setup = Setup {
        path_mtu: roce_codec::ib::PathMtu::Mtu256,
        rq_psn: 0,
        max_dest_rd_atomic: 8,
        ..Setup::DEFAULT
    };
    let mut lone = Lone::with(setup);
    let rkey = lone.rkey();
    let huge = {
        let attr = roce_engine::MrAttr {
            pd: lone.host.pd,
            va: 0,
            len: 1 << 31,
            access: roce_engine::Access::REMOTE_READ,
            backing: roce_engine::Addr { region: 0, offset: 0 },
        };
        lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap().rkey
    };
    let add = |psn| Packet::fetch_add(psn, VA, rkey, 1);
    assert_eq!(lone.answers(add(0)), [Packet::atomic_answer(0, 1, 0)]);
    // Two READs take all the other PSNs. A retry of the last packet alone is a short way to
    // have each answered.
    let (long, short) = (1 << 31, (1 << 31) - 256);
    lone.receives(Packet::read(1, 0, huge, long));
    let end = 1 << 23;
    assert_eq!(lone.answers(Packet::read(end, 0, huge, 256)).len(), 1);
    lone.receives(Packet::read(end + 1, 0, huge, short));
    assert_eq!(lone.answers(Packet::read((1 << 24) - 1, 0, huge, 256)).len(), 1);
    assert!(lone.expects(0));
    assert_eq!(lone.answers(add(0)), [Packet::atomic_answer(0, 4, 1)]);
    assert_eq!(lone.answers(add(0)), [Packet::atomic_answer(0, 4, 1)], "not 0, the old one's");
    assert_eq!(lone.host.word(0), 2);
}

/// An acknowledgement owed for a duplicate waits behind a READ in progress.
#[test]
fn a_duplicate_is_acknowledged_behind_the_read_that_follows_it() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]);
    lone.burst(&[write.clone(), Packet::read(101, VA, rkey, 2048), write]);
    let psns: Vec<_> = lone.sends().iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102], "the READ's last answer acknowledges all");
}

/// A peer that has gone back counts otherwise than we do: a READ beyond what was agreed waits
/// until a READ that is being answered again is through, and does not end the connection.
#[test]
fn an_excess_read_after_a_retry_is_asked_for_again() {
    let requests: [fn(&Lone, u32) -> Packet; 4] = [
        |lone, psn| Packet::read(psn, VA, lone.rkey(), 1),
        |lone, psn| Packet::fetch_add(psn, VA, lone.rkey(), 1),
        |lone, psn| Packet::atomic_write(psn, VA, lone.rkey(), &[1; 8]),
        |lone, psn| Packet::flush(psn, 1, VA, lone.rkey(), 1),
    ];
    for request in requests {
        let mut lone = Lone::with(Setup { max_dest_rd_atomic: 1, ..Setup::DEFAULT });
        let rkey = lone.rkey();
        lone.receives(Packet::read(100, VA, rkey, 5 * 1024));
        assert_eq!(lone.sends_one().unwrap().psn.get(), 100);
        let excess = request(&lone, 105);
        let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 106).reth(VA, rkey, 1).payload(&[1]);
        // The first answer was lost, say, and all of it is wanted again.
        lone.burst(&[Packet::read(100, VA, rkey, 5 * 1024), excess.clone(), write.clone()]);
        let answers = lone.sends();
        let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
        assert_eq!(psns, [100, 101, 102, 103, 104, 105]);
        assert_eq!(answers[5], Packet::answer(105, 0x60, 1));
        assert_eq!(lone.host.bytes(0, 1), [0], "neither is executed");
        assert_eq!(lone.state(), QpState::Rts);
        lone.burst(&[excess, write.ask()]);
        let answers = lone.sends();
        assert_eq!(answers[0].psn.get(), 105);
        assert_eq!(answers[1], Packet::ack(106, 3));
    }
}

/// As often as it comes, it costs a packet each time and no memory; and without a retry it is an
/// invalid request.
#[test]
fn excess_reads_are_bounded() {
    let mut lone = Lone::with(Setup { max_dest_rd_atomic: 1, ..Setup::DEFAULT });
    let rkey = lone.rkey();
    let read = Packet::read(100, VA, rkey, 5 * 1024);
    lone.burst(&[read.clone(), read]);
    for _ in 0..50 {
        lone.receives(Packet::read(105, VA, rkey, 1));
    }
    assert_eq!(lone.sends().len(), 6);
    let mut lone = Lone::with(Setup { max_dest_rd_atomic: 1, ..Setup::DEFAULT });
    lone.burst(&[Packet::read(100, VA, rkey, 5 * 1024), Packet::read(105, VA, rkey, 1)]);
    assert_eq!(lone.sends().last(), Some(&Packet::answer(105, 0x61, 1)));
    assert_eq!(lone.state(), QpState::Error);
}
