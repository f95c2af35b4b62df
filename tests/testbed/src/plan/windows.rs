//! Memory windows: bindings and invalidations among the requests of who offers memory.

use super::{Kind, Plan, Poison, Request};
use crate::random::Random;

/// Draws them for all connections of a plan.
pub(super) fn draw(random: &mut Random, plan: &mut Plan) {
    for connection in plan.chains.iter_mut().flatten() {
        let mut requests = connection.sides.iter().flat_map(|side| &side.requests);
        // One side at most fails by its own doing.
        let clean = requests.all(|request| request.poison.is_none());
        let fails = (clean && random.one_in(2)).then(|| random.index(4));
        for (number, side) in connection.sides.iter_mut().enumerate() {
            side.windows = !random.one_in(4);
            let count = if side.windows { random.pick(&[1, 3, 6, 12]) } else { 0 };
            let fails = (fails == Some(number)).then(|| random.index(count));
            for which in 0..count {
                let kind = if random.one_in(3) { Kind::Invalidate } else { Kind::Bind };
                let poison = (fails == Some(which)).then_some(Poison::Window);
                let at = random.index(side.requests.len() + 1);
                side.requests.insert(at, local(random, kind, poison));
            }
        }
        // By a key that does not open what is asked for.
        let [a, b] = &mut connection.sides;
        let wrong = match fails {
            Some(2) if a.windows => &mut b.requests,
            Some(3) if b.windows => &mut a.requests,
            _ => continue,
        };
        let at = random.index(wrong.len());
        if let Some(request) = wrong.get_mut(at).filter(|request| request.needs_key()) {
            request.poison = Some(Poison::Key);
        }
    }
}

fn local(random: &mut Random, kind: Kind, poison: Option<Poison>) -> Request {
    Request {
        kind,
        len: 0,
        source: 0,
        remote: 0,
        operand: random.bits(),
        // Whom it concerns hears of it, and uses the window then.
        signaled: true,
        solicited: false,
        poison,
        cuts: 0,
        inline: false,
        fence: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough of each that a run of some thousand seeds is one of these, too.
    #[test]
    fn each_is_drawn() {
        let [mut binds, mut invalidations, mut failures] = [0; 3];
        for seed in 0..1000 {
            let plan = Plan::draw(seed);
            for connection in plan.chains.iter().flatten() {
                for request in connection.sides.iter().flat_map(|side| &side.requests) {
                    binds += u32::from(request.kind == Kind::Bind);
                    invalidations += u32::from(request.kind == Kind::Invalidate);
                    failures += u32::from(request.poison == Some(Poison::Window));
                }
            }
        }
        let counts = [binds, invalidations, failures];
        assert!(counts.iter().all(|count| *count >= 100), "{counts:?}");
    }
}
