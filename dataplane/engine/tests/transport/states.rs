//! The states of a queue pair (IBTA 10.3.1) and what may happen in each.

use roce_codec::ib::{Opcode, PKey, PathMtu, Psn, Qpn, RKey, RnrTimer};
use roce_engine::{
    Access, DropReason, Entropy, Event, ModifyQp, NextHop, Path, PostError, QpError, QpInit,
    QpState, RecvWr, RtrAttr, SendWr, WcOpcode, WcStatus, WrOpcode,
};

use crate::host::{Host, Setup, VA};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;

const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: 0x1000, rkey: RKey(1) };

fn write(lone: &Lone, psn: u32) -> Packet {
    Packet::new(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(VA, lone.rkey(), 1).payload(&[1]).ask()
}

fn rtr() -> RtrAttr {
    let [src, dst] = Setup::DEFAULT.addresses();
    RtrAttr {
        path: Path { src, dst, next_hop: NextHop(0), ..Path::EMPTY },
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: PEER_QPN,
        rq_psn: Psn::new(100),
        max_dest_rd_atomic: 1,
        min_rnr_timer: RnrTimer::new(12),
    }
}

/// Transport rule 13: the first packet in RTR stands for a lost RTU. It is answered.
#[test]
fn the_first_packet_in_rtr_establishes_the_connection() {
    let mut lone = Lone::ready_to_receive(Setup::DEFAULT);
    let packet = write(&lone, 100);
    assert_eq!(lone.answers(packet), [Packet::ack(100, 1)]);
    let qp = lone.host.qp;
    assert_eq!(lone.host.events(), [Event::CommunicationEstablished(qp)]);
    let packet = write(&lone, 101);
    assert_eq!(lone.answers(packet), [Packet::ack(101, 2)]);
    assert_eq!(lone.host.events(), [], "once");
    let setup = lone.setup;
    lone.host.rts(&setup);
    let packet = write(&lone, 102);
    assert_eq!(lone.answers(packet), [Packet::ack(102, 3)], "the responder goes on in RTS");
    let mut lone = Lone::new();
    lone.receives(write(&lone, 100));
    assert_eq!(lone.host.events(), [], "in RTS it is no news");
}

#[test]
fn answers_mean_nothing_in_rtr() {
    let mut lone = Lone::ready_to_receive(Setup::DEFAULT);
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(lone.dropped(DropReason::QpState), 1);
}

#[test]
fn nothing_is_received_before_rtr_or_in_error() {
    let setup = Setup::DEFAULT;
    let mut lone = Lone { host: Host::new(&setup), setup, now: roce_engine::Instant::ZERO };
    let packet = write(&lone, 100);
    assert_eq!(lone.answers(packet.clone()), []);
    lone.host.init(&setup);
    assert_eq!(lone.answers(packet.clone()), []);
    lone.host.rtr(&setup, PEER_QPN, setup.addresses());
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    assert_eq!(lone.answers(packet), []);
    assert_eq!(lone.dropped(DropReason::QpState), 3);
}

/// What may be posted in which state.
#[test]
fn posting_by_state() {
    let setup = Setup::DEFAULT;
    let mut host = Host::new(&setup);
    let sge = host.sge(0, 1);
    let sges = [sge];
    let send = SendWr::new(1, WRITE, &sges);
    let sges = [sge];
    let recv = RecvWr::new(2, &sges);
    let qp = host.qp;
    assert_eq!(host.engine.post_recv(qp, &recv), Err(PostError::State));
    assert_eq!(host.engine.post_send(qp, &send), Err(PostError::State));
    host.init(&setup);
    assert_eq!(host.engine.post_recv(qp, &recv), Ok(()));
    assert_eq!(host.engine.post_send(qp, &send), Err(PostError::State));
    host.rtr(&setup, PEER_QPN, setup.addresses());
    assert_eq!(host.engine.post_recv(qp, &recv), Ok(()));
    assert_eq!(host.engine.post_send(qp, &send), Err(PostError::State));
    host.rts(&setup);
    assert_eq!(host.engine.post_send(qp, &send), Ok(()));
    let unknown = Qpn::new(qp.get() ^ 0x80_0000);
    assert_eq!(host.engine.post_send(unknown, &send), Err(PostError::UnknownQp));
    assert_eq!(host.engine.post_recv(unknown, &recv), Err(PostError::UnknownQp));
}

/// Everything queued completes as flushed, in the order it was posted; what is posted later does
/// so at once.
/// In SQD a message that has begun goes on to its end, the next one waits, and the end is told.
#[test]
fn a_draining_queue_finishes_what_it_has_begun() {
    let mut lone = Lone::new();
    let qp = lone.host.qp;
    for wr_id in [1, 2] {
        let sge = lone.host.sge(0, 2048);
        lone.host.post(wr_id, WRITE, sge);
    }
    assert_eq!(lone.sends_one().unwrap().psn, Psn::new(5000));
    lone.host.engine.modify_qp(qp, &ModifyQp::Sqd).unwrap();
    let psns: Vec<_> = lone.sends().iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(psns, [5001], "the second message does not begin");
    assert_eq!(lone.host.events(), []);
    lone.receives(Packet::ack(5001, 1));
    assert_eq!(lone.host.events(), [Event::SqDrained(qp)]);
    assert_eq!((lone.host.sent().len(), lone.sends().len()), (1, 0));
    lone.host.engine.modify_qp(qp, &ModifyQp::Resume).unwrap();
    assert_eq!(lone.sends().len(), 2, "and now it does");
}

#[test]
fn error_flushes_in_order() {
    let mut lone = Lone::new();
    let sge = lone.host.sge(0, 8);
    lone.host.post_recv(10, 0, 4096);
    lone.host.post_recv(11, 0, 8);
    lone.host.post(1, WRITE, sge);
    lone.sends();
    lone.host.post(2, WrOpcode::RdmaRead { va: 0, rkey: RKey(0) }, sge);
    lone.host.post(3, WrOpcode::Send, sge);
    // A SEND is half received.
    lone.receives(Packet::new(Opcode::RC_SEND_FIRST, 100).payload(&[1; 1024]));
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    lone.host.post(4, WRITE, sge);
    lone.host.post_recv(12, 0, 8);
    let sent: Vec<_> = lone.host.sent().iter().map(|wc| (wc.wr_id, wc.opcode, wc.status)).collect();
    let flush = WcStatus::WrFlush;
    let expect = [
        (1, WcOpcode::RdmaWrite, flush),
        (2, WcOpcode::RdmaRead, flush),
        (3, WcOpcode::Send, flush),
        (4, WcOpcode::RdmaWrite, flush),
    ];
    assert_eq!(sent, expect);
    let received: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(received, [(10, flush), (11, flush), (12, flush)]);
    assert_eq!(lone.sends(), []);
    assert_eq!(lone.host.engine.poll_timeout(), None);
    let info = lone.host.engine.query_qp(lone.host.qp).unwrap();
    assert_eq!((info.state, info.send_wrs, info.recv_wrs), (QpState::Error, 0, 0));
}

/// Whoever ends a connection may take its memory away: nothing is answered any more. A NAK that
/// ended it before still goes out.
#[test]
fn error_is_silent() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    lone.burst(&[Packet::read(100, VA, rkey, 4096), write(&lone, 104)]);
    assert_eq!(lone.sends_one().unwrap().psn.get(), 100);
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    lone.host.engine.deregister_mr(rkey).unwrap();
    assert_eq!(lone.sends(), []);
    assert_eq!(lone.host.events(), []);

    let mut lone = Lone::new();
    lone.receives(Packet::read(100, VA, RKey(1), 1));
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    assert_eq!(lone.sends(), [Packet::answer(100, 0x62, 0)]);
}

