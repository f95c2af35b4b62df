//! Pseudo-random numbers: the same seed, the same numbers, on every machine.

/// SplitMix64: each step is a permutation of 64 bits, so that no seed is a bad one.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> u32 {
        let [.., a, b, c, d] = self.u64().to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    /// A number below `bound`; 0 if that is 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let scaled = u64::from(self.u32()) * u64::from(bound);
        u32::try_from(scaled >> 32).unwrap_or_default()
    }

    /// Whether something happens that does so once in `times`.
    #[inline]
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// Nanoseconds from `least` up to, but not including, `least + spread`.
    #[inline]
    pub(crate) fn ns(&mut self, least: u64, spread: u32) -> u64 {
        least + u64::from(self.below(spread))
    }

    /// Letters and the like (0x40 to 0x5F), which no dissector takes for a protocol of its own.
    pub(crate) fn letters(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            for (to, from) in chunk.iter_mut().zip(self.u64().to_le_bytes()) {
                *to = from & 0x1f | 0x40;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of SplitMix64 for the seed 1234567.
    #[test]
    fn known_numbers() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.u64(), random.u64(), random.u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = Random::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(random.below(5)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
