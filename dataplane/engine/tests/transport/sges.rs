//! Scatter-gather lists: sent from, and received into, memory in several pieces.

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{
    Access, Addr, Body, MrAttr, PostError, QpInit, QpState, RecvWr, SendWr, Sge, WcOpcode,
    WcStatus, WrOpcode,
};

use crate::host::{Host, LEN, Setup};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const FAR: u64 = 0x9000;
const KEY: RKey = RKey(0x1234_5678);
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: KEY };
const READ: WrOpcode = WrOpcode::RdmaRead { va: FAR, rkey: KEY };

/// 2,500 bytes in four pieces, one of them empty: one ends within a packet, one lies within it.
const PIECES: [(usize, u32); 5] = [(7000, 1000), (0, 0), (100, 3), (20_000, 1400), (5000, 97)];

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

/// Lays `bytes` out over the pieces.
fn lay(host: &Host, pieces: &[(usize, u32)], bytes: &[u8]) {
    let mut bytes = bytes;
    for (offset, len) in pieces {
        let (piece, rest) = bytes.split_at(usize::try_from(*len).unwrap());
        host.put(*offset, piece);
        bytes = rest;
    }
    assert!(bytes.is_empty());
}

/// The bytes of the pieces, one behind the other.
fn gathered(host: &Host, pieces: &[(usize, u32)]) -> Vec<u8> {
    let bytes = |(offset, len): &(usize, u32)| host.bytes(*offset, usize::try_from(*len).unwrap());
    pieces.iter().flat_map(bytes).collect()
}

fn post(host: &mut Host, wr_id: u64, opcode: WrOpcode, pieces: &[(usize, u32)]) {
    let sges = host.sges(pieces);
    host.engine.post_send(host.qp, &SendWr::new(wr_id, opcode, &sges)).unwrap();
}

#[test]
fn a_write_gathers() {
    use Opcode as O;
    let mut lone = Lone::new();
    let bytes = pattern(2500);
    lay(&lone.host, &PIECES, &bytes);
    post(&mut lone.host, 1, WRITE, &PIECES);
    let expect = [
        Packet::new(O::RC_RDMA_WRITE_FIRST, 5000).reth(FAR, KEY, 2500).payload(&bytes[..1024]),
        Packet::new(O::RC_RDMA_WRITE_MIDDLE, 5001).payload(&bytes[1024..2048]),
        Packet::new(O::RC_RDMA_WRITE_LAST, 5002).payload(&bytes[2048..]).ask(),
    ];
    assert_eq!(lone.sends(), expect);
    // Sent again from the middle, it is the same.
    lone.receives(Packet::answer(5001, 0x60, 0));
    let again = lone.sends();
    assert_eq!(again, expect[1..]);
}

/// Of one piece, a packet names its memory, so that a port may gather; of several, the engine
/// knows.
#[test]
fn what_a_packet_carries() {
    let mut lone = Lone::new();
    post(&mut lone.host, 1, WRITE, &[(100, 0), (0, 1024), (200, 0)]);
    post(&mut lone.host, 2, WRITE, &[(0, 1), (2, 1)]);
    post(&mut lone.host, 3, WRITE, &[(0, 0), (0, 0)]);
    let mut body = || lone.host.engine.poll_transmit(lone.now).unwrap().body;
    let addr = Addr { region: 0, offset: 0 };
    assert_eq!(body(), Body::Region { addr, len: 1024 });
    let gather = body();
    assert!(matches!(gather, Body::Gather(_)) && gather.len() == 2);
    assert_eq!(body(), Body::Empty);
}

