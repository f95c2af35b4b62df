//! Marks, the notifications they lead to, and the rates that these lead to.

use roce_codec::Frame;
use roce_codec::ib::{Aeth, Credits, ExtHeaders, Msn, Opcode, Operation, Syndrome};
use roce_codec::net::{Ecn, Ip};
use roce_pcap::check::{CnpScope, Finding, Profile, Rule, Verdict};

use crate::cm::turn_round;
use crate::fabric_faults::traffic_class;
use crate::faults::{Insert, Mutation, Parts, Remove, cnp, frame, mutations};
use crate::support::{Owned, judge, judge_with, load_own};

/// The marked capture, each third mark on a request answered by a notification.
pub(crate) const NOTIFIED: &str = "rxe-ecn-server with notifications";

pub(crate) fn load_notified() -> Vec<Owned> {
    let mut out = Vec::new();
    let mut marks = 0_u16;
    for packet in load_own("rxe-ecn-server") {
        let marked = frame(&packet).is_some_and(|f| f.info().is_request() && is_marked(&f));
        out.push(packet.clone());
        if marked {
            marks += 1;
            if marks.is_multiple_of(3) {
                out.push(notification(&packet, marks));
            }
        }
    }
    assert!(marks >= 15, "{marks}");
    out
}

fn is_marked(frame: &Frame<'_>) -> bool {
    Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce
}

/// What the receiver of a packet sends back. In these captures both ends have the same QPN.
fn notification(packet: &Owned, id: u16) -> Owned {
    let mut parts = Parts::of(packet).unwrap();
    cnp(&mut parts);
    turn_round(&mut parts.builder);
    identification(&mut parts, id);
    let timestamp_ns = packet.timestamp_ns.map(|time| time + 3_000);
    Owned { timestamp_ns, ..parts.emit(packet) }
}

fn identification(parts: &mut Parts, id: u16) {
    if let Ip::V4(ip) = &mut parts.builder.ip {
        ip.identification = id;
        ip.dscp_ecn = 0x02;
        ip.checksum = ip.computed_checksum();
    }
}

fn is_cnp(frame: &Frame<'_>) -> bool {
    frame.opcode() == Opcode::CNP
}

pub(crate) fn congestion_mutations() -> Vec<Mutation> {
    let alone = mutations! {
        "a notification without a mark", "rxe-write", |f| f.info().is_request(),
            Insert(|p| { cnp(p); turn_round(&mut p.builder); }), CnpCause;
    };
    let strict = mutations! {
        "marks without a notification", NOTIFIED, is_cnp, Remove, EcnCnp;
        "a notification at once after another", NOTIFIED, is_cnp,
            Insert(|p| identification(p, 999)), CnpSpacing;
    };
    let strict = strict.into_iter().map(|m| Mutation { profile: Some("strict"), ..m });
    alone.into_iter().chain(strict).collect()
}

fn of_rule(findings: &[Finding], rule: Rule) -> Vec<Verdict> {
    findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.verdict).collect()
}

fn strict() -> Profile {
    Profile::built_in("strict").unwrap()
}

#[test]
fn notified_marks_are_clean() {
    for profile in [Profile::default(), strict(), Profile::built_in("mlx5").unwrap()] {
        let (summary, findings) = judge_with(profile, &load_notified());
        assert_eq!(summary.fail, 0, "{findings:?}");
    }
    let (_, findings) = judge(&load_notified());
    let allowed = |finding: &Finding| finding.rule == Rule::EcnCnp;
    assert!(findings.iter().all(allowed), "{findings:?}");
}

/// rxe sends no notification: unknown, explained by its profile, and wrong of a device that is
/// said to send them.
#[test]
fn marks_without_notifications() {
    let packets = load_own("rxe-ecn-server");
    let verdicts = |profile| {
        let (_, findings) = judge_with(profile, &packets);
        of_rule(&findings, Rule::EcnCnp)
    };
    assert_eq!(verdicts(Profile::default()), [Verdict::Unknown]);
    assert_eq!(verdicts(Profile::built_in("rxe").unwrap()), []);
    assert_eq!(verdicts(strict()), [Verdict::Fail]);
}

/// Case 23: marks on acknowledgements, notifications and multicast lead to no notification.
/// Case 27: many marks and few notifications are no fault.
#[test]
fn marks_that_call_for_nothing() {
    // The client's tap sees three marks, all on ACKs.
    let (_, findings) = judge_with(strict(), &load_own("rxe-ecn-client"));
    assert_eq!(of_rule(&findings, Rule::EcnCnp), []);
    // Every notification marked: it is not data.
    let marked: Vec<_> = load_notified()
        .iter()
        .map(|packet| {
            let mut parts = Parts::of(packet).unwrap();
            if is_cnp(&frame(packet).unwrap()) {
                traffic_class(&mut parts, |class| class | 3);
            }
            parts.emit(packet)
        })
        .collect();
    let (summary, _) = judge_with(strict(), &marked);
    assert_eq!(summary.fail, 0);
    // To a group.
    let multicast: Vec<_> = load_own("rxe-ecn-server")
        .iter()
        .map(|packet| {
            let mut parts = Parts::of(packet).unwrap();
            if let Ip::V4(ip) = &mut parts.builder.ip {
                ip.dst = [224, 0, 0, 7].into();
                ip.checksum = ip.computed_checksum();
            }
            parts.emit(packet)
        })
        .collect();
    let (_, findings) = judge_with(strict(), &multicast);
    assert_eq!(of_rule(&findings, Rule::EcnCnp), []);
}

