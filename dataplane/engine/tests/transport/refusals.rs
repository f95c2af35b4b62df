//! Requests that are refused for good: which NAK, at which PSN, and what of the request happens
//! (IBTA 9.7.4.1, 9.9.3).

use roce_codec::ib::{NakCode, Opcode, RKey};
use roce_engine::{Access, Addr, DropReason, Event, HwCounter, MrAttr, QpState, WcStatus};

use crate::host::{LEN, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;

const INVALID: u8 = 0x61;
const ACCESS: u8 = 0x62;
const OPERATIONAL: u8 = 0x63;

/// The packets before the last are executed, the last is refused with this syndrome; nothing of
/// it happens, the queue pair is in error, and after the NAK there is silence.
fn refused(mut lone: Lone, packets: &[Packet], syndrome: u8, msn: u32) {
    let (last, before) = packets.split_last().unwrap();
    lone.burst(before);
    lone.sends();
    let memory = lone.host.all_bytes();
    lone.host.events();
    let answers = lone.answers(last.clone());
    assert_eq!(answers.len(), 1, "{last:?}");
    let nak = &answers[0];
    assert_eq!(nak.opcode, Opcode::RC_ACKNOWLEDGE, "case 42: whatever was refused");
    assert_eq!(nak.psn, last.psn);
    let aeth = nak.ext.aeth.unwrap();
    assert_eq!((aeth.syndrome.0, aeth.msn.get()), (syndrome, msn), "{last:?}");
    assert_eq!(lone.host.all_bytes(), memory, "{last:?}");
    assert_eq!(lone.state(), QpState::Error);
    assert_eq!(lone.count(HwCounter::SentFatalNak), 1);
    let code = match syndrome {
        INVALID => NakCode::InvalidRequest,
        ACCESS => NakCode::RemoteAccessError,
        _ => NakCode::RemoteOperationalError,
    };
    // Case 59: an affiliated event, since no work request of ours failed.
    assert_eq!(lone.host.events(), [Event::RequestRefused { qp: lone.host.qp, code }]);
    assert_eq!(lone.answers(last.clone()), [], "silence");
    assert_eq!(lone.dropped(DropReason::QpState), 1);
}

fn write(opcode: Opcode, psn: u32) -> Packet {
    Packet::new(opcode, psn)
}

#[test]
fn opcodes_out_of_order() {
    use Opcode as O;
    let lone = Lone::new;
    let rkey = lone().rkey();
    let first = write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000).payload(&[1; 1024]);
    let send_first = Packet::new(O::RC_SEND_FIRST, 100).payload(&[1; 1024]);
    for opcode in
        [O::RC_RDMA_WRITE_MIDDLE, O::RC_RDMA_WRITE_LAST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST]
    {
        refused(lone(), &[Packet::new(opcode, 100).payload(&[1; 1024])], INVALID, 0);
    }
    let inside_a_write = [
        Packet::new(O::RC_SEND_MIDDLE, 101).payload(&[1; 1024]),
        Packet::new(O::RC_SEND_LAST, 101).payload(&[1; 8]),
        Packet::new(O::RC_SEND_ONLY, 101),
        Packet::new(O::RC_SEND_FIRST, 101).payload(&[1; 1024]),
        write(O::RC_RDMA_WRITE_FIRST, 101).reth(VA, rkey, 3000).payload(&[1; 1024]),
        write(O::RC_RDMA_WRITE_ONLY, 101).reth(VA, rkey, 1).payload(&[1]),
        Packet::read(101, VA, rkey, 1),
        Packet::fetch_add(101, VA, rkey, 1),
        Packet::compare_swap(101, VA, rkey, 1, 0),
    ];
    for second in inside_a_write {
        refused(lone(), &[first.clone(), second], INVALID, 0);
    }
    let inside_a_send = [
        Packet::new(O::RC_RDMA_WRITE_MIDDLE, 101).payload(&[1; 1024]),
        Packet::new(O::RC_RDMA_WRITE_LAST, 101).payload(&[1; 8]),
        Packet::new(O::RC_SEND_FIRST, 101).payload(&[1; 1024]),
        Packet::new(O::RC_SEND_ONLY, 101),
        Packet::read(101, VA, rkey, 1),
    ];
    for second in inside_a_send {
        let mut lone = lone();
        lone.host.post_recv(1, 0, 4096);
        refused(lone, &[send_first.clone(), second], INVALID, 0);
    }
}

