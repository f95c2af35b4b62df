//! Never cry wolf: whatever a tap, a mirror or a network does to the order and number of packets,
//! nobody is called a sinner for it.

use roce_codec::cm::{AttributeId, Mad};
use roce_codec::ib::{Opcode, PKey, Psn, Qpn, Service};
use roce_codec::net::Ip;
use roce_pcap::check::{Finding, Profile, Rule, Verdict};

use crate::faults::{Parts, frame};
use crate::support::{
    Owned, Random, failures, judge, judge_with, load, load_own, name, own_captures, public_captures,
};

/// Loses, repeats and delays packets, a few in a thousand of each; what is delayed comes up to
/// `reach` packets later.
fn disturb<'a>(
    packets: &'a [Owned],
    random: &mut Random,
    per_mille: [usize; 3],
    reach: usize,
) -> Vec<&'a Owned> {
    let [drop, duplicate, delay] = per_mille;
    let mut out: Vec<&Owned> = Vec::new();
    // Packets held back, with how many others go first.
    let mut held: Vec<(usize, &Owned)> = Vec::new();
    for packet in packets {
        if random.below(1000) < drop {
            continue;
        }
        if random.below(1000) < delay {
            held.push((1 + random.below(reach), packet));
        } else {
            out.push(packet);
        }
        if random.below(1000) < duplicate {
            held.push((1 + random.below(reach), packet));
        }
        held.retain_mut(|(left, packet)| {
            *left -= 1;
            if *left == 0 {
                out.push(packet);
            }
            *left > 0
        });
    }
    out.extend(held.into_iter().map(|(_, packet)| packet));
    out
}

#[test]
fn loss_repetition_and_disorder_at_the_tap_are_no_violations() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    for path in own_captures().into_iter().chain(public_captures()) {
        let allowed =
            if name(&path) == "rxe72-flush-atomicwrite" { Some(Rule::RoceIcrc) } else { None };
        let packets = load(&path);
        for seed in 0..seeds {
            for (per_mille, reach) in [
                ([5, 0, 0], 1),
                ([50, 0, 0], 1),
                ([0, 50, 0], 4),
                ([0, 0, 50], 8),
                ([0, 0, 300], 8),
                ([20, 20, 20], 8),
                ([150, 100, 100], 8),
                ([150, 100, 100], 200),
            ] {
                let mut random = Random::new(seed);
                let disturbed = disturb(&packets, &mut random, per_mille, reach);
                let (_, findings) = judge(disturbed);
                let failures = failures(&findings);
                assert!(
                    failures.iter().all(|finding| Some(finding.rule) == allowed),
                    "{} seed {seed} {per_mille:?} {reach}:\n{}",
                    path.display(),
                    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
                );
            }
        }
    }
}

/// A capture may begin and end anywhere.
#[test]
fn any_part_of_a_capture_is_clean() {
    for path in own_captures().into_iter().chain(public_captures()) {
        if name(&path) == "rxe72-flush-atomicwrite" {
            continue;
        }
        let packets = load(&path);
        let step = (packets.len() / 25).max(1);
        for from in (0..packets.len()).step_by(step) {
            for part in [&packets[from..], &packets[..from]] {
                let (_, findings) = judge(part);
                assert!(failures(&findings).is_empty(), "{} from {from}", path.display());
            }
        }
    }
}

/// One direction alone, as a one-sided mirror gives.
#[test]
fn one_direction_is_clean() {
    for path in own_captures().into_iter().chain(public_captures()) {
        if name(&path) == "rxe72-flush-atomicwrite" {
            continue;
        }
        let packets = load(&path);
        let source = |packet: &Owned| packet.data.get(6..12).map(<[u8]>::to_vec);
        let first = source(&packets[0]);
        for forward in [true, false] {
            let side = packets.iter().filter(|packet| (source(packet) == first) == forward);
            let (_, findings) = judge(side);
            assert!(failures(&findings).is_empty(), "{}", path.display());
        }
    }
}

/// Two mirrors into one file: every packet twice, the copies some packets later.
#[test]
fn merged_mirrors_are_clean() {
    for path in own_captures().into_iter().chain(public_captures()) {
        if name(&path) == "rxe72-flush-atomicwrite" {
            continue;
        }
        let packets = load(&path);
        for lag in [0, 1, 2, 7, 40] {
            let mut merged = Vec::new();
            for at in 0..packets.len() + lag {
                merged.extend(packets.get(at));
                merged.extend(at.checked_sub(lag).and_then(|copy| packets.get(copy)));
            }
            let (_, findings) = judge(merged);
            let failures = failures(&findings);
            assert!(failures.is_empty(), "{} lag {lag}: {}", path.display(), failures[0]);
        }
    }
}

