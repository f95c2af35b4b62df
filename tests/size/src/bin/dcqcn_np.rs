//! The notification point: a packet came with congestion experienced.
#![no_std]
#![no_main]

use roce_codec::dcqcn::{NotificationPoint, Params};
use roce_size::flow;

roce_size::firmware! {
    (&flow::PARAMS, &mut NotificationPoint::new()) => |sends_cnp| *sends_cnp,
}

#[inline(never)]
fn case((params, flow): (&Params, &mut NotificationPoint)) -> bool {
    flow.on_packet(params, 1_000_000, true)
}