/// Case 50.
#[test]
fn payloads_that_do_not_fit_the_path_mtu() {
    use Opcode as O;
    let rkey = Lone::new().rkey();
    let first = write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000).payload(&[1; 1024]);
    let single = [
        write(O::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1028).payload(&[1; 1028]),
        write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000).payload(&[1; 1020]),
        write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000).payload(&[1; 1028]),
        write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 3000),
    ];
    for packet in single {
        refused(Lone::new(), &[packet], INVALID, 0);
    }
    let behind_first = [
        Packet::new(O::RC_RDMA_WRITE_MIDDLE, 101).payload(&[1; 1000]),
        Packet::new(O::RC_RDMA_WRITE_MIDDLE, 101),
        Packet::new(O::RC_RDMA_WRITE_LAST, 101),
        Packet::new(O::RC_RDMA_WRITE_LAST, 101).payload(&[1; 1028]),
    ];
    for packet in behind_first {
        refused(Lone::new(), &[first.clone(), packet], INVALID, 0);
    }
    for packet in [
        Packet::new(O::RC_SEND_ONLY, 100).payload(&[1; 1028]),
        Packet::new(O::RC_SEND_FIRST, 100).payload(&[1; 1020]),
    ] {
        let mut lone = Lone::new();
        lone.host.post_recv(1, 0, 4096);
        refused(lone, &[packet], INVALID, 0);
    }
    for packet in
        [Packet::new(O::RC_SEND_LAST, 101), Packet::new(O::RC_SEND_MIDDLE, 101).payload(&[1; 1000])]
    {
        let mut lone = Lone::new();
        lone.host.post_recv(1, 0, 4096);
        let first = Packet::new(O::RC_SEND_FIRST, 100).payload(&[1; 1024]);
        refused(lone, &[first, packet], INVALID, 0);
    }
}

/// Transport rule 11.
#[test]
fn payloads_that_are_not_the_dma_length() {
    use Opcode as O;
    let rkey = Lone::new().rkey();
    let only = |dma_len, len| {
        write(O::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, dma_len).payload(&vec![1; len])
    };
    for packet in [only(5, 4), only(4, 5), only(0, 1), only(1, 0), only(2048, 1024)] {
        refused(Lone::new(), &[packet], INVALID, 0);
    }
    let first =
        |dma_len| write(O::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, dma_len).payload(&[1; 1024]);
    refused(Lone::new(), &[first(1024)], INVALID, 0);
    refused(Lone::new(), &[first(1000)], INVALID, 0);
    let last = |len| Packet::new(O::RC_RDMA_WRITE_LAST, 101).payload(&vec![2; len]);
    refused(Lone::new(), &[first(1030), last(5)], INVALID, 0);
    refused(Lone::new(), &[first(1030), last(7)], INVALID, 0);
    let middle = Packet::new(O::RC_RDMA_WRITE_MIDDLE, 101).payload(&[2; 1024]);
    refused(Lone::new(), &[first(1030), middle.clone()], INVALID, 0);
    refused(Lone::new(), &[first(2048), middle], INVALID, 0);
}