#[test]
fn a_send_scatters() {
    use Opcode as O;
    let mut lone = Lone::new();
    let before = lone.host.all_bytes();
    let sges = lone.host.sges(&PIECES);
    lone.host.engine.post_recv(lone.host.qp, &RecvWr::new(7, &sges)).unwrap();
    let bytes = pattern(2400);
    lone.burst(&[
        Packet::new(O::RC_SEND_FIRST, 100).payload(&bytes[..1024]),
        Packet::new(O::RC_SEND_MIDDLE, 101).payload(&bytes[1024..2048]),
        Packet::new(O::RC_SEND_LAST, 102).payload(&bytes[2048..]).ask(),
    ]);
    assert_eq!(lone.sends(), [Packet::ack(102, 1)]);
    let wc = lone.host.received()[0];
    assert_eq!((wc.wr_id, wc.status, wc.byte_len), (7, WcStatus::Success, 2400));
    assert_eq!(gathered(&lone.host, &PIECES)[..2400], bytes);
    // Nothing but the pieces has changed.
    let mut expect = before;
    let mut left = &bytes[..];
    for (offset, len) in PIECES {
        let (piece, rest) = left.split_at(left.len().min(usize::try_from(len).unwrap()));
        expect[offset..offset + piece.len()].copy_from_slice(piece);
        left = rest;
    }
    assert!(lone.host.all_bytes() == expect);
}

/// Longer than all pieces together, by a byte.
#[test]
fn a_send_longer_than_the_list() {
    let mut lone = Lone::new();
    let sges = lone.host.sges(&[(0, 4), (100, 4)]);
    for wr_id in [1, 2] {
        lone.host.engine.post_recv(lone.host.qp, &RecvWr::new(wr_id, &sges)).unwrap();
    }
    let send = |psn, len| Packet::new(Opcode::RC_SEND_ONLY, psn).payload(&vec![9; len]).ask();
    assert_eq!(lone.answers(send(100, 8)).len(), 1);
    assert_eq!(gathered(&lone.host, &[(0, 4), (100, 4)]), [9; 8]);
    assert_eq!(lone.answers(send(101, 9)), [Packet::answer(101, 0x61, 1)]);
    let statuses: Vec<_> = lone.host.received().iter().map(|wc| wc.status).collect();
    assert_eq!(statuses, [WcStatus::Success, WcStatus::LocalLength]);
}

#[test]
fn answers_scatter() {
    use Opcode as O;
    let mut lone = Lone::new();
    post(&mut lone.host, 1, READ, &PIECES);
    let add = WrOpcode::FetchAdd { va: FAR, rkey: KEY, add: 1 };
    post(&mut lone.host, 2, add, &[(40_000, 5), (41_000, 1), (42_000, 2)]);
    assert_eq!(
        lone.sends(),
        [Packet::read(5000, FAR, KEY, 2500), Packet::fetch_add(5003, FAR, KEY, 1),]
    );
    let bytes = pattern(2500);
    lone.burst(&[
        Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5000, 1, &bytes[..1024]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_MIDDLE, 5001, 1, &bytes[1024..2048]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 5002, 1, &bytes[2048..]),
        Packet::atomic_answer(5003, 2, 0x0807_0605_0403_0201),
    ]);
    let ended: Vec<_> =
        lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status, wc.byte_len)).collect();
    assert_eq!(ended, [(1, WcStatus::Success, 2500), (2, WcStatus::Success, 8)]);
    assert_eq!(gathered(&lone.host, &PIECES), bytes);
    let original = gathered(&lone.host, &[(40_000, 5), (41_000, 1), (42_000, 2)]);
    assert_eq!(original, 0x0807_0605_0403_0201_u64.to_ne_bytes());
}

/// A key of the list goes away: nothing of the packet is written, not even into what is before.
#[test]
fn a_list_is_looked_at_as_a_whole() {
    for read in [false, true] {
        let mut lone = Lone::new();
        let mr = lone.host.register(LEN as u64, Access::LOCAL_WRITE);
        let sges = [lone.host.sge(0, 4), Sge { lkey: mr.lkey, ..lone.host.sge(100, 4) }];
        let qp = lone.host.qp;
        if read {
            lone.host.engine.post_send(qp, &SendWr::new(1, READ, &sges)).unwrap();
        } else {
            lone.host.engine.post_recv(qp, &RecvWr::new(1, &sges)).unwrap();
        }
        lone.sends();
        lone.host.engine.deregister_mr(mr.rkey).unwrap();
        lone.receives(if read {
            Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[9; 8])
        } else {
            Packet::new(Opcode::RC_SEND_ONLY, 100).payload(&[9; 8])
        });
        let ended = if read { lone.host.sent() } else { lone.host.received() };
        assert_eq!(ended[0].status, WcStatus::LocalProtection);
        assert_eq!(lone.host.bytes(0, 104), [0; 104]);
        assert_eq!(lone.state(), QpState::Error);
    }
}

