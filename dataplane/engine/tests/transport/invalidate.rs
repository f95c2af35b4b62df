//! SEND with invalidate: which keys it takes away, when, and what is said to whom.

use roce_codec::ib::{Opcode, RKey};
use roce_engine::{
    Access, DropReason, Event, HwCounter, PostError, QpState, SendWr, WcStatus, WrOpcode,
};

use crate::host::{Host, Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const ACCESS: u8 = 0x62;

fn invalidatable(host: &mut Host) -> RKey {
    host.register(4096, Access::ALL | Access::REMOTE_INVALIDATE).rkey
}

/// The data is placed, the completion names the key, and the key is dead: 0x62 from then on.
#[test]
fn a_key_is_taken_away_behind_the_data() {
    use Opcode as O;
    let rkey = invalidatable(&mut Lone::new().host);
    let requests = [
        Packet::new(O::RC_RDMA_WRITE_ONLY, 103).reth(VA, rkey, 1).payload(&[1]),
        Packet::read(103, VA, rkey, 1),
        Packet::fetch_add(103, VA, rkey, 1),
        Packet::new(O::RC_SEND_ONLY_INV, 103).ieth(rkey),
    ];
    for request in requests {
        let mut lone = Lone::new();
        assert_eq!(invalidatable(&mut lone.host), rkey);
        lone.host.post_recv(1, 8192, 2048);
        lone.host.post_recv(2, 0, 64);
        lone.burst(&[
            Packet::new(O::RC_RDMA_WRITE_ONLY, 100).reth(VA, rkey, 1).payload(&[7]),
            Packet::new(O::RC_SEND_FIRST, 101).payload(&[8; 1024]),
            Packet::new(O::RC_SEND_LAST_INV, 102).payload(&[9; 4]).ieth(rkey).ask(),
        ]);
        assert_eq!(lone.sends(), [Packet::answer(102, 0x01, 2)]);
        let received = lone.host.received();
        assert_eq!((received.len(), received[0].invalidated), (1, Some(rkey)));
        assert_eq!((received[0].byte_len, received[0].imm), (1028, None));
        assert_eq!(lone.host.bytes(8192, 1029), [&[8; 1024][..], &[9; 4], &[0]].concat());
        assert_eq!(lone.host.bytes(0, 1), [7], "the key was good until then");
        let answers = lone.answers(request);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].ext.aeth.unwrap().syndrome.0, ACCESS);
        assert_eq!(answers[0].psn.get(), 103);
        assert_eq!(lone.state(), QpState::Error);
    }
}

/// A duplicate neither takes a receive nor minds that the key is gone.
#[test]
fn a_send_with_invalidate_again_is_acknowledged() {
    let mut lone = Lone::new();
    let rkey = invalidatable(&mut lone.host);
    lone.host.post_recv(1, 0, 64);
    let send = Packet::new(Opcode::RC_SEND_ONLY_INV, 100).payload(b"x").ieth(rkey).ask();
    assert_eq!(lone.answers(send.clone()), [Packet::ack(100, 1)]);
    assert_eq!(lone.answers(send), [Packet::ack(100, 1)]);
    assert_eq!(lone.host.received().len(), 1);
    assert_eq!(lone.count(HwCounter::RxInvalidateRequests), 1);
}

/// A key that nobody has, one without the right, one of another domain, an L_Key: an access
/// error there, a receive that ends in an error of its own here, and nothing of it happens.
#[test]
fn keys_that_are_not_the_peers_to_take_away() {
    for which in 0..4 {
        let mut lone = Lone::new();
        let right = Access::ALL | Access::REMOTE_INVALIDATE;
        let (rkey, alive) = match which {
            0 => (RKey(0xdead_beef), lone.rkey()),
            1 => (lone.rkey(), lone.rkey()),
            2 => {
                let own = lone.host.pd;
                lone.host.pd = lone.host.engine.alloc_pd();
                let foreign = lone.host.register(64, right).rkey;
                lone.host.pd = own;
                (foreign, lone.rkey())
            }
            _ => {
                let mr = lone.host.register(64, right);
                (RKey(mr.lkey.0), mr.rkey)
            }
        };
        lone.host.post_recv(1, 8192, 64);
        lone.host.post_recv(2, 8192, 64);
        let memory = lone.host.all_bytes();
        let send = Packet::new(Opcode::RC_SEND_ONLY_INV, 100).payload(b"x").ieth(rkey).ask();
        assert_eq!(lone.answers(send.clone()), [Packet::answer(100, ACCESS, 0)], "{which}");
        assert_eq!(lone.host.all_bytes(), memory);
        let ended: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
        assert_eq!(ended, [(1, WcStatus::RemoteInvalidate), (2, WcStatus::WrFlush)]);
        let code = roce_codec::ib::NakCode::RemoteAccessError;
        assert_eq!(lone.host.events(), [Event::RequestRefused { qp: lone.host.qp, code }]);
        assert_eq!(lone.answers(send), [], "silence");
        // The key of the region itself still works, after a new start.
        lone.host.engine.modify_qp(lone.host.qp, &roce_engine::ModifyQp::Reset).unwrap();
        let setup = Setup::DEFAULT;
        lone.host.init(&setup);
        lone.host.rtr(&setup, crate::lone::PEER_QPN, setup.addresses());
        let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY, 100).reth(VA, alive, 1).payload(&[1]);
        assert_eq!(lone.answers(write.ask()), [Packet::ack(100, 1)], "{which}");
    }
}

