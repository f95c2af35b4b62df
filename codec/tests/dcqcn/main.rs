//! DCQCN held to vectors computed by hand, to a model of the paper's equations in floating point,
//! and to a link that two flows share.

mod choices;
mod clockwork;
mod fair_share;
mod limits;
mod model;
mod oracle;
mod sequences;

use proptest::test_runner::Config;
use roce_codec::dcqcn::{Params, ReactionPoint};

const GBPS: u64 = 1_000_000_000;
const MBPS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A flow on a port of 40 Gb/s.
fn at_40g(params: &Params) -> ReactionPoint {
    ReactionPoint::new(params, 40 * GBPS)
}

/// Current and target rate in Mb/s, for rates that are whole Mb/s.
#[track_caller]
fn mbps(rp: &ReactionPoint) -> (u64, u64) {
    assert_eq!((rp.rate_bps() % MBPS, rp.target_rate_bps() % MBPS), (0, 0));
    (rp.rate_bps() / MBPS, rp.target_rate_bps() / MBPS)
}

/// The instants at which several things fall together are rare: proptest's 256 cases are too few.
fn cases() -> Config {
    let config = Config::default();
    Config { cases: config.cases.max(2_000), ..config }
}
