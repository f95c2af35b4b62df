//! What comes twice is answered twice and done once.

use roce_codec::cm::{AttributeId, Mad, Message, RejReason, Timeout};
use roce_engine::cm::{CmState, Connect};

use crate::pair::{ACTIVE, PASSIVE, PASSIVE_PSN, PASSIVE_QPN, Pair, SERVICE, Told, connect, path};

/// Delivers the last such message of a side's once more; says what the other sends for it.
fn again(pair: &mut Pair, side: usize, attribute: AttributeId) -> Vec<AttributeId> {
    let sent = pair.sent.iter().rfind(|s| (s.side, s.attribute) == (side, attribute)).unwrap();
    let mad = sent.mad;
    let before = pair.sent.len();
    pair.deliver(1 - side, &mad);
    pair.settle();
    pair.sent[before..].iter().filter(|s| s.side != side).map(|s| s.attribute).collect()
}

#[test]
fn a_req_again_gets_what_the_state_has_to_say() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::REQ), [], "nothing to say yet");
    pair.accept(passive);
    pair.settle();
    pair.only(ACTIVE);
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::REQ), [AttributeId::REP]);
    let reps: Vec<_> = pair.sent.iter().filter(|s| s.attribute == AttributeId::REP).collect();
    assert_eq!(reps[0].mad, reps[1].mad);
    pair.sides[ACTIVE].ready(pair.now, active, &[]).unwrap();
    pair.settle();
    pair.only(PASSIVE);
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::REQ), [], "the RTU has come");
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::RTU), []);
    assert_eq!(pair.state(PASSIVE, passive), CmState::Established);
    assert_eq!(pair.sides[PASSIVE].in_use(), 1);
    pair.silent(PASSIVE);

    pair.sides[ACTIVE].disconnect(pair.now, active, &[]).unwrap();
    pair.settle();
    pair.only(PASSIVE);
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::DREQ), [], "the consumer has to say");
    pair.sides[PASSIVE].disconnect(pair.now, passive, &[]).unwrap();
    pair.settle();
    assert_eq!(pair.state(PASSIVE, passive), CmState::Timewait);
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::DREQ), [AttributeId::DREP]);
    assert_eq!(again(&mut pair, ACTIVE, AttributeId::REQ), [AttributeId::REJ]);
    let Message::Rej(rej) = pair.last(PASSIVE) else { panic!("no REJ") };
    assert_eq!(rej.reason, RejReason::STALE_CONNECTION);
    pair.run();
    pair.assert_at_rest();
}

#[test]
fn a_rep_again_gets_the_rtu_again() {
    let mut pair = Pair::new();
    let [active, _] = pair.establish();
    assert_eq!(again(&mut pair, PASSIVE, AttributeId::REP), [AttributeId::RTU]);
    let rtus: Vec<_> = pair.sent.iter().filter(|s| s.attribute == AttributeId::RTU).collect();
    assert_eq!(rtus[0].mad, rtus[1].mad);
    assert_eq!(pair.state(ACTIVE, active), CmState::Established);
    pair.silent(ACTIVE);
}

#[test]
fn every_message_may_come_twice() {
    let mut pair = Pair::new();
    for (side, attribute) in [
        (ACTIVE, AttributeId::REQ),
        (PASSIVE, AttributeId::REP),
        (ACTIVE, AttributeId::RTU),
        (ACTIVE, AttributeId::DREQ),
        (PASSIVE, AttributeId::DREP),
    ] {
        pair.double(side, attribute);
    }
    let [active, passive] = pair.establish();
    pair.sides[ACTIVE].disconnect(pair.now, active, &[]).unwrap();
    pair.settle();
    pair.only(PASSIVE);
    pair.sides[PASSIVE].disconnect(pair.now, passive, &[]).unwrap();
    pair.run();
    assert_eq!(pair.only(PASSIVE), Told::TimewaitExit(passive));
    pair.assert_at_rest();
}

/// A REP that comes when its REQ has been given up gets a REJ, and both ends are done.
#[test]
fn a_rep_of_what_is_gone_is_rejected() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    pair.lose(ACTIVE, AttributeId::REJ);
    pair.sides[ACTIVE].reject(pair.now, active, RejReason::CONSUMER_REJECT, &[], &[]).unwrap();
    pair.settle();
    pair.accept(passive);
    pair.settle();
    let Told::Rejected { reason, .. } = pair.only(PASSIVE) else { panic!("not rejected") };
    assert_eq!(reason, RejReason::INVALID_COMM_ID);
    pair.run();
    assert_eq!(pair.only(PASSIVE), Told::TimewaitExit(passive));
    pair.assert_at_rest();
}

