//! What is refused, and how it is said.

use roce_codec::cm::{
    AttributeId, CommunicationId, Gid, MAD_LEN, Mad, MadHeader, Message, Mra, MraedMessage, Rej,
    RejReason, RejectedMessage, Rep, Req, ServiceId, Timeout, TransportType,
};
use roce_codec::ib::{PathMtu, Psn, Qpn};
use roce_engine::cm::{Accept, CmDropReason, CmState, Connect};

use crate::pair::{ACTIVE, PASSIVE, PASSIVE_QPN, Pair, Told, connect, manager, path};

/// A REQ of `connect()`, changed by `change`, arrives at a manager with a listener: what comes
/// back, at once.
fn ask(pair: &mut Pair, change: impl FnOnce(&mut Req<'_>)) -> Option<Vec<u8>> {
    let mut asker = manager(0xc, pair.now.0, 1);
    asker.connect(pair.now, &connect()).unwrap();
    let mad = asker.poll_transmit(pair.now).unwrap().mad;
    let parsed = Mad::parse(&mad).unwrap();
    let Message::Req(mut req) = Message::parse(&parsed).unwrap() else { unreachable!() };
    change(&mut req);
    let mut changed = [0; MAD_LEN];
    Message::Req(req).emit_under(&parsed.header, &mut changed).unwrap();
    pair.now = pair.now.add_ns(1);
    pair.deliver(PASSIVE, &changed);
    let answer = pair.sides[PASSIVE].poll_transmit(pair.now)?;
    assert_eq!(
        Mad::parse(&answer.mad).unwrap().header.transaction_id,
        parsed.header.transaction_id
    );
    Some(answer.mad.to_vec())
}

fn refusal(pair: &mut Pair, change: impl FnOnce(&mut Req<'_>)) -> (RejReason, Vec<u8>) {
    let mut asked = CommunicationId(0);
    let answer = ask(pair, |req| {
        change(req);
        asked = req.local_comm_id;
    })
    .expect("it is refused");
    let mad = Mad::parse(&answer).unwrap();
    let Message::Rej(rej) = Message::parse(&mad).unwrap() else { panic!("no REJ") };
    assert_eq!((rej.remote_comm_id, rej.rejected), (asked, RejectedMessage::Req));
    assert_eq!(pair.sides[PASSIVE].in_use(), 0);
    (rej.reason, rej.ari_bytes().to_vec())
}

#[test]
fn every_reason_the_manager_finds_itself() {
    let mut pair = Pair::new();
    let pair = &mut pair;
    let none: Vec<u8> = vec![];
    let invalid_service = refusal(pair, |req| req.service_id = ServiceId(1));
    assert_eq!(invalid_service, (RejReason(8), none.clone()));
    for transport in [TransportType::Rd, TransportType::Extended] {
        assert_eq!(refusal(pair, |req| req.transport = transport), (RejReason(9), none.clone()));
    }
    let gid = Gid::from(path(2, 1).src).0;
    let wrong_gid = refusal(pair, |req| req.primary.remote_gid = Gid([9; 16]));
    assert_eq!(wrong_gid, (RejReason(12), gid.to_vec()), "it says which would do");
    let another = refusal(pair, |req| req.primary.local_gid = Gid([9; 16]));
    assert_eq!(another, (RejReason(5), none.clone()), "we would send to who has not asked");
    for code in [0, 6, 15] {
        let wrong_mtu = refusal(pair, |req| req.path_mtu_code = code);
        assert_eq!(wrong_mtu, (RejReason(26), vec![5]), "it says which would do");
    }
    for qpn in [0, 1, 0xff_ffff] {
        let nobody = refusal(pair, |req| req.local_qpn = Qpn::new(qpn));
        assert_eq!(nobody, (RejReason(5), none.clone()));
    }
    assert_eq!(pair.sides[PASSIVE].counters().rejects, 11);
}

#[test]
fn a_path_mtu_the_port_does_not_carry() {
    use roce_codec::cm::CaGuid;
    use roce_engine::SeededEntropy;
    use roce_engine::cm::{Cm, CmConfig, HeapCmStorage};

    let mut storage = HeapCmStorage::new(1, 1, 1);
    let config = CmConfig { max_path_mtu: PathMtu::Mtu1024, ..CmConfig::new(CaGuid(0xb)) };
    let mut pair = Pair::new();
    let storage = Box::leak(Box::new(std::mem::replace(&mut storage, HeapCmStorage::new(0, 0, 0))));
    pair.sides[PASSIVE] = Cm::new(config, storage.lend(), &mut SeededEntropy::new(1));
    pair.sides[PASSIVE].listen(crate::pair::SERVICE, 1).unwrap();
    let refused = refusal(&mut pair, |req| req.path_mtu_code = 4);
    assert_eq!(refused, (RejReason::INVALID_PATH_MTU, vec![3]));
    assert!(ask(&mut pair, |req| req.path_mtu_code = 3).is_none(), "the consumer is asked");
}

#[test]
fn a_class_version_we_do_not_speak() {
    let mut pair = Pair::new();
    pair.sides[ACTIVE].connect(pair.now, &connect()).unwrap();
    let mut mad = pair.sides[ACTIVE].poll_transmit(pair.now).unwrap().mad;
    mad[2] = 1;
    pair.deliver(PASSIVE, &mad);
    pair.settle();
    let Told::Rejected { reason, .. } = pair.only(ACTIVE) else { panic!("not rejected") };
    assert_eq!(reason, RejReason::UNSUPPORTED_CLASS_VERSION);
    pair.run();
    pair.assert_at_rest();
}

#[test]
fn the_consumer_says_no() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    let reason = RejReason::CONSUMER_REJECT;
    pair.sides[PASSIVE].reject(pair.now, passive, reason, b"why", b"go away").unwrap();
    assert_eq!(pair.state(PASSIVE, passive), CmState::Idle);
    pair.settle();
    assert_eq!(
        pair.only(ACTIVE),
        Told::Rejected {
            id: active,
            reason: RejReason(28),
            ari: b"why".to_vec(),
            private_data: b"go away".to_vec()
        }
    );
    pair.run();
    pair.assert_at_rest();
}

#[test]
fn the_active_consumer_says_no() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    pair.accept(passive);
    pair.settle();
    pair.only(ACTIVE);
    let reason = RejReason::CONSUMER_REJECT;
    pair.sides[ACTIVE].reject(pair.now, active, reason, &[], b"never mind").unwrap();
    pair.settle();
    let Message::Rej(rej) = pair.last(ACTIVE) else { panic!("no REJ") };
    assert_eq!(rej.rejected, RejectedMessage::Rep);
    let Told::Rejected { id, private_data, .. } = pair.only(PASSIVE) else { panic!("not told") };
    assert_eq!((id, private_data), (passive, b"never mind".to_vec()));
    pair.run();
    assert_eq!(pair.only(PASSIVE), Told::TimewaitExit(passive));
    pair.assert_at_rest();
}

