//! What the programs that work on a reaction point's flow are compared with.
#![no_std]
#![no_main]

use roce_codec::dcqcn::{Params, ReactionPoint};
use roce_size::flow;

roce_size::firmware! {
    (&flow::PARAMS, &mut flow::new()) => |rate_bps| *rate_bps == flow::LINE_BPS,
}

#[inline(never)]
fn case((params, flow): (&Params, &mut ReactionPoint)) -> u64 {
    core::hint::black_box((params, &mut *flow));
    flow.rate_bps()
}
