//! Which PSNs of a flow were seen lately.

use roce_codec::ib::Psn;

/// PSNs that are remembered behind the furthest; what lies farther off is another connection.
pub(super) const WINDOW: u32 = 1 << 14;
const WORD: u32 = u64::BITS;

/// A bit for each of the last [`WINDOW`] PSNs.
#[derive(Debug)]
pub(super) struct Window {
    bits: Box<[u64]>,
    highest: Psn,
}

impl Window {
    /// `first` was seen, and nothing before it.
    pub(super) fn new(first: Psn) -> Self {
        let words = usize::try_from(WINDOW / WORD).unwrap_or_default();
        let mut window = Self { bits: vec![0; words].into_boxed_slice(), highest: first };
        window.mark(first, 1);
        window
    }

    /// The furthest PSN in use.
    #[inline]
    pub(super) fn highest(&self) -> Psn {
        self.highest
    }

    /// Moves on to `psn`, which lies ahead; those in between were not seen.
    #[inline]
    pub(super) fn advance(&mut self, psn: Psn) {
        let from = self.highest.next();
        let count = psn.next().distance_from(from).unsigned_abs();
        self.fill(from, count, false);
        self.highest = psn;
    }

    /// `count` PSNs from `first` on were seen; none of them lies ahead.
    #[inline]
    pub(super) fn mark(&mut self, first: Psn, count: u32) {
        // Of more than fit, the last ones.
        let skipped = count.saturating_sub(WINDOW);
        self.fill(first.add(skipped), count - skipped, true);
    }

    /// Whether a PSN was seen. Those beyond what is remembered were not.
    #[inline]
    pub(super) fn contains(&self, psn: Psn) -> bool {
        let behind = self.highest.distance_from(psn);
        let (word, bit) = place(psn.get());
        (0..WINDOW).contains(&behind.unsigned_abs())
            && behind >= 0
            && self.bits[word] >> bit & 1 == 1
    }

    fn fill(&mut self, first: Psn, count: u32, seen: bool) {
        let mut left = count.min(WINDOW);
        let mut psn = first.get();
        while left > 0 {
            let (word, bit) = place(psn);
            let run = left.min(WORD - bit);
            let mask = (u64::MAX >> (WORD - run)) << bit;
            if seen {
                self.bits[word] |= mask;
            } else {
                self.bits[word] &= !mask;
            }
            psn += run;
            left -= run;
        }
    }
}

fn place(psn: u32) -> (usize, u32) {
    let at = psn % WINDOW;
    (usize::try_from(at / WORD).unwrap_or_default(), at % WORD)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn agrees_with_a_set() {
        let first = Psn::new(0xff_ff00);
        let mut window = Window::new(first);
        let mut seen = BTreeSet::from([0_u32]);
        let mut highest = 0;
        // Steps, and how many of the last PSNs are marked after each.
        for (step, marked) in [(1, 1), (3, 1), (300, 200), (64, 64), (1, 0), (5000, 1), (63, 2)] {
            highest += step;
            window.advance(first.add(highest));
            window.mark(first.add(highest + 1 - marked), marked);
            seen.extend(highest + 1 - marked..=highest);
            for offset in 0..=highest {
                assert_eq!(window.contains(first.add(offset)), seen.contains(&offset), "{offset}");
            }
            assert!(!window.contains(first.add(highest + 1)));
        }
    }

    #[test]
    fn what_is_far_behind_is_forgotten() {
        let first = Psn::new(7);
        let mut window = Window::new(first);
        window.advance(first.add(WINDOW - 1));
        assert!(window.contains(first));
        window.advance(first.add(WINDOW));
        assert!(!window.contains(first) && !window.contains(first.add(WINDOW)));
        // A READ of more than the window.
        window.advance(first.add(10 * WINDOW));
        window.mark(first.add(WINDOW + 1), 9 * WINDOW);
        assert!(window.contains(first.add(10 * WINDOW)));
        assert!(window.contains(first.add(9 * WINDOW + 1)));
        assert!(!window.contains(first.add(9 * WINDOW)));
    }
}
