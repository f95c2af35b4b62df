//! The reaction point: a packet of a flow that is held back was sent, the next may go when?
#![no_std]
#![no_main]

use roce_codec::dcqcn::{Params, ReactionPoint};
use roce_size::flow;

roce_size::firmware! {
    (&flow::PARAMS, &mut flow::limited()) => |gap_ns| *gap_ns > 0,
}

#[inline(never)]
fn case((params, flow): (&Params, &mut ReactionPoint)) -> u64 {
    flow.on_bytes_sent(params, flow::NOW_NS + 1_000, 1_086);
    flow.gap_ns(1_086)
}