/// The same for a request: the packet does not go out in part.
#[test]
fn a_list_whose_key_is_gone_is_not_sent() {
    let mut lone = Lone::new();
    let mr = lone.host.register(LEN as u64, Access::NONE);
    let sges = [lone.host.sge(0, 4), Sge { lkey: mr.lkey, ..lone.host.sge(100, 4) }];
    lone.host.engine.post_send(lone.host.qp, &SendWr::new(1, WRITE, &sges)).unwrap();
    // Also if it goes between the packet's being asked for and its being written.
    let transmit = lone.host.engine.poll_transmit(lone.now).unwrap();
    lone.host.engine.deregister_mr(mr.rkey).unwrap();
    lone.receives(Packet::answer(5000, 0x60, 0));
    assert_eq!(lone.sends(), []);
    assert_eq!(lone.host.sent()[0].status, WcStatus::LocalProtection);
    let link = roce_engine::LinkHeader {
        dst: roce_codec::net::MacAddr([0; 6]),
        src: roce_codec::net::MacAddr([0; 6]),
        vlans: roce_codec::net::VlanStack::EMPTY,
    };
    let written = transmit.emit::<roce_codec::Crc, _>(
        &lone.host.engine,
        &link,
        &lone.host.memory,
        &mut [0; 2000],
    );
    assert!(matches!(written, Err(roce_engine::TransmitError::Backing(_))));
}

#[test]
fn what_lists_may_be_posted() {
    let mut lone = Lone::new();
    let qp = lone.host.qp;
    let pieces = |count: usize, len| vec![(0, len); count];
    let five = lone.host.sges(&pieces(5, 1));
    let six = lone.host.sges(&pieces(6, 1));
    let huge = MrAttr {
        pd: lone.host.pd,
        va: 0,
        len: 1 << 32,
        access: Access::LOCAL_WRITE,
        backing: Addr { region: 0, offset: 0 },
    };
    let huge = lone.host.engine.register_mr(&huge, &mut lone.host.entropy).unwrap();
    let half = Sge { va: 0, len: 1 << 30, lkey: huge.lkey };
    let engine = &mut lone.host.engine;
    let mut both = |sges: &[Sge]| {
        let recv = engine.post_recv(qp, &RecvWr::new(1, sges));
        assert_eq!(engine.post_send(qp, &SendWr::new(1, WrOpcode::Send, sges)), recv);
        recv
    };
    assert_eq!(both(&five), Ok(()));
    assert_eq!(both(&six), Err(PostError::TooManySges));
    assert_eq!(both(&[half, half]), Ok(()), "2³¹ bytes");
    assert_eq!(both(&[half, half, Sge { len: 1, ..half }]), Err(PostError::Length));
    assert_eq!(both(&[Sge { len: u32::MAX, ..half }, half, half]), Err(PostError::Length));
    assert_eq!(
        both(&[five[0], Sge { lkey: Sge::default().lkey, ..half }]),
        Err(PostError::LocalProtection)
    );
    let add = WrOpcode::FetchAdd { va: FAR, rkey: KEY, add: 1 };
    let four = lone.host.sges(&[(0, 4), (8, 4)]);
    assert_eq!(lone.host.engine.post_send(qp, &SendWr::new(1, add, &four)), Ok(()));
    assert_eq!(
        lone.host.engine.post_send(qp, &SendWr::new(1, add, &four[..1])),
        Err(PostError::Length)
    );
}

/// A queue pair is of one element each way unless it is created for more.
#[test]
fn one_element_unless_asked_for_more() {
    let setup = Setup::DEFAULT;
    let mut host = Host::new(&setup);
    let init = QpInit::new(setup.service, host.pd, host.cq, host.recv_cq);
    host.qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
    host.init(&setup);
    let sges = host.sges(&[(0, 1), (2, 1)]);
    let engine = &mut host.engine;
    assert_eq!(engine.post_recv(host.qp, &RecvWr::new(1, &sges[..1])), Ok(()));
    assert_eq!(engine.post_recv(host.qp, &RecvWr::new(1, &sges)), Err(PostError::TooManySges));
}

