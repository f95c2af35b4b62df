//! Where the capture cannot tell, the verdict is unknown: each rule that has such a verdict says
//! so of a capture that lacks what it needs.

use roce_codec::ib::Opcode;
use roce_pcap::capture::Reader;
use roce_pcap::check::{Finding, Rule, Verdict};

use crate::faults::{Parts, frame, load, response_mutations};
use crate::support::{Owned, judge, load_own, own_captures};

fn verdicts(findings: &[Finding], rule: Rule) -> Vec<Verdict> {
    findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.verdict).collect()
}

/// What is wrong only by the other direction is not called wrong before it is sure which flow the
/// other direction is: here, a fault in the first answers of each connection.
#[test]
fn a_fault_before_the_pair_is_sure_is_unknown() {
    let mut seen = Vec::new();
    for mutation in response_mutations() {
        let packets = load(mutation.capture);
        let early = |at: &usize| {
            let Some(answer) = frame(&packets[*at]) else { return false };
            let answers_before = packets[..*at].iter().filter_map(frame).filter(|earlier| {
                earlier.dest_qp() == answer.dest_qp()
                    && earlier.src() == answer.src()
                    && earlier.info().is_response()
            });
            (mutation.select)(&answer) && (2..6).contains(&answers_before.count())
        };
        for at in (0..packets.len()).filter(early).take(3) {
            let (summary, findings) = judge(&mutation.apply(&packets, at));
            // An order that no retry explains is wrong whoever asked.
            if mutation.rule != Rule::RcReadOrder && !mutation.implied.contains(&Rule::RcReadOrder)
            {
                assert_eq!(summary.fail, 0, "{}: {findings:?}", mutation.name);
            }
            if verdicts(&findings, mutation.rule).contains(&Verdict::Unknown) {
                seen.push(mutation.rule);
            }
        }
    }
    for rule in [Rule::RcAckPsn, Rule::RcMsn, Rule::RcReadResponse, Rule::RcAtomicAck] {
        assert!(seen.contains(&rule), "{rule} is never unknown");
    }
}

/// One direction alone tells nothing of answers.
#[test]
fn answers_without_requests_are_unknown() {
    let is_answer = |packet: &&Owned| frame(packet).is_some_and(|f| f.info().is_response());
    for capture in ["rxe-write", "rxe-read", "rxe-atomic"] {
        let packets = load_own(capture);
        let (summary, findings) = judge(packets.iter().filter(is_answer));
        assert_eq!(summary.fail, 0);
        assert!(summary.unknown >= summary.roce_packets, "{capture}");
        let flows = verdicts(&findings, Rule::RcAckPsn);
        assert!(flows.iter().all(|verdict| *verdict == Verdict::Unknown));
        assert_eq!(flows.len() as u64, summary.flows, "once a flow");
    }
}

/// A gap in PSNs, wherever it is, may be the tap's.
#[test]
fn a_gap_is_always_unknown() {
    let packets = load_own("rxe-ecn-client");
    let requests: Vec<_> = (0..packets.len())
        .filter(|at| frame(&packets[*at]).is_some_and(|f| f.info().is_request()))
        .collect();
    for at in &requests[1..requests.len() - 1] {
        let mut changed = packets.clone();
        changed.remove(*at);
        let (summary, findings) = judge(&changed);
        assert_eq!(summary.fail, 0);
        assert_eq!(verdicts(&findings, Rule::RcPsnGap), [Verdict::Unknown]);
    }
}

#[test]
fn a_packet_cut_by_the_capture_is_unknown() {
    let mut packets = load_own("rxe-write");
    packets[5].data.truncate(96);
    let (summary, findings) = judge(&packets);
    assert_eq!((summary.icrc_uncheckable, summary.fail), (1, 0));
    assert_eq!(verdicts(&findings, Rule::RoceIcrc), [Verdict::Unknown]);
    packets[5].data.truncate(50);
    let (summary, findings) = judge(&packets);
    assert_eq!((summary.icrc_uncheckable, summary.fail), (1, 0));
    assert_eq!(verdicts(&findings, Rule::RoceLength), [Verdict::Unknown]);
}

#[test]
fn an_icrc_that_hardware_was_to_fill_in_is_unknown() {
    let mut packets = load_own("rxe-write");
    let end = packets[5].data.len();
    packets[5].data[end - 4..].fill(0);
    let (summary, findings) = judge(&packets);
    assert_eq!((summary.icrc_uncheckable, summary.fail), (1, 0));
    assert!(findings[0].found.contains("before the hardware filled it in"));
}

#[test]
fn a_manufacturers_opcode_is_unknown() {
    let packets = load_own("rxe-write");
    let mut parts = Parts::of(&packets[5]).unwrap();
    parts.builder.bth.opcode = Opcode(0xc5);
    parts.resize(64);
    let mut changed = packets.clone();
    changed[5] = parts.emit(&packets[5]);
    let (summary, findings) = judge(&changed);
    assert_eq!(summary.fail, 0);
    assert_eq!(verdicts(&findings, Rule::BthOpcode), [Verdict::Unknown]);
}

/// Requests alone: whether one had been acknowledged, and so may be another one now, is unknown.
#[test]
fn a_changed_retransmission_in_one_direction_is_unknown() {
    let packets = load_own("rxe-lossy-client");
    let requests: Vec<Owned> = packets
        .into_iter()
        .filter(|packet| frame(packet).is_some_and(|f| f.info().is_request()))
        .collect();
    let again = (0..requests.len())
        .find(|at| {
            let now = frame(&requests[*at]).unwrap();
            now.opcode() == Opcode::RC_SEND_LAST
                && requests[..*at]
                    .iter()
                    .filter_map(frame)
                    .any(|earlier| earlier.dest_qp() == now.dest_qp() && earlier.psn() == now.psn())
        })
        .unwrap();
    let mut parts = Parts::of(&requests[again]).unwrap();
    parts.resize(1020);
    let mut changed = requests.clone();
    changed[again] = parts.emit(&requests[again]);
    let (summary, findings) = judge(&changed);
    assert_eq!(summary.fail, 0);
    assert_eq!(verdicts(&findings, Rule::RcRetransmission), [Verdict::Unknown]);
}

/// Every rule holds somewhere in the real captures: a rule that is never asked finds nothing.
#[test]
fn every_rule_passes_somewhere() {
    let mut passes = vec![0; Rule::ALL.len()];
    for path in own_captures() {
        let report = roce_pcap::check(Reader::open(&path).unwrap());
        for ((_, counts), sum) in report.rules.iter().zip(&mut passes) {
            *sum += counts.pass;
        }
    }
    for (rule, passes) in Rule::ALL.iter().zip(passes) {
        // Fragments and options never parse, there is no CNP, the link is Ethernet, rxe resends
        // without a NAK only where no exchange states its timer, nothing follows a refusal, and
        // RNR NAKs are told each time; no host sees its flow control; a
        // queue pair that is right is not looked at.
        let absent = matches!(
            rule,
            Rule::IpFragment
                | Rule::Ipv4Options
                | Rule::CnpFormat
                | Rule::IbVcrc
                | Rule::RcRetryTime
                | Rule::RcRnr
                | Rule::RcAfterNak
                | Rule::PfcFrame
                | Rule::PauseStorm
                | Rule::CmQpn
                | Rule::EcnCnp
                | Rule::CnpSpacing
                | Rule::CnpCause
                | Rule::CnpRate
        );
        assert_eq!(passes == 0, absent, "{rule}");
    }
}
