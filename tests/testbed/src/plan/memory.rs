//! How the memory of requests and receives is described: lists, inline data, shared receives; and
//! the fence.

use super::{Plan, Poison, Side};
use crate::random::Random;

/// Most bytes of a request that are handed over with it.
pub const MAX_INLINE: usize = 200;

/// Draws it for all connections of a plan.
pub(super) fn draw(random: &mut Random, plan: &mut Plan) {
    for chain in &mut plan.chains {
        let reuse: Vec<bool> = chain.iter().map(|connection| connection.reuse).collect();
        for (number, connection) in chain.iter_mut().enumerate() {
            let mut requests = connection.sides.iter().flat_map(|side| &side.requests);
            let clean = plan.mercy && requests.all(|one| one.poison.is_none());
            // A queue pair keeps the queue that it was made with.
            let alone = !reuse[number] && !reuse.get(number + 1).is_some_and(|next| *next);
            for side in &mut connection.sides {
                draw_side(random, side);
                side.srq = !random.one_in(3) && clean && alone;
            }
        }
    }
}

fn draw_side(random: &mut Random, side: &mut Side) {
    for request in &mut side.requests {
        let sent = request.kind.is_send() || request.kind.is_write();
        let local = request.poison == Some(Poison::Local);
        request.cuts = if random.one_in(2) { random.bits() } else { 0 };
        request.inline = sent && !local && request.len <= MAX_INLINE && random.one_in(3);
        request.fence = random.one_in(8);
    }
    side.cuts = if random.one_in(2) { random.bits() } else { 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of each that a run of some thousand seeds is one of these, too.
    #[test]
    fn each_is_drawn() {
        let [mut lists, mut inlines, mut fences, mut shared] = [0; 4];
        for seed in 0..1000 {
            let plan = Plan::draw(seed);
            for side in plan.chains.iter().flatten().flat_map(|connection| &connection.sides) {
                for request in &side.requests {
                    assert!(!request.inline || request.len <= MAX_INLINE);
                    lists += u32::from(request.cuts != 0);
                    inlines += u32::from(request.inline);
                    fences += u32::from(request.fence);
                }
                shared += u32::from(side.srq && !side.receives.is_empty());
            }
        }
        let counts = [lists, inlines, fences, shared];
        assert!(counts.iter().all(|count| *count >= 200), "{counts:?}");
    }
}