/// A flood of REQs takes the backlog and no more. What has no slot is refused, and what has no
/// slot for an answer is dropped and counted.
#[test]
fn a_flood_of_requests_is_bounded() {
    let mut pair = Pair::new();
    let (mut refused, mut silent) = (0, 0);
    for number in 0..1000_u32 {
        let change = |req: &mut Req<'_>| {
            req.local_qpn = Qpn::new(100 + number);
            req.local_comm_id = CommunicationId(1 + number);
        };
        match ask(&mut pair, change) {
            Some(answer) => {
                let mad = Mad::parse(&answer).unwrap();
                let Message::Rej(rej) = Message::parse(&mad).unwrap() else { panic!("no REJ") };
                assert_eq!(rej.reason, RejReason::NO_RESOURCES);
                refused += 1;
            }
            None => silent += 1,
        }
        assert!(pair.sides[PASSIVE].in_use() <= 4);
    }
    assert_eq!((refused, silent), (996, 4));
    assert_eq!(pair.sides[PASSIVE].counters().no_resources, 996);

    // Nobody polls: eight answers are owed, the rest is dropped.
    let now = pair.now;
    let mut asker = manager(0xc, 9, 1);
    let id = asker.connect(now, &connect()).unwrap();
    let mad = asker.poll_transmit(now).unwrap().mad;
    for _ in 0..100 {
        pair.deliver(PASSIVE, &mad);
    }
    let cm = &mut pair.sides[PASSIVE];
    assert_eq!(cm.counters().dropped(CmDropReason::NoAnswerSlot), 92);
    assert_eq!(std::iter::from_fn(|| cm.poll_transmit(now)).count(), 8);
    assert_eq!(asker.state(id), CmState::ReqSent);
}

