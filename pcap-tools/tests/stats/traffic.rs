//! Hand-made traffic whose figures are known, and hostile traffic.

use std::num::NonZeroU64;

use roce_codec::ib::{Psn, Syndrome};
use roce_codec::net::{MacAddr, MacControl, PauseQuanta, Pfc};
use roce_pcap::message::Cause;
use roce_pcap::stats::{Options, Stats};

use crate::wire::{answer, captured, cnp, nak, write};

/// A connection in which PSN 2 is lost: every figure by hand.
#[test]
fn a_loss_by_hand() {
    let mut stats = Stats::new(Options::default());
    let psn = Psn::new;
    let script: [(u64, Vec<u8>); 10] = [
        (1_000, write(psn(1), 100, false)),
        (2_000, write(psn(2), 100, false)),
        (3_000, write(psn(3), 100, true)),
        (10_000, answer(psn(1), Syndrome::ACK)),
        (11_000, nak(psn(2))),
        (20_000, write(psn(2), 100, false)),
        (21_000, write(psn(3), 100, false)),
        (30_000, answer(psn(2), Syndrome::ACK)),
        (32_000, answer(psn(3), Syndrome::ACK)),
        (33_000, cnp()),
    ];
    for (number, (time_ns, data)) in (1..).zip(&script) {
        stats.packet(&captured(number, *time_ns, data));
    }
    let summary = stats.finish();
    let flow = summary.flows.iter().find(|flow| flow.figures.operations.write > 0).unwrap();
    assert_eq!(flow.peer.map(|peer| peer.dest_qp.get()), Some(crate::wire::QPS[0]));
    let figures = &flow.figures;
    assert_eq!((figures.packets, figures.operations.write, figures.bytes), (5, 3, 300));
    assert_eq!((figures.retransmitted_packets, figures.sequence_naks), (2, 1));
    assert_eq!((figures.ce_packets, figures.cnps), (1, 1));
    // 9, 28 and 29 us.
    assert_eq!((figures.latency.min_ns(), figures.latency.max_ns()), (Some(9_000), Some(29_000)));
    assert_eq!(figures.losses(), 1);
    assert_eq!(figures.recoveries_by(Cause::SequenceNak), 1);
    assert_eq!(figures.recovery.max_ns(), Some(19_000));
    // 2,400 bits in 31 us: the first packet to the last answer.
    assert_eq!(figures.goodput_bps(), Some(2_400 * 1_000_000_000 / 31_000));
    let [loss] = summary.recoveries[..] else { panic!("{:?}", summary.recoveries) };
    assert_eq!((loss.detected_packet, loss.resent_packet), (5, Some(6)));
    assert_eq!((loss.recovered_packet, loss.packets_resent, loss.rounds), (Some(8), 2, 1));
}

/// The requester is silent, then sends its last packet again.
#[test]
fn a_timeout_by_hand() {
    let mut stats = Stats::new(Options::default());
    let script = [
        (1_000, write(Psn::new(1), 8, false)),
        (5_000, answer(Psn::new(1), Syndrome::ACK)),
        (6_000, write(Psn::new(2), 8, false)),
        (4_006_000, write(Psn::new(2), 8, false)),
        (4_010_000, answer(Psn::new(2), Syndrome::ACK)),
    ];
    for (number, (time_ns, data)) in (1..).zip(&script) {
        stats.packet(&captured(number, *time_ns, data));
    }
    let summary = stats.finish();
    let [loss] = summary.recoveries[..] else { panic!("{:?}", summary.recoveries) };
    assert_eq!(
        (loss.cause, loss.stalled_ns, loss.detected_packet),
        (Cause::Timeout, Some(6_000), 4)
    );
    assert_eq!(loss.time_ns(), Some(4_004_000));
}

/// A tap that sees every packet twice has no loss to tell of.
#[test]
fn mirror_copies_are_no_losses() {
    let mut stats = Stats::new(Options::default());
    let mut number = 0;
    for psn in 1..100 {
        let (request, ack) = (write(Psn::new(psn), 8, false), answer(Psn::new(psn), Syndrome::ACK));
        for (after_ns, data) in [(0, &request), (300, &request), (2_000, &ack), (2_300, &ack)] {
            number += 1;
            stats.packet(&captured(number, u64::from(psn) * 10_000 + after_ns, data));
        }
    }
    let total = stats.finish().total;
    assert_eq!((total.copied_packets, total.retransmitted_packets, total.losses()), (99, 0, 0));
    assert_eq!((total.endings.acknowledged, total.operations.write), (99, 99));
}

#[test]
fn pauses_take_time_by_the_rate_of_the_link() {
    let station = MacAddr([2, 0, 0, 0, 0, 9]);
    let mut frame = [0; MacControl::LEN];
    Pfc::new(station).with(3, PauseQuanta(1000)).emit(&mut frame).unwrap();
    for (rate, paused_ns) in [(Some(100_000_000_000), Some(2 * 5_120)), (None, None)] {
        let link_bps = rate.and_then(NonZeroU64::new);
        let mut stats = Stats::new(Options { link_bps, ..Options::default() });
        stats.packet(&captured(1, 1_000, &frame));
        stats.packet(&captured(2, 50_000, &frame));
        stats.packet(&captured(3, 90_000, &write(Psn::new(1), 8, false)));
        let [pause] = stats.finish().pauses[..] else { panic!("one account") };
        assert_eq!((pause.src, pause.priority), (Some(station), Some(3)));
        assert_eq!((pause.frames, pause.quanta, pause.paused_ns), (2, 2000, paused_ns));
    }
}

/// More flows than are kept apart: nothing of them is lost from the sums.
#[test]
fn flows_without_end_are_summed_up() {
    let mut stats = Stats::new(Options::default());
    let mut data = write(Psn::new(1), 8, false);
    let count = 5_000_u64;
    for number in 0..count {
        // The destination queue pair; the ICRC is then left out as a capture before offload has it.
        let qp = u32::try_from(number).unwrap() + 2;
        data[47..50].copy_from_slice(&qp.to_be_bytes()[1..]);
        let icrc = data.len() - 4;
        data[icrc..].fill(0);
        stats.packet(&captured(number + 1, number * 1_000, &data));
    }
    let summary = stats.finish();
    let (forgotten, flows) = summary.forgotten.unwrap();
    assert_eq!(flows + u64::try_from(summary.flows.len()).unwrap(), count);
    assert!(summary.flows.len() <= 1024);
    let kept: u64 = summary.flows.iter().map(|flow| flow.figures.packets).sum();
    assert_eq!(forgotten.packets + kept, count);
    assert_eq!(summary.total.endings.answers_unseen, count);
    assert_eq!(summary.hosts.iter().map(|host| host.received_packets).sum::<u64>(), count);
}
