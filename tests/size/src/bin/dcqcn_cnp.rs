//! The reaction point: a CNP came.
#![no_std]
#![no_main]

use roce_codec::dcqcn::{Params, ReactionPoint};
use roce_size::flow;

roce_size::firmware! {
    // The first cut, by half: alpha is 1.
    (&flow::PARAMS, &mut flow::new()) => |rate_bps| *rate_bps == flow::LINE_BPS / 2,
}

#[inline(never)]
fn case((params, flow): (&Params, &mut ReactionPoint)) -> u64 {
    flow.on_cnp(params, flow::NOW_NS);
    flow.rate_bps()
}
