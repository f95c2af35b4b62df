//! Requests sent again: too soon, for no reason, too often, with other contents, or where there
//! should be silence. Packets of real captures are sent once more, at another time.

use roce_codec::ib::{Aeth, Bth, ExtHeaders, Opcode, Operation, Position, Psn, Syndrome};
use roce_codec::net::Ip;
use roce_pcap::check::{Finding, Profile, Rule, Verdict};

use crate::faults::{Parts, frame};
use crate::support::{Owned, failures, judge, judge_with, load_own};

/// The packet again, `after_ns` behind its first time; not a copy, if it has another IP
/// identification.
fn again(packet: &Owned, after_ns: u64, copy: bool) -> Owned {
    let mut parts = Parts::of(packet).unwrap();
    if let (Ip::V4(ip), false) = (&mut parts.builder.ip, copy) {
        ip.identification ^= 0x5555;
        ip.checksum = ip.computed_checksum();
    }
    let timestamp_ns = packet.timestamp_ns.map(|time| time + after_ns);
    Owned { timestamp_ns, ..parts.emit(packet) }
}

/// With a packet put in behind the one at `at`.
fn with(packets: &[Owned], at: usize, packet: Owned) -> Vec<Owned> {
    let mut packets = packets.to_vec();
    packets.insert(at + 1, packet);
    packets
}

fn of_rule(findings: &[Finding], rule: Rule) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.rule == rule).collect()
}

/// Places of packets, an eighth, the half and seven eighths through.
fn three(packets: &[Owned], select: impl Fn(usize, &Owned) -> bool) -> [usize; 3] {
    let places: Vec<_> = (0..packets.len()).filter(|at| select(*at, &packets[*at])).collect();
    assert!(places.len() >= 3, "{places:?}");
    [1, 4, 7].map(|eighth| places[places.len() * eighth / 8])
}

fn is_request(packet: &Owned) -> bool {
    frame(packet).is_some_and(|frame| {
        frame.info().is_request() && frame.opcode().info().service == roce_codec::ib::Service::Rc
    })
}

#[test]
fn a_copy_is_told_from_what_is_sent_again() {
    let packets = load_own("rxe-ecn-client");
    for at in three(&packets, |_, packet| is_request(packet)) {
        let (_, findings) = judge(&with(&packets, at, again(&packets[at], 5_000, true)));
        let [copy] = of_rule(&findings, Rule::RcPsnDuplicate)[..] else { panic!("{findings:?}") };
        assert_eq!((copy.verdict, copy.packet), (Verdict::Unknown, at as u64 + 2));
        assert_eq!(findings.len(), 1);
        let (_, findings) = judge(&with(&packets, at, again(&packets[at], 5_000, false)));
        assert_eq!(of_rule(&findings, Rule::RcPsnDuplicate), Vec::<&Finding>::new());
    }
}

/// The last request that an ACK acknowledges comes once more behind the ACK.
#[test]
fn what_was_acknowledged_and_comes_again_is_told() {
    let packets = load_own("rxe-ecn-client");
    let is_ack = |_, packet: &Owned| {
        frame(packet).is_some_and(|frame| frame.opcode() == Opcode::RC_ACKNOWLEDGE)
    };
    for ack in three(&packets, is_ack) {
        let psn = frame(&packets[ack]).unwrap().psn();
        let asked = (0..ack)
            .rfind(|at| is_request(&packets[*at]) && frame(&packets[*at]).unwrap().psn() == psn)
            .unwrap();
        // Nothing new goes out meanwhile, as with a requester that waits for its answer.
        let (_, findings) =
            judge(&with(&packets[..=ack], ack, again(&packets[asked], 9_000, false)));
        let [timeout] = of_rule(&findings, Rule::RcTimeout)[..] else { panic!("{findings:?}") };
        assert_eq!((timeout.verdict, timeout.packet), (Verdict::Unknown, ack as u64 + 2));
        assert!(failures(&findings).is_empty());
    }
}