/// Back to nothing: no completions, no memory of PSNs, messages, READs or duplicates; and the
/// same queue pair connects again.
#[test]
fn reset_forgets_everything() {
    let mut lone = Lone::new();
    let rkey = lone.rkey();
    let sge = lone.host.sge(0, 8);
    lone.host.post_recv(10, 0, 4096);
    lone.host.post_recv(11, 0, 4096);
    lone.host.post(1, WRITE, sge);
    lone.sends();
    lone.burst(&[
        Packet::read(100, VA, rkey, 4096),
        Packet::new(Opcode::RC_SEND_FIRST, 104).payload(&[1; 1024]).ask(),
    ]);
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Reset).unwrap();
    assert_eq!(lone.sends(), [], "no answers are owed");
    assert_eq!((lone.host.sent(), lone.host.received()), (vec![], vec![]));
    assert_eq!(lone.host.engine.poll_timeout(), None);
    let info = lone.host.engine.query_qp(lone.host.qp).unwrap();
    assert_eq!((info.state, info.send_wrs, info.recv_wrs), (QpState::Reset, 0, 0));

    let setup = Setup { rq_psn: 200, sq_psn: 9000, ..Setup::DEFAULT };
    lone.host.init(&setup);
    lone.host.rtr(&setup, PEER_QPN, setup.addresses());
    lone.host.rts(&setup);
    let packet = write(&lone, 200);
    assert_eq!(lone.answers(packet), [Packet::ack(200, 1)], "no SEND in progress, MSN from 0");
    assert_eq!(lone.answers(Packet::read(100, VA, rkey, 4096)), [], "no READ to replay");
    lone.host.post(2, WRITE, sge);
    assert_eq!(lone.sends()[0].psn.get(), 9000);
    lone.receives(Packet::ack(5000, 1));
    assert_eq!(lone.host.sent(), [], "an answer to the old connection");
}

