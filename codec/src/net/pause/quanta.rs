//! The unit in which pauses are counted.

use core::num::NonZeroU64;

/// A time in quanta of 512 bits at the speed of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PauseQuanta(pub u16);

impl PauseQuanta {
    /// Bits of one quantum.
    pub const BITS: u64 = 512;

    /// The longest pause; a sender that wants a longer one repeats it.
    pub const MAX: Self = Self(u16::MAX);

    /// How many nanoseconds that is on a link of `bits_per_second`, rounded up: the peer must not
    /// send before.
    #[must_use]
    pub fn ns(self, bits_per_second: NonZeroU64) -> u64 {
        // 65535 · 512 · 10⁹ is below 2⁶⁴.
        let bits = u64::from(self.0).wrapping_mul(Self::BITS).wrapping_mul(1_000_000_000);
        let rest = u64::from(bits % bits_per_second != 0);
        (bits / bits_per_second).wrapping_add(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gigabits(rate: u64) -> NonZeroU64 {
        NonZeroU64::new(rate * 1_000_000_000).unwrap()
    }

    #[test]
    fn the_longest_pause() {
        // 65535 · 512 bits: 1.342 ms, 839 us, 335.5 us and 83.9 us.
        for (rate, ns) in [(25, 1_342_157), (40, 838_848), (100, 335_540), (400, 83_885)] {
            assert_eq!(PauseQuanta::MAX.ns(gigabits(rate)), ns, "{rate}G");
        }
    }

    #[test]
    fn one_quantum() {
        assert_eq!(PauseQuanta(0).ns(gigabits(100)), 0);
        assert_eq!(PauseQuanta(1).ns(gigabits(1)), 512);
        assert_eq!(PauseQuanta(1).ns(gigabits(100)), 6, "5.12 ns");
        assert_eq!(PauseQuanta(1).ns(NonZeroU64::MIN), 512_000_000_000, "one bit a second");
        assert_eq!(PauseQuanta::MAX.ns(NonZeroU64::MAX), 1);
    }
}