/// Transport rule 11: 2³¹ bytes are the most, whatever the region has.
#[test]
fn messages_above_two_gigabytes() {
    let lone = Lone::new();
    let rkey = lone.rkey();
    refused(lone, &[Packet::read(100, VA, rkey, (1 << 31) + 1)], INVALID, 0);
    refused(Lone::new(), &[Packet::read(100, VA, rkey, u32::MAX)], INVALID, 0);
    let first =
        write(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, (1 << 31) + 1).payload(&[1; 1024]);
    refused(Lone::new(), &[first], INVALID, 0);
    refused(Lone::new(), &[Packet::read(100, VA, rkey, 1 << 31)], ACCESS, 0);
}

/// Transport rule 10: what the queue pair does not allow is an invalid request.
#[test]
fn what_the_queue_pair_does_not_allow() {
    let rkey = Lone::new().rkey();
    let write = write(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]);
    let read = Packet::read(100, VA, rkey, 1);
    let add = Packet::fetch_add(100, VA, rkey, 1);
    let swap = Packet::compare_swap(100, VA, rkey, 1, 0);
    let with = |access| Lone::with(Setup { access, ..Setup::DEFAULT });
    let read_atomic = Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    refused(with(read_atomic), std::slice::from_ref(&write), INVALID, 0);
    let write_atomic = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    refused(with(write_atomic), std::slice::from_ref(&read), INVALID, 0);
    let write_read = Access::REMOTE_WRITE | Access::REMOTE_READ;
    refused(with(write_read), std::slice::from_ref(&add), INVALID, 0);
    refused(with(write_read), std::slice::from_ref(&swap), INVALID, 0);
    for packet in [write, read, add, swap] {
        refused(with(Access::LOCAL_WRITE), &[packet], INVALID, 0);
    }
}

/// Transport rule 10: misaligned is invalid, before the key is looked at.
#[test]
fn atomics_that_are_not_aligned() {
    let rkey = Lone::new().rkey();
    for off in 1..8 {
        refused(Lone::new(), &[Packet::fetch_add(100, VA + off, rkey, 1)], INVALID, 0);
        let swap = Packet::compare_swap(100, VA + off, RKey(1), 1, 0);
        refused(Lone::new(), &[swap], INVALID, 0);
    }
}

/// Requests that carry data where none belongs.
#[test]
fn payload_where_there_is_none() {
    let rkey = Lone::new().rkey();
    for packet in [Packet::read(100, VA, rkey, 8), Packet::fetch_add(100, VA, rkey, 1)] {
        refused(Lone::new(), &[packet.payload(&[1; 4])], INVALID, 0);
    }
}

/// Case 52 and IBTA 9.7.4.1.5: key, range, without wrapping.
#[test]
fn keys_and_ranges() {
    let rkey = Lone::new().rkey();
    let len = LEN as u64;
    let requests = |va, rkey, dma_len: u32| {
        let position = if dma_len > 1024 { 1024 } else { dma_len };
        let opcode =
            if dma_len > 1024 { Opcode::RC_RDMA_WRITE_FIRST } else { Opcode::RC_RDMA_WRITE_ONLY };
        let payload = vec![1; usize::try_from(position).unwrap()];
        [
            Packet::read(100, va, rkey, dma_len),
            write(opcode, 100).reth(va, rkey, dma_len).payload(&payload),
        ]
    };
    for (va, key, dma_len) in [
        (VA - 1, rkey, 1),
        (VA - 1, rkey, 2),
        (VA + len, rkey, 1),
        (VA + len - 1, rkey, 2),
        (VA + 1, rkey, u32::try_from(len).unwrap()),
        (0xffff_ffff_ffff_fc00, rkey, 0x400),
        (0xffff_ffff_ffff_fc00, rkey, 0x401),
        (u64::MAX, rkey, 1),
        (0, rkey, 1),
        (VA, RKey(0), 1),
        (VA, RKey(rkey.0 ^ 0x100), 1),
        (VA, RKey(u32::MAX), 1),
    ] {
        for packet in requests(va, key, dma_len) {
            refused(Lone::new(), &[packet], ACCESS, 0);
        }
    }
    for va in [VA - 8, VA + len, VA + len + 8, 0, 0xffff_ffff_ffff_fff8] {
        refused(Lone::new(), &[Packet::fetch_add(100, va, rkey, 1)], ACCESS, 0);
        refused(Lone::new(), &[Packet::compare_swap(100, va, rkey, 1, 0)], ACCESS, 0);
    }
    refused(Lone::new(), &[Packet::fetch_add(100, VA, RKey(rkey.0 ^ 0x100), 1)], ACCESS, 0);
    let lkey = Lone::new().host.mr.lkey;
    refused(Lone::new(), &[Packet::read(100, VA, RKey(lkey.0), 1)], ACCESS, 0);
}

