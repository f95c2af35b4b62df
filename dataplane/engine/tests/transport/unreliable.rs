//! The unreliable connection (IBTA 9.8.2): what is lost is lost, and nobody is told.

use roce_codec::ib::{Opcode, RKey, Service};
use roce_engine::{
    Access, DropReason, Event, HwCounter, PostError, QpError, QpInit, QpState, RecvWr, SendWr, Sge,
    WcOpcode, WcStatus, WrOpcode,
};

use crate::host::{Setup, VA};
use crate::lone::Lone;
use crate::packet::Packet;
use crate::pair::Pair;

const SETUP: Setup = Setup { service: Service::Uc, ..Setup::DEFAULT };

fn send(opcode: Opcode, psn: u32, byte: u8) -> Packet {
    let len =
        if matches!(opcode, Opcode::UC_SEND_FIRST | Opcode::UC_SEND_MIDDLE) { 1024 } else { 4 };
    Packet::new(opcode, psn).payload(&vec![byte; len]).ask()
}

/// SEND and WRITE, with immediate and without, are carried out; nothing goes back, whatever the
/// packets ask for (case 20).
#[test]
fn requests_are_carried_out_and_not_answered() {
    use Opcode as O;
    let mut lone = Lone::with(SETUP);
    let rkey = lone.rkey();
    for wr_id in 1..=4 {
        lone.host.post_recv(wr_id, 4096, 2048);
    }
    lone.burst(&[
        send(O::UC_SEND_ONLY, 100, 1),
        send(O::UC_SEND_FIRST, 101, 2),
        send(O::UC_SEND_LAST_IMM, 102, 3).imm(7),
        Packet::new(O::UC_RDMA_WRITE_FIRST, 103).reth(VA, rkey, 1025).payload(&[4; 1024]),
        Packet::new(O::UC_RDMA_WRITE_LAST, 104).payload(&[5]),
        Packet::new(O::UC_RDMA_WRITE_ONLY_IMM, 105).reth(VA + 2000, rkey, 1).payload(&[6]).imm(8),
    ]);
    assert_eq!(lone.sends(), []);
    let told: Vec<_> =
        lone.host.received().iter().map(|wc| (wc.wr_id, wc.byte_len, wc.imm)).collect();
    assert_eq!(told, [(1, 4, None), (2, 1028, Some(7)), (3, 1, Some(8))]);
    assert_eq!(lone.host.bytes(0, 1026), [&[4; 1024][..], &[5, 0]].concat());
    assert_eq!(lone.host.bytes(2000, 1), [6]);
    assert!(lone.expects(106));
    assert_eq!(lone.count(HwCounter::SentAcks), 0);
}

/// A packet is missing: its message is dropped, the receive serves the next one, and the next
/// First or Only says where we are.
#[test]
fn a_lost_packet_drops_its_message() {
    use Opcode as O;
    for lost in 0..3 {
        let mut lone = Lone::with(SETUP);
        lone.host.post_recv(1, 0, 4096);
        lone.host.post_recv(2, 8192, 4096);
        let mut message = vec![
            send(O::UC_SEND_FIRST, 100, 1),
            send(O::UC_SEND_MIDDLE, 101, 1),
            send(O::UC_SEND_LAST, 102, 1),
        ];
        message.remove(lost);
        lone.burst(&message);
        assert_eq!(lone.host.received(), [], "{lost}");
        lone.receives(send(O::UC_SEND_ONLY, 103, 9));
        let received = lone.host.received();
        assert_eq!((received.len(), received[0].wr_id, received[0].byte_len), (1, 1, 4));
        assert_eq!(lone.host.bytes(0, 4), [9; 4], "the same receive");
        assert!(lone.expects(104));
        assert_eq!(lone.sends(), []);
        let rest = [2, 1, 0][lost];
        assert_eq!(lone.dropped(DropReason::OutOfSequence), rest);
        assert_eq!(lone.state(), QpState::Rts);
    }
}

/// The receive of a message in progress has not ended: it keeps its place in a full queue, and
/// finds it there when the message is dropped.
#[test]
fn a_receive_given_back_has_kept_its_place() {
    let mut lone = Lone::with(SETUP);
    const DEPTH: u32 = 64;
    for wr_id in 1..=u64::from(DEPTH) {
        lone.host.post_recv(wr_id, 0, 4096);
    }
    for psn in [100, 200] {
        lone.receives(send(Opcode::UC_SEND_FIRST, psn, 1));
        let sges = [lone.host.sge(0, 4096)];
        let posted = lone.host.engine.post_recv(lone.host.qp, &RecvWr::new(0, &sges));
        assert_eq!(posted, Err(PostError::QueueFull), "{psn}");
        let info = lone.host.engine.query_qp(lone.host.qp).unwrap();
        assert_eq!(info.recv_wrs, DEPTH, "{psn}");
    }
}

