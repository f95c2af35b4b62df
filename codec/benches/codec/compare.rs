//! How the benchmarks here compare: both sides in turn, medians of many rounds, one line.

use std::fmt::Debug;
use std::hint::black_box;
use std::time::Instant;

/// Rounds of each side, ours and the peer's in turn.
const ROUNDS: usize = 41;
/// How long a round is to last.
const ROUND_NS: f64 = 5e5;

/// Times both in turn, requires that they agree, and prints
/// `ratio NAME ours=<ns> peer=<ns> x=<ratio>`, x above 1 where ours is better.
pub(crate) fn compare<T: PartialEq + Debug>(
    name: &str,
    ours: impl FnMut() -> T,
    peer: impl FnMut() -> T,
) {
    compare_burst(name, 1, ours, peer);
}

/// As [`compare`], of calls that handle `count` packets each: nanoseconds a packet.
pub(crate) fn compare_burst<T: PartialEq + Debug>(
    name: &str,
    count: u32,
    mut ours: impl FnMut() -> T,
    mut peer: impl FnMut() -> T,
) {
    assert_eq!(ours(), peer(), "{name}");
    let rounds = rounds();
    let calls = calls_a_round(&mut peer);
    let mut times = [vec![], vec![]];
    for _ in 0..rounds {
        times[0].push(time(calls, &mut ours));
        times[1].push(time(calls, &mut peer));
    }
    let [ours, peer] = times.map(|times| median(times) / f64::from(count));
    println!("ratio {name} ours={ours:.2} peer={peer:.2} x={:.2}", peer / ours);
}

/// Times what has no peer, or bounds a comparison from below, and prints `NAME ns=<ns>`.
pub(crate) fn alone<T>(name: &str, mut call: impl FnMut() -> T) {
    let calls = calls_a_round(&mut call);
    let times = (0..rounds()).map(|_| time(calls, &mut call)).collect();
    println!("{name} ns={:.1}", median(times));
}

/// What `cargo test --benches` passes: then only that it runs matters.
fn rounds() -> usize {
    if std::env::args().any(|arg| arg == "--test") { 1 } else { ROUNDS }
}

fn calls_a_round<T>(call: &mut impl FnMut() -> T) -> u32 {
    let mut calls = 64;
    while time(calls, call) * f64::from(calls) < ROUND_NS {
        calls *= 2;
    }
    calls
}

/// Nanoseconds a call.
fn time<T>(calls: u32, call: &mut impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
