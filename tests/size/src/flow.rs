//! A flow at its reaction point.

use core::hint::black_box;

use roce_codec::dcqcn::{Params, ReactionPoint};

/// The profile that cuts at once. In memory, as it is for a device that can be configured.
pub static PARAMS: Params = Params::PAPER;

/// The port's rate.
pub const LINE_BPS: u64 = 25_000_000_000;

/// When the CNP comes.
pub const NOW_NS: u64 = 1_000_000;

/// A flow that has not seen congestion.
#[inline(never)]
pub fn new() -> ReactionPoint {
    ReactionPoint::new(black_box(&PARAMS), LINE_BPS)
}

/// A flow after a CNP.
#[inline(never)]
pub fn limited() -> ReactionPoint {
    let mut flow = new();
    flow.on_cnp(black_box(&PARAMS), NOW_NS);
    flow
}