/// Ahead or behind: a message begins where it begins.
#[test]
fn the_psn_follows_the_first_packet() {
    use Opcode as O;
    let mut lone = Lone::with(SETUP);
    for wr_id in 0..4 {
        lone.host.post_recv(wr_id, 0, 4096);
    }
    for psn in [100, 5000, 0x00ff_ffff, 0, 90] {
        let before = lone.host.received().len();
        assert_eq!(before, 0);
        lone.burst(&[
            send(O::UC_SEND_FIRST, psn, 1),
            send(O::UC_SEND_LAST, (psn + 1) & 0xff_ffff, 2),
        ]);
        if psn == 90 {
            assert_eq!(lone.host.received(), [], "out of receives");
            assert_eq!(lone.dropped(DropReason::ReceiverNotReady), 1);
        } else {
            assert_eq!(lone.host.received().len(), 1, "{psn}");
        }
    }
}

/// What a reliable service would refuse is dropped and counted; the connection lives.
#[test]
fn errors_are_silent() {
    use Opcode as O;
    let rkey = Lone::with(SETUP).rkey();
    let write = |rkey, va, dma_len| {
        Packet::new(O::UC_RDMA_WRITE_ONLY, 100).reth(va, rkey, dma_len).payload(&[1; 4]).ask()
    };
    let long = send(O::UC_SEND_ONLY, 100, 1).payload(&[1; 12]);
    let requests = [
        write(RKey(1), VA, 4),
        write(rkey, VA - 1, 4),
        write(rkey, VA, 5),
        send(O::UC_SEND_FIRST, 100, 1).payload(&[1; 1000]),
        long,
    ];
    for request in requests {
        let mut lone = Lone::with(SETUP);
        lone.host.post_recv(1, 0, 8);
        let memory = lone.host.all_bytes();
        assert_eq!(lone.answers(request.clone()), [], "{request:?}");
        assert_eq!(lone.dropped(DropReason::Refused), 1, "{request:?}");
        assert_eq!(lone.host.all_bytes(), memory);
        assert_eq!((lone.host.received(), lone.host.events()), (vec![], vec![]));
        // And the receive is still there for the next one.
        lone.receives(send(O::UC_SEND_ONLY, 101, 2));
        assert_eq!(lone.host.received()[0].wr_id, 1);
    }
    let denied = Setup { access: Access::REMOTE_READ, ..SETUP };
    let mut lone = Lone::with(denied);
    assert_eq!(lone.answers(write(rkey, VA, 4)), []);
    assert_eq!(lone.dropped(DropReason::Refused), 1);
}

/// Neither service has the other's opcodes.
#[test]
fn services_do_not_mix() {
    let mut lone = Lone::with(SETUP);
    lone.host.post_recv(1, 0, 64);
    let rkey = lone.rkey();
    for packet in [
        Packet::new(Opcode::RC_SEND_ONLY, 100),
        Packet::read(100, VA, rkey, 1),
        Packet::ack(5000, 1),
    ] {
        assert_eq!(lone.answers(packet), []);
    }
    assert_eq!(lone.dropped(DropReason::WrongService), 3);
    let mut lone = Lone::new();
    assert_eq!(lone.answers(send(Opcode::UC_SEND_ONLY, 100, 1)), []);
    assert_eq!(lone.dropped(DropReason::WrongService), 1);
    let (va, rkey) = (VA, RKey(7));
    let mut lone = Lone::with(SETUP);
    for opcode in [
        WrOpcode::RdmaRead { va, rkey },
        WrOpcode::FetchAdd { va, rkey, add: 1 },
        WrOpcode::AtomicWrite { va, rkey },
        WrOpcode::SendWithInvalidate(rkey),
    ] {
        let sges = [lone.host.sge(0, 8)];
        let wr = SendWr::new(1, opcode, &sges);
        assert_eq!(lone.host.engine.post_send(lone.host.qp, &wr), Err(PostError::Service));
    }
    let init = QpInit {
        max_send_wr: 1,
        max_recv_wr: 1,
        ..QpInit::new(Service::Rd, lone.host.pd, lone.host.cq, lone.host.cq)
    };
    let refused = lone.host.engine.create_qp(&init, &mut lone.host.entropy);
    assert_eq!(refused, Err(QpError::Service));
}