/// A copy by a mirror is no second notification, and what waited on its way is not too early.
#[test]
fn spacing_that_the_way_explains_is_unknown() {
    let packets = load_notified();
    let place = packets.iter().position(|packet| is_cnp(&frame(packet).unwrap())).unwrap();
    let with_another = |after_ns: u64, copy: bool, profile: Profile| {
        let mut packets = packets.clone();
        let mut parts = Parts::of(&packets[place]).unwrap();
        if !copy {
            identification(&mut parts, 999);
        }
        let mut another = parts.emit(&packets[place]);
        another.timestamp_ns = another.timestamp_ns.map(|time| time + after_ns);
        packets.insert(place + 1, another);
        of_rule(&judge_with(profile, &packets).1, Rule::CnpSpacing)
    };
    assert_eq!(with_another(100, true, strict()), [Verdict::Unknown]);
    assert_eq!(with_another(3_000, false, strict()), [Verdict::Unknown]);
    assert_eq!(with_another(100, false, strict()), [Verdict::Fail]);
    assert_eq!(with_another(5_000, false, strict()), []);
    assert_eq!(with_another(100, false, Profile::default()), [Verdict::Unknown]);
    // A limiter for the port is one for all its queue pairs.
    let port = |scope| Profile {
        cnp_scope: Some(scope),
        cnp_min_interval_ns: Some(1_000_000_000),
        ..Profile::default()
    };
    let verdicts = |scope| of_rule(&judge_with(port(scope), &packets).1, Rule::CnpSpacing);
    assert!(verdicts(CnpScope::Port).len() >= 3);
    assert_eq!(verdicts(CnpScope::Port), verdicts(CnpScope::Host));
}

/// SENDs of 1 kB every 4 us (2 Gb/s) with an ACK each fourth; from `begins_ns` on a notification
/// every 50 us, after the first of which the sender sends every `then_ns`.
fn notified_sender(begins_ns: u64, then_ns: u64) -> Vec<Owned> {
    let packets = load_own("rxe-ecn-server");
    let find = |select: fn(&Frame<'_>) -> bool| {
        packets.iter().find(|packet| frame(packet).is_some_and(|f| select(&f))).unwrap()
    };
    let request = find(|f| f.info().operation == Operation::Write);
    let answer = find(|f| f.opcode() == Opcode::RC_ACKNOWLEDGE);
    let first = frame(request).unwrap().psn();
    let at = |time_ns: u64, packet: Owned| Owned { timestamp_ns: Some(time_ns), ..packet };
    let mut talk = Vec::new();
    let (mut time_ns, mut count, mut next_ns) = (1_000_000_000, 0_u32, 1_000_000_000 + begins_ns);
    while time_ns < 1_000_000_000 + begins_ns + 1_200_000 {
        let mut send = Parts::of(request).unwrap();
        send.builder.bth.opcode = Opcode::RC_SEND_ONLY;
        send.builder.bth.psn = first.add(count);
        send.builder.ext = ExtHeaders::NONE;
        traffic_class(&mut send, |class| class & !3 | 2);
        send.resize(1024);
        talk.push(at(time_ns, send.emit(request)));
        if count % 4 == 3 {
            let mut ack = Parts::of(answer).unwrap();
            ack.builder.bth.psn = first.add(count);
            let syndrome = Syndrome::ack(Credits::NONE);
            ack.builder.ext.aeth = Some(Aeth { syndrome, msn: Msn::new(count + 1) });
            talk.push(at(time_ns + 500, ack.emit(answer)));
        }
        if time_ns >= next_ns {
            let id = u16::try_from(count % 60_000).unwrap();
            talk.push(at(time_ns + 700, notification(request, id)));
            next_ns += 50_000;
        }
        count += 1;
        time_ns += if time_ns >= 1_000_000_000 + begins_ns { then_ns } else { 4_000 };
    }
    talk
}

#[test]
fn a_sender_that_does_not_slow_down_is_found() {
    for begins_ns in [5_200_000, 6_000_000, 7_300_000] {
        let verdicts = |profile, then_ns| {
            let (summary, findings) = judge_with(profile, &notified_sender(begins_ns, then_ns));
            let rate = of_rule(&findings, Rule::CnpRate);
            let fails = rate.iter().filter(|verdict| **verdict == Verdict::Fail).count();
            assert_eq!(summary.fail, fails as u64, "{findings:?}");
            rate
        };
        assert_eq!(verdicts(strict(), 4_000), [Verdict::Fail]);
        assert_eq!(verdicts(strict(), 8_000), []);
        assert_eq!(verdicts(Profile::default(), 4_000), [Verdict::Unknown]);
        assert_eq!(verdicts(Profile::built_in("rxe").unwrap(), 4_000), []);
    }
}