/// The active host starts anew and asks from the queue pair that the passive side believes to be
/// connected: it is told so, the old connection ends, and the next try succeeds.
#[test]
fn a_peer_that_started_anew_is_stale_once() {
    let mut pair = Pair::new();
    let [_, passive] = pair.establish();
    pair.sides[ACTIVE] = crate::pair::manager(0xa, 77, 8);
    let id = pair.sides[ACTIVE].connect(pair.now, &connect()).unwrap();
    pair.settle();
    let Told::Rejected { id: rejected, reason, .. } = pair.only(ACTIVE) else { panic!("accepted") };
    assert_eq!((rejected, reason), (id, RejReason::STALE_CONNECTION));
    // The DREQ for the forgotten connection is answered by a DREP: it is unknown there.
    let told = [Told::Stale(passive), Told::Disconnected { id: passive, private_data: vec![] }];
    assert_eq!(pair.told[PASSIVE], told);
    pair.run();
    assert_eq!(pair.told[PASSIVE].pop(), Some(Told::TimewaitExit(passive)));
    pair.told[PASSIVE].clear();
    pair.request(&connect());
    assert_eq!(pair.sides[PASSIVE].counters().stale, 1);
}

/// Nobody else can end a connection by claiming its host's GUID and queue pair.
#[test]
fn a_stranger_cannot_make_a_connection_stale() {
    let mut pair = Pair::new();
    let [_, passive] = pair.establish();
    let mut stranger = crate::pair::manager(0xa, 5, 1);
    stranger.connect(pair.now, &Connect { path: path(3, 2), ..connect() }).unwrap();
    let mad = stranger.poll_transmit(pair.now).unwrap().mad;
    let now = pair.now;
    let cm = &mut pair.sides[PASSIVE];
    cm.handle_mad(now, &Mad::parse(&mad).unwrap(), &path(2, 3));
    let answer = cm.poll_transmit(now).unwrap();
    let mad = Mad::parse(&answer.mad).unwrap();
    let Message::Rej(rej) = Message::parse(&mad).unwrap() else { panic!("no REJ") };
    assert_eq!((answer.path.dst, rej.reason), (path(2, 3).dst, RejReason::STALE_CONNECTION));
    assert_eq!(pair.state(PASSIVE, passive), CmState::Established);
}

/// A REP from a queue pair that another connection of ours has is stale, too.
#[test]
fn a_rep_from_a_queue_pair_in_use_is_stale() {
    for delayed in [false, true] {
        stale_rep(delayed);
    }
}

fn stale_rep(delayed: bool) {
    let mut pair = Pair::new();
    let [old, _] = pair.establish();
    pair.sides[PASSIVE] = crate::pair::manager(0xb, 78, 8);
    pair.sides[PASSIVE].listen(SERVICE, 1).unwrap();
    let [id, passive] = pair.request(&Connect { qpn: roce_codec::ib::Qpn::new(0x99), ..connect() });
    if delayed {
        pair.sides[PASSIVE].delay(pair.now, passive, Timeout::new(16), &[]).unwrap();
        pair.settle();
        assert_eq!(pair.state(ACTIVE, id), CmState::RepWait);
    }
    let accept = roce_engine::cm::Accept::new(PASSIVE_QPN, PASSIVE_PSN);
    pair.sides[PASSIVE].accept(pair.now, passive, &accept).unwrap();
    pair.settle();
    let Told::Rejected { id: refused, reason, .. } = pair.told[ACTIVE].remove(0) else {
        panic!("taken")
    };
    assert_eq!((refused, reason), (id, RejReason::STALE_CONNECTION));
    assert_eq!(pair.told[ACTIVE][0], Told::Stale(old));
    let Told::Rejected { reason, .. } = pair.only(PASSIVE) else { panic!("not rejected") };
    assert_eq!(reason, RejReason::STALE_CONNECTION);
    pair.run();
    pair.assert_at_rest();
}

/// The answer comes when the message is about to be sent again: it is not.
#[test]
fn an_answer_takes_back_what_was_to_be_sent_again() {
    let mut pair = Pair::new();
    let [active, passive] = pair.request(&connect());
    pair.accept(passive);
    let rep = pair.sides[PASSIVE].poll_transmit(pair.now).unwrap().mad;
    let due = pair.sides[ACTIVE].poll_timeout().unwrap().add_ns(1_000_000_000);
    pair.now = due;
    let _ = pair.sides[ACTIVE].handle_timeout(due);
    pair.deliver(ACTIVE, &rep);
    assert_eq!(pair.state(ACTIVE, active), CmState::RepRcvd);
    assert_eq!(pair.sides[ACTIVE].counters().retransmitted, 1);
    assert_eq!(pair.sides[ACTIVE].poll_transmit(due), None);
    pair.sides[ACTIVE].ready(due, active, &[]).unwrap();
    let rtu = pair.sides[ACTIVE].poll_transmit(due).unwrap();
    assert_eq!(rtu.attribute, AttributeId::RTU);
    assert_eq!(pair.sides[ACTIVE].poll_transmit(due), None, "once");
}
