//! One fault put into a clean capture, at three places: the rule meant for it finds it, and no
//! other rule fails but those the fault implies.

use roce_codec::ib::Opcode;
use roce_codec::{Frame, Start};
use roce_pcap::check::{Profile, Rule, Verdict};

use crate::cm::cm_mutations;
use crate::congestion::congestion_mutations;
use crate::fabric_faults::fabric_mutations;
use crate::faults::{
    Fault, Mutation, Parts, cnp, frame, has_pad, is_rc, load, packet_mutations, request_mutations,
    response_mutations,
};
use crate::support::{Owned, judge, judge_with, load_own};

/// Whether a fault at `at` can be told: an answer is held against requests once its flow is known
/// to belong to theirs, and as one never asked for once later requests have passed it by. In
/// these captures both ends of a connection have the same QPN.
fn can_be_told(packets: &[Owned], at: usize) -> bool {
    let Some(answer) = frame(&packets[at]).filter(|f| f.info().is_response()) else {
        return true;
    };
    let alike = |part: &[Owned], response: bool| {
        let same = |packet: &&Owned| {
            frame(packet).is_some_and(|f| {
                f.dest_qp() == answer.dest_qp() && f.info().is_response() == response
            })
        };
        part.iter().filter(same).count()
    };
    alike(&packets[..at], true) >= 9 && (alike(&packets[at..], false) >= 25 || packets.len() < 1500)
}

/// Puts the fault in at three places and says what went otherwise than it should.
fn run(mutation: &Mutation) -> Vec<String> {
    let packets = load(mutation.capture);
    let profile = mutation.profile.map_or_else(Profile::default, |name| {
        Profile::built_in(name).unwrap_or_else(|| panic!("no profile {name}"))
    });
    let (clean, _) = judge_with(profile.clone(), &packets);
    let candidates: Vec<_> = packets
        .iter()
        .enumerate()
        .filter(|(_, packet)| frame(packet).is_some_and(|frame| (mutation.select)(&frame)))
        .map(|(at, _)| at)
        .filter(|at| !mutation.needs_pair || can_be_told(&packets, *at))
        .collect();
    assert!(!candidates.is_empty(), "{}: no packet to change", mutation.name);
    let mut wrong = Vec::new();
    for eighth in [1, 4, 7] {
        let at = candidates[candidates.len() * eighth / 8];
        let changed = mutation.apply(&packets, at);
        let (summary, findings) = judge_with(profile.clone(), &changed);
        let context = format!("{} in {} at {}", mutation.name, mutation.capture, at + 1);
        // These are never violations: they are found, as unknown.
        let verdict = if matches!(mutation.rule, Rule::RcPsnGap | Rule::CnpCause) {
            Verdict::Unknown
        } else {
            Verdict::Fail
        };
        let found = findings
            .iter()
            .find(|finding| finding.rule == mutation.rule && finding.verdict == verdict);
        // Marks are few and far between.
        let reach = if mutation.rule == Rule::EcnCnp { 64 } else { 16 };
        match found {
            None => wrong.push(format!("{context}: not found")),
            // At the packet itself or at one that shows it up soon after.
            Some(finding) if finding.packet < at as u64 || finding.packet > at as u64 + reach => {
                if mutation.capture != "rxe72-flush-atomicwrite" {
                    wrong.push(format!("{context}: found elsewhere: {finding}"));
                }
            }
            Some(_) => {}
        }
        for finding in &findings {
            let flush =
                mutation.capture == "rxe72-flush-atomicwrite" && finding.rule == Rule::RoceIcrc;
            if finding.verdict == Verdict::Fail
                && finding.rule != mutation.rule
                && !mutation.implied.contains(&finding.rule)
                && !flush
            {
                wrong.push(format!("{context}: also {finding}"));
            }
        }
        if summary.fail > clean.fail + 8 {
            wrong.push(format!("{context}: one fault, {} failures", summary.fail - clean.fail));
        }
    }
    wrong
}

fn all_mutations() -> Vec<Mutation> {
    [
        packet_mutations(),
        request_mutations(),
        response_mutations(),
        fabric_mutations(),
        cm_mutations(),
        congestion_mutations(),
    ]
    .concat()
}

