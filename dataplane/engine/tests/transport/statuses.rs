//! Every completion status, each reached by what it is for; and what completes without being asked
//! to, or asks the receiver's consumer to wake.

use roce_codec::ib::{Opcode, QKey, RKey, Service};
use roce_engine::{
    Access, ModifyQp, MwBind, MwBindInfo, MwType, Path, PostError, QpState, SendWr, UdAddress,
    WcStatus, WrOpcode,
};

use crate::host::{LEN, Setup, VA};
use crate::lone::{Lone, PEER_QPN};
use crate::packet::Packet;
use crate::pair::Pair;

const FAR: u64 = 0x9000;
const WRITE: WrOpcode = WrOpcode::RdmaWrite { va: FAR, rkey: RKey(7) };

type Statuses = Vec<WcStatus>;

fn statuses(pair: &mut Pair, side: usize) -> [Statuses; 2] {
    let of = |wcs: Vec<roce_engine::Wc>| wcs.iter().map(|wc| wc.status).collect();
    [of(pair.hosts[side].sent()), of(pair.hosts[side].received())]
}

/// Between two engines: one request, with another behind it; what it ends with, and what the
/// receive of the peer's ends with.
fn between(setup: Setup, request: impl Fn(&mut Pair) -> (WrOpcode, u32)) -> [Statuses; 2] {
    let mut pair = Pair::new(setup);
    let (opcode, len) = request(&mut pair);
    let sge = pair.hosts[0].sge(0, len);
    pair.hosts[0].post(1, opcode, sge);
    let behind = pair.hosts[0].sge(0, 1);
    pair.hosts[0].post(2, WrOpcode::Send, behind);
    pair.run();
    [statuses(&mut pair, 0)[0].clone(), statuses(&mut pair, 1)[1].clone()]
}

fn success() -> Statuses {
    between(Setup::DEFAULT, |pair| {
        pair.hosts[1].post_recv(1, 0, 8);
        (WrOpcode::RdmaWrite { va: VA, rkey: pair.hosts[1].mr.rkey }, 8)
    })[0]
        .clone()
}

/// The receive is a byte too short; the sender is told that its request is invalid.
fn local_length() -> Statuses {
    let [sender, receiver] = between(Setup::DEFAULT, |pair| {
        pair.hosts[1].post_recv(1, 0, 7);
        (WrOpcode::Send, 8)
    });
    assert_eq!(sender, [WcStatus::RemoteInvalidRequest, WcStatus::WrFlush]);
    receiver
}

/// The receive's memory has gone.
fn local_protection() -> Statuses {
    let [sender, receiver] = between(Setup::DEFAULT, |pair| {
        pair.hosts[1].post_recv(1, 0, 8);
        let rkey = pair.hosts[1].mr.rkey;
        pair.hosts[1].engine.deregister_mr(rkey).unwrap();
        (WrOpcode::Send, 8)
    });
    assert_eq!(sender, [WcStatus::RemoteOperation, WcStatus::WrFlush]);
    receiver
}

/// A datagram whose address handle has gone.
fn local_qp_operation() -> Statuses {
    let setup = Setup { service: Service::Ud, ..Setup::DEFAULT };
    let mut host = crate::host::Host::new(&setup);
    let qkey = QKey(5);
    for change in [
        ModifyQp::InitUd { pkey: setup.pkey, qkey },
        ModifyQp::RtrUd,
        ModifyQp::RtsUd { sq_psn: roce_codec::ib::Psn::new(0) },
    ] {
        host.engine.modify_qp(host.qp, &change).unwrap();
    }
    let [src, dst] = setup.addresses();
    let ah = host.engine.create_ah(&Path { src, dst, ..Path::EMPTY }).unwrap();
    let to = UdAddress { ah, dest_qpn: PEER_QPN, qkey };
    host.engine.post_send(host.qp, &SendWr::new(1, WrOpcode::Send, &[]).to(to)).unwrap();
    host.engine.destroy_ah(ah).unwrap();
    assert!(host.engine.poll_transmit(roce_engine::Instant::ZERO).is_none());
    host.sent().iter().map(|wc| wc.status).collect()
}

