//! How the rounds are taken: both sides in turn, many short passes of each.
//!
//! Other programs use this machine, too. A pass is shorter than a scheduler's slice, so that most
//! run undisturbed: the figure is the lower quartile of their times, and the noise is how far the
//! median lies above it.

use std::time::Duration;

/// Passes of each side.
const PASSES: usize = 400;

/// What passes of one side took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Nanoseconds an operation, lower quartile.
    pub(crate) ns: f64,
    /// How far the median lies above it, in hundredths.
    pub(crate) noise: f64,
}

impl Taken {
    /// Of passes that took so long, each `operations` long.
    pub(crate) fn of(mut times: Vec<f64>, operations: usize) -> Self {
        times.sort_by(f64::total_cmp);
        let (quartile, median) = (times[times.len() / 4], times[times.len() / 2]);
        let ns = quartile / f64::from(u32::try_from(operations).unwrap_or(u32::MAX));
        Self { ns, noise: (median / quartile - 1.0) * 100.0 }
    }

    /// Millions a second.
    pub(crate) fn rate(self) -> f64 {
        1e3 / self.ns
    }
}

/// Runs passes of each side in turn.
pub(crate) fn race<const SIDES: usize>(
    operations: usize,
    mut sides: [&mut dyn FnMut() -> Duration; SIDES],
) -> [Taken; SIDES] {
    let mut times = [(); SIDES].map(|()| Vec::with_capacity(PASSES));
    for _ in 0..PASSES {
        for (times, pass) in times.iter_mut().zip(&mut sides) {
            times.push(pass().as_secs_f64() * 1e9);
        }
    }
    times.map(|times| Taken::of(times, operations))
}

/// `ratio NAME ours=… peer=… x=…` of rates in millions a second.
pub(crate) fn ratio_of_rates(name: &str, ours: f64, peer: f64) {
    println!("ratio {name} ours={ours:.2} peer={peer:.2} x={:.2}", ours / peer);
}

/// The same where less is better: bytes, nanoseconds.
pub(crate) fn ratio_of_costs(name: &str, ours: f64, peer: f64) {
    println!("ratio {name} ours={ours:.1} peer={peer:.1} x={:.2}", peer / ours);
}
