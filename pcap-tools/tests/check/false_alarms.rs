//! Never cry wolf: whatever a tap, a mirror or a network does to the order and number of packets,
//! nobody is called a sinner for it.

use roce_codec::ib::Opcode;
use roce_pcap::check::Rule;

use crate::faults::{Parts, frame};
use crate::support::{
    Owned, Random, failures, judge, load, load_own, name, own_captures, public_captures,
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