/// Established connections do not count for the backlog, but for the pool.
#[test]
fn a_full_pool_refuses_too() {
    let mut pair = Pair::new();
    for number in 0..9 {
        let asked = Connect { qpn: Qpn::new(100 + number), ..connect() };
        // The active side has as few slots: each connection is another host's.
        pair.sides[ACTIVE] = manager(0x100 + u64::from(number), u64::from(number), 1);
        let active = pair.sides[ACTIVE].connect(pair.now, &asked).unwrap();
        pair.settle();
        if number == 8 {
            let Told::Rejected { reason, .. } = pair.only(ACTIVE) else { panic!("not refused") };
            assert_eq!(reason, RejReason::NO_RESOURCES);
            break;
        }
        let Told::ConnectRequest { id, .. } = pair.only(PASSIVE) else { panic!("no request") };
        let accept = Accept::new(Qpn::new(200 + number), Psn::new(0));
        pair.sides[PASSIVE].accept(pair.now, id, &accept).unwrap();
        pair.settle();
        pair.only(ACTIVE);
        pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
        pair.settle();
        pair.only(PASSIVE);
    }
    assert_eq!(pair.sides[PASSIVE].in_use(), 8);
}

/// Delivers a message made by hand and says whether it had an effect or an answer.
fn acts(pair: &mut Pair, side: usize, message: &Message<'_>) -> bool {
    let mut mad = [0; MAD_LEN];
    message.emit(1, &mut mad).unwrap();
    let before = pair.sides[side].counters().acted_on;
    pair.deliver(side, &mad);
    pair.sides[side].counters().acted_on > before
}

#[test]
fn who_does_not_know_the_ids_ends_nothing() {
    let mut pair = Pair::new();
    let [active, passive] = pair.establish();
    let rej = |local_comm_id, remote_comm_id, rejected| {
        let reason = RejReason::TIMEOUT;
        Message::Rej(Rej { local_comm_id, remote_comm_id, rejected, reason, ..Rej::default() })
    };
    use RejectedMessage::{Other, Rep as OfRep, Req as OfReq};
    assert!(!acts(&mut pair, PASSIVE, &rej(CommunicationId(1), passive, Other)));
    assert!(!acts(&mut pair, PASSIVE, &rej(active, CommunicationId(1), Other)));
    assert!(!acts(&mut pair, PASSIVE, &rej(CommunicationId(0), passive, OfReq)));
    assert!(!acts(&mut pair, PASSIVE, &rej(active, CommunicationId(0), Other)));
    // Giving up by the CA GUID is for what is not established.
    let ari = [0, 0, 0, 0, 0, 0, 0, 0xa];
    let given_up = Message::Rej(Rej {
        local_comm_id: active,
        rejected: Other,
        reason: RejReason::TIMEOUT,
        ari_len: 8,
        ari: &ari,
        ..Rej::default()
    });
    assert!(!acts(&mut pair, PASSIVE, &given_up));
    // Nor does who knows them and is somewhere else.
    let mut mad = [0; MAD_LEN];
    rej(active, passive, OfRep).emit(1, &mut mad).unwrap();
    let now = pair.now;
    let cm = &mut pair.sides[PASSIVE];
    cm.handle_mad(now, &Mad::parse(&mad).unwrap(), &path(2, 3));
    assert_eq!(cm.counters().dropped(CmDropReason::Address), 1);
    assert_eq!(cm.state(passive), CmState::Established);
    // It is the peer's own word that ends it.
    assert!(acts(&mut pair, PASSIVE, &rej(active, passive, OfRep)));
    assert_eq!(pair.state(PASSIVE, passive), CmState::Timewait);
}

#[test]
fn a_dreq_for_another_queue_pair_ends_nothing() {
    let mut pair = Pair::new();
    let [local_comm_id, remote_comm_id] = pair.establish();
    let dreq = |qpn| {
        let remote_qpn = Qpn::new(qpn);
        Message::Dreq(roce_codec::cm::Dreq {
            local_comm_id,
            remote_comm_id,
            remote_qpn,
            ..roce_codec::cm::Dreq::default()
        })
    };
    assert!(!acts(&mut pair, PASSIVE, &dreq(PASSIVE_QPN.get() + 1)));
    assert_eq!(pair.sides[PASSIVE].counters().dropped(CmDropReason::Mismatch), 1);
    assert!(acts(&mut pair, PASSIVE, &dreq(PASSIVE_QPN.get())));
}

