//! Two ways of doing the same, timed in turn.
//!
//! Each line is `ratio NAME ours=<ns> peer=<ns> x=<ratio>`, above 1 where ours is better: medians
//! over interleaved rounds in one process, a burst of packets in the first-level cache.

use std::time::Instant;

/// Packets handled in turn, so that no branch is learnt from one of them.
pub(crate) const BURST: u32 = 8;
/// Rounds of each side, ours and the peer's in turn.
const ROUNDS: usize = 101;
const BURSTS_A_ROUND: u32 = 2000;

/// Times both over a burst and prints the line.
pub(crate) fn compare<T>(
    name: &str,
    burst: &[T],
    mut ours: impl FnMut(&T),
    mut peer: impl FnMut(&T),
) {
    assert_eq!(burst.len(), BURST as usize);
    // What `cargo test --benches` passes: then only that it runs matters.
    let rounds = if std::env::args().any(|arg| arg == "--test") { 1 } else { ROUNDS };
    let mut times = [vec![], vec![]];
    for _ in 0..rounds {
        times[0].push(time(burst, &mut ours));
        times[1].push(time(burst, &mut peer));
    }
    let [ours, peer] = times.map(median);
    println!("ratio {name} ours={ours:.2} peer={peer:.2} x={:.2}", peer / ours);
}

/// Nanoseconds a packet.
fn time<T>(burst: &[T], handle: &mut impl FnMut(&T)) -> f64 {
    let start = Instant::now();
    for _ in 0..BURSTS_A_ROUND {
        for packet in burst {
            handle(packet);
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(BURSTS_A_ROUND * BURST)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
