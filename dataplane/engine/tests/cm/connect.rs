//! How connections come about.

use roce_codec::cm::{AttributeId, MAD_LEN, Message, RejReason, Rep, Timeout, TransportType};
use roce_codec::ib::{PathMtu, RnrTimer};
use roce_engine::Path;
use roce_engine::cm::{Accept, CmCallError, CmState, Connect};

use crate::pair::{
    ACTIVE, ACTIVE_PSN, ACTIVE_QPN, PASSIVE, PASSIVE_PSN, PASSIVE_QPN, Pair, SERVICE, Told,
    connect, path,
};

#[test]
fn both_ends_learn_what_their_queue_pairs_need() {
    let mut pair = Pair::new();
    let asked = Connect {
        private_data: b"hello",
        responder_resources: 4,
        initiator_depth: 16,
        retry_count: 5,
        rnr_retry_count: 2,
        path_mtu: PathMtu::Mtu2048,
        ..connect()
    };
    let active = pair.sides[ACTIVE].connect(pair.now, &asked).unwrap();
    assert_eq!(pair.state(ACTIVE, active), CmState::ReqSent);
    pair.settle();
    let Told::ConnectRequest { id: passive, private_data, src_port, .. } = pair.only(PASSIVE)
    else {
        panic!("no request")
    };
    assert_eq!((private_data, src_port), (b"hello".to_vec(), 40_000));
    assert_eq!(pair.state(PASSIVE, passive), CmState::ReqRcvd);

    let accept = Accept {
        responder_resources: 8,
        initiator_depth: 32,
        rnr_retry_count: 6,
        private_data: b"welcome",
        ..Accept::new(PASSIVE_QPN, PASSIVE_PSN)
    };
    let ours = pair.sides[PASSIVE].accept(pair.now, passive, &accept).unwrap();
    assert_eq!(pair.state(PASSIVE, passive), CmState::RepSent);
    pair.settle();
    let Told::ConnectResponse { id, qp: theirs, private_data } = pair.only(ACTIVE) else {
        panic!("no response")
    };
    assert_eq!((id, private_data), (active, b"welcome".to_vec()));

    // Each sends first what the other expects first.
    assert_eq!((ours.sq_psn, ours.rq_psn), (ACTIVE_PSN, PASSIVE_PSN));
    assert_eq!((theirs.sq_psn, theirs.rq_psn), (PASSIVE_PSN, ACTIVE_PSN));
    assert_eq!((ours.dest_qpn, theirs.dest_qpn), (ACTIVE_QPN, PASSIVE_QPN));
    assert_eq!((ours.path_mtu, theirs.path_mtu), (PathMtu::Mtu2048, PathMtu::Mtu2048));
    // The passive side serves 8 of the 16 wanted, and gets 4 of the 32 it wants.
    assert_eq!((ours.max_dest_rd_atomic, ours.max_rd_atomic), (8, 4));
    assert_eq!((theirs.max_rd_atomic, theirs.max_dest_rd_atomic), (8, 4));
    // Retries are the REQ's for both, RNR retries are what the other said.
    assert_eq!((ours.retry_cnt, theirs.retry_cnt), (5, 5));
    assert_eq!((ours.rnr_retry, theirs.rnr_retry), (2, 6));
    // 2^14 and a target's delay of 2^15 are nearest to 2^16.
    assert_eq!((ours.timeout.code(), theirs.timeout.code()), (14, 16));
    assert_eq!(theirs.path, path(1, 2));
    assert_eq!((ours.path.src, ours.path.dst), (path(2, 1).src, path(2, 1).dst));

    let rtr = ours.rtr(RnrTimer::new(12));
    assert_eq!((rtr.rq_psn, rtr.dest_qpn, rtr.max_dest_rd_atomic), (PASSIVE_PSN, ACTIVE_QPN, 8));
    let rts = theirs.rts();
    assert_eq!(
        (rts.sq_psn, rts.timeout, rts.rnr_retry, rts.max_rd_atomic),
        (PASSIVE_PSN, 16, 6, 8)
    );

    assert_eq!(pair.state(ACTIVE, active), CmState::RepRcvd);
    pair.sides[ACTIVE].ready(pair.now, active, b"go").unwrap();
    pair.settle();
    assert_eq!(pair.only(PASSIVE), Told::Established { id: passive, private_data: b"go".to_vec() });
    assert_eq!(pair.state(ACTIVE, active), CmState::Established);
    assert_eq!(pair.state(PASSIVE, passive), CmState::Established);
    assert_eq!(pair.sent.len(), 3);
}

