//! Connections against the exchanges that set them up: what the messages say, and whether data
//! keeps to it.

use std::collections::HashSet;

use roce_codec::cm::{AttributeId, Mad, Message};
use roce_codec::ib::{Opcode, PKey, PathMtu, QKey, Qpn, Service};
use roce_codec::net::Ip;
use roce_codec::{Frame, FrameBuilder};
use roce_pcap::check::{Finding, Rule, Verdict};

use crate::faults::{Insert, Mutation, Parts, Values, frame, mutations};
use crate::support::{Owned, judge, load_own};

/// The message changed, the ICRC made anew.
pub(crate) fn message(parts: &mut Parts, change: impl FnOnce(&mut Message<'_>)) {
    let bytes = parts.payload.clone();
    let mad = parse(&bytes);
    let mut message = Message::parse(&mad).unwrap();
    change(&mut message);
    message.emit_under(&mad.header, &mut parts.payload).unwrap();
}

fn parse(bytes: &[u8]) -> Mad<'_> {
    Mad::parse(bytes).unwrap()
}

/// The packet as if its receiver had sent it.
pub(crate) fn turn_round(builder: &mut FrameBuilder) {
    if let Ip::V4(ip) = &mut builder.ip {
        std::mem::swap(&mut ip.src, &mut ip.dst);
        ip.checksum = ip.computed_checksum();
    }
}

fn is(frame: &Frame<'_>, attribute: AttributeId) -> bool {
    Mad::from_frame(frame).is_some_and(|mad| mad.is_cm() && mad.header.attribute == attribute)
}

fn is_req(frame: &Frame<'_>) -> bool {
    is(frame, AttributeId::REQ)
}

fn is_rep(frame: &Frame<'_>) -> bool {
    is(frame, AttributeId::REP)
}

fn is_rtu(frame: &Frame<'_>) -> bool {
    is(frame, AttributeId::RTU)
}

pub(crate) fn cm_mutations() -> Vec<Mutation> {
    mutations! {
        "a REQ with a path MTU of no code", "rxe-errors", is_req,
            Values(|p| message(p, |m| if let Message::Req(req) = m { req.path_mtu_code = 7 })), CmMad;
        "a REQ for an unknown transport", "rxe-errors", is_req,
            Values(|p| message(p, |m| if let Message::Req(req) = m {
                req.transport = roce_codec::cm::TransportType::Extended;
                req.extended_transport = 5;
            })), CmMad;
        "a REP from QP1", "rxe-errors", is_rep,
            Values(|p| message(p, |m| if let Message::Rep(rep) = m { rep.local_qpn = Qpn::GSI })), CmMad, implies CmQpn;
        "a REP with a reserved failover", "rxe-errors", is_rep,
            Values(|p| message(p, |m| if let Message::Rep(rep) = m {
                rep.failover = roce_codec::cm::Failover::Reserved;
            })), CmMad;
        "a REQ of RDMA IP CM for IP version 5", "rxe-errors", is_req,
            Values(|p| p.payload[24 + 140] = 0x50), CmMad;
        "a reserved SIDR status", "rxe-cm", |f| is(f, AttributeId::SIDR_REP),
            Values(|p| message(p, |m| if let Message::SidrRep(rep) = m {
                rep.status = roce_codec::cm::SidrStatus(77);
            })), CmMad;
        "an attribute that is no message", "rxe-errors", is_rtu,
            Values(|p| p.payload[17] = 0x77), CmMad;
        "a connection manager of version 3", "rxe-errors", |f| is(f, AttributeId::DREP),
            Values(|p| p.payload[2] = 3), CmMad;
        "a REP from the side that asked", "rxe-errors", is_rep,
            Insert(|p| {
                turn_round(&mut p.builder);
                message(p, |m| if let Message::Rep(rep) = m {
                    std::mem::swap(&mut rep.local_comm_id, &mut rep.remote_comm_id);
                });
            }), CmOrder;
        "an RTU from the side that replied", "rxe-errors", is_rtu,
            Insert(|p| {
                turn_round(&mut p.builder);
                message(p, |m| if let Message::Rtu(rtu) = m {
                    std::mem::swap(&mut rtu.local_comm_id, &mut rtu.remote_comm_id);
                });
            }), CmOrder;
        "a REQ again with another PSN", "rxe-errors", is_req,
            Insert(|p| message(p, |m| if let Message::Req(req) = m {
                req.starting_psn = req.starting_psn.add(5);
            })), CmOrder;
        "a REP again with another queue pair", "rxe-errors", is_rep,
            Insert(|p| message(p, |m| if let Message::Rep(rep) = m {
                rep.local_qpn = Qpn::new(0x77);
            })), CmOrder;
        "a datagram with another Q_Key", "rxe-cm",
            |f| f.info().service == Service::Ud && f.dest_qp() != Qpn::GSI
                && f.src() == std::net::IpAddr::from([10, 77, 1, 3]),
            Values(|p| p.builder.ext.deth.as_mut().unwrap().qkey = QKey(0x1111_1111)), QkeyMatch;
    }
}

