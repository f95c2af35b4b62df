//! Times as messages carry them: a power of two of 4.096 µs.

use core::fmt;

/// A time in 5 bits: 4.096 µs · 2ⁿ, from 4.096 µs to 2.4 hours (IBTA Vol. 1, 12.7).
///
/// As a local ACK timeout, 0 means that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Timeout(u8);

impl Timeout {
    /// The longest: 4.096 µs · 2³¹, 2.4 hours.
    pub const MAX: Self = Self(31);

    const UNIT_NS: u64 = 4096;

    /// From the lower 5 bits of a code.
    #[must_use]
    pub const fn new(code: u8) -> Self {
        Self(code & 0x1f)
    }

    /// The code, 0 to 31.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        Self::UNIT_NS << self.0
    }

    /// The shortest one of at least `ns` nanoseconds; [`Timeout::MAX`] if none is that long.
    #[must_use]
    pub fn at_least_ns(ns: u64) -> Self {
        (0..Self::MAX.0).map(Self).find(|timeout| timeout.ns() >= ns).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        for (code, ns) in
            [(0, 4_096), (1, 8_192), (14, 67_108_864), (20, 4_294_967_296), (31, 8_796_093_022_208)]
        {
            assert_eq!(Timeout::new(code).ns(), ns);
            assert_eq!(Timeout::at_least_ns(ns).code(), code);
            assert_eq!(Timeout::at_least_ns(ns - 1).code(), code);
            assert_eq!(Timeout::at_least_ns(ns + 1).code(), (code + 1).min(31));
        }
        assert_eq!(Timeout::at_least_ns(0).code(), 0);
        assert_eq!(Timeout::at_least_ns(u64::MAX), Timeout::MAX);
        assert_eq!(Timeout::new(0xff).code(), 31);
    }
}