/// Mirrors of the two directions whose clocks differ: every answer comes before its request, or
/// long after it.
#[test]
fn skewed_mirrors_are_clean() {
    for path in own_captures().into_iter().chain(public_captures()) {
        if name(&path) == "rxe72-flush-atomicwrite" {
            continue;
        }
        let packets = load(&path);
        let source = |packet: &Owned| packet.data.get(6..12).map(<[u8]>::to_vec);
        let first = source(&packets[0]);
        for skew in [-300, -40, -5, 5, 40, 300] {
            // The skew sets in halfway, when the checker has learned what answers what.
            let half = packets.len() / 2;
            let mut order: Vec<_> = packets.iter().enumerate().collect();
            order.sort_by_key(|(at, packet)| {
                let at = i64::try_from(*at).unwrap();
                let late = source(packet) == first && at > i64::try_from(half).unwrap();
                if late { at + skew } else { at }
            });
            let (_, findings) = judge(order.into_iter().map(|(_, packet)| packet));
            let failures = failures(&findings);
            assert!(failures.is_empty(), "{} skew {skew}: {}", path.display(), failures[0]);
        }
    }
}

/// Both taps of a lossy network in one file, by time: what one saw and the other did not.
#[test]
fn two_taps_around_a_loss_are_clean() {
    for run in ["rxe-lossy", "rxe-ecn"] {
        let mut packets = load_own(&format!("{run}-client"));
        packets.extend(load_own(&format!("{run}-server")));
        packets.sort_by_key(|packet| packet.timestamp_ns);
        let (_, findings) = judge(&packets);
        let failures = failures(&findings);
        assert!(failures.is_empty(), "{run}: {}", failures[0]);
    }
}

/// The same connection again on the same QPNs and PSNs, as after a restart of a program that
/// always starts at the same PSN; and again with other PSNs.
#[test]
fn reused_queue_pairs_are_clean() {
    for path in own_captures().into_iter().chain(public_captures()) {
        if name(&path) == "rxe72-flush-atomicwrite" {
            continue;
        }
        let packets = load(&path);
        let half = &packets[..packets.len() / 2];
        let (_, findings) = judge(half.iter().chain(&packets).chain(&packets));
        let failures = failures(&findings);
        assert!(failures.is_empty(), "{}: {}", path.display(), failures[0]);
    }
}

/// Case 35: a snap length makes ICRCs uncheckable, never bad, and nothing else.
#[test]
fn a_snap_length_is_no_violation() {
    for path in own_captures() {
        for snaplen in [14, 34, 42, 54, 60, 70, 96, 128] {
            for keep_length in [true, false] {
                let mut packets = load(&path);
                for packet in &mut packets {
                    packet.data.truncate(snaplen);
                    if !keep_length {
                        packet.orig_len = packet.data.len().try_into().unwrap();
                    }
                }
                let (summary, findings) = judge(&packets);
                let failures = failures(&findings);
                let icrc_only = failures.iter().all(|finding| finding.rule == Rule::RoceIcrc);
                assert!(icrc_only, "{} cut to {snaplen}: {}", path.display(), failures[0]);
                // Long enough to see the port, too short for any ICRC.
                if (42..=54).contains(&snaplen) && name(&path) != "rxe-ipv6" {
                    assert_eq!(summary.icrc_uncheckable, summary.packets);
                }
            }
        }
    }
}

/// READs of one packet, so that no packet tells the path MTU, sent again from the middle; a late
/// answer to the first pass comes early in the second.
#[test]
fn a_late_answer_to_reads_sent_again_is_clean() {
    let packets = load_own("rxe-read");
    let find = |opcode| packets.iter().find(|p| frame(p).is_some_and(|f| f.opcode() == opcode));
    let request = find(Opcode::RC_RDMA_READ_REQUEST).unwrap();
    let answer = find(Opcode::RC_RDMA_READ_RESPONSE_FIRST).unwrap();
    let first = frame(request).unwrap().psn();
    let ask = |number: u32| {
        let mut parts = Parts::of(request).unwrap();
        parts.builder.bth.psn = first.add(number);
        parts.builder.ext.reth.as_mut().unwrap().dma_len = 1024;
        parts.emit(request)
    };
    let tell = |number: u32| {
        let mut parts = Parts::of(answer).unwrap();
        parts.builder.bth.opcode = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
        parts.builder.bth.psn = first.add(number);
        parts.emit(answer)
    };
    let mut talk: Vec<Owned> = (0..40).flat_map(|number| [ask(number), tell(number)]).collect();
    talk.extend((40..80).map(ask));
    talk.extend([ask(40), ask(41), tell(40), tell(79), tell(41)]);
    talk.extend((42..80).flat_map(|number| [ask(number), tell(number)]));
    let (_, findings) = judge(&talk);
    assert!(failures(&findings).is_empty(), "{findings:#?}");
}