#[test]
fn every_single_fault_is_found_by_its_rule() {
    let mutations = all_mutations();
    assert!(mutations.len() >= 60, "{} kinds of fault", mutations.len());
    let wrong: Vec<_> = mutations.iter().flat_map(run).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_fault_that_it_finds() {
    let mutations = all_mutations();
    for rule in Rule::ALL {
        let has = mutations.iter().any(|mutation| mutation.rule == *rule);
        // Retransmissions are changed below, where one can be told from a first transmission.
        // Those of recovery need packets at other times: `recovery`.
        let elsewhere = matches!(
            rule,
            Rule::IbVcrc
                | Rule::RcPsnDuplicate
                | Rule::RcRetransmission
                | Rule::RcReadRetry
                | Rule::RcRetryTime
                | Rule::RcTimeout
                | Rule::RcRetryCount
                | Rule::RcRnrTimer
                | Rule::RcRnrOperation
                | Rule::RcRnr
                | Rule::RcRefused
                | Rule::RcAfterNak
                // Flow control frames are no RoCE: `pause`.
                | Rule::PfcFrame
                | Rule::PauseStorm
                // The first of a connection: `cm`.
                | Rule::CmPsn
                | Rule::CmQpn
                // A whole conversation: `congestion`.
                | Rule::CnpRate
                // Likewise: `limits`.
                | Rule::RcReadLimit
                | Rule::RcCredit
        );
        assert!(has || elsewhere, "{rule}");
    }
}

/// A request that is sent again with another length.
#[test]
fn a_changed_retransmission_is_found() {
    let packets = load_own("rxe-lossy-client");
    let mut places = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let Some(frame) = frame(packet) else { continue };
        let sent_before = packets[..at].iter().any(|earlier| {
            Frame::parse([&earlier.data, &[]], Start::Ethernet).is_ok_and(|earlier| {
                earlier.dest_qp() == frame.dest_qp()
                    && earlier.src() == frame.src()
                    && earlier.psn() == frame.psn()
                    && earlier.opcode() == frame.opcode()
            })
        });
        if frame.opcode() == Opcode::RC_SEND_LAST && sent_before {
            places.push(at);
        }
    }
    assert!(places.len() >= 3, "{places:?}");
    let mut found = 0;
    for at in &places {
        let mut changed = packets.clone();
        let mut parts = Parts::of(&changed[*at]).unwrap();
        parts.resize(1020);
        changed[*at] = parts.emit(&packets[*at]);
        let (_, findings) = judge(&changed);
        let failures: Vec<_> =
            findings.iter().filter(|finding| finding.verdict == Verdict::Fail).collect();
        assert!(failures.iter().all(|finding| finding.rule == Rule::RcRetransmission));
        found += usize::from(failures.iter().any(|finding| finding.packet == *at as u64 + 1));
    }
    // Where the first transmission had been acknowledged, the capture cannot tell.
    assert!(found >= 3, "{found} of {}", places.len());
}

/// The packets that are put in are no violations by themselves.
#[test]
fn a_congestion_notification_is_clean() {
    let mutation = Mutation {
        name: "a CNP",
        capture: "rxe-ecn-client",
        select: is_rc,
        fault: Fault::Insert(cnp),
        rule: Rule::CnpFormat,
        implied: &[],
        needs_pair: false,
        profile: None,
    };
    let packets = load(mutation.capture);
    for at in [3, 70, 150] {
        let (summary, findings) = judge(&mutation.apply(&packets, at));
        assert_eq!(summary.fail, 0, "{findings:?}");
    }
}

/// Case 1: the message says which old fault it is.
#[test]
fn old_rxe_is_named() {
    let mutations = packet_mutations();
    let mutation = mutations.iter().find(|m| m.name.contains("without the pad")).unwrap();
    let packets = load(mutation.capture);
    let at = packets.iter().position(|packet| frame(packet).is_some_and(|f| has_pad(&f))).unwrap();
    let (_, findings) = judge(&mutation.apply(&packets, at));
    assert!(findings[0].message.contains("pad bytes are left out"), "{}", findings[0]);
}