/// Work requests do not leak: a queue pair can be reset or destroyed for ever.
#[test]
fn slots_come_back() {
    let setup = Setup::DEFAULT;
    let mut lone = Lone::new();
    for round in 0..200 {
        let sge = lone.host.sge(0, 8);
        for wr_id in 0..8 {
            lone.host.post(wr_id, WRITE, sge);
            lone.host.post_recv(wr_id, 0, 4096);
        }
        lone.sends();
        let psn = lone.setup.rq_psn;
        lone.receives(Packet::new(Opcode::RC_SEND_FIRST, psn).payload(&[1; 1024]));
        match round % 3 {
            0 => lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Reset).unwrap(),
            1 => {
                lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
                assert_eq!(lone.host.sent().len(), 8);
                assert_eq!(lone.host.received().len(), 8);
                lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Reset).unwrap();
            }
            _ => {
                let old = lone.host.qp;
                lone.host.engine.destroy_qp(old).unwrap();
                assert_eq!(lone.host.engine.query_qp(old), Err(QpError::UnknownQp));
                let init = QpInit {
                    max_send_wr: 64,
                    max_recv_wr: 64,
                    ..QpInit::new(
                        roce_codec::ib::Service::Rc,
                        lone.host.pd,
                        lone.host.cq,
                        lone.host.recv_cq,
                    )
                };
                lone.host.qp = lone.host.engine.create_qp(&init, &mut lone.host.entropy).unwrap();
                assert_ne!(lone.host.qp, old);
            }
        }
        lone.host.init(&setup);
        lone.host.rtr(&setup, PEER_QPN, setup.addresses());
        lone.host.rts(&setup);
    }
}

/// A generator that says the same twice.
struct Twice(std::vec::IntoIter<u32>);

impl Entropy for Twice {
    fn next_u32(&mut self) -> u32 {
        self.0.next().expect("a number for each draw")
    }
}

