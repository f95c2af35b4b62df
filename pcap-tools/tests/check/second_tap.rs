//! A second tap settles the gaps of the first.

use roce_codec::ib::{Opcode, Operation};
use roce_codec::{Frame, Start};
use roce_pcap::capture::{CaptureWriter, PacketRecord, PcapngWriter, Reader};
use roce_pcap::check::{Finding, Missing, Settled, Verdict, settle};
use roce_pcap::observed::FlowKey;

use crate::support::{Owned, Random, judge, load_own};

fn file(packets: &[Owned]) -> Vec<u8> {
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    for packet in packets {
        let time = packet.timestamp_ns.unwrap();
        writer.write(&PacketRecord::new(time, &packet.data)).unwrap();
    }
    writer.into_inner().unwrap()
}

/// The gaps of the first capture, settled by the second.
fn gaps(first: &[Owned], second: &[Owned]) -> (Vec<Finding>, Settled) {
    let mut findings = judge(first).1;
    findings.retain(|finding| finding.gap.is_some());
    let [first, second] = [file(first), file(second)];
    let [a, b] = [&first, &second].map(|file| Reader::new(file.as_slice()).unwrap());
    let settled = settle(&mut findings, a, b);
    assert!(settled.errors.is_empty());
    (findings, settled)
}

fn frame(packet: &Owned) -> Option<Frame<'_>> {
    Frame::parse([&packet.data, &[]], Start::Ethernet).ok()
}

/// Where packets of that opcode are.
fn places(packets: &[Owned], opcode: Opcode) -> Vec<usize> {
    let is_it = |packet: &Owned| frame(packet).is_some_and(|frame| frame.opcode() == opcode);
    (0..packets.len()).filter(|at| is_it(&packets[*at])).collect()
}

fn without(packets: &[Owned], gone: &[usize]) -> Vec<Owned> {
    let kept = |(at, packet): (usize, &Owned)| (!gone.contains(&at)).then(|| packet.clone());
    packets.iter().enumerate().filter_map(kept).collect()
}

fn only(gaps: &[Finding]) -> (Verdict, &str) {
    let [gap] = gaps else { panic!("{gaps:?}") };
    (gap.verdict, &gap.message)
}

/// The packet filter between the taps dropped 51 requests and 26 answers. Every gap comes of that;
/// the rest were sent again, ACKs, or the last of their message.
#[test]
fn gaps_of_a_lossy_wire_are_losses_between_the_taps() {
    let (client, server) = (load_own("rxe-lossy-client"), load_own("rxe-lossy-server"));
    for (first, second, missing, gaps_there, lost, dropped) in [
        (&server, &client, Missing::Requests, 24, 25, 51),
        (&client, &server, Missing::ReadResponses, 17, 17, 26),
    ] {
        let (gaps, settled) = gaps(first, second);
        assert_eq!((gaps.len(), settled.explained), (gaps_there, gaps_there as u64));
        assert_eq!((settled.shared, settled.lost), (2151, lost));
        assert!(settled.lost <= dropped);
        for finding in &gaps {
            assert_eq!(finding.verdict, Verdict::Pass, "{finding}");
            assert!(finding.message.contains("lost between the taps"), "{finding}");
            let gap = finding.gap.unwrap();
            assert_eq!(gap.missing, missing);
            // The second tap has more packets of the first PSN than the first; a READ has its others.
            let copies = |tap: &[Owned]| {
                let is_copy =
                    |frame: &Frame<'_>| frame.psn() == gap.first && is_missing(frame, missing);
                tap.iter().filter_map(frame).filter(is_copy).count()
            };
            assert!(copies(second) > copies(first), "{finding}");
        }
    }
}

