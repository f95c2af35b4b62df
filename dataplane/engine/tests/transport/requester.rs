//! What a requester sends and when, and what it makes of the answers (IBTA 9.7.5.2, 9.7.6).

use roce_codec::ib::{Opcode, PathMtu, Psn, RKey};
use roce_engine::{
    Access, Addr, DropReason, HwCounter, MrAttr, PostError, QpState, SendWr, Sge, WcOpcode,
    WcStatus, WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;

const FAR: u64 = 0xdead_0000;
const KEY: RKey = RKey(0xabcd);
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: KEY };
const READ: WrOpcode = WrOpcode::RdmaRead { va: FAR, rkey: KEY };
const ADD: WrOpcode = WrOpcode::FetchAdd { va: FAR, rkey: KEY, add: 1 };

fn post(lone: &mut Lone, wr_id: u64, opcode: WrOpcode, len: u32) {
    let sge = lone.host.sge(0, len);
    lone.host.post(wr_id, opcode, sge);
}

fn ended(lone: &mut Lone) -> Vec<(u64, WcStatus)> {
    lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

fn psns(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.psn.get()).collect()
}

#[test]
fn every_message_ends_with_a_wish_for_an_answer() {
    use Opcode as O;
    let mut lone = Lone::new();
    lone.host.put(0, &[9; 2500]);
    let sge = lone.host.sge(0, 2500);
    let sges = [sge];
    let wr = SendWr::new(1, WRITE, &sges).solicited();
    lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
    let expect = [
        Packet::new(O::RC_RDMA_WRITE_FIRST, 5000).reth(FAR, KEY, 2500).payload(&[9; 1024]),
        Packet::new(O::RC_RDMA_WRITE_MIDDLE, 5001).payload(&[9; 1024]),
        Packet::new(O::RC_RDMA_WRITE_LAST, 5002).payload(&[9; 452]).ask().solicit(),
    ];
    assert_eq!(lone.sends(), expect);
    lone.receives(Packet::ack(5002, 1));
    let done = lone.host.sent();
    assert_eq!((done[0].wr_id, done[0].opcode), (1, WcOpcode::RdmaWrite));
    assert_eq!(done[0].status, WcStatus::Success);
    assert_eq!(lone.host.engine.poll_timeout(), None, "nothing is outstanding");
}

/// Case 66: a message without a byte takes a PSN like any other.
/// Who solicits an event says so in the last packet of the message.
#[test]
fn a_solicited_message_says_so_in_its_last_packet() {
    let mut lone = Lone::new();
    for (wr_id, solicited) in [(1, true), (2, false)] {
        let sges = [lone.host.sge(0, 3000)];
        let wr = SendWr { solicited, ..SendWr::new(wr_id, WrOpcode::Send, &sges) };
        lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
    }
    let solicited: Vec<_> = lone.sends().iter().map(|packet| packet.solicited).collect();
    assert_eq!(solicited, [false, false, true, false, false, false]);
}

#[test]
fn empty_messages_take_a_psn_each() {
    let mut lone = Lone::new();
    for wr_id in 0..2 {
        post(&mut lone, wr_id, WrOpcode::Send, 0);
    }
    post(&mut lone, 2, WrOpcode::RdmaRead { va: 0, rkey: RKey(0) }, 0);
    post(&mut lone, 3, WrOpcode::SendWithImm(5), 0);
    let sent = lone.sends();
    assert_eq!(psns(&sent), [5000, 5001, 5002, 5003]);
    assert_eq!(sent[2], Packet::read(5002, 0, RKey(0), 0));
    assert_eq!(sent[3], Packet::new(Opcode::RC_SEND_ONLY_IMM, 5003).imm(5).ask());
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5002, 3, &[]));
    lone.receives(Packet::ack(5003, 4));
    let success = WcStatus::Success;
    assert_eq!(ended(&mut lone), [(0, success), (1, success), (2, success), (3, success)]);
}

/// Case 40: a READ takes as many PSNs as its answer has packets.
#[test]
fn a_read_takes_the_psns_of_its_answer() {
    let mut lone = Lone::with(Setup { sq_psn: 0x62_2c76, ..Setup::DEFAULT });
    for wr_id in 0..3 {
        post(&mut lone, wr_id, READ, 3000);
    }
    assert_eq!(psns(&lone.sends()), [0x62_2c76, 0x62_2c79, 0x62_2c7c]);
}