/// A REP that serves more READs than were asked for gives no more than were asked for, and one
/// that wants more than is served gets no more than is served.
#[test]
fn a_rep_gives_no_more_than_was_asked_for() {
    let mut pair = Pair::new();
    let asked = Connect { responder_resources: 4, initiator_depth: 3, ..connect() };
    let [remote_comm_id, local_comm_id] = pair.request(&asked);
    let rep = Message::Rep(Rep {
        local_comm_id,
        remote_comm_id,
        local_qpn: PASSIVE_QPN,
        responder_resources: 200,
        initiator_depth: 200,
        ..Rep::default()
    });
    let mut mad = [0; MAD_LEN];
    rep.emit(1, &mut mad).unwrap();
    pair.deliver(ACTIVE, &mad);
    pair.settle();
    let Told::ConnectResponse { qp, .. } = pair.only(ACTIVE) else { panic!("no response") };
    assert_eq!((qp.max_rd_atomic, qp.max_dest_rd_atomic), (3, 4));
}

/// Its packets leave from the port that Linux gives a connection of this flow label.
#[test]
fn the_source_port_follows_the_flow_label() {
    for (flow_label, src_port) in [(0, 0xc123), (1, 0xc001), (0x4000, 0xc001), (0xfffff, 0xffc0)] {
        let mut pair = Pair::new();
        let there = Path { flow_label, ..path(1, 2) };
        let [_, passive] = pair.request(&Connect { path: there, ..connect() });
        let ours = pair.accept(passive);
        assert_eq!((ours.path.src_port, ours.path.flow_label), (src_port, flow_label));
    }
}

#[test]
fn an_unreliable_connection_is_one_too() {
    let mut pair = Pair::new();
    let [_, passive] = pair.request(&Connect { transport: TransportType::Uc, ..connect() });
    assert_eq!(pair.accept(passive).transport, TransportType::Uc);
    pair.settle();
    let Told::ConnectResponse { qp, .. } = pair.only(ACTIVE) else { panic!("no response") };
    assert_eq!(qp.transport, TransportType::Uc);
    let rd = Connect { transport: TransportType::Rd, ..connect() };
    assert_eq!(pair.sides[ACTIVE].connect(pair.now, &rd), Err(CmCallError::Transport));
}

#[test]
fn every_message_may_be_lost_once() {
    for attribute in [AttributeId::REQ, AttributeId::REP, AttributeId::RTU] {
        let mut pair = Pair::new();
        let side = if attribute == AttributeId::REP { PASSIVE } else { ACTIVE };
        pair.lose(side, attribute);
        let active = pair.sides[ACTIVE].connect(pair.now, &connect()).unwrap();
        let Told::ConnectRequest { id: passive, .. } = pair.wait(PASSIVE) else { panic!() };
        pair.accept(passive);
        assert!(matches!(pair.wait(ACTIVE), Told::ConnectResponse { .. }));
        pair.sides[ACTIVE].ready(pair.now, active, b"go").unwrap();
        let told = Told::Established { id: passive, private_data: b"go".to_vec() };
        assert_eq!(pair.wait(PASSIVE), told, "{attribute}");
        assert_eq!(pair.state(ACTIVE, active), CmState::Established);
        assert_eq!(pair.count(side, attribute), 2, "{attribute}");
    }
}

/// The REQ is sent once and max_cm_retries times again, each after the time in which the peer
/// must answer and a round trip; then it is given up by a REJ that says who.
#[test]
fn a_peer_that_does_not_answer_is_unreachable() {
    let mut pair = Pair::new();
    pair.cut(ACTIVE, true);
    let id = pair.sides[ACTIVE].connect(pair.now, &connect()).unwrap();
    pair.run();
    assert_eq!(pair.only(ACTIVE), Told::Unreachable(id));
    assert_eq!(pair.count(ACTIVE, AttributeId::REQ), 4);
    // 4.096 µs · 2^16, and 4.096 µs · 2^14 there and back.
    let wait_ns = (4096 << 16) + (4096 << 14);
    let times: Vec<u64> = pair.sent.iter().map(|sent| sent.at.0).collect();
    for (step, pairs) in times.windows(2).enumerate() {
        let late = pairs[1] - pairs[0] - wait_ns;
        assert!(late < 8192, "step {step}: {late} ns late");
    }
    let Message::Rej(rej) = pair.last(ACTIVE) else { panic!("no REJ") };
    assert_eq!((rej.local_comm_id, rej.reason), (id, RejReason::TIMEOUT));
    assert_eq!(rej.ari_bytes(), [0, 0, 0, 0, 0, 0, 0, 0xa]);
    // All requests are the same message, in the same transaction.
    let requests: Vec<_> = pair.sent.iter().filter(|s| s.attribute == AttributeId::REQ).collect();
    assert!(requests.iter().all(|sent| sent.mad == requests[0].mad));
    pair.assert_at_rest();
}