/// Where the CM exchange states the timer, a request that comes again before it is out is told,
/// and one that waits is not. rxe-nvme states 67 ms or more.
#[test]
fn timers_are_waited_out() {
    let packets = load_own("rxe-nvme");
    let is_send = |_, packet: &Owned| {
        is_request(packet) && frame(packet).is_some_and(|f| f.info().operation == Operation::Send)
    };
    for at in three(&packets, is_send) {
        let upto = &packets[..=at];
        let (_, findings) = judge(&with(upto, at, again(&packets[at], 1_000_000, false)));
        let [early] = of_rule(&findings, Rule::RcRetryTime)[..] else { panic!("{findings:?}") };
        assert_eq!((early.verdict, early.packet), (Verdict::Unknown, at as u64 + 2));
        for (profile, verdict) in [("mlx5", Verdict::Unknown), ("strict", Verdict::Fail)] {
            let profile = Profile::built_in(profile).unwrap();
            let early = with(upto, at, again(&packets[at], 1_000_000, false));
            let (_, findings) = judge_with(profile, &early);
            let [early] = of_rule(&findings, Rule::RcRetryTime)[..] else { panic!("{findings:?}") };
            assert_eq!(early.verdict, verdict);
        }
        let (_, findings) = judge(&with(upto, at, again(&packets[at], 60_000_000_000, false)));
        assert_eq!(of_rule(&findings, Rule::RcRetryTime), Vec::<&Finding>::new());
    }
}

/// The requests that RNR NAKs of rxe-errors make wait, a millisecond sooner than they may.
#[test]
fn rnr_timers_are_waited_out() {
    let packets = load_own("rxe-errors");
    let mut judged = 0;
    for nak in 0..packets.len() {
        let Some(refused) = frame(&packets[nak]) else { continue };
        let rnr = refused.aeth().is_some_and(|aeth| aeth.syndrome.0 >> 5 == 1);
        if !rnr {
            continue;
        }
        let Some(retry) = (nak..packets.len()).find(|at| {
            is_request(&packets[*at]) && frame(&packets[*at]).unwrap().psn() == refused.psn()
        }) else {
            continue;
        };
        // The first of them; a second one had been sent twice by then.
        let sent_before = (0..nak)
            .filter(|at| is_request(&packets[*at]))
            .filter(|at| frame(&packets[*at]).unwrap().psn() == refused.psn())
            .count();
        let mut packets = packets.clone();
        let (_, findings) = judge(&packets);
        assert_eq!(of_rule(&findings, Rule::RcRnrTimer), Vec::<&Finding>::new());
        packets[retry].timestamp_ns = packets[nak].timestamp_ns.map(|time| time + 654_000_000 / 2);
        let (_, findings) = judge(&packets);
        let [early] = of_rule(&findings, Rule::RcRnrTimer)[..] else { panic!("{findings:?}") };
        let verdict = if sent_before == 1 { Verdict::Fail } else { Verdict::Unknown };
        assert_eq!((early.verdict, early.packet), (verdict, retry as u64 + 1), "{early}");
        judged += 1;
    }
    assert_eq!(judged, 2);
}

/// `rnr_retry` is 1 in the fifth case of rxe-errors: rxe gives up after one. Let it go on.
#[test]
fn retries_are_counted() {
    let packets = load_own("rxe-errors");
    let nak = 47;
    let retry = 46;
    let refused = frame(&packets[nak]).unwrap();
    assert_eq!(refused.aeth().map(|aeth| aeth.syndrome.0 >> 5), Some(1));
    assert_eq!(frame(&packets[retry]).unwrap().psn(), refused.psn());
    for more in 1..=3_u64 {
        let mut packets = packets[..=nak].to_vec();
        for round in 1..=more {
            let [ask, tell] =
                [retry, nak].map(|at| again(&packets[at], round * 700_000_000, false));
            packets.extend([ask, tell]);
        }
        let (_, findings) = judge(&packets);
        let counted = of_rule(&findings, Rule::RcRetryCount);
        assert_eq!(counted.len(), usize::try_from(more).unwrap(), "{findings:#?}");
        assert!(counted.iter().all(|finding| finding.verdict == Verdict::Fail));
    }
}