/// Requester rule 1: what is outside of "sent and not acknowledged" is a ghost.
#[test]
fn answers_to_nothing_are_ignored() {
    let mut lone = Lone::new();
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 1, "nothing sent yet");
    post(&mut lone, 1, WRITE, 2048);
    lone.sends();
    for psn in [4999, 5002, 5000 + (1 << 23), 0] {
        lone.receives(Packet::ack(psn, 1));
        lone.receives(Packet::answer(psn, 0x62, 1));
    }
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 9);
    assert_eq!(ended(&mut lone), []);
    lone.receives(Packet::ack(5001, 1));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
    lone.receives(Packet::ack(5001, 1));
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 10, "a second time");
}

/// Requester rule 1: reserved syndromes are ignored.
#[test]
fn reserved_syndromes_are_ignored() {
    let mut lone = Lone::new();
    post(&mut lone, 1, WRITE, 1);
    lone.sends();
    let reserved = (0x40..0x60).chain(0x65..=0xff);
    let mut count = 0;
    for syndrome in reserved {
        lone.receives(Packet::answer(5000, syndrome, 1));
        count += 1;
        assert_eq!(lone.dropped(DropReason::ReservedSyndrome), count, "{syndrome:#x}");
    }
    assert_eq!((ended(&mut lone), lone.state()), (vec![], QpState::Rts));
}

/// Case 47: any credit count is an acknowledgement.
#[test]
fn an_ack_with_any_credits_acknowledges() {
    for credits in 0..32 {
        let mut lone = Lone::new();
        post(&mut lone, 1, WRITE, 1);
        lone.sends();
        lone.receives(Packet::answer(5000, credits, 1));
        assert_eq!(ended(&mut lone), [(1, WcStatus::Success)], "{credits}");
    }
}

/// Requester rule 2: an ACK says that a READ's answer was lost, once.
#[test]
fn an_ack_cannot_complete_a_read() {
    let mut lone = Lone::new();
    post(&mut lone, 1, WRITE, 1);
    post(&mut lone, 2, READ, 2048);
    post(&mut lone, 3, WRITE, 1);
    assert_eq!(psns(&lone.sends()), [5000, 5001, 5003]);
    lone.receives(Packet::ack(5003, 3));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)], "what is before the READ");
    let again = lone.sends();
    assert_eq!(psns(&again), [5001, 5003]);
    assert_eq!(again[0], Packet::read(5001, FAR, KEY, 2048));
    assert!(again[1].ack_req);
    lone.receives(Packet::ack(5003, 3));
    assert_eq!(lone.sends(), [], "one event, one retry");
    assert_eq!(lone.dropped(DropReason::RepeatedNak), 1);
    assert_eq!(lone.count(HwCounter::ImpliedNakSeqErr), 2);

    use Opcode as O;
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5001, 3, &[1; 1024]));
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 5002, 3, &[2; 1024]));
    lone.receives(Packet::ack(5003, 3));
    assert_eq!(ended(&mut lone), [(2, WcStatus::Success), (3, WcStatus::Success)]);
    assert_eq!(lone.host.bytes(0, 2048), [[1; 1024], [2; 1024]].concat());
}

/// A READ's answer acknowledges what came before it; one behind a missing answer does not count.
#[test]
fn a_read_answer_is_an_ack_of_what_is_before_it() {
    use Opcode as O;
    let mut lone = Lone::new();
    post(&mut lone, 1, WRITE, 1);
    post(&mut lone, 2, READ, 1);
    post(&mut lone, 3, ADD, 8);
    lone.sends();
    lone.receives(Packet::atomic_answer(5002, 3, 7));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
    assert_eq!(psns(&lone.sends()), [5001, 5002], "from the missing answer on");
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_ONLY, 5001, 3, &[1]));
    lone.receives(Packet::atomic_answer(5002, 3, 7));
    assert_eq!(ended(&mut lone), [(2, WcStatus::Success), (3, WcStatus::Success)]);
    assert_eq!(lone.host.word(0), 7);
}

/// Requester rule 3: by PSN, whatever the packets call themselves.
#[test]
fn read_answers_of_two_passes_interleave() {
    use Opcode as O;
    let mut lone = Lone::new();
    post(&mut lone, 1, READ, 3000);
    lone.sends();
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5000, 1, &[1; 1024]));
    lone.wait(100_000_000);
    let again = lone.sends();
    assert_eq!(again, [Packet::read(5001, FAR + 1024, KEY, 1976)], "what has not come yet");
    // The old pass was only slow: its middle, then the new pass's first and last.
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_MIDDLE, 5001, 1, &[2; 1024]));
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5001, 1, &[2; 1024]));
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 5002, 1, &[3; 952]));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
    assert_eq!(lone.host.bytes(0, 3001), [&[1; 1024][..], &[2; 1024], &[3; 952], &[0]].concat());
}