/// The first request of each flow that an exchange set up.
fn firsts(packets: &[Owned]) -> Vec<usize> {
    let mut flows = HashSet::new();
    let first = |at: &usize| {
        frame(&packets[*at]).is_some_and(|f| {
            f.info().is_request()
                && f.info().service == Service::Rc
                && flows.insert((f.src(), f.dest_qp()))
        })
    };
    (0..packets.len()).filter(first).collect()
}

fn changed(packets: &[Owned], at: usize, change: impl FnOnce(&mut Parts)) -> Vec<Owned> {
    let mut packets = packets.to_vec();
    let mut parts = Parts::of(&packets[at]).unwrap();
    change(&mut parts);
    packets[at] = parts.emit(&packets[at]);
    packets
}

fn of_rule(findings: &[Finding], rule: Rule) -> Vec<(Verdict, u64)> {
    let of_rule = findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(|finding| (finding.verdict, finding.packet)).collect()
}

fn others(findings: &[Finding], rule: Rule) -> Vec<&Finding> {
    crate::support::failures(findings).into_iter().filter(|finding| finding.rule != rule).collect()
}

/// Places among several of a capture: an eighth, the half and seven eighths through.
fn three(places: &[usize]) -> [usize; 3] {
    assert!(places.len() >= 3, "{places:?}");
    [1, 4, 7].map(|eighth| places[places.len() * eighth / 8])
}

#[test]
fn a_first_request_with_another_psn_is_found() {
    for (name, by) in [("rxe-nvme", 0x60_0000), ("rxe-errors", 0x60_0000), ("rxe-cm", 0x30_0000)] {
        let packets = load_own(name);
        // Where a flow has a second packet to tell by.
        let firsts: Vec<usize> = firsts(&packets)
            .into_iter()
            .filter(|first| {
                let first = frame(&packets[*first]).unwrap();
                packets.iter().filter_map(frame).any(|f| {
                    f.src() == first.src()
                        && f.dest_qp() == first.dest_qp()
                        && f.info().is_request()
                        && f.psn() == first.psn().next()
                })
            })
            .collect();
        for at in three(&firsts) {
            let packets = changed(&packets, at, |p| p.bth().psn = p.bth().psn.add(by));
            let (_, findings) = judge(&packets);
            let found = [(Verdict::Fail, at as u64 + 1)];
            assert_eq!(of_rule(&findings, Rule::CmPsn), found, "{name}: {findings:#?}");
            assert_eq!(others(&findings, Rule::CmPsn), Vec::<&Finding>::new(), "{name}");
        }
    }
}

/// The sender starts elsewhere, and the responder asks for the PSN it had stated.
#[test]
fn a_nak_for_the_psn_stated_proves_another_start() {
    let packets = load_own("rxe-errors");
    let first = firsts(&packets)[3];
    let request = frame(&packets[first]).unwrap();
    let (dest, stated) = (request.dest_qp(), request.psn());
    let back = packets[first..].iter().find(|packet| {
        frame(packet)
            .is_some_and(|f| f.opcode() == Opcode::RC_ACKNOWLEDGE && f.dst() == request.src())
    });
    let mut nak = Parts::of(back.unwrap()).unwrap();
    nak.bth().psn = stated;
    nak.builder.ext.aeth.as_mut().unwrap().syndrome = roce_codec::ib::Syndrome(0x60);
    let nak = nak.emit(back.unwrap());
    // All that is left of the connection is its exchange, one request from elsewhere, and the NAK.
    let mut short: Vec<Owned> = packets[..first].to_vec();
    let mut odd = Parts::of(&packets[first]).unwrap();
    odd.bth().psn = stated.add(0x60_0000);
    short.push(odd.emit(&packets[first]));
    let (_, findings) = judge(&short);
    assert_eq!(of_rule(&findings, Rule::CmPsn), [(Verdict::Unknown, first as u64 + 1)]);
    short.push(nak);
    let (_, findings) = judge(&short);
    assert_eq!(of_rule(&findings, Rule::CmPsn), [(Verdict::Fail, first as u64 + 1)], "{dest}");
}