/// The whole range is checked at the First: nothing of a WRITE that leaves its region happens.
#[test]
fn a_write_that_would_leave_its_region_does_not_begin() {
    let lone = Lone::new();
    let at = VA + LEN as u64 - 1024;
    let first =
        write(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(at, lone.rkey(), 1025).payload(&[1; 1024]);
    refused(lone, &[first], ACCESS, 0);
}

/// The region's rights, one missing each time; and a key of another protection domain, and one
/// that is dead.
#[test]
fn rights_domains_and_stale_keys() {
    type Make = fn(RKey) -> Packet;
    let requests: [(Access, Make); 4] = [
        (Access::REMOTE_WRITE, |rkey| {
            write(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 8).payload(&[1; 8])
        }),
        (Access::REMOTE_READ, |rkey| Packet::read(100, VA, rkey, 8)),
        (Access::REMOTE_ATOMIC, |rkey| Packet::fetch_add(100, VA, rkey, 1)),
        (Access::REMOTE_ATOMIC, |rkey| Packet::compare_swap(100, VA, rkey, 1, 0)),
    ];
    for (need, request) in requests {
        let register = |lone: &mut Lone, pd, access| {
            let backing = Addr { region: 0, offset: 0 };
            let attr = MrAttr { pd, va: VA, len: 4096, access, backing };
            lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap().rkey
        };
        let all =
            [Access::LOCAL_WRITE, Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
        let others = all
            .into_iter()
            .filter(|access| *access != need)
            .fold(Access::NONE, |sum, access| sum | access);
        let mut lone = Lone::new();
        let pd = lone.host.pd;
        let rkey = register(&mut lone, pd, others);
        refused(lone, &[request(rkey)], ACCESS, 0);

        let mut lone = Lone::new();
        let pd = lone.host.engine.alloc_pd();
        let rkey = register(&mut lone, pd, Access::ALL);
        refused(lone, &[request(rkey)], ACCESS, 0);

        let mut lone = Lone::new();
        let pd = lone.host.pd;
        let rkey = register(&mut lone, pd, Access::ALL);
        lone.host.engine.deregister_mr(rkey).unwrap();
        register(&mut lone, pd, Access::ALL);
        refused(lone, &[request(rkey)], ACCESS, 0);

        let mut lone = Lone::new();
        let rkey = register(&mut lone, pd, need);
        assert_eq!(lone.answers(request(rkey).ask()).len(), 1);
        assert_eq!(lone.state(), QpState::Rts, "the one right is enough");
    }
}

/// Transport rule 5: more READs and atomics than agreed.
#[test]
fn more_reads_than_agreed() {
    let setup = Setup { max_dest_rd_atomic: 2, ..Setup::DEFAULT };
    let rkey = Lone::new().rkey();
    let mut lone = Lone::with(setup);
    lone.burst(&[
        Packet::read(100, VA, rkey, 1),
        Packet::fetch_add(101, VA, rkey, 1),
        Packet::fetch_add(102, VA, rkey, 1),
    ]);
    let answers = lone.sends();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2], Packet::answer(102, INVALID, 2), "behind the answers owed");
    assert_eq!(lone.host.word(0), 1, "the third is not executed");
    assert_eq!(lone.state(), QpState::Error);
    let none = Lone::with(Setup { max_dest_rd_atomic: 0, ..Setup::DEFAULT });
    refused(none, &[Packet::read(100, VA, rkey, 1)], INVALID, 0);
    let none = Lone::with(Setup { max_dest_rd_atomic: 0, ..Setup::DEFAULT });
    refused(none, &[Packet::fetch_add(100, VA, rkey, 1)], INVALID, 0);
}

