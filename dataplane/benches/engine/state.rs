//! Bytes of storage a queue pair.

use roce_engine::{QpSlot, ReadyNode, RecvWqe, ReplaySlot, SendWqe, TimerNode};

use crate::measure::ratio_of_costs;

/// What design allows.
const BAR: f64 = 1024.0;
/// A queue pair's share of the pools on a server with very many: work requests and replay slots are
/// for those that are busy.
pub(crate) const REPLAYS: usize = 4;
const SENDS: usize = 1;
const RECEIVES: usize = 2;

pub(crate) fn run() {
    let parts = [
        ("QpSlot", 1, size_of::<QpSlot>()),
        // One for the requester's timer, one for the pace of READ answers.
        ("TimerNode", 2, size_of::<TimerNode>()),
        ("ReadyNode", 1, size_of::<ReadyNode>()),
        ("ReplaySlot", REPLAYS, size_of::<ReplaySlot>()),
        ("SendWqe", SENDS, size_of::<SendWqe>()),
        ("RecvWqe", RECEIVES, size_of::<RecvWqe>()),
    ];
    let mut all = 0;
    for (name, count, bytes) in parts {
        println!("engine-state: {count} {name} of {bytes} bytes");
        all += count * bytes;
    }
    let all = f64::from(u32::try_from(all).expect("a size"));
    ratio_of_costs("engine-bytes-a-qp-to-bar", all, BAR);
}