/// A READ sent again in rxe-lossy asks for the rest of the first; another address, key or length is
/// told.
#[test]
fn read_retries_ask_for_the_rest() {
    let packets = load_own("rxe-lossy-client");
    let (clean, _) = judge(&packets);
    assert_eq!(clean.fail, 0);
    let is_retry = |at: usize, packet: &Owned| {
        let Some(now) = frame(packet).filter(|f| f.opcode() == Opcode::RC_RDMA_READ_REQUEST) else {
            return false;
        };
        packets[..at].iter().any(|earlier| {
            frame(earlier).is_some_and(|earlier| {
                earlier.opcode() == now.opcode()
                    && earlier.dest_qp() == now.dest_qp()
                    && (1..8).contains(&now.psn().distance_from(earlier.psn()))
                    && now.reth().unwrap().dma_len < earlier.reth().unwrap().dma_len
            })
        })
    };
    let places: Vec<_> = (0..packets.len()).filter(|at| is_retry(*at, &packets[*at])).collect();
    let faults: [fn(&mut Parts); 3] = [
        |parts| parts.builder.ext.reth.as_mut().unwrap().va += 8,
        |parts| parts.builder.ext.reth.as_mut().unwrap().rkey.0 ^= 0x100,
        |parts| parts.builder.ext.reth.as_mut().unwrap().dma_len += 1024,
    ];
    for fault in faults {
        let mut found = 0;
        for at in &places {
            let mut changed = packets.clone();
            let mut parts = Parts::of(&changed[*at]).unwrap();
            fault(&mut parts);
            changed[*at] = parts.emit(&packets[*at]);
            let (_, findings) = judge(&changed);
            let told = of_rule(&findings, Rule::RcReadRetry);
            assert_eq!(told.first().map(|finding| finding.packet), Some(*at as u64 + 1));
            found += told.iter().filter(|finding| finding.verdict == Verdict::Fail).count();
        }
        assert!(found >= 3, "{found} of {}", places.len());
    }
}