/// The slots of lists are shared by all, and come back however a request ends.
#[test]
fn slots_of_lists_come_back() {
    let mut lone = Lone::new();
    let qp = lone.host.qp;
    let sges = lone.host.sges(&[(0, 1); 5]);
    for round in 0..8_u32 {
        // Sixteen slots: four lists of four beyond the first.
        for wr_id in 0..2 {
            lone.host.engine.post_recv(qp, &RecvWr::new(wr_id, &sges)).unwrap();
            lone.host.engine.post_send(qp, &SendWr::new(wr_id, WRITE, &sges)).unwrap();
        }
        let full = Err(PostError::QueueFull);
        assert_eq!(lone.host.engine.post_send(qp, &SendWr::new(9, WRITE, &sges)), full);
        assert_eq!(lone.host.engine.post_recv(qp, &RecvWr::new(9, &sges)), full);
        let single = lone.host.engine.post_send(qp, &SendWr::new(2, WRITE, &sges[..1]));
        assert_eq!(single, Ok(()), "one element needs none");
        let psn = lone.sends()[0].psn.get();
        if round < 4 {
            lone.receives(Packet::ack(psn + 2, 3 * (round + 1)));
            for wr_id in 0..2 {
                let send = Packet::new(Opcode::RC_SEND_ONLY, 100 + 2 * round + wr_id);
                lone.receives(send.payload(&[1; 5]).ask());
            }
            assert_eq!(lone.host.sent().len(), 3);
            assert_eq!(lone.host.received().len(), 2);
            assert_eq!(lone.sends().len(), 1, "an acknowledgement");
            continue;
        }
        // By an error of the peer's, by our own, by reset.
        if round % 2 == 0 {
            lone.receives(Packet::answer(psn, 0x62, 0));
            assert_eq!(lone.host.sent().len(), 3);
            assert_eq!(lone.host.received().len(), 2);
        }
        lone.host.engine.modify_qp(qp, &roce_engine::ModifyQp::Reset).unwrap();
        let setup = lone.setup;
        lone.host.init(&setup);
        lone.host.rtr(&setup, crate::lone::PEER_QPN, setup.addresses());
        lone.host.rts(&setup);
    }
}

/// Between two engines, every packet lost once: lists on both sides, cut differently.
#[test]
fn lists_under_loss() {
    let bytes = pattern(2500);
    let far = [(300_000, 1), (310_000, 1023), (320_000, 1025), (330_000, 451)];
    for lost in 0..5 {
        let mut pair = Pair::new(Setup::DEFAULT);
        let [near_qp, far_qp] = [pair.hosts[0].qp, pair.hosts[1].qp];
        lay(&pair.hosts[0], &PIECES, &bytes);
        let sges = pair.hosts[1].sges(&far);
        pair.hosts[1].engine.post_recv(far_qp, &RecvWr::new(1, &sges)).unwrap();
        let sges = pair.hosts[0].sges(&PIECES);
        pair.hosts[0].engine.post_send(near_qp, &SendWr::new(1, WrOpcode::Send, &sges)).unwrap();
        // And read back what the first element of the receive did not get, over other pieces.
        let (va, rkey) = (crate::host::VA + 310_000, pair.hosts[1].mr.rkey);
        let back = [(400_000, 1000), (410_000, 23)];
        let sges = pair.hosts[0].sges(&back);
        let read = SendWr::new(2, WrOpcode::RdmaRead { va, rkey }, &sges).fenced();
        pair.hosts[0].engine.post_send(near_qp, &read).unwrap();
        match lost {
            0..=3 => pair.lose(0, 5000 + lost),
            _ => pair.lose(1, 5003),
        }
        pair.run();
        let wcs = pair.hosts[0].sent();
        let ended: Vec<_> = wcs.iter().map(|wc| (wc.wr_id, wc.status, wc.opcode)).collect();
        let ok = WcStatus::Success;
        assert_eq!(ended, [(1, ok, WcOpcode::Send), (2, ok, WcOpcode::RdmaRead)], "{lost}");
        assert_eq!(gathered(&pair.hosts[1], &far), bytes);
        assert_eq!(gathered(&pair.hosts[0], &back), bytes[1..1024]);
    }
}