/// Requester rule 3: a peer may answer the rest of a READ from First or go on with Middle.
#[test]
fn the_rest_of_a_read_may_call_itself_first_or_middle() {
    use Opcode as O;
    for opcode in [O::RC_RDMA_READ_RESPONSE_FIRST, O::RC_RDMA_READ_RESPONSE_MIDDLE] {
        for last in [O::RC_RDMA_READ_RESPONSE_LAST, O::RC_RDMA_READ_RESPONSE_ONLY] {
            let mut lone = Lone::new();
            post(&mut lone, 1, READ, 3000);
            lone.sends();
            lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5000, 1, &[1; 1024]));
            lone.wait(100_000_000);
            lone.sends();
            lone.receives(Packet::response(opcode, 5001, 1, &[2; 1024]));
            lone.receives(Packet::response(last, 5002, 1, &[3; 952]));
            assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
            let expect = [&[1; 1024][..], &[2; 1024], &[3; 952], &[0]].concat();
            assert_eq!(lone.host.bytes(0, 3001), expect);
        }
    }
}

#[test]
fn a_read_answer_of_another_length_is_a_bad_response() {
    use Opcode as O;
    let mut lone = Lone::new();
    post(&mut lone, 1, READ, 3000);
    post(&mut lone, 2, WRITE, 1);
    lone.sends();
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5000, 1, &[1; 1020]));
    assert_eq!(ended(&mut lone), [(1, WcStatus::BadResponse), (2, WcStatus::WrFlush)]);
    assert_eq!(lone.host.bytes(0, 1), [0]);
    assert_eq!(lone.state(), QpState::Error);
}

#[test]
fn an_answer_of_another_kind_is_ignored() {
    use Opcode as O;
    let mut lone = Lone::new();
    post(&mut lone, 1, ADD, 8);
    post(&mut lone, 2, READ, 8);
    post(&mut lone, 3, WRITE, 8);
    lone.sends();
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[1; 8]));
    lone.receives(Packet::atomic_answer(5000, 1, 3));
    lone.receives(Packet::atomic_answer(5001, 2, 4));
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_ONLY, 5001, 2, &[5; 8]));
    lone.receives(Packet::response(O::RC_RDMA_READ_RESPONSE_ONLY, 5002, 3, &[6; 8]));
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 3);
    lone.receives(Packet::ack(5002, 3));
    let success = WcStatus::Success;
    assert_eq!(ended(&mut lone), [(1, success), (2, success), (3, success)]);
    assert_eq!(lone.host.bytes(0, 8), [5; 8]);
}

/// Requester rule 4: a full window asks for an answer, and opens with it.
#[test]
fn the_window_bounds_what_is_in_flight() {
    let mut lone = Lone::with(Setup { window: 4, ..Setup::DEFAULT });
    post(&mut lone, 1, WRITE, 10 * 1024);
    let sent = lone.sends();
    assert_eq!(psns(&sent), [5000, 5001, 5002, 5003]);
    let asking: Vec<_> = sent.iter().map(|packet| packet.ack_req).collect();
    assert_eq!(asking, [false, false, false, true]);
    lone.receives(Packet::ack(5001, 0));
    assert_eq!(psns(&lone.sends()), [5004, 5005]);
    lone.receives(Packet::ack(5005, 0));
    assert_eq!(psns(&lone.sends()), [5006, 5007, 5008, 5009]);
    lone.receives(Packet::ack(5009, 1));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
}

#[test]
fn reads_and_atomics_wait_for_their_turn() {
    let mut lone = Lone::with(Setup { max_rd_atomic: 2, ..Setup::DEFAULT });
    for wr_id in 0..4 {
        post(&mut lone, wr_id, ADD, 8);
    }
    assert_eq!(psns(&lone.sends()), [5000, 5001]);
    lone.receives(Packet::atomic_answer(5000, 1, 0));
    assert_eq!(psns(&lone.sends()), [5002]);
    lone.wait(100_000_000);
    assert_eq!(psns(&lone.sends()), [5001, 5002], "again no more than agreed");
    lone.receives(Packet::atomic_answer(5001, 2, 1));
    lone.receives(Packet::atomic_answer(5002, 3, 2));
    assert_eq!(psns(&lone.sends()), [5003]);
}