/// Where requests of rxe-lossy-client that carry something are sent again.
fn sent_again(packets: &[Owned], select: impl Fn(&roce_codec::Frame<'_>) -> bool) -> Vec<usize> {
    let is_again = |at: &usize| {
        let now = frame(&packets[*at]).filter(|f| f.info().is_request() && select(f));
        now.is_some_and(|now| {
            packets[..*at].iter().filter_map(frame).any(|earlier| {
                (earlier.opcode(), earlier.dest_qp(), earlier.psn())
                    == (now.opcode(), now.dest_qp(), now.psn())
            })
        })
    };
    (0..packets.len()).filter(is_again).collect()
}

/// One byte of a payload is other than the first time: memory may have changed meanwhile.
#[test]
fn another_payload_under_an_old_psn_is_told() {
    let packets = load_own("rxe-lossy-client");
    let places = sent_again(&packets, |frame| frame.payload_len() > 0);
    let mut told = 0;
    for at in places.iter().step_by(5) {
        let mut changed = packets.clone();
        let parts = Parts::of(&changed[*at]).unwrap();
        changed[*at] = parts.with_payload_byte(&packets[*at], 77);
        let (_, findings) = judge(&changed);
        assert!(failures(&findings).is_empty());
        let here = |finding: &&&Finding| finding.packet == *at as u64 + 1;
        told += of_rule(&findings, Rule::RcRetransmission).iter().filter(here).count();
    }
    assert_eq!(told, places.len().div_ceil(5));
}

/// The address of a WRITE is other than the first time: no memory explains that.
#[test]
fn another_address_under_an_old_psn_fails() {
    let packets = load_own("rxe-lossy-client");
    let places = sent_again(&packets, |frame| {
        frame.info().operation == Operation::Write && frame.reth().is_some()
    });
    let faults: [fn(&mut Parts); 2] = [
        |parts| parts.builder.ext.reth.as_mut().unwrap().va = 0,
        |parts| parts.builder.ext.reth.as_mut().unwrap().rkey.0 ^= 0x100,
    ];
    for fault in faults {
        let mut failed = 0;
        for at in &places {
            let mut changed = packets.clone();
            let mut parts = Parts::of(&changed[*at]).unwrap();
            fault(&mut parts);
            changed[*at] = parts.emit(&packets[*at]);
            // What rxe does with other operations does not excuse a WRITE.
            let (_, findings) = judge_with(Profile::built_in("rxe").unwrap(), &changed);
            let told = of_rule(&findings, Rule::RcRetransmission);
            assert!(told.iter().any(|told| told.packet == *at as u64 + 1), "{findings:?}");
            failed += told.iter().filter(|told| told.verdict == Verdict::Fail).count();
        }
        assert!(failed >= 3, "{failed} of {}", places.len());
    }
}

/// Linux 7.2 sends an ATOMIC WRITE again with address 0: a fault, which its profile explains.
#[test]
fn an_atomic_write_without_its_address_is_rxes() {
    let packets = load_own("rxe72-flush-atomicwrite");
    let is_first = |packet: &&Owned| {
        frame(packet).is_some_and(|f| f.info().operation == Operation::AtomicWrite)
    };
    let at = packets.iter().position(|packet| is_first(&packet)).unwrap();
    // The first is answered; of the next, and of what it is sent again as, the answers are lost.
    let next = |va: Option<u64>, after_ns: u64| {
        let mut parts = Parts::of(&again(&packets[at], 0, false)).unwrap();
        parts.builder.bth.psn = parts.builder.bth.psn.next();
        let reth = parts.builder.ext.reth.as_mut().unwrap();
        reth.va = va.unwrap_or(reth.va);
        let timestamp_ns = packets[at].timestamp_ns.map(|time| time + after_ns);
        Owned { timestamp_ns, ..parts.emit(&packets[at]) }
    };
    let mut changed = packets[..at + 2].to_vec();
    changed.extend([next(None, 1_000_000), next(Some(0), 71_000_000)]);
    let verdicts = |profile| -> Vec<_> {
        let (_, findings) = judge_with(profile, &changed);
        let told = of_rule(&findings, Rule::RcRetransmission);
        assert!(told.iter().all(|told| told.found.starts_with("8 bytes at 0x0")), "{told:?}");
        told.iter().map(|told| told.verdict).collect()
    };
    assert_eq!(verdicts(Profile::default()), [Verdict::Fail]);
    assert_eq!(verdicts(Profile::built_in("rxe").unwrap()), [Verdict::Unknown]);
}

/// Behind a NAK that ends a connection another answer comes.
#[test]
fn a_refused_connection_is_silent() {
    let packets = load_own("rxe-errors");
    let is_fatal = |_, packet: &Owned| {
        frame(packet)
            .and_then(|frame| frame.aeth())
            .is_some_and(|aeth| (0x61..=0x63).contains(&aeth.syndrome.0))
    };
    for nak in three(&packets, is_fatal) {
        let mut parts = Parts::of(&packets[nak]).unwrap();
        let aeth = parts.builder.ext.aeth.unwrap();
        let aeth = Some(Aeth { syndrome: Syndrome::ACK, ..aeth });
        parts.builder.ext = ExtHeaders { aeth, ..ExtHeaders::NONE };
        let answer = parts.emit(&packets[nak]);
        let (_, findings) = judge(&with(&packets, nak, answer));
        let [told] = of_rule(&findings, Rule::RcAfterNak)[..] else { panic!("{findings:?}") };
        assert_eq!((told.verdict, told.packet), (Verdict::Fail, nak as u64 + 2));
        // The NAK again is a copy of it, or the answer to a request that came again.
        let (_, findings) = judge(&with(&packets, nak, packets[nak].clone()));
        assert_eq!(of_rule(&findings, Rule::RcAfterNak), Vec::<&Finding>::new());
    }
}

/// An RNR NAK to what takes no receive: a device that pages on demand, or a fault.
#[test]
fn rnr_naks_to_what_takes_no_receive_are_told() {
    for (capture, operation) in
        [("rxe-ecn-client", Operation::Write), ("rxe-atomic", Operation::CompareSwap)]
    {
        let packets = load_own(capture);
        let asks = |_, packet: &Owned| {
            frame(packet).is_some_and(|f| {
                f.info().operation == operation && f.info().position != Position::Middle
            })
        };
        for at in three(&packets, asks) {
            let answer = packets[at..]
                .iter()
                .find(|packet| frame(packet).is_some_and(|frame| frame.info().is_response()))
                .unwrap();
            let mut parts = Parts::of(answer).unwrap();
            let psn: Psn = frame(&packets[at]).unwrap().psn();
            let msn = parts.builder.ext.aeth.unwrap().msn;
            let aeth = Some(Aeth { syndrome: Syndrome(0x2c), msn });
            parts.builder.bth = Bth { psn, opcode: Opcode::RC_ACKNOWLEDGE, ..parts.builder.bth };
            parts.builder.ext = ExtHeaders { aeth, ..ExtHeaders::NONE };
            let changed = with(&packets, at, parts.emit(answer));
            for (profile, verdict) in [
                (Profile::default(), Some(Verdict::Unknown)),
                (Profile::built_in("rxe").unwrap(), Some(Verdict::Fail)),
                (Profile::built_in("mlx5").unwrap(), None),
            ] {
                let (_, findings) = judge_with(profile, &changed);
                let told = of_rule(&findings, Rule::RcRnrOperation);
                let told: Vec<_> = told.iter().map(|told| (told.verdict, told.packet)).collect();
                assert_eq!(told, verdict.map_or(vec![], |verdict| vec![(verdict, at as u64 + 2)]));
            }
        }
    }
}