#[test]
fn what_neither_tap_has_stays_unknown() {
    let all = load_own("rxe-write");
    let middles = places(&all, Opcode::RC_RDMA_WRITE_MIDDLE);
    let (one, last) = (middles[4], middles[4] + 1);
    let (at_one, at_both) = (without(&all, &[one]), without(&all, &[one, last]));

    let (found, settled) = gaps(&at_one, &all);
    assert_eq!((only(&found).0, settled.lost), (Verdict::Pass, 1));
    assert_eq!(
        only(&found).1,
        "1 PSNs are missing that the second tap saw: 1 lost between the taps or by the first"
    );
    let (found, settled) = gaps(&at_one, &at_one);
    assert_eq!((settled.explained, settled.lost), (0, 0));
    assert_eq!(
        only(&found),
        (
            Verdict::Unknown,
            "1 PSNs are missing at both taps: lost or damaged before both, or never sent"
        )
    );
    let (found, settled) = gaps(&at_both, &at_one);
    assert_eq!((settled.explained, settled.lost), (0, 1));
    assert_eq!(
        only(&found),
        (
            Verdict::Unknown,
            "1 PSNs are missing at both taps: lost or damaged before both, or never sent; others \
             the second tap saw: 1 lost between the taps or by the first"
        )
    );
}

#[test]
fn a_second_tap_that_began_behind_the_gap_says_nothing() {
    let all = load_own("rxe-write");
    let gone = places(&all, Opcode::RC_RDMA_WRITE_MIDDLE)[4];
    let first = without(&all, &[gone]);
    for second in [&all[gone..], &all[..=gone]] {
        let (found, settled) = gaps(&first, second);
        let (verdict, message) = only(&found);
        assert_eq!((verdict, settled.explained), (Verdict::Unknown, 0));
        assert!(message.starts_with("1 PSNs are missing: lost before the tap"), "{message}");
        assert!(message.contains("on both sides of the gap"), "{message}");
    }
}

#[test]
fn late_and_damaged_are_told_from_lost() {
    let all = load_own("rxe-write");
    let gone = places(&all, Opcode::RC_RDMA_WRITE_MIDDLE)[4];
    let mut late = all.clone();
    let packet = late.remove(gone);
    late.insert(gone + 3, packet);
    let (found, settled) = gaps(&late, &all);
    assert_eq!(settled.lost, 0);
    assert_eq!(found[0].verdict, Verdict::Pass);
    assert!(found[0].message.ends_with(": 1 late at the first"), "{}", found[0]);

    let mut damaged = all.clone();
    damaged[gone].data[90] ^= 1;
    let (found, settled) = gaps(&damaged, &all);
    assert_eq!((only(&found).0, settled.lost), (Verdict::Pass, 0));
    assert!(only(&found).1.ends_with(": 1 damaged between the taps"), "{}", found[0]);
    let (found, _) = gaps(&damaged, &damaged);
    assert_eq!(only(&found).0, Verdict::Unknown, "damaged before both");
}

/// IPv6 has no identification: what is sent again may be alike to the last bit.
#[test]
fn a_copy_that_came_through_does_not_hide_the_loss() {
    let mut second = load_own("rxe-ipv6");
    let gone = places(&second, Opcode::RC_RDMA_WRITE_MIDDLE)[3];
    let again = second[gone].clone();
    second.insert(gone + 4, again);
    let (found, settled) = gaps(&without(&second, &[gone]), &second);
    assert_eq!((only(&found).0, settled.lost), (Verdict::Pass, 1));
    assert!(only(&found).1.contains("1 lost between the taps"), "{}", found[0]);
}

/// What the second tap saw before, or of another time, is no proof.
#[test]
fn only_what_lies_in_the_gap_counts() {
    let all = load_own("rxe-write");
    let middles = places(&all, Opcode::RC_RDMA_WRITE_MIDDLE);
    let gone = middles[4];
    let first = without(&all, &[gone]);
    for to in [middles[2], middles[6]] {
        let mut second = all.clone();
        let packet = second.remove(gone);
        second.insert(to, packet);
        let (found, settled) = gaps(&first, &second);
        assert_eq!((only(&found).0, settled.explained), (Verdict::Unknown, 0), "to {to}");
    }
}