#[test]
fn a_first_request_to_another_queue_pair_is_found() {
    for name in ["rxe-errors", "rxe-nvme", "rxe-cm"] {
        let packets = load_own(name);
        for at in three(&firsts(&packets)) {
            let packets = changed(&packets, at, |p| p.bth().dest_qp = Qpn::new(0x0077_7777));
            let (_, findings) = judge(&packets);
            assert_eq!(of_rule(&findings, Rule::CmQpn), [(Verdict::Fail, at as u64 + 1)], "{name}");
            assert_eq!(others(&findings, Rule::CmQpn), Vec::<&Finding>::new(), "{name}");
        }
    }
}

/// What the tap missed of the start is unknown.
#[test]
fn a_start_that_was_not_seen_is_unknown() {
    let packets = load_own("rxe-errors");
    let mut unknown = 0;
    for at in firsts(&packets) {
        let mut packets = packets.clone();
        packets.remove(at);
        let (_, findings) = judge(&packets);
        assert_eq!(others(&findings, Rule::CmPsn), Vec::<&Finding>::new());
        let found = of_rule(&findings, Rule::CmPsn);
        assert!(found.iter().all(|(verdict, _)| *verdict == Verdict::Unknown), "{findings:?}");
        unknown += found.len();
    }
    assert!(unknown >= 5, "{unknown}");
}

/// A REJ from the side that is asked, and then a REP of it.
#[test]
fn a_reply_after_a_rejection_is_found() {
    let packets = load_own("rxe-errors");
    let places: Vec<_> =
        (0..packets.len()).filter(|at| frame(&packets[*at]).is_some_and(|f| is_req(&f))).collect();
    for at in three(&places) {
        let rejected = |by_the_passive_side: bool| {
            let mut rej = Parts::of(&packets[at]).unwrap();
            let bytes = rej.payload.clone();
            let mad = parse(&bytes);
            let Ok(Message::Req(req)) = Message::parse(&mad) else { panic!() };
            let mut body = roce_codec::cm::Rej::default();
            if by_the_passive_side {
                turn_round(&mut rej.builder);
                body.remote_comm_id = req.local_comm_id;
            } else {
                body.local_comm_id = req.local_comm_id;
            }
            Message::Rej(body).emit(mad.header.transaction_id, &mut rej.payload).unwrap();
            let mut packets = packets.clone();
            packets.insert(at + 1, rej.emit(&packets[at]));
            let (_, findings) = judge(&packets);
            assert_eq!(others(&findings, Rule::CmOrder), Vec::<&Finding>::new());
            of_rule(&findings, Rule::CmOrder)[0]
        };
        assert_eq!(rejected(true), (Verdict::Fail, at as u64 + 3));
        // The asker's own, for want of an answer, may cross the REP.
        assert_eq!(rejected(false), (Verdict::Unknown, at as u64 + 3));
    }
}

/// The keys of a whole capture: what the REQs say, what each side's packets have.
fn with_keys(packets: &[Owned], stated: u16, client: u16, server: u16) -> Vec<Owned> {
    let client_ip = std::net::IpAddr::from([10, 77, 1, 3]);
    packets
        .iter()
        .map(|packet| {
            let frame = frame(packet).unwrap();
            let mut parts = Parts::of(packet).unwrap();
            if is_req(&frame) {
                message(&mut parts, |m| {
                    if let Message::Req(req) = m {
                        req.pkey = PKey(stated);
                    }
                });
            } else if frame.info().service == Service::Rc {
                let key = if frame.src() == client_ip { client } else { server };
                parts.bth().pkey = PKey(key);
            }
            parts.emit(packet)
        })
        .collect()
}

