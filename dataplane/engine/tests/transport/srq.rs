//! Shared receive queues (IBTA 10.2.9).

use roce_codec::ib::{Opcode, Service};
use roce_engine::{
    Access, DropReason, Event, ModifyQp, PostError, QpError, QpInit, QpState, RecvWr, SrqError,
    SrqInfo, SrqInit, WcOpcode, WcStatus,
};

use crate::host::{Host, LEN, Setup};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;
use crate::pair::Pair;

const SHARED: Setup = Setup { srq: true, ..Setup::DEFAULT };
/// What an acknowledgement says of credits when there are none to say: 0b11111.
const NO_CREDITS: u8 = 0x1f;

fn post(host: &mut Host, wr_id: u64, offset: usize, len: u32) {
    let sges = [host.sge(offset, len)];
    host.engine.post_srq_recv(host.srq.unwrap(), &RecvWr::new(wr_id, &sges)).unwrap();
}

fn send(psn: u32, bytes: &[u8]) -> Packet {
    Packet::new(Opcode::RC_SEND_ONLY, psn).payload(bytes).ask()
}

/// A second queue pair on the same shared queue, connected as the first.
fn second(lone: &mut Lone) -> roce_codec::ib::Qpn {
    let host = &mut lone.host;
    let init = QpInit { srq: host.srq, ..QpInit::new(Service::Rc, host.pd, host.cq, host.recv_cq) };
    let first = host.qp;
    host.qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
    host.init(&SHARED);
    host.rtr(&SHARED, PEER_QPN, SHARED.addresses());
    host.rts(&SHARED);
    std::mem::replace(&mut host.qp, first)
}

/// Two queue pairs take from one queue, in the order in which their messages begin.
#[test]
fn a_receive_is_taken_with_the_first_packet() {
    use Opcode as O;
    let mut lone = Lone::with(SHARED);
    let other = second(&mut lone);
    let own = lone.host.qp;
    let to = |qp, packet: Packet| Packet { dest_qp: Some(qp), ..packet };
    for wr_id in 0..3 {
        post(&mut lone.host, wr_id, 0, 100);
    }
    post(&mut lone.host, 3, 1000, 2000);
    post(&mut lone.host, 4, 4000, 100);
    for psn in 100..103 {
        lone.receives(to(other, send(psn, b"short")));
    }
    lone.receives(to(own, Packet::new(O::RC_SEND_FIRST, 100).payload(&[7; 1024])));
    lone.receives(to(other, send(103, b"between")));
    lone.receives(to(own, Packet::new(O::RC_SEND_LAST, 101).payload(b"end").ask()));
    let ended: Vec<_> =
        lone.host.received().iter().map(|wc| (wc.wr_id, wc.qp, wc.byte_len)).collect();
    let short = |wr_id| (wr_id, other, 5);
    assert_eq!(ended, [short(0), short(1), short(2), (4, other, 7), (3, own, 1027)]);
    assert_eq!(lone.host.bytes(4000, 7), b"between");
    assert_eq!(lone.host.bytes(1000 + 1024, 3), b"end");
}

/// IBTA 9.7.7.2: no credits are stated; what others may take is nobody's.
#[test]
fn acknowledgements_state_no_credits() {
    let mut lone = Lone::with(SHARED);
    for wr_id in 0..5 {
        post(&mut lone.host, wr_id, 0, 8);
    }
    assert_eq!(lone.answers(send(100, b"x")), [Packet::answer(100, NO_CREDITS, 1)]);
    let rkey = lone.rkey();
    let only = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
    let answer = Packet::response(only, 101, 2, &[]).aeth(NO_CREDITS, 2);
    assert_eq!(lone.answers(Packet::read(101, 0, rkey, 0)), [answer]);
}

/// Empty, it is answered with an RNR NAK; a receive posted meanwhile serves the retry.
#[test]
fn an_empty_queue_is_not_ready() {
    let mut lone = Lone::with(SHARED);
    assert_eq!(lone.answers(send(100, b"early")), [Packet::answer(100, 0x20 | 12, 0)]);
    post(&mut lone.host, 1, 0, 8);
    assert_eq!(lone.answers(send(100, b"early")), [Packet::answer(100, NO_CREDITS, 1)]);
    assert_eq!(lone.host.received()[0].wr_id, 1);
    // A WRITE with immediate takes one with its last packet, and is told the same.
    let rkey = lone.rkey();
    let write = Packet::new(Opcode::RC_RDMA_WRITE_ONLY_IMM, 101).imm(5);
    let write = write.reth(crate::host::VA, rkey, 1).payload(b"w").ask();
    assert_eq!(lone.answers(write.clone()), [Packet::answer(101, 0x20 | 12, 1)]);
    assert_eq!(lone.host.bytes(0, 1), b"e", "and is not placed");
    post(&mut lone.host, 2, 0, 0);
    assert_eq!(lone.answers(write), [Packet::answer(101, NO_CREDITS, 2)]);
    let wc = lone.host.received()[0];
    assert_eq!((wc.wr_id, wc.opcode, wc.imm), (2, WcOpcode::RecvRdmaWithImm, Some(5)));
}