#[test]
fn a_read_that_the_peer_has_no_place_for_is_not_taken() {
    let mut lone = Lone::with(Setup { max_rd_atomic: 0, ..Setup::DEFAULT });
    let sges = [lone.host.sge(0, 1)];
    let wr = SendWr::new(1, READ, &sges);
    assert_eq!(lone.host.engine.post_send(lone.host.qp, &wr), Err(PostError::RdAtomic));
}

/// Transport rule 12: 2 GiB at MTU 256 are exactly half of the number space, and no packet more
/// may be outstanding.
#[test]
fn a_read_of_two_gigabytes_at_the_smallest_mtu() {
    let mut lone =
        Lone::with(Setup { path_mtu: PathMtu::Mtu256, sq_psn: 0xff_0000, ..Setup::DEFAULT });
    let attr = MrAttr {
        pd: lone.host.pd,
        va: 0,
        len: 1 << 31,
        access: Access::LOCAL_WRITE,
        backing: Addr { region: 0, offset: 0 },
    };
    let huge = lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap();
    let sge = Sge { va: 0, len: 1 << 31, lkey: huge.lkey };
    lone.host.post(1, READ, sge);
    post(&mut lone, 2, WRITE, 1);
    assert_eq!(lone.sends(), [Packet::read(0xff_0000, FAR, KEY, 1 << 31)], "and nothing behind it");
    let first = Opcode::RC_RDMA_READ_RESPONSE_FIRST;
    lone.receives(Packet::response(first, 0xff_0000, 1, &[1; 256]));
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 0);
    let info = lone.host.engine.query_qp(lone.host.qp).unwrap();
    assert_eq!(info.unacknowledged_psn, Psn::new(0xff_0001));
    let behind = lone.sends();
    assert_eq!(psns(&behind), [0x7f_0000], "one PSN is free, one packet goes");
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 0xff_0001, 1, &[2; 256]));
    assert_eq!(lone.host.bytes(0, 512), [[1; 256], [2; 256]].concat());
    lone.wait(100_000_000);
    let again = lone.sends();
    let rest = (1 << 31) - 512;
    assert_eq!(again[0], Packet::read(0xff_0002, FAR + 512, KEY, rest));
    assert_eq!(psns(&again), [0xff_0002, 0x7f_0000]);
}

#[test]
fn psns_wrap() {
    let mut lone = Lone::with(Setup { sq_psn: 0xff_fffe, ..Setup::DEFAULT });
    post(&mut lone, 1, WRITE, 3000);
    post(&mut lone, 2, READ, 3000);
    post(&mut lone, 3, WRITE, 1);
    assert_eq!(psns(&lone.sends()), [0xff_fffe, 0xff_ffff, 0, 1, 4]);
    lone.receives(Packet::ack(0, 1));
    assert_eq!(ended(&mut lone), [(1, WcStatus::Success)]);
    lone.receives(Packet::ack(0xff_ffff, 1));
    assert_eq!(lone.dropped(DropReason::UnexpectedResponse), 1);
}

/// Silent success, loud failure.
#[test]
fn unsignaled_requests_complete_only_in_error() {
    let mut lone = Lone::new();
    let sges = [lone.host.sge(0, 1)];
    let wr = |wr_id, signaled| SendWr { signaled, ..SendWr::new(wr_id, WRITE, &sges) };
    for wr in [wr(1, false), wr(2, true), wr(3, false), wr(4, false)] {
        lone.host.engine.post_send(lone.host.qp, &wr).unwrap();
    }
    lone.sends();
    lone.receives(Packet::ack(5001, 2));
    assert_eq!(ended(&mut lone), [(2, WcStatus::Success)]);
    lone.receives(Packet::answer(5002, 0x62, 2));
    assert_eq!(ended(&mut lone), [(3, WcStatus::RemoteAccess), (4, WcStatus::WrFlush)]);
}