/// Neither a REP of QP 1, to which we would send as a stranger's connection manager.
#[test]
fn a_rep_of_a_management_queue_pair_connects_nothing() {
    let mut pair = Pair::new();
    let [remote_comm_id, local_comm_id] = pair.request(&connect());
    let rep = |qpn| {
        Message::Rep(Rep {
            local_comm_id,
            remote_comm_id,
            local_qpn: Qpn::new(qpn),
            ..Rep::default()
        })
    };
    for qpn in [0, 1, 0xff_ffff] {
        assert!(!acts(&mut pair, ACTIVE, &rep(qpn)));
    }
    assert_eq!(pair.state(ACTIVE, remote_comm_id), CmState::ReqSent);
    assert!(acts(&mut pair, ACTIVE, &rep(2)));
}

/// A peer may ask for 2.4 hours; it gets 69 s.
#[test]
fn the_longest_wait_is_ours_to_say() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&Connect { max_cm_retries: 0, ..connect() });
    let mra = |message| {
        let service_timeout = Timeout::MAX;
        Message::Mra(Mra {
            local_comm_id: passive,
            remote_comm_id: active,
            message,
            service_timeout,
            ..Mra::default()
        })
    };
    assert!(!acts(&mut pair, ACTIVE, &mra(MraedMessage::Rep)), "no REP is out");
    assert!(acts(&mut pair, ACTIVE, &mra(MraedMessage::Req)));
    assert!(!acts(&mut pair, ACTIVE, &mra(MraedMessage::Req)), "asking again does not prolong it");
    assert_eq!(pair.state(ACTIVE, active), CmState::RepWait);
    pair.run_until(pair.now.add_ns(4096 << 24));
    pair.settle();
    assert_eq!(pair.only(ACTIVE), Told::Unreachable(active));
}

#[test]
fn what_names_nothing() {
    let mut pair = Pair::new();
    // A REP gets a REJ that says so.
    let rep = Rep {
        local_comm_id: CommunicationId(5),
        remote_comm_id: CommunicationId(6),
        ..Rep::default()
    };
    assert!(acts(&mut pair, ACTIVE, &Message::Rep(rep)));
    pair.settle();
    let Message::Rej(rej) = pair.last(ACTIVE) else { panic!("no REJ") };
    assert_eq!((rej.local_comm_id, rej.remote_comm_id), (CommunicationId(6), CommunicationId(5)));
    assert_eq!((rej.reason, rej.rejected), (RejReason(6), RejectedMessage::Rep));
    // A REJ never gets an answer; nor do RTU, MRA, DREP.
    assert_eq!(pair.sides[PASSIVE].counters().acted_on, 0);
    let mut mad = [0; MAD_LEN];
    for attribute in [AttributeId::RTU, AttributeId::MRA, AttributeId::DREP, AttributeId::APR] {
        MadHeader::cm(attribute, 1).emit(&mut mad).unwrap();
        pair.deliver(PASSIVE, &mad);
    }
    assert_eq!(pair.sides[PASSIVE].counters().acted_on, 0);
    assert!(pair.sides[PASSIVE].poll_transmit(pair.now).is_none());
}

/// A host that uses an ID twice is told so; one that asks anew under the same names is stale.
#[test]
fn one_id_one_request() {
    let mut pair = Pair::new();
    assert!(ask(&mut pair, |req| req.local_comm_id = CommunicationId(7)).is_none());
    let mut reason = |change: fn(&mut Req<'_>)| {
        let answer = ask(&mut pair, |req| {
            req.local_comm_id = CommunicationId(7);
            change(req);
        });
        let answer = answer.expect("refused");
        let mad = Mad::parse(&answer).unwrap();
        let Message::Rej(rej) = Message::parse(&mad).unwrap() else { panic!("no REJ") };
        rej.reason
    };
    assert_eq!(reason(|req| req.local_qpn = Qpn::new(9)), RejReason::DUPLICATE_LOCAL_COMM_ID);
    assert_eq!(reason(|req| req.starting_psn = Psn::new(9)), RejReason::STALE_CONNECTION);
    assert!(ask(&mut pair, |req| req.local_comm_id = CommunicationId(7)).is_none(), "the first");
    assert_eq!(pair.sides[PASSIVE].in_use(), 1);
}

/// An alternate path is declined by an APR.
#[test]
fn alternate_paths_are_declined() {
    let mut pair = Pair::new();
    let [local_comm_id, remote_comm_id] = pair.establish();
    let lap =
        roce_codec::cm::Lap { local_comm_id, remote_comm_id, ..roce_codec::cm::Lap::default() };
    assert!(acts(&mut pair, PASSIVE, &Message::Lap(lap)));
    pair.settle();
    let Message::Apr(apr) = pair.last(PASSIVE) else { panic!("no APR") };
    assert_eq!(apr.status, roce_codec::cm::ApStatus::NOT_SUPPORTED);
}