/// Numbers that a slot's next owner cannot have, the last owner's among them, are drawn anew.
#[test]
fn a_number_drawn_again_is_drawn_once_more() {
    let mut host = Lone::new().host;
    let init = QpInit::new(roce_codec::ib::Service::Rc, host.pd, host.cq, host.recv_cq);
    host.engine.destroy_qp(host.qp).unwrap();
    let first = host.engine.create_qp(&init, &mut Twice(vec![5].into_iter())).unwrap();
    let others: Vec<_> =
        (0..3).map(|_| host.engine.create_qp(&init, &mut host.entropy).unwrap()).collect();
    host.engine.destroy_qp(first).unwrap();
    // All ones above the slot's bits would be multicast only in the highest slot.
    let mut draws = Twice(vec![5, 5, 6].into_iter());
    let second = host.engine.create_qp(&init, &mut draws).unwrap();
    assert_ne!(first, second);
    assert_eq!(first.get() ^ second.get(), (5 ^ 6) << 2, "the slot is the same");
    assert_eq!(draws.0.next(), None);
    assert!(!others.contains(&second));
}

/// A queue pair number is not used again while packets for its last owner may be under way.
#[test]
fn a_new_owner_of_a_slot_has_another_number() {
    let mut lone = Lone::new();
    let old = write(&lone, 100);
    let old_qp = lone.host.qp;
    let init = QpInit {
        max_send_wr: 1,
        max_recv_wr: 1,
        ..QpInit::new(roce_codec::ib::Service::Rc, lone.host.pd, lone.host.cq, lone.host.recv_cq)
    };
    for _ in 0..100 {
        lone.host.engine.destroy_qp(lone.host.qp).unwrap();
        for _ in 0..4 {
            let qp = lone.host.engine.create_qp(&init, &mut lone.host.entropy).unwrap();
            assert!(qp != lone.host.qp && qp.get() > 1 && qp != Qpn::MULTICAST);
            lone.host.qp = qp;
            lone.host.engine.destroy_qp(qp).unwrap();
        }
        lone.host.qp = lone.host.engine.create_qp(&init, &mut lone.host.entropy).unwrap();
        let bytes = {
            let [own, peer] = lone.setup.addresses();
            old.to_bytes(peer, own, old_qp)
        };
        lone.burst_bytes(&[bytes]);
    }
    assert_eq!(lone.dropped(DropReason::UnknownQp), 100);
}

#[test]
fn what_modify_qp_refuses() {
    let setup = Setup::DEFAULT;
    let mut host = Host::new(&setup);
    let qp = host.qp;
    let mut modify = |change| host.engine.modify_qp(qp, &change);
    let transition = |from, to| Err(QpError::Transition { from, to });
    assert_eq!(modify(ModifyQp::Rtr(rtr())), transition(QpState::Reset, QpState::Rtr));
    let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
    assert_eq!(modify(init), Ok(()));
    let six = Path { src: "fd00::1".parse().unwrap(), ..rtr().path };
    assert_eq!(modify(ModifyQp::Rtr(RtrAttr { path: six, ..rtr() })), Err(QpError::AddressFamily));
    let asked = RtrAttr { max_dest_rd_atomic: 9, ..rtr() };
    assert_eq!(modify(ModifyQp::Rtr(asked)), Err(QpError::RdAtomic { asked: 9, most: 8 }));
    assert_eq!(host.engine.query_qp(qp).unwrap().state, QpState::Init, "as it was");
    assert_eq!(host.engine.modify_qp(qp, &ModifyQp::Rtr(rtr())), Ok(()));
    let again = host.engine.modify_qp(qp, &ModifyQp::Rtr(rtr()));
    assert_eq!(again, transition(QpState::Rtr, QpState::Rtr));
    let unknown = host.engine.modify_qp(Qpn::new(2), &ModifyQp::Reset);
    assert_eq!(unknown, Err(QpError::UnknownQp));
}

#[test]
fn slots_run_out() {
    let mut host = Host::new(&Setup::DEFAULT);
    let init = QpInit {
        max_send_wr: 1,
        max_recv_wr: 1,
        ..QpInit::new(roce_codec::ib::Service::Rc, host.pd, host.cq, host.recv_cq)
    };
    for _ in 0..3 {
        host.engine.create_qp(&init, &mut host.entropy).unwrap();
    }
    assert_eq!(host.engine.create_qp(&init, &mut host.entropy), Err(QpError::NoSlot));
    assert_eq!(host.engine.create_cq(1), None);
}
