//! Numbers from a seed.

use roce_engine::{Entropy, SeededEntropy};

/// A generator of pseudo-random choices.
#[derive(Debug, Clone)]
pub struct Random(SeededEntropy);

impl Random {
    /// From a seed; the same seed makes the same choices.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of a remainder does not matter below 2³².
        self.bits().checked_rem(end).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An index below `len`.
    ///
    /// # Panics
    /// Never: an index below a `usize` is one.
    pub fn index(&mut self, len: usize) -> usize {
        let end = u64::try_from(len).expect("a usize fits");
        usize::try_from(self.below(end)).expect("below a usize")
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// Never: a number below a `u32` is one.
    pub fn below_u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(u64::from(end))).expect("below a u32")
    }

    /// Whether something that happens once in `n` times happens.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Whether something that happens `permille` times in a thousand happens.
    pub fn strikes(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// One of several.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}

impl Entropy for Random {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!(random.below(7) < 7);
            assert!((3..=5).contains(&random.within(3, 5)));
            assert!(random.index(2) < 2);
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.strikes(0));
        assert!(random.strikes(1000));
        let struck = (0..10_000).filter(|_| random.strikes(200)).count();
        assert!((1800..2200).contains(&struck), "{struck}");
    }

    #[test]
    fn a_seed_repeats() {
        let draw = |seed| {
            let mut out = [0; 13];
            Random::new(seed).fill(&mut out);
            out
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