/// The packets, each changed.
fn each(packets: &[Owned], mut change: impl FnMut(usize, &mut Parts)) -> Vec<Owned> {
    let changed = |(at, packet): (usize, &Owned)| {
        let mut parts = Parts::of(packet).unwrap();
        change(at, &mut parts);
        parts.emit(packet)
    };
    packets.iter().enumerate().map(changed).collect()
}

fn of_rule(findings: &[Finding], rule: Rule) -> Vec<Verdict> {
    findings.iter().filter(|finding| finding.rule == rule).map(|finding| finding.verdict).collect()
}

/// "Source port not constant: multipath, UD, CNP."
#[test]
fn source_port_not_constant() {
    let vary = |packets: &[Owned]| {
        each(packets, |at, parts| {
            parts.builder.udp.src_port = 0xc000 + u16::try_from(at % 7).unwrap();
        })
    };
    let multipath = vary(&load_own("rxe-send"));
    let (summary, findings) = judge(&multipath);
    assert_eq!(summary.fail, 0);
    assert!(of_rule(&findings, Rule::UdpSrcPort).iter().all(|v| *v == Verdict::Unknown));
    let known = Profile { constant_source_port: Some(false), ..Profile::default() };
    assert_eq!(of_rule(&judge_with(known, &multipath).1, Rule::UdpSrcPort), []);
    // Datagrams and notifications, of a device that keeps the port of its connections.
    let strict = || Profile::built_in("strict").unwrap();
    let datagrams: Vec<Owned> = load_own("rxe-cm")
        .into_iter()
        .filter(|packet| frame(packet).is_some_and(|f| f.info().service == Service::Ud))
        .collect();
    assert!(datagrams.len() > 20);
    assert_eq!(of_rule(&judge_with(strict(), &vary(&datagrams)).1, Rule::UdpSrcPort), []);
    let notified = each(&crate::congestion::load_notified(), |at, parts| {
        if parts.builder.bth.opcode == Opcode::CNP {
            parts.builder.udp.src_port = u16::try_from(at).unwrap();
        }
    });
    assert_eq!(judge_with(strict(), &notified).0.fail, 0);
}

/// "READ limit and P_Key rules without the CM exchange."
#[test]
fn read_limit_and_pkey_without_the_exchange() {
    for name in ["rxe-cm", "rxe-nvme", "rxe-errors", "rxe-read", "rxe-atomic"] {
        let packets: Vec<Owned> = load_own(name)
            .into_iter()
            .filter(|packet| frame(packet).is_some_and(|f| f.dest_qp() != Qpn::GSI))
            .collect();
        let keys = each(&packets, |_, parts| parts.bth().pkey = PKey(0x7fff));
        let (_, findings) = judge(&keys);
        assert_eq!(failures(&findings), Vec::<&Finding>::new(), "{name}");
        assert_eq!(of_rule(&findings, Rule::RcReadLimit), []);
        let unknown = of_rule(&findings, Rule::PkeyMatch);
        assert!(!unknown.is_empty() && unknown.iter().all(|v| *v == Verdict::Unknown), "{name}");
    }
}

/// "AckReq on MADs over UD QP1: Linux sets it."
#[test]
fn ack_req_on_mads() {
    let packets = load_own("rxe-cm");
    let mads = each(&packets, |_, parts| {
        if parts.builder.bth.dest_qp == Qpn::GSI {
            parts.bth().ack_req = true;
        }
    });
    let (summary, findings) = judge(&mads);
    assert_eq!((summary.fail, of_rule(&findings, Rule::BthAckReq)), (0, vec![]));
}

/// "Two NAKs for one gap when the resend is lost again": the tap sees the resend, the responder
/// does not.
#[test]
fn two_naks_for_one_gap_when_the_resend_is_lost_again() {
    let packets = load_own("rxe-lossy-client");
    let mut tried = 0;
    for at in 0..packets.len() {
        let Some(nak) = frame(&packets[at]) else { continue };
        if nak.aeth().is_none_or(|aeth| aeth.syndrome.0 != 0x60) {
            continue;
        }
        let resent = packets[at..].iter().position(|packet| {
            frame(packet).is_some_and(|f| f.info().is_request() && f.psn() == nak.psn())
        });
        let Some(resent) = resent else { continue };
        let mut again = Parts::of(&packets[at]).unwrap();
        if let Ip::V4(ip) = &mut again.builder.ip {
            ip.identification ^= 0x5555;
            ip.checksum = ip.computed_checksum();
        }
        let mut packets = packets.clone();
        packets.insert(at + resent + 1, again.emit(&packets[at]));
        let (_, findings) = judge(&packets);
        assert_eq!(of_rule(&findings, Rule::RcNakRepeat), [], "{at}");
        tried += 1;
    }
    assert!(tried >= 5, "{tried}");
}