/// Armed, the limit is told once, when there are fewer receives than it says.
#[test]
fn the_limit_is_told_once() {
    let mut lone = Lone::with(SHARED);
    let srq = lone.host.srq.unwrap();
    for wr_id in 0..8 {
        post(&mut lone.host, wr_id, 0, 8);
    }
    let told = |lone: &mut Lone| {
        lone.host.events().iter().filter(|event| **event == Event::SrqLimitReached(srq)).count()
    };
    assert_eq!(lone.host.engine.modify_srq(srq, 9), Err(SrqError::Limit));
    assert_eq!(lone.host.engine.modify_srq(srq, 6), Ok(()));
    let info = |wrs, limit| Ok(SrqInfo { wrs, limit });
    for (psn, left, expect) in [(100, 7, 0), (101, 6, 0), (102, 5, 1), (103, 4, 0)] {
        lone.receives(send(psn, b"x"));
        assert_eq!(told(&mut lone), expect, "{left} left");
        let armed = if left >= 6 { 6 } else { 0 };
        assert_eq!(lone.host.engine.query_srq(srq), info(left, armed));
    }
    // Armed when it has been passed already: at once.
    assert_eq!(lone.host.engine.modify_srq(srq, 5), Ok(()));
    assert_eq!(told(&mut lone), 1);
    // Armed, and disarmed before it is passed.
    assert_eq!(lone.host.engine.modify_srq(srq, 4), Ok(()));
    assert_eq!(lone.host.engine.modify_srq(srq, 0), Ok(()));
    lone.receives(send(104, b"x"));
    assert_eq!(told(&mut lone), 0);
}

/// A queue pair in error flushes what it has taken and not what is shared, and says that it was
/// the last.
#[test]
fn an_error_does_not_flush_what_is_shared() {
    use Opcode as O;
    let mut lone = Lone::with(SHARED);
    let other = second(&mut lone);
    for wr_id in 0..3 {
        post(&mut lone.host, wr_id, 0, 2000);
    }
    lone.receives(Packet::new(O::RC_SEND_FIRST, 100).payload(&[1; 1024]));
    // A Middle where a WRITE would have to be in progress.
    lone.receives(Packet::new(O::RC_RDMA_WRITE_MIDDLE, 101).payload(&[1; 1024]));
    let ended: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ended, [(0, WcStatus::WrFlush)]);
    assert_eq!(lone.state(), QpState::Error);
    let own = lone.host.qp;
    let last =
        lone.host.events().iter().filter(|event| **event == Event::LastWqeReached(own)).count();
    assert_eq!(last, 1);
    lone.host.engine.modify_qp(own, &ModifyQp::Error).unwrap();
    assert_eq!(lone.host.events(), [], "once");
    assert_eq!(
        lone.host.engine.query_srq(lone.host.srq.unwrap()),
        Ok(SrqInfo { wrs: 2, limit: 0 })
    );
    lone.receives(Packet { dest_qp: Some(other), ..send(100, b"on") });
    let wc = lone.host.received()[0];
    assert_eq!((wc.wr_id, wc.status, wc.qp), (1, WcStatus::Success, other));
}

/// Unreliable: an abandoned message keeps the receive it took for the queue pair's next one, and
/// an error flushes it.
#[test]
fn an_abandoned_message_keeps_its_receive() {
    use Opcode as O;
    let mut lone = Lone::with(Setup { service: Service::Uc, max_rd_atomic: 0, ..SHARED });
    for wr_id in 0..3 {
        post(&mut lone.host, wr_id, 0, 2000);
    }
    lone.receives(Packet::new(O::UC_SEND_FIRST, 100).payload(&[1; 1024]));
    // The end is lost; the next message goes into the same receive.
    lone.receives(Packet::new(O::UC_SEND_ONLY, 102).payload(b"next"));
    assert_eq!(lone.host.received()[0].wr_id, 0);
    let srq = lone.host.srq.unwrap();
    assert_eq!(lone.host.engine.query_srq(srq), Ok(SrqInfo { wrs: 2, limit: 0 }));
    lone.receives(Packet::new(O::UC_SEND_FIRST, 103).payload(&[1; 1024]));
    lone.receives(Packet::new(O::UC_SEND_MIDDLE, 105).payload(&[1; 1024]));
    assert_eq!(lone.dropped(DropReason::OutOfSequence), 1);
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    let ended: Vec<_> = lone.host.received().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(ended, [(1, WcStatus::WrFlush)]);
    assert_eq!(lone.host.engine.query_srq(srq), Ok(SrqInfo { wrs: 1, limit: 0 }));
}