#[test]
fn a_lost_read_takes_the_psns_of_its_answers() {
    let all = load_own("rxe-read");
    let gone = places(&all, Opcode::RC_RDMA_READ_REQUEST)[5];
    let first = without(&all, &[gone]);
    let (found, settled) = gaps(&first, &all);
    assert_eq!((only(&found).0, settled.lost), (Verdict::Pass, 1), "{}", only(&found).1);
    // 3000 bytes at path MTU 1024.
    let gap = found[0].gap.unwrap();
    assert_eq!((gap.missing, gap.count), (Missing::Requests, 3));
    assert!(only(&found).1.contains("3 lost between the taps"), "{}", found[0]);
    let (found, _) = gaps(&first, &first);
    assert!(only(&found).1.starts_with("3 PSNs are missing at both taps"), "{}", found[0]);
}

#[test]
fn taps_of_other_traffic_share_nothing() {
    let first = load_own("rxe-lossy-server");
    let (found, settled) = gaps(&first, &load_own("rxe-cm"));
    assert_eq!((settled.shared, settled.explained), (0, 0));
    assert!(found.iter().all(|gap| gap.verdict == Verdict::Unknown));
}

fn is_missing(frame: &Frame<'_>, missing: Missing) -> bool {
    match missing {
        Missing::Requests => frame.info().is_request(),
        _ => frame.info().operation == Operation::ReadResponse,
    }
}

/// Packets are lost before both taps, between them, and by the second alone. In captures that send
/// nothing twice, what was sent tells what each gap must come to.
#[test]
fn random_losses_are_told_apart() {
    let (mut passed, mut unknown, mut open) = (0, 0, 0);
    for name in ["rxe-write", "rxe-read", "rxe-send", "rxe-ipv6", "rxe-mtu4096", "rxe-atomic"] {
        let sent = load_own(name);
        for seed in 1..=40 {
            let mut random = Random::new(seed);
            let (mut at_first, mut at_second) = (Vec::new(), Vec::new());
            for at in 0..sent.len() {
                let fate = random.below(30);
                if fate > 1 {
                    at_first.push(at);
                }
                if fate != 0 && fate != 2 {
                    at_second.push(at);
                }
            }
            let tap = |kept: &[usize]| kept.iter().map(|at| sent[*at].clone()).collect::<Vec<_>>();
            let (found, _) = gaps(&tap(&at_first), &tap(&at_second));
            for finding in &found {
                let gap = finding.gap.unwrap();
                let place = |number: u64| at_first[usize::try_from(number).unwrap() - 1];
                let (behind, before) = (place(gap.behind), place(finding.packet));
                let gone: Vec<_> = (behind + 1..before)
                    .filter(|at| {
                        frame(&sent[*at]).is_some_and(|frame| {
                            Some(FlowKey::of_frame(&frame)) == finding.flow
                                && is_missing(&frame, gap.missing)
                                && frame.psn().distance_from(gap.first) >= 0
                        })
                    })
                    .collect();
                let has = |at: &usize| at_second.binary_search(at).is_ok();
                let is_read = |at: &usize| frame(&sent[*at]).unwrap().reth().is_some();
                let context = format!("{name}, seed {seed}: {finding}");
                if !gone.iter().all(has) || gone.is_empty() {
                    assert_eq!(finding.verdict, Verdict::Unknown, "{context}");
                    unknown += 1;
                } else if has(&behind)
                    && has(&before)
                    && (gap.mtu.is_some() || !gone.iter().any(is_read))
                {
                    assert_eq!(finding.verdict, Verdict::Pass, "{context}");
                    passed += 1;
                } else {
                    open += 1;
                }
            }
        }
    }
    assert!(passed > 500 && unknown > 500, "{passed} passed, {unknown} unknown, {open} open");
}
