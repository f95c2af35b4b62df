//! What the manager says takes real queue pairs to RTS, towards each other.

use roce_codec::ib::{PKey, Psn, Qpn, RnrTimer, Service};
use roce_engine::cm::{Accept, Connect, QpAttributes};
use roce_engine::{
    Access, Config, Engine, HeapStorage, Limits, ModifyQp, QpInit, QpState, SeededEntropy,
};

use crate::pair::{ACTIVE, PASSIVE, Pair, Told, connect};

fn engine(seed: u64) -> (Engine<'static>, Qpn) {
    let limits = Limits {
        qps: 4,
        replays_per_qp: 16,
        mrs: 1,
        cqs: 1,
        cqes: 4,
        send_wqes: 4,
        recv_wqes: 4,
        ahs: 4,
        events: 4,
        ..Limits::SMALL
    };
    let storage = Box::leak(Box::new(HeapStorage::new(&limits)));
    let mut engine = Engine::new(Config::DEFAULT, storage.lend());
    let (pd, cq) = (engine.alloc_pd(), engine.create_cq(4).unwrap());
    let init = QpInit { max_send_wr: 4, max_recv_wr: 4, ..QpInit::new(Service::Rc, pd, cq, cq) };
    let qpn = engine.create_qp(&init, &mut SeededEntropy::new(seed)).unwrap();
    (engine, qpn)
}

fn to_rts(engine: &mut Engine<'_>, qpn: Qpn, agreed: &QpAttributes) {
    let changes = [
        ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::NONE },
        ModifyQp::Rtr(agreed.rtr(RnrTimer::new(12))),
        ModifyQp::Rts(agreed.rts()),
    ];
    for change in changes {
        engine.modify_qp(qpn, &change).unwrap();
    }
}

#[test]
fn they_expect_what_the_other_sends() {
    let (mut one, one_qpn) = engine(1);
    let (mut other, other_qpn) = engine(2);
    let mut pair = Pair::new();
    // More READs than an engine keeps are never agreed on.
    let depth = one.max_dest_rd_atomic();
    let asked = Connect {
        qpn: one_qpn,
        starting_psn: Psn::new(0x111111),
        responder_resources: depth,
        initiator_depth: 255,
        ..connect()
    };
    let [active, passive] = pair.request(&asked);
    let accept = Accept {
        responder_resources: other.max_dest_rd_atomic(),
        initiator_depth: 255,
        ..Accept::new(other_qpn, Psn::new(0x222222))
    };
    let agreed = pair.sides[PASSIVE].accept(pair.now, passive, &accept).unwrap();
    to_rts(&mut other, other_qpn, &agreed);
    pair.settle();
    let Told::ConnectResponse { qp, .. } = pair.only(ACTIVE) else { panic!("no response") };
    to_rts(&mut one, one_qpn, &qp);
    pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
    pair.settle();

    let [one, other] = [one.query_qp(one_qpn).unwrap(), other.query_qp(other_qpn).unwrap()];
    assert_eq!((one.state, other.state), (QpState::Rts, QpState::Rts));
    assert_eq!((one.expected_psn, other.expected_psn), (Psn::new(0x111111), Psn::new(0x222222)));
    assert_eq!((one.next_psn, other.next_psn), (Psn::new(0x222222), Psn::new(0x111111)));
}
