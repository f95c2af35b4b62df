//! How connections end.

use roce_codec::cm::{AttributeId, Message};
use roce_engine::cm::{CmDropReason, CmState};

use crate::pair::{ACTIVE, ACTIVE_QPN, PASSIVE, PASSIVE_QPN, Pair, Told};

#[test]
fn either_side_disconnects() {
    for (asks, answers, qpn) in [(ACTIVE, PASSIVE, PASSIVE_QPN), (PASSIVE, ACTIVE, ACTIVE_QPN)] {
        let mut pair = Pair::new();
        let ids = pair.establish();
        pair.sides[asks].disconnect(pair.now, ids[asks], b"bye").unwrap();
        assert_eq!(pair.state(asks, ids[asks]), CmState::DreqSent);
        pair.settle();
        let told = Told::DisconnectRequest { id: ids[answers], private_data: b"bye".to_vec() };
        assert_eq!(pair.only(answers), told);
        assert_eq!(pair.state(answers, ids[answers]), CmState::DreqRcvd);
        let Message::Dreq(dreq) = pair.last(asks) else { panic!("no DREQ") };
        assert_eq!(dreq.remote_qpn, qpn, "the receiver's");

        pair.sides[answers].disconnect(pair.now, ids[answers], b"farewell").unwrap();
        pair.settle();
        let told = Told::Disconnected { id: ids[asks], private_data: b"farewell".to_vec() };
        assert_eq!(pair.only(asks), told);
        for side in [asks, answers] {
            assert_eq!(pair.state(side, ids[side]), CmState::Timewait);
        }
        let before = pair.now;
        pair.run_until(before.add_ns((4096 << 14) - 1_000_000));
        assert!(pair.told.iter().all(Vec::is_empty), "it is too early");
        pair.run();
        for side in [asks, answers] {
            assert_eq!(pair.only(side), Told::TimewaitExit(ids[side]));
        }
        pair.assert_at_rest();
    }
}

#[test]
fn both_disconnect_at_once() {
    let mut pair = Pair::new();
    let ids = pair.establish();
    for side in [ACTIVE, PASSIVE] {
        pair.sides[side].disconnect(pair.now, ids[side], &[]).unwrap();
    }
    pair.run();
    for side in [ACTIVE, PASSIVE] {
        let told = Told::Disconnected { id: ids[side], private_data: vec![] };
        assert_eq!(pair.told[side], [told, Told::TimewaitExit(ids[side])]);
        // Each takes the other's DREQ for an answer, and answers it.
        assert_eq!(pair.count(side, AttributeId::DREQ), 1);
        assert_eq!(pair.count(side, AttributeId::DREP), 1);
    }
    pair.assert_at_rest();
}

/// The DREP is lost: the DREQ comes again in time-wait and gets the same DREP.
#[test]
fn a_dreq_again_in_timewait_gets_the_drep_again() {
    let mut pair = Pair::new();
    let ids = pair.establish();
    pair.sides[ACTIVE].disconnect(pair.now, ids[ACTIVE], &[]).unwrap();
    pair.settle();
    // The active side asks again after 336 ms; the passive side's time-wait is over by then.
    pair.lose(PASSIVE, AttributeId::DREP);
    pair.run_until(pair.now.add_ns(300_000_000));
    pair.sides[PASSIVE].disconnect(pair.now, ids[PASSIVE], b"farewell").unwrap();
    pair.run();
    let drep: Vec<_> = pair.sent.iter().filter(|s| s.attribute == AttributeId::DREP).collect();
    assert_eq!(drep.len(), 2);
    assert_eq!(drep[0].mad, drep[1].mad);
    assert!(
        pair.told[ACTIVE]
            .contains(&Told::Disconnected { id: ids[ACTIVE], private_data: b"farewell".to_vec() })
    );
    pair.assert_at_rest();
}

/// And when the connection is gone altogether, a DREP without anything to say.
#[test]
fn a_dreq_of_what_is_gone_is_answered() {
    let mut pair = Pair::new();
    let ids = pair.establish();
    pair.sides[ACTIVE].disconnect(pair.now, ids[ACTIVE], &[]).unwrap();
    pair.settle();
    let dreq = pair.sent.last().unwrap().mad;
    pair.sides[PASSIVE].disconnect(pair.now, ids[PASSIVE], b"farewell").unwrap();
    pair.run();
    pair.assert_at_rest();
    let before = pair.sent.len();
    pair.deliver(PASSIVE, &dreq);
    pair.settle();
    let Message::Drep(drep) = pair.last(PASSIVE) else { panic!("no DREP") };
    assert_eq!((drep.local_comm_id, drep.remote_comm_id), (ids[PASSIVE], ids[ACTIVE]));
    assert_eq!(pair.sent.len(), before + 1, "and the DREP is answered by nothing");
}

#[test]
fn a_peer_that_does_not_answer_is_disconnected_all_the_same() {
    let mut pair = Pair::new();
    let ids = pair.establish();
    pair.cut(ACTIVE, true);
    pair.sides[ACTIVE].disconnect(pair.now, ids[ACTIVE], &[]).unwrap();
    pair.run();
    assert_eq!(pair.count(ACTIVE, AttributeId::DREQ), 4);
    let told = Told::Disconnected { id: ids[ACTIVE], private_data: vec![] };
    assert_eq!(pair.told[ACTIVE], [told, Told::TimewaitExit(ids[ACTIVE])]);
}

/// The RTU is lost and the active side disconnects: the passive side sees both in one.
#[test]
fn a_dreq_may_come_before_the_rtu() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&crate::pair::connect());
    pair.accept(passive);
    pair.settle();
    pair.only(ACTIVE);
    pair.lose(ACTIVE, AttributeId::RTU);
    pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
    pair.settle();
    pair.sides[ACTIVE].disconnect(pair.now, active, &[]).unwrap();
    pair.settle();
    assert!(matches!(pair.only(PASSIVE), Told::DisconnectRequest { .. }));
    pair.sides[PASSIVE].disconnect(pair.now, passive, &[]).unwrap();
    pair.run();
    pair.assert_at_rest();
}

/// What the peer said stays until it is polled: what would take its place is dropped, and comes
/// again.
#[test]
fn a_message_waits_for_the_consumer() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&crate::pair::connect());
    pair.accept(passive);
    pair.settle();
    pair.only(ACTIVE);
    pair.sides[ACTIVE].ready(pair.now, active, b"go").unwrap();
    let rtu = pair.sides[ACTIVE].poll_transmit(pair.now).unwrap().mad;
    pair.sides[ACTIVE].disconnect(pair.now, active, b"bye").unwrap();
    let dreq = pair.sides[ACTIVE].poll_transmit(pair.now).unwrap().mad;
    pair.deliver(PASSIVE, &rtu);
    pair.deliver(PASSIVE, &dreq);
    assert_eq!(pair.sides[PASSIVE].counters().dropped(CmDropReason::EventPending), 1);
    let told = pair.wait(PASSIVE);
    assert_eq!(told, Told::Established { id: passive, private_data: b"go".to_vec() });
    let told = pair.wait(PASSIVE);
    assert_eq!(told, Told::DisconnectRequest { id: passive, private_data: b"bye".to_vec() });
}
