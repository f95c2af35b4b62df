//! Resolution of datagram services.

use roce_codec::cm::{
    AttributeId, Message, PortSpace, RdmaCmServiceId, RejReason, ServiceId, SidrStatus,
};
use roce_codec::ib::{QKey, Qpn};
use roce_engine::cm::{CmCallError, CmState, SidrAnswer, SidrQuery};

use crate::pair::{ACTIVE, PASSIVE, Pair, Told, path};

const UDP_SERVICE: ServiceId =
    RdmaCmServiceId { port_space: PortSpace::UDP, port: 7174 }.to_service_id();
const ANSWER: SidrAnswer<'static> = SidrAnswer {
    status: SidrStatus::VALID,
    qpn: Qpn::new(0x14),
    qkey: QKey(0x0123_4567),
    private_data: b"here",
};

fn query() -> SidrQuery<'static> {
    SidrQuery {
        private_data: b"where?",
        ip_src_port: 40_001,
        max_cm_retries: 3,
        ..SidrQuery::new(UDP_SERVICE, path(1, 2))
    }
}

#[test]
fn a_service_is_found() {
    let mut pair = Pair::new();
    pair.sides[PASSIVE].listen(UDP_SERVICE, 1).unwrap();
    let asked = pair.sides[ACTIVE].sidr_request(pair.now, &query()).unwrap();
    assert_eq!(pair.state(ACTIVE, asked), CmState::SidrReqSent);
    pair.settle();
    let Told::SidrRequest { id, private_data } = pair.only(PASSIVE) else { panic!("no request") };
    assert_eq!(private_data, b"where?");
    assert_eq!(pair.state(PASSIVE, id), CmState::SidrReqRcvd);
    // It comes again meanwhile.
    let mad = pair.sent[0].mad;
    pair.deliver(PASSIVE, &mad);
    pair.settle();
    pair.silent(PASSIVE);
    let counters = pair.sides[PASSIVE].counters();
    assert_eq!((counters.acted_on, counters.duplicates), (2, 1));
    pair.sides[PASSIVE].sidr_reply(pair.now, id, &ANSWER).unwrap();
    pair.settle();
    assert_eq!(
        pair.only(ACTIVE),
        Told::SidrResponse {
            id: asked,
            status: SidrStatus::VALID,
            qpn: Qpn::new(0x14),
            qkey: QKey(0x0123_4567),
            private_data: b"here".to_vec()
        }
    );
    assert_eq!(pair.sides[PASSIVE].sidr_reply(pair.now, id, &ANSWER), Err(CmCallError::UnknownId));
    pair.run();
    pair.assert_at_rest();
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut pair = Pair::new();
    pair.sides[PASSIVE].listen(UDP_SERVICE, 1).unwrap();
    pair.sides[ACTIVE].sidr_request(pair.now, &query()).unwrap();
    pair.lose(PASSIVE, AttributeId::SIDR_REP);
    for _ in 0..2 {
        pair.run_until(pair.now.add_ns(5_000_000_000));
        let Told::SidrRequest { id, .. } = pair.only(PASSIVE) else { panic!("no request") };
        pair.sides[PASSIVE].sidr_reply(pair.now, id, &ANSWER).unwrap();
    }
    pair.run();
    assert!(matches!(pair.only(ACTIVE), Told::SidrResponse { .. }));
    pair.assert_at_rest();
}

#[test]
fn what_cannot_be_served_is_said() {
    let mut pair = Pair::new();
    for (backlog, status) in
        [(None, SidrStatus::SERVICE_ID_NOT_SUPPORTED), (Some(0), SidrStatus::NO_QP)]
    {
        if let Some(backlog) = backlog {
            pair.sides[PASSIVE].listen(UDP_SERVICE, backlog).unwrap();
        }
        pair.sides[ACTIVE].sidr_request(pair.now, &query()).unwrap();
        pair.settle();
        let Told::SidrResponse { status: said, .. } = pair.only(ACTIVE) else {
            panic!("no answer")
        };
        assert_eq!(said, status);
    }
    let Message::SidrRep(rep) = pair.last(PASSIVE) else { panic!("no SIDR_REP") };
    assert_eq!(rep.service_id, UDP_SERVICE);
    pair.assert_at_rest();
}

#[test]
fn nobody_answers() {
    let mut pair = Pair::new();
    pair.cut(ACTIVE, true);
    let id = pair.sides[ACTIVE].sidr_request(pair.now, &query()).unwrap();
    pair.run();
    assert_eq!(pair.only(ACTIVE), Told::Unreachable(id));
    assert_eq!(pair.count(ACTIVE, AttributeId::SIDR_REQ), 4);
    pair.assert_at_rest();
}

#[test]
fn who_asks_may_give_up() {
    let mut pair = Pair::new();
    let id = pair.sides[ACTIVE].sidr_request(pair.now, &query()).unwrap();
    pair.sides[ACTIVE].reject(pair.now, id, RejReason::CONSUMER_REJECT, &[], &[]).unwrap();
    pair.run();
    assert_eq!(pair.sent.len(), 0, "there is nothing to say");
    pair.assert_at_rest();
}