/// Transport rule 9: the fatal NAK goes out behind earlier answers, receives are flushed, then
/// silence.
#[test]
fn a_fatal_nak_waits_behind_a_read() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.host.post_recv(1, 0, 64);
    lone.host.post_recv(2, 0, 64);
    lone.burst(&[
        write(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]).ask(),
        Packet::read(101, VA, rkey, 3072),
        Packet::read(104, VA, RKey(0), 1),
        write(Opcode::RC_RDMA_WRITE_ONLY, 105).reth(VA, rkey, 1).payload(&[2]).ask(),
    ]);
    assert_eq!(lone.host.bytes(0, 1), [1], "nothing behind the refusal");
    let flushed: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(flushed, [(1, WcStatus::WrFlush), (2, WcStatus::WrFlush)]);
    let answers = lone.sends();
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [101, 102, 103, 104]);
    assert_eq!(answers[3], Packet::answer(104, ACCESS, 2));
    assert_eq!(lone.answers(Packet::read(101, VA, rkey, 3072)), []);
}

/// Transport rule 11: a SEND longer than its receive is an invalid request there and a local
/// length error here.
#[test]
fn a_send_longer_than_its_receive() {
    let mut lone = Lone::new();
    lone.host.post_recv(1, 0, 3);
    lone.host.post_recv(2, 0, 64);
    let send = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(b"four");
    assert_eq!(lone.answers(send), [Packet::answer(100, INVALID, 0)]);
    let ended: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ended, [(1, WcStatus::LocalLength), (2, WcStatus::WrFlush)]);

    let mut lone = Lone::new();
    lone.host.post_recv(1, 0, 1500);
    lone.receives(Packet::new(Opcode::RC_SEND_FIRST, 100).payload(&[1; 1024]));
    let last = Packet::new(Opcode::RC_SEND_LAST, 101).payload(&[2; 477]);
    assert_eq!(lone.answers(last), [Packet::answer(101, INVALID, 0)]);
    assert_eq!(lone.host.received()[0].status, WcStatus::LocalLength);
    assert_eq!(lone.host.bytes(1024, 477), [0; 477]);
}

/// The receive's own memory is gone: an operational error there, a protection error here.
#[test]
fn a_receive_whose_region_went() {
    let mut lone = Lone::new();
    let attr = MrAttr {
        pd: lone.host.pd,
        va: 0x1000,
        len: 64,
        access: Access::LOCAL_WRITE,
        backing: Addr { region: 0, offset: 0 },
    };
    let mr = lone.host.engine.register_mr(&attr, &mut lone.host.entropy).unwrap();
    let sge = roce_engine::Sge { va: 0x1000, len: 64, lkey: mr.lkey };
    let sges = [sge];
    let recv = roce_engine::RecvWr::new(1, &sges);
    lone.host.engine.post_recv(lone.host.qp, &recv).unwrap();
    lone.host.engine.deregister_mr(mr.rkey).unwrap();
    let send = Packet::new(Opcode::RC_SEND_ONLY, 100).payload(b"late");
    assert_eq!(lone.answers(send), [Packet::answer(100, OPERATIONAL, 0)]);
    assert_eq!(lone.host.received()[0].status, WcStatus::LocalProtection);
}

/// The memory behind a region fails.
#[test]
fn memory_that_fails_is_an_operational_error() {
    let rkey = Lone::new().rkey();
    let requests = [
        write(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[1]),
        Packet::fetch_add(100, VA, rkey, 1),
        Packet::read(100, VA, rkey, 1),
        Packet::new(Opcode::RC_SEND_ONLY, 100).payload(&[1]),
    ];
    for packet in requests {
        let mut lone = Lone::new();
        lone.host.post_recv(1, 0, 1);
        lone.host.memory.gone.set(true);
        let answers = lone.answers(packet);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].psn.get(), 100);
        assert_eq!(answers[0].ext.aeth.unwrap().syndrome.0, OPERATIONAL);
        assert_eq!(lone.state(), QpState::Error);
    }
}