/// Case 21: 2a00 and aa00 match; two limited members do not; another partition does not.
#[test]
fn keys_are_held_against_the_exchange() {
    let packets = load_own("rxe-nvme");
    let failures = |stated, client, server| {
        let (_, findings) = judge(&with_keys(&packets, stated, client, server));
        assert_eq!(others(&findings, Rule::PkeyMatch), Vec::<&Finding>::new());
        of_rule(&findings, Rule::PkeyMatch)
            .iter()
            .filter(|(verdict, _)| *verdict == Verdict::Fail)
            .count()
    };
    assert_eq!(failures(0xaa00, 0xaa00, 0xaa00), 0);
    assert_eq!(failures(0x2a00, 0x2a00, 0xaa00), 0);
    assert_eq!(failures(0x2a00, 0xaa00, 0x2a00), 0);
    assert!(failures(0x2a00, 0x2a00, 0x2a00) > 300, "two limited members");
    assert!(failures(0xaa00, 0xaa01, 0xaa01) > 300, "another partition");
    assert!(failures(0xaa00, 0xaa00, 0xaa01) > 100, "one side in another partition");
}

/// Without the exchange, directions that differ are unknown, never wrong.
#[test]
fn keys_without_the_exchange_are_unknown() {
    let packets = load_own("rxe-nvme");
    for (client, server) in [(0x2a00, 0x2a00), (0xaa00, 0xaa01)] {
        let packets: Vec<_> = with_keys(&packets, 0xaa00, client, server)
            .into_iter()
            .filter(|packet| frame(packet).is_some_and(|f| f.dest_qp() != Qpn::GSI))
            .collect();
        let (summary, findings) = judge(&packets);
        assert_eq!(summary.fail, 0);
        let found = of_rule(&findings, Rule::PkeyMatch);
        assert!(!found.is_empty() && found.iter().all(|(verdict, _)| *verdict == Verdict::Unknown));
    }
}

#[test]
fn a_path_mtu_or_service_other_than_agreed_is_found() {
    let packets = load_own("rxe-errors");
    let reqs = |change: fn(&mut roce_codec::cm::Req<'_>)| {
        let each = |packet: &Owned| {
            let frame = frame(packet).unwrap();
            let mut parts = Parts::of(packet).unwrap();
            if is_req(&frame) {
                message(&mut parts, |m| {
                    if let Message::Req(req) = m {
                        change(req);
                    }
                });
            }
            parts.emit(packet)
        };
        let packets: Vec<_> = packets.iter().map(each).collect();
        judge(&packets).1
    };
    let findings = reqs(|req| req.path_mtu_code = PathMtu::Mtu512.code());
    let found = of_rule(&findings, Rule::PayloadMtu);
    assert!(found.len() > 4, "{found:?}");
    assert!(found.iter().all(|(verdict, _)| *verdict == Verdict::Fail));
    assert_eq!(others(&findings, Rule::PayloadMtu), Vec::<&Finding>::new());
    let findings = reqs(|req| req.transport = roce_codec::cm::TransportType::Uc);
    let found = of_rule(&findings, Rule::QpService);
    assert!(found.len() >= 10, "{found:?}");
    assert!(found.iter().all(|(verdict, _)| *verdict == Verdict::Fail), "{found:?}");
    assert_eq!(others(&findings, Rule::QpService), Vec::<&Finding>::new());
}

/// Messages whose REQ was missed, or whose predecessor was.
#[test]
fn missed_messages_are_unknown() {
    let packets = load_own("rxe-errors");
    let places = (0..packets.len())
        .filter(|at| frame(&packets[*at]).is_some_and(|f| is_req(&f) || is_rep(&f) || is_rtu(&f)));
    let mut unknown = 0;
    for at in places {
        let mut packets = packets.clone();
        packets.remove(at);
        let (_, findings) = judge(&packets);
        assert_eq!(crate::support::failures(&findings), Vec::<&Finding>::new(), "{at}");
        unknown += of_rule(&findings, Rule::CmOrder).len();
    }
    assert!(unknown > 10, "{unknown}");
}