/// "First packet in RTR acts as RTU; a lost RTU recovers."
#[test]
fn a_lost_rtu_recovers() {
    for name in ["rxe-cm", "rxe-nvme", "rxe-errors"] {
        let packets: Vec<Owned> = load_own(name)
            .into_iter()
            .filter(|packet| {
                let mad =
                    frame(packet).and_then(|frame| Mad::from_frame(&frame).map(|mad| mad.header));
                mad.is_none_or(|header| header.attribute != AttributeId::RTU)
            })
            .collect();
        let (_, findings) = judge(&packets);
        assert_eq!(failures(&findings), Vec::<&Finding>::new(), "{name}");
    }
}

/// "An ACK outside what is unacknowledged is ignored"; a duplicate is answered with the newest PSN
/// again: ACKs that come once more, at once and long after.
#[test]
fn acks_that_come_again() {
    let packets = load_own("rxe-write");
    let is_ack =
        |packet: &Owned| frame(packet).is_some_and(|f| f.opcode() == Opcode::RC_ACKNOWLEDGE);
    for lag in [0, 1, 9] {
        let mut talk: Vec<Owned> = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            talk.push(packet.clone());
            if let Some(old) = at.checked_sub(lag).and_then(|at| packets.get(at))
                && is_ack(old)
            {
                let mut again = Parts::of(old).unwrap();
                if let Ip::V4(ip) = &mut again.builder.ip {
                    ip.identification ^= 0x5555;
                    ip.checksum = ip.computed_checksum();
                }
                talk.push(again.emit(packet));
            }
        }
        let (summary, findings) = judge(&talk);
        assert_eq!(summary.fail, 0, "{findings:?}");
    }
}

/// Datagrams to a group: whatever their Q_Keys, marks and partitions, no queue pair stated any.
#[test]
fn multicast_is_clean() {
    let datagrams: Vec<Owned> = load_own("rxe-cm")
        .into_iter()
        .filter(|packet| {
            frame(packet)
                .is_some_and(|f| f.info().service == Service::Ud && f.dest_qp() != Qpn::GSI)
        })
        .collect();
    let group = each(&datagrams, |at, parts| {
        parts.bth().dest_qp = Qpn::MULTICAST;
        parts.builder.ext.deth.as_mut().unwrap().qkey.0 ^= u32::try_from(at).unwrap();
        if let Ip::V4(ip) = &mut parts.builder.ip {
            ip.dst = [239, 1, 2, 3].into();
            ip.dscp_ecn = if at % 2 == 0 { 2 } else { 3 };
            ip.checksum = ip.computed_checksum();
        }
    });
    let (summary, findings) = judge_with(Profile::built_in("strict").unwrap(), &group);
    assert_eq!((summary.fail, findings.len()), (0, 0), "{findings:?}");
}

/// Queue pairs that serve one connection after another, with another path MTU: READs in packets of
/// 256 bytes, then SENDs, the first of one packet each, so that only the answers of the READs have
/// shown one.
#[test]
fn a_queue_pair_comes_again_with_another_path_mtu() {
    let reads = load_own("rxe-read");
    let sends = load_own("rxe-send");
    let requester = frame(&reads[0]).unwrap().src();
    let find = |opcode, forth| {
        let is = |packet: &&Owned| {
            frame(packet).is_some_and(|f| f.opcode() == opcode && (f.src() == requester) == forth)
        };
        sends.iter().find(is).unwrap()
    };
    let template = [
        find(Opcode::RC_SEND_ONLY, true),
        find(Opcode::RC_SEND_FIRST, true),
        find(Opcode::RC_SEND_MIDDLE, true),
        find(Opcode::RC_SEND_LAST, true),
        find(Opcode::RC_ACKNOWLEDGE, false),
    ];
    let qp = frame(&reads[1340]).unwrap().dest_qp();
    let numbered = |packet: &Owned, psn: u32| {
        let mut parts = Parts::of(packet).unwrap();
        (parts.builder.bth.dest_qp, parts.builder.bth.psn) = (qp, Psn::new(psn));
        parts.emit(packet)
    };
    let [only, first, middle, last, ack] = template;
    let second = reads.iter().filter(|packet| frame(packet).unwrap().dest_qp() == qp);
    let mut talk: Vec<Owned> = second.cloned().collect();
    assert!(talk.len() > 1000);
    talk.extend((0..20).flat_map(|psn| [numbered(only, psn), numbered(ack, psn)]));
    talk.extend([numbered(first, 20), numbered(middle, 21), numbered(last, 22), numbered(ack, 22)]);
    let (_, findings) = judge(&talk);
    assert!(failures(&findings).is_empty(), "{}", failures(&findings)[0]);
}