/// Both queues, in order, by the caller's own decision.
fn flush() -> Statuses {
    let mut lone = Lone::new();
    for wr_id in 1..=2 {
        let sge = lone.host.sge(0, 1);
        lone.host.post(wr_id, WRITE, sge);
        lone.host.post_recv(wr_id + 2, 0, 1);
    }
    lone.host.engine.modify_qp(lone.host.qp, &ModifyQp::Error).unwrap();
    let wcs = [lone.host.sent(), lone.host.received()].concat();
    assert_eq!(wcs.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(wcs.iter().all(|wc| wc.status == WcStatus::WrFlush));
    vec![wcs[0].status]
}

/// A window to a region that allows none.
fn mw_bind() -> Statuses {
    let mut lone = Lone::new();
    let (pd, lkey) = (lone.host.pd, lone.host.mr.lkey);
    let info = MwBindInfo { lkey, va: VA, len: 8, access: Access::REMOTE_READ };
    let mut mw = lone.host.engine.alloc_mw(pd, MwType::Type1, &mut lone.host.entropy).unwrap();
    let qp = lone.host.qp;
    lone.host.engine.bind_mw(qp, &mut mw, &MwBind::new(1, info)).unwrap();
    assert_eq!(lone.sends(), []);
    lone.host.sent().iter().map(|wc| wc.status).collect()
}

/// An answer that is a byte too long.
fn bad_response() -> Statuses {
    let mut lone = Lone::new();
    let sge = lone.host.sge(0, 8);
    lone.host.post(1, WrOpcode::RdmaRead { va: FAR, rkey: RKey(7) }, sge);
    lone.sends();
    lone.receives(Packet::response(Opcode::RC_RDMA_READ_RESPONSE_ONLY, 5000, 1, &[0; 9]));
    lone.host.sent().iter().map(|wc| wc.status).collect()
}

/// An atomic that is not aligned.
fn remote_invalid_request() -> Statuses {
    between(Setup::DEFAULT, |pair| {
        (WrOpcode::FetchAdd { va: VA + 4, rkey: pair.hosts[1].mr.rkey, add: 1 }, 8)
    })[0]
        .clone()
}

/// A byte beyond the region.
fn remote_access() -> Statuses {
    between(Setup::DEFAULT, |pair| {
        let va = VA + u64::try_from(LEN).unwrap();
        (WrOpcode::RdmaWrite { va, rkey: pair.hosts[1].mr.rkey }, 1)
    })[0]
        .clone()
}

/// The peer's memory fails under a request that is good.
fn remote_operation() -> Statuses {
    between(Setup::DEFAULT, |pair| {
        pair.hosts[1].memory.gone.set(true);
        (WrOpcode::RdmaWrite { va: VA, rkey: pair.hosts[1].mr.rkey }, 1)
    })[0]
        .clone()
}

/// A key to invalidate that is not the peer's to take away.
fn remote_invalidate() -> Statuses {
    let [sender, receiver] = between(Setup::DEFAULT, |pair| {
        pair.hosts[1].post_recv(1, 0, 8);
        (WrOpcode::SendWithInvalidate(pair.hosts[1].mr.rkey), 8)
    });
    assert_eq!(sender, [WcStatus::RemoteAccess, WcStatus::WrFlush]);
    receiver
}

/// Nobody answers.
fn retry_exceeded() -> Statuses {
    let mut lone = Lone::with(Setup { retry_cnt: 2, ..Setup::DEFAULT });
    let sge = lone.host.sge(0, 1);
    lone.host.post(1, WRITE, sge);
    for _ in 0..3 {
        assert_eq!(lone.sends().len(), 1);
        assert_eq!(lone.state(), QpState::Rts);
        lone.wait(300_000_000);
    }
    lone.host.sent().iter().map(|wc| wc.status).collect()
}

/// The peer posts no receive.
fn rnr_retry_exceeded() -> Statuses {
    let setup = Setup { rnr_retry: 1, ..Setup::DEFAULT };
    between(setup, |_| (WrOpcode::Send, 1))[0].clone()
}

/// A row each, and a row for each.
#[test]
fn every_status_is_reached() {
    use WcStatus as S;
    let table: [(WcStatus, fn() -> Statuses); 13] = [
        (S::Success, success),
        (S::LocalLength, local_length),
        (S::LocalQpOperation, local_qp_operation),
        (S::LocalProtection, local_protection),
        (S::WrFlush, flush),
        (S::MwBind, mw_bind),
        (S::BadResponse, bad_response),
        (S::RemoteInvalidRequest, remote_invalid_request),
        (S::RemoteAccess, remote_access),
        (S::RemoteOperation, remote_operation),
        (S::RetryExceeded, retry_exceeded),
        (S::RnrRetryExceeded, rnr_retry_exceeded),
        (S::RemoteInvalidate, remote_invalidate),
    ];
    for (status, scenario) in table {
        let ended = scenario();
        assert_eq!(ended.first(), Some(&status), "{status}: {ended:?}");
        let behind = if status == S::Success { S::Success } else { S::WrFlush };
        assert!(ended[1..].iter().all(|other| *other == behind), "{status}: {ended:?}");
    }
    for status in S::ALL {
        assert!(table.iter().any(|(row, _)| *row == status), "{status} has no row");
    }
}

/// Unsignaled requests give their places back when they are done, and not before.
#[test]
fn places_of_unsignaled_requests_come_back() {
    let mut lone = Lone::new();
    let sges = [lone.host.sge(0, 1)];
    let qp = lone.host.qp;
    let mut psn = 5000;
    for round in 1..=3 {
        let mut post = || {
            let wr = SendWr::new(1, WRITE, &sges).unsignaled();
            lone.host.engine.post_send(qp, &wr)
        };
        assert_eq!(
            (0..64).map(|_| post()).collect::<Result<Vec<_>, _>>().map(|all| all.len()),
            Ok(64)
        );
        assert_eq!(post(), Err(PostError::QueueFull));
        lone.sends();
        lone.receives(Packet::ack(psn + 31, 64 * (round - 1) + 32));
        let info = lone.host.engine.query_qp(qp).unwrap();
        assert_eq!(info.send_wrs, 32, "half of them");
        lone.receives(Packet::ack(psn + 63, 64 * round));
        psn += 64;
        assert_eq!(lone.host.sent(), []);
    }
}

/// Solicited: the last packet of a message says so, and the receiver's completion; a WRITE without
/// immediate has none that could.
#[test]
fn solicited_completions() {
    let mut pair = Pair::new(Setup::DEFAULT);
    let rkey = pair.hosts[1].mr.rkey;
    for wr_id in 0..4 {
        pair.hosts[1].post_recv(wr_id, 100_000, 4000);
    }
    let sges = [pair.hosts[0].sge(0, 2500)];
    let qp = pair.hosts[0].qp;
    let imm = WrOpcode::RdmaWriteWithImm { va: VA, rkey, imm: 5 };
    let write = WrOpcode::RdmaWrite { va: VA, rkey };
    let requests =
        [(write, true), (WrOpcode::Send, true), (imm, true), (WrOpcode::Send, false), (imm, false)];
    for (opcode, solicited) in requests {
        let wr = SendWr { solicited, ..SendWr::new(1, opcode, &sges) };
        pair.hosts[0].engine.post_send(qp, &wr).unwrap();
    }
    pair.run();
    let told: Vec<_> = pair.hosts[1].received().iter().map(|wc| wc.solicited).collect();
    assert_eq!(told, [true, true, false, false]);
    let marked: Vec<_> = pair.log[0].iter().map(|packet| packet.solicited).collect();
    let message = |last| [false, false, last];
    let expect = [true, true, true, false, false].map(message).concat();
    assert_eq!(marked, expect);
}