/// The REJ finds the passive side's connection though the active side never learnt its ID.
#[test]
fn giving_up_is_told_to_a_peer_that_was_never_heard() {
    let mut pair = Pair::new();
    pair.cut(PASSIVE, true);
    pair.request(&connect());
    pair.run();
    assert!(matches!(pair.only(ACTIVE), Told::Unreachable(_)));
    let Told::Rejected { reason, .. } = pair.only(PASSIVE) else { panic!("not told") };
    assert_eq!(reason, RejReason::TIMEOUT);
    pair.assert_at_rest();
}

#[test]
fn a_rep_without_rtu_ends_in_timewait() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    pair.accept(passive);
    pair.settle();
    assert!(matches!(pair.only(ACTIVE), Told::ConnectResponse { .. }));
    // The consumer never says that it is ready.
    pair.run();
    let told = [Told::Unreachable(passive), Told::TimewaitExit(passive)];
    assert_eq!(pair.told[PASSIVE], told);
    assert_eq!(pair.count(PASSIVE, AttributeId::REP), 4);
    let Told::Rejected { id, reason, .. } = pair.told[ACTIVE].remove(0) else { panic!("not told") };
    assert_eq!((id, reason), (active, RejReason::TIMEOUT));
    assert_eq!(pair.only(ACTIVE), Told::TimewaitExit(active));
    pair.assert_at_rest();
}

/// Rule of the responder: the first packet in RTR stands for a lost RTU.
#[test]
fn the_first_packet_stands_for_a_lost_rtu() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    pair.accept(passive);
    pair.settle();
    pair.lose(ACTIVE, AttributeId::RTU);
    pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
    pair.settle();
    pair.sides[PASSIVE].communication_established(pair.now, passive).unwrap();
    assert_eq!(pair.state(PASSIVE, passive), CmState::Established);
    assert_eq!(
        pair.sides[PASSIVE].communication_established(pair.now, passive),
        Err(CmCallError::State(CmState::Established))
    );
    pair.run();
    assert_eq!(pair.count(PASSIVE, AttributeId::REP), 1, "nothing was sent again");
}

/// An MRA makes the peer wait longer than its timeout; what it asks again meanwhile is answered
/// by the MRA again.
#[test]
fn a_slow_consumer_asks_for_time() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    // 4.3 s.
    pair.sides[PASSIVE].delay(pair.now, passive, Timeout::new(20), b"busy").unwrap();
    pair.settle();
    assert_eq!(pair.state(PASSIVE, passive), CmState::MraReqSent);
    assert_eq!(pair.state(ACTIVE, active), CmState::RepWait);
    pair.run_until(pair.now.add_ns(4_000_000_000));
    assert_eq!(pair.count(ACTIVE, AttributeId::REQ), 1, "it waits");
    pair.run_until(pair.now.add_ns(1_000_000_000));
    assert_eq!(pair.count(ACTIVE, AttributeId::REQ), 2, "it asks again");
    assert_eq!(pair.count(PASSIVE, AttributeId::MRA), 2, "and is put off again");
    assert_eq!(pair.state(ACTIVE, active), CmState::RepWait);

    pair.accept(passive);
    pair.settle();
    pair.sides[ACTIVE].delay(pair.now, active, Timeout::new(20), &[]).unwrap();
    pair.settle();
    assert_eq!(pair.state(ACTIVE, active), CmState::MraRepSent);
    assert_eq!(pair.state(PASSIVE, passive), CmState::MraRepRcvd);
    pair.run_until(pair.now.add_ns(4_000_000_000));
    assert_eq!(pair.count(PASSIVE, AttributeId::REP), 1, "it waits");
    pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
    pair.settle();
    assert_eq!(pair.state(PASSIVE, passive), CmState::Established);
}