/// A region taken away while a READ of it is being answered: what is out is out, then a NAK.
#[test]
fn a_region_that_goes_while_it_is_read() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.burst(&[Packet::read(100, VA, rkey, 4096), Packet::read(104, VA, rkey, 1)]);
    assert_eq!(lone.sends_one().unwrap().psn.get(), 100);
    lone.host.engine.deregister_mr(rkey).unwrap();
    let answers = lone.sends();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].psn.get(), 101, "where the answer would have been");
    assert_eq!(answers[0].ext.aeth.unwrap().syndrome.0, OPERATIONAL);
    assert_eq!(lone.state(), QpState::Error);
}

/// A request is refused, and then the region of an earlier READ goes: one event, one NAK, at the
/// first answer that is missing.
#[test]
fn a_region_that_goes_after_a_refusal() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.burst(&[Packet::read(100, VA, rkey, 4096), Packet::read(104, VA, RKey(1), 1)]);
    assert_eq!(lone.sends_one().unwrap().psn.get(), 100);
    lone.host.engine.deregister_mr(rkey).unwrap();
    assert_eq!(lone.sends(), [Packet::answer(101, OPERATIONAL, 1)]);
    assert_eq!(lone.host.events().len(), 1);
}

/// A late duplicate of a READ is being answered when its region goes: the peer has its answer
/// long since, and the connection lives.
#[test]
fn a_region_that_goes_while_it_is_read_again() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let read = Packet::read(100, VA, rkey, 4096);
    assert_eq!(lone.answers(read.clone()).len(), 4);
    lone.receives(read);
    assert_eq!(lone.sends_one().unwrap().psn.get(), 100);
    lone.host.engine.deregister_mr(rkey).unwrap();
    assert_eq!(lone.sends(), []);
    let write = write(Opcode::RC_RDMA_WRITE_ONLY, 104).reth(VA, rkey, 0).ask();
    assert_eq!(lone.answers(write), [Packet::ack(104, 2)]);
}

/// And while it is written: between the packets of one message.
#[test]
fn a_region_that_goes_while_it_is_written() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let first = write(Opcode::RC_RDMA_WRITE_FIRST, 100).reth(VA, rkey, 1030).payload(&[1; 1024]);
    lone.receives(first);
    lone.host.engine.deregister_mr(rkey).unwrap();
    let last = Packet::new(Opcode::RC_RDMA_WRITE_LAST, 101).payload(&[2; 6]);
    assert_eq!(lone.answers(last), [Packet::answer(101, ACCESS, 0)]);
    assert_eq!(lone.host.bytes(1024, 6), [0; 6]);
}

/// Case 49: no key is needed for no bytes, one PSN is.
#[test]
fn requests_of_no_bytes_need_no_key() {
    let mut lone = Lone::new();
    let junk = RKey(0xdead_beef);
    let only = write(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(1, junk, 0).ask();
    assert_eq!(lone.answers(only), [Packet::ack(100, 1)]);
    let answer = Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 101, 2, &[]);
    assert_eq!(lone.answers(Packet::read(101, u64::MAX, junk, 0)), [answer]);
    assert!(lone.expects(102));
    lone.host.post_recv(1, 0, 0);
    let imm = write(Opcode::RC_RDMA_WRITE_ONLY_IMM, 102).reth(1, junk, 0).imm(6).ask();
    assert_eq!(lone.answers(imm), [Packet::ack(102, 3)]);
    let wc = lone.host.received()[0];
    assert_eq!((wc.byte_len, wc.imm), (0, Some(6)), "case 60");
}
