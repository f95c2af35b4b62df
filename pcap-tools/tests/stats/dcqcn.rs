//! A sender that follows the reaction point exactly: what is measured is what is predicted.

use std::num::NonZeroU64;

use roce_codec::dcqcn::{Params, ReactionPoint};
use roce_codec::ib::{Psn, Syndrome};
use roce_pcap::stats::{Interval, Options, Stats};

use crate::wire::{answer, captured, cnp, write};

const LINK: u64 = 10_000_000_000;
const START_NS: u64 = 1_700_000_000_000_000_000;
const END_NS: u64 = START_NS + 6_000_000;

/// Sends as fast as the reaction point allows, with CNPs at those times; gives the intervals, and
/// the rate and alpha that the sender itself ended with.
fn run(params: Params, cnps_at_us: &[u64]) -> (Vec<Interval>, u64, u64, f64) {
    let options = Options { link_bps: NonZeroU64::new(LINK), dcqcn: params, graphs: true };
    let mut stats = Stats::new(options);
    let mut sender = ReactionPoint::new(&params, LINK);
    let mut cnps = cnps_at_us.iter().map(|us| START_NS + us * 1000).peekable();
    let mut number = 0;
    let mut take = |time_ns, data: &[u8]| {
        number += 1;
        stats.packet(&captured(number, time_ns, data));
    };
    let (mut now_ns, mut psn) = (START_NS, Psn::new(0xff_ff00));
    while now_ns < END_NS {
        while let Some(at_ns) = cnps.next_if(|at_ns| *at_ns <= now_ns) {
            sender.on_cnp(&params, at_ns);
            take(at_ns, &cnp());
        }
        let data = write(psn, 1024, false);
        let len = u32::try_from(data.len()).unwrap();
        take(now_ns, &data);
        sender.on_bytes_sent(&params, now_ns, len);
        if psn.get() % 4 == 0 {
            take(now_ns, &answer(psn, Syndrome::ACK));
        }
        psn = psn.next();
        now_ns += sender.gap_ns(len);
    }
    let summary = stats.finish();
    let flow = summary.flows.iter().find(|flow| flow.figures.cnps > 0).unwrap();
    assert_eq!(flow.figures.cnps, u64::try_from(cnps_at_us.len()).unwrap());
    let last_ns = summary.total.span_ns.unwrap().1;
    let alpha = f64::from(sender.alpha_q31(&params, last_ns)) / 2_f64.powi(31);
    let intervals = flow.rates.as_ref().unwrap().intervals().collect();
    (intervals, flow.allowed_bps.unwrap(), sender.rate_bps(), alpha)
}

fn follows(params: Params) {
    let cnps = [700, 760, 1500, 1550, 1600, 1650, 1700, 4000];
    let (intervals, told_bps, own_bps, own_alpha) = run(params, &cnps);
    assert_eq!(told_bps, own_bps);
    let last = intervals.last().unwrap();
    assert!((last.alpha.unwrap() - own_alpha).abs() < 1e-6, "{last:?} {own_alpha}");
    let cnps_told: u32 = intervals.iter().map(|interval| interval.cnps).sum();
    assert_eq!(cnps_told, 8);
    // Before the first CNP nothing is predicted.
    let first = intervals.iter().position(|interval| interval.allowed_bps.is_some()).unwrap();
    let since_ns = intervals[first].start_ns - START_NS;
    assert!((700_000 - intervals[first].width_ns..=700_000).contains(&since_ns));
    assert!(intervals[..first].iter().all(|interval| interval.alpha.is_none()));
    // At the end of each interval behind it, as much was sent as was allowed, to two packets.
    let (mut sent, mut allowed, mut least) = (0.0, 0.0, f64::MAX);
    let whole = &intervals[first + 1..intervals.len() - 1];
    assert!(whole.len() > 200);
    for interval in whole {
        let seconds = std::time::Duration::from_nanos(interval.width_ns).as_secs_f64();
        sent += interval.sent_bps * seconds;
        allowed += interval.allowed_bps.unwrap() * seconds;
        least = interval.allowed_bps.unwrap().min(least);
        assert!((sent - allowed).abs() < 2.0 * 8.0 * 1100.0, "{sent} {allowed} {interval:?}");
    }
    // And that was not simply the rate of the link.
    assert!(least < 0.8e10, "{least}");
}

#[test]
fn the_paper() {
    follows(Params::PAPER);
}

#[test]
fn connectx() {
    follows(Params::MLX5);
}

#[test]
fn another_profile_is_told_apart() {
    let cnps = [700, 760, 1500, 1550];
    let (intervals, ..) = run(Params::PAPER, &cnps);
    let (others, ..) = run(Params::MLX5, &cnps);
    let lowest = |of: &[Interval]| {
        of.iter().filter_map(|interval| interval.allowed_bps).fold(f64::MAX, f64::min)
    };
    assert!((lowest(&intervals) - lowest(&others)).abs() > 1e8);
}

#[test]
fn without_a_link_rate_nothing_is_predicted() {
    let mut stats = Stats::new(Options { graphs: true, ..Options::default() });
    stats.packet(&captured(1, START_NS, &write(Psn::new(1), 8, false)));
    stats.packet(&captured(2, START_NS + 9, &answer(Psn::new(1), Syndrome::ACK)));
    stats.packet(&captured(3, START_NS + 10, &cnp()));
    let summary = stats.finish();
    let flow = summary.flows.iter().find(|flow| flow.figures.cnps == 1).unwrap();
    assert_eq!(flow.allowed_bps, None);
    let mut intervals = flow.rates.as_ref().unwrap().intervals();
    assert!(intervals.all(|interval| interval.allowed_bps.is_none() && interval.cnps == 1));
}