/// The first packet in RTR tells that the peer is there.
#[test]
fn the_first_packet_is_told() {
    let mut lone = Lone::ready_to_receive(SETUP);
    lone.receives(Packet::new(Opcode::UC_RDMA_WRITE_ONLY, 100).reth(VA, RKey(0), 0));
    assert_eq!(lone.host.events(), [Event::CommunicationEstablished(lone.host.qp)]);
}

/// Sent once, without AckReq, without a window, without a timer; complete when it is sent.
#[test]
fn the_requester_sends_and_is_done() {
    use Opcode as O;
    let mut lone = Lone::with(Setup { window: 1, max_rd_atomic: 0, ..SETUP });
    let (va, rkey) = (0x9000, RKey(7));
    for (wr_id, opcode, len) in [
        (1, WrOpcode::Send, 2500),
        (2, WrOpcode::RdmaWrite { va, rkey }, 1),
        (3, WrOpcode::RdmaWriteWithImm { va, rkey, imm: 5 }, 1025),
        (4, WrOpcode::SendWithImm(6), 0),
    ] {
        let sge = if len == 0 { Sge::default() } else { lone.host.sge(0, len) };
        lone.host.post(wr_id, opcode, sge);
    }
    let mut sent = vec![];
    for _ in 0..3 {
        sent.push(lone.sends_one().unwrap());
        assert_eq!(lone.host.sent(), [], "not before it is out");
    }
    sent.extend(lone.sends());
    let opcodes: Vec<_> = sent.iter().map(|packet| packet.opcode).collect();
    let expect = [
        O::UC_SEND_FIRST,
        O::UC_SEND_MIDDLE,
        O::UC_SEND_LAST,
        O::UC_RDMA_WRITE_ONLY,
        O::UC_RDMA_WRITE_FIRST,
        O::UC_RDMA_WRITE_LAST_IMM,
        O::UC_SEND_ONLY_IMM,
    ];
    assert_eq!(opcodes, expect);
    assert!(sent.iter().all(|packet| !packet.ack_req), "case 20");
    let psns: Vec<_> = sent.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, (5000..5007).collect::<Vec<_>>());
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ended, [1, 2, 3, 4].map(|wr_id| (wr_id, WcStatus::Success)));
    assert_eq!(lone.host.engine.poll_timeout(), None);
    lone.wait(10_000_000_000);
    assert_eq!(lone.sends(), []);
}

/// The memory of a message goes before it is sent: it fails, those before it do not.
#[test]
fn a_message_whose_memory_went() {
    let mut lone = Lone::with(SETUP);
    for wr_id in 1..=3 {
        let sge = lone.host.sge(0, 8);
        lone.host.post(wr_id, WrOpcode::Send, sge);
    }
    assert!(lone.sends_one().is_some());
    lone.host.memory.gone.set(true);
    assert_eq!(lone.sends(), []);
    let ended: Vec<_> = lone.host.sent().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    let expect = [(1, WcStatus::Success), (2, WcStatus::LocalProtection), (3, WcStatus::WrFlush)];
    assert_eq!(ended, expect);
    // IBTA 10.3.1.6: an unreliable service's send error stops the sends alone.
    assert_eq!(lone.state(), QpState::Sqe);
}

/// Two engines, the middle of one message lost: the other two arrive.
#[test]
fn between_two_engines() {
    let mut pair = Pair::new(SETUP);
    pair.lose(0, 5004);
    for wr_id in 0..3u8 {
        let at = 4096 * (1 + usize::from(wr_id));
        pair.hosts[1].post_recv(wr_id.into(), at, 4096);
        pair.hosts[0].put(at, &[wr_id + 1; 3000]);
        let sge = pair.hosts[0].sge(at, 3000);
        pair.hosts[0].post(wr_id.into(), WrOpcode::SendWithImm(wr_id.into()), sge);
    }
    pair.run();
    let sent: Vec<_> = pair.hosts[0].sent().iter().map(|wc| (wc.opcode, wc.status)).collect();
    assert_eq!(sent, [(WcOpcode::Send, WcStatus::Success); 3]);
    let received: Vec<_> = pair.hosts[1].received().iter().map(|wc| (wc.wr_id, wc.imm)).collect();
    assert_eq!(received, [(0, Some(0)), (1, Some(2))]);
    assert_eq!(pair.hosts[1].bytes(4096, 3000), [1; 3000]);
    assert_eq!(pair.hosts[1].bytes(8192, 3000), [3; 3000]);
    assert_eq!(pair.log[1], []);
}