#[test]
fn each_nak_code_ends_the_request_it_names() {
    for (code, status) in [
        (0x61, WcStatus::RemoteInvalidRequest),
        (0x62, WcStatus::RemoteAccess),
        (0x63, WcStatus::RemoteOperation),
        (0x64, WcStatus::RemoteOperation),
    ] {
        let mut lone = Lone::new();
        for wr_id in 1..=3 {
            post(&mut lone, wr_id, WRITE, 1);
        }
        lone.host.post_recv(9, 0, 8);
        lone.sends();
        lone.receives(Packet::answer(5001, code, 1));
        let flush = WcStatus::WrFlush;
        let expect = [(1, WcStatus::Success), (2, status), (3, flush)];
        assert_eq!(ended(&mut lone), expect, "{code:#x}: what is before a NAK is acknowledged");
        let received = lone.host.received();
        assert_eq!((received[0].wr_id, received[0].status), (9, flush));
        assert_eq!(lone.state(), QpState::Error);
        assert_eq!(lone.sends(), []);
    }
}

/// A region that goes away under a queued request fails that request, and what was sent before
/// it may still succeed.
#[test]
fn a_local_failure_ends_the_request_it_belongs_to() {
    let mut lone = Lone::new();
    let attr = MrAttr {
        pd: lone.host.pd,
        va: 0x1000,
        len: 64,
        access: Access::NONE,
        backing: Addr { region: 0, offset: 0 },
    };
    let other = lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap();
    post(&mut lone, 1, WRITE, 1);
    lone.host.post(2, WRITE, Sge { va: 0x1000, len: 8, lkey: other.lkey });
    post(&mut lone, 3, WRITE, 1);
    lone.host.engine.deregister_mr(other.rkey).unwrap();
    assert_eq!(psns(&lone.sends()), [5000]);
    assert_eq!(ended(&mut lone), [], "the first is under way");
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(lone.sends(), []);
    let expect = [(1, WcStatus::Success), (2, WcStatus::LocalProtection), (3, WcStatus::WrFlush)];
    assert_eq!(ended(&mut lone), expect);
}

/// The memory itself fails while a packet is being written: that request fails, not an older
/// one.
#[test]
fn failing_memory_ends_the_request_it_belongs_to() {
    let mut lone = Lone::new();
    for wr_id in 1..=3 {
        post(&mut lone, wr_id, WRITE, 1);
    }
    assert_eq!(lone.sends_one().unwrap().psn, Psn::new(5000));
    lone.host.memory.gone.set(true);
    assert_eq!(lone.sends(), []);
    let flush = WcStatus::WrFlush;
    assert_eq!(ended(&mut lone), [(1, flush), (2, WcStatus::LocalProtection), (3, flush)]);
}

#[test]
fn an_answer_that_cannot_be_placed_ends_its_request() {
    for opcode in [READ, ADD] {
        let mut lone = Lone::new();
        post(&mut lone, 1, opcode, 8);
        lone.sends();
        lone.host.memory.gone.set(true);
        lone.receives(match opcode {
            ADD => Packet::atomic_answer(5000, 1, 1),
            _ => Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[1; 8]),
        });
        assert_eq!(ended(&mut lone), [(1, WcStatus::LocalProtection)]);
        assert_eq!(lone.state(), QpState::Error);
    }
}

#[test]
fn what_may_be_posted() {
    let mut lone = Lone::new();
    let len = u32::try_from(LEN).unwrap();
    let good = lone.host.sge(0, len);
    let qp = lone.host.qp;
    let mut post = |opcode, sge| {
        let sges = [sge];
        let wr = SendWr::new(0, opcode, &sges);
        lone.host.engine.post_send(qp, &wr)
    };
    let protection = Err(PostError::LocalProtection);
    assert_eq!(post(WRITE, good), Ok(()));
    assert_eq!(post(WRITE, Sge { len: len + 1, ..good }), protection);
    assert_eq!(post(WRITE, Sge { va: VA - 1, len: 1, ..good }), protection);
    assert_eq!(post(WRITE, Sge { va: u64::MAX, len: 2, ..good }), protection);
    assert_eq!(post(WRITE, Sge { len: (1 << 31) + 1, ..good }), Err(PostError::Length));
    assert_eq!(post(ADD, Sge { len: 4, ..good }), Err(PostError::Length));
    assert_eq!(post(ADD, Sge { len: 8, ..good }), Ok(()));
    let nothing = Sge { va: 0, len: 0, lkey: roce_codec::ib::LKey(0) };
    assert_eq!(post(WRITE, nothing), Ok(()), "no key is needed for no bytes");
    for _ in 0..61 {
        assert_eq!(post(WRITE, nothing), Ok(()));
    }
    assert_eq!(post(WRITE, nothing), Err(PostError::QueueFull));
}