/// The memory is judged by the shared queue's protection domain, not by the queue pair's.
#[test]
fn memory_is_of_the_shared_queues_domain() {
    let mut lone = Lone::with(Setup::DEFAULT);
    let host = &mut lone.host;
    let far = host.engine.alloc_pd();
    let srq = host.engine.create_srq(&SrqInit { pd: far, max_wr: 1, max_sge: 1 }).unwrap();
    let own = [host.sge(0, 8)];
    let protection = Err(PostError::LocalProtection);
    assert_eq!(host.engine.post_srq_recv(srq, &RecvWr::new(1, &own)), protection);
    let pd = std::mem::replace(&mut host.pd, far);
    let mr = host.register(LEN as u64, Access::LOCAL_WRITE);
    host.pd = pd;
    let sges = [roce_engine::Sge { lkey: mr.lkey, ..host.sge(0, 8) }];
    assert_eq!(host.engine.post_srq_recv(srq, &RecvWr::new(1, &sges)), Ok(()));
    let init = QpInit { srq: Some(srq), ..QpInit::new(Service::Rc, pd, host.cq, host.recv_cq) };
    host.qp = host.engine.create_qp(&init, &mut host.entropy).unwrap();
    host.init(&Setup::DEFAULT);
    host.rtr(&Setup::DEFAULT, PEER_QPN, Setup::DEFAULT.addresses());
    assert_eq!(lone.answers(send(100, b"far")), [Packet::answer(100, NO_CREDITS, 1)]);
    assert_eq!(lone.host.bytes(0, 3), b"far");
}

#[test]
fn what_the_verbs_refuse() {
    let mut host = Host::new(&SHARED);
    let srq = host.srq.unwrap();
    host.init(&SHARED);
    let sges = host.sges(&[(0, 1), (2, 1), (4, 1), (6, 1)]);
    let qp = host.qp;
    let engine = &mut host.engine;
    let recv = RecvWr::new(1, &sges[..1]);
    assert_eq!(engine.post_recv(qp, &recv), Err(PostError::SharedReceives));
    assert_eq!(engine.post_srq_recv(srq, &RecvWr::new(1, &sges)), Err(PostError::TooManySges));
    for _ in 0..8 {
        assert_eq!(engine.post_srq_recv(srq, &RecvWr::new(1, &sges[..2])), Ok(()));
    }
    assert_eq!(engine.post_srq_recv(srq, &recv), Err(PostError::QueueFull));
    assert_eq!(engine.destroy_srq(srq), Err(SrqError::Busy));
    engine.destroy_qp(qp).unwrap();
    assert_eq!(engine.destroy_srq(srq), Ok(()));
    assert_eq!(engine.destroy_srq(srq), Err(SrqError::UnknownSrq));
    assert_eq!(engine.query_srq(srq), Err(SrqError::UnknownSrq));
    assert_eq!(engine.modify_srq(srq, 0), Err(SrqError::UnknownSrq));
    assert_eq!(engine.post_srq_recv(srq, &recv), Err(PostError::UnknownSrq));
    // Its slot comes again, and an old handle does not find the new queue; nor is anything of the
    // old one left.
    let init = SrqInit { pd: host.pd, max_wr: 8, max_sge: 3 };
    let all = [(); 2].map(|()| engine.create_srq(&init).unwrap());
    assert_eq!(engine.create_srq(&init), Err(SrqError::NoSlot));
    for new in all {
        assert_eq!(engine.query_srq(new), Ok(SrqInfo { wrs: 0, limit: 0 }));
    }
    assert_eq!(engine.query_srq(srq), Err(SrqError::UnknownSrq));
    let init = QpInit { srq: Some(srq), ..QpInit::new(Service::Rc, host.pd, host.cq, host.cq) };
    assert_eq!(engine.create_qp(&init, &mut host.entropy), Err(QpError::UnknownSrq));
    // The sixteen slots of lists are free, too.
    for _ in 0..8 {
        assert_eq!(engine.post_srq_recv(all[0], &RecvWr::new(1, &sges[..3])), Ok(()));
    }
}

/// Between two engines: the requester sees no credits and runs into the empty queue, once for
/// each time it is empty, and everything arrives.
#[test]
fn a_shared_queue_that_runs_empty() {
    let mut pair = Pair::new(SHARED);
    for wr_id in 0..4 {
        post(&mut pair.hosts[1], wr_id, 1000 * usize::try_from(wr_id).unwrap(), 1000);
    }
    for wr_id in 0..8 {
        pair.hosts[0].put(usize::try_from(wr_id).unwrap(), &[u8::try_from(wr_id).unwrap() + 1]);
        let sge = pair.hosts[0].sge(usize::try_from(wr_id).unwrap(), 1);
        pair.hosts[0].post(wr_id, roce_engine::WrOpcode::Send, sge);
    }
    pair.run_for(1_000_000);
    assert_eq!(pair.hosts[0].sent().len(), 4);
    for wr_id in 4..8 {
        post(&mut pair.hosts[1], wr_id, 1000 * usize::try_from(wr_id).unwrap(), 1000);
    }
    pair.run();
    assert_eq!(pair.hosts[0].sent().len(), 4);
    let received = pair.hosts[1].received();
    assert_eq!(received.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    for index in 0..8 {
        assert_eq!(pair.hosts[1].bytes(1000 * index, 1), [u8::try_from(index).unwrap() + 1]);
    }
}