#[test]
fn calls_out_of_place_are_refused_and_change_nothing() {
    let mut pair = Pair::new();
    let [active, passive] = pair.establish();
    let cm = &mut pair.sides[ACTIVE];
    let error = Err(CmCallError::State(CmState::Established));
    assert_eq!(cm.ready(pair.now, active, &[]), error);
    assert_eq!(cm.delay(pair.now, active, Timeout::new(1), &[]), error);
    assert_eq!(cm.reject(pair.now, active, RejReason::CONSUMER_REJECT, &[], &[]), error);
    let too_long = cm.disconnect(pair.now, active, &[1; 221]);
    assert!(matches!(too_long, Err(CmCallError::PrivateData(_))), "{too_long:?}");
    assert_eq!(cm.state(active), CmState::Established);
    assert_eq!(cm.disconnect(pair.now, passive, &[]), Err(CmCallError::UnknownId));
    // 56 bytes are left behind the header of the RDMA IP CM Service, 92 without.
    let data = [7; 93];
    let with = |service_id, len| Connect { service_id, private_data: &data[..len], ..connect() };
    for (service_id, most) in [(SERVICE, 56), (roce_codec::cm::ServiceId(5), 92)] {
        assert!(matches!(
            cm.connect(pair.now, &with(service_id, most + 1)),
            Err(CmCallError::PrivateData(_))
        ));
        let before = cm.in_use();
        cm.connect(pair.now, &with(service_id, most)).unwrap();
        assert_eq!(cm.in_use(), before + 1);
    }
    let cm = &mut pair.sides[PASSIVE];
    assert_eq!(cm.listen(SERVICE, 1), Err(CmCallError::Listening));
    cm.unlisten(SERVICE).unwrap();
    assert_eq!(cm.unlisten(SERVICE), Err(CmCallError::NotListening));
}

/// The active side asks for time and is never heard of again.
#[test]
fn time_that_was_asked_for_runs_out() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&Connect { max_cm_retries: 1, ..connect() });
    pair.accept(passive);
    pair.settle();
    pair.only(ACTIVE);
    pair.sides[ACTIVE].delay(pair.now, active, Timeout::new(16), &[]).unwrap();
    pair.settle();
    assert_eq!(pair.state(PASSIVE, passive), CmState::MraRepRcvd);
    pair.lose(PASSIVE, AttributeId::REJ);
    pair.run();
    // The REP again, the MRA again, then the end.
    assert_eq!(
        (pair.count(PASSIVE, AttributeId::REP), pair.count(ACTIVE, AttributeId::MRA)),
        (2, 2)
    );
    assert_eq!(pair.told[PASSIVE], [Told::Unreachable(passive), Told::TimewaitExit(passive)]);
}

/// However often the REQ comes, the REP's retries end when they would have.
#[test]
fn duplicates_do_not_prolong_the_wait() {
    let mut pair = Pair::new();
    let [_, passive] = pair.request(&connect());
    let req = pair.sent[0].mad;
    pair.accept(passive);
    pair.cut(PASSIVE, true);
    pair.cut(ACTIVE, true);
    // 4 times 537 ms, and 67 ms in time-wait.
    for _ in 0..21 {
        pair.deliver(PASSIVE, &req);
        pair.run_until(pair.now.add_ns(100_000_000));
    }
    pair.run_until(pair.now.add_ns(150_000_000));
    assert_eq!(pair.told[PASSIVE], [Told::Unreachable(passive), Told::TimewaitExit(passive)]);
}

/// A slot is held until what it has to say is sent.
#[test]
fn a_refusal_is_sent_before_its_slot_is_taken() {
    let mut pair = Pair::new();
    pair.sides[PASSIVE] = crate::pair::manager(0xb, 3, 1);
    pair.sides[PASSIVE].listen(SERVICE, 1).unwrap();
    let [_, passive] = pair.request(&connect());
    let cm = &mut pair.sides[PASSIVE];
    cm.reject(pair.now, passive, RejReason::CONSUMER_REJECT, &[], &[]).unwrap();
    let back = Connect { path: path(2, 1), ..connect() };
    assert_eq!(cm.connect(pair.now, &back), Err(CmCallError::NoSlot));
    let refusal = cm.poll_transmit(pair.now).unwrap();
    assert_eq!(refusal.attribute, AttributeId::REJ);
    assert!(cm.connect(pair.now, &back).is_ok());
}

#[test]
fn a_manager_may_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&Pair::new().sides[0]);
}