/// A SEND longer than its receive is just that, whatever key it names.
#[test]
fn length_is_judged_before_the_key() {
    let mut lone = Lone::new();
    lone.host.post_recv(1, 0, 3);
    let send = Packet::new(Opcode::RC_SEND_ONLY_INV, 100).payload(b"four").ieth(RKey(1));
    assert_eq!(lone.answers(send), [Packet::answer(100, 0x61, 0)]);
    assert_eq!(lone.host.received()[0].status, WcStatus::LocalLength);
}

/// The key of a READ that is being answered: the SEND waits until the answers are out.
#[test]
fn a_key_in_use_is_not_taken_away_yet() {
    let mut lone = Lone::new();
    let rkey = invalidatable(&mut lone.host);
    lone.host.post_recv(1, 8192, 64);
    let send = Packet::new(Opcode::RC_SEND_ONLY_INV, 102).payload(b"x").ieth(rkey).ask();
    lone.burst(&[Packet::read(100, VA, rkey, 2048), send.clone()]);
    let answers = lone.sends();
    let psns: Vec<_> = answers.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [100, 101, 102]);
    assert_eq!(answers[2], Packet::answer(102, 0x2c, 1), "not ready");
    assert_eq!(lone.host.received(), []);
    assert_eq!(lone.answers(send), [Packet::ack(102, 2)]);
    assert_eq!(lone.host.received()[0].invalidated, Some(rkey));
    // What the READ's answer told, the READ again does not.
    assert_eq!(lone.answers(Packet::read(100, VA, rkey, 2048)), []);
    assert_eq!(lone.dropped(DropReason::StaleDuplicate), 1);
}

/// An invalidated region is still its owner's: the L_Key works, and it can be deregistered.
#[test]
fn the_owner_keeps_the_region() {
    let mut lone = Lone::new();
    let mr = lone.host.register(4096, Access::ALL | Access::REMOTE_INVALIDATE);
    lone.host.post_recv(1, 0, 0);
    lone.receives(Packet::new(Opcode::RC_SEND_ONLY_INV, 100).ieth(mr.rkey));
    let sge = roce_engine::Sge { lkey: mr.lkey, ..lone.host.sge(0, 64) };
    let sges = [sge];
    let wr = roce_engine::RecvWr::new(2, &sges);
    assert_eq!(lone.host.engine.post_recv(lone.host.qp, &wr), Ok(()));
    assert_eq!(lone.host.engine.deregister_mr(mr.rkey), Ok(()));
    assert_eq!(lone.host.engine.post_recv(lone.host.qp, &wr), Err(PostError::LocalProtection));
}

/// The requester's opcodes, and that it waits for what might need the key.
#[test]
fn the_requester_waits_for_its_reads() {
    use Opcode as O;
    let mut lone = Lone::new();
    let peer_key = RKey(0x1234_5678);
    let read = lone.host.sge(0, 2048);
    lone.host.post(1, WrOpcode::RdmaRead { va: 0x9000, rkey: peer_key }, read);
    let send = lone.host.sge(4096, 2500);
    lone.host.post(2, WrOpcode::SendWithInvalidate(peer_key), send);
    let short = lone.host.sge(4096, 1);
    lone.host.post(3, WrOpcode::SendWithInvalidate(peer_key), short);
    let opcodes: Vec<_> = lone.sends().iter().map(|packet| packet.opcode).collect();
    assert_eq!(opcodes, [O::RC_RDMA_READ_REQUEST]);
    lone.burst(&[
        Packet::response(O::RC_RDMA_READ_RESPONSE_FIRST, 5000, 1, &[1; 1024]),
        Packet::response(O::RC_RDMA_READ_RESPONSE_LAST, 5001, 1, &[1; 1024]).aeth(0x1f, 1),
    ]);
    let sends = lone.sends();
    let opcodes: Vec<_> = sends.iter().map(|packet| packet.opcode).collect();
    let expect = [O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST_INV, O::RC_SEND_ONLY_INV];
    assert_eq!(opcodes, expect);
    let keys: Vec<_> = sends.iter().map(|packet| packet.ext.ieth.map(|ieth| ieth.0)).collect();
    assert_eq!(keys, [None, None, Some(peer_key), Some(peer_key)]);
    assert_eq!(sends[2].payload.len(), 452);
}

/// Between two engines, each packet lost once.
#[test]
fn invalidation_under_loss() {
    for lost in 0..4 {
        let mut pair = Pair::new(Setup::DEFAULT);
        let rkey = invalidatable(&mut pair.hosts[1]);
        pair.hosts[1].post_recv(9, 8192, 4096);
        pair.lose(if lost == 3 { 1 } else { 0 }, 5000 + if lost == 3 { 2 } else { lost });
        let sge = pair.hosts[0].sge(0, 2500);
        let sges = [sge];
        let wr = SendWr::new(1, WrOpcode::SendWithInvalidate(rkey), &sges);
        pair.hosts[0].engine.post_send(pair.hosts[0].qp, &wr).unwrap();
        pair.run();
        assert_eq!(pair.hosts[0].sent()[0].status, WcStatus::Success, "{lost}");
        let received = pair.hosts[1].received();
        assert_eq!((received.len(), received[0].invalidated), (1, Some(rkey)));
        let sge = pair.hosts[0].sge(0, 1);
        pair.hosts[0].post(2, WrOpcode::RdmaWrite { va: VA, rkey }, sge);
        pair.run();
        assert_eq!(pair.hosts[0].sent()[0].status, WcStatus::RemoteAccess);
    }
}
