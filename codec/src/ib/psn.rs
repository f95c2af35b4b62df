//! Packet sequence numbers.

use core::fmt;

/// A packet sequence number: 24 bits that wrap, compared only by distance (IBTA 9.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Half of the number space: PSNs up to this far behind the expected one are duplicates, the
    /// others lie ahead; no more than this may be outstanding (IBTA C9-58).
    pub const HALF: u32 = 1 << 23;

    const MASK: u32 = 0x00ff_ffff;

    /// From the lower 24 bits of `value`.
    #[inline]
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The number, 0 to 0xFFFFFF.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later.
    #[inline]
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The PSN `count` packets earlier.
    #[inline]
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// The PSN after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// How far this PSN lies after `other`: −2²³ to 2²³ − 1, negative when before.
    #[inline]
    #[must_use]
    pub const fn distance_from(self, other: Self) -> i32 {
        let distance = self.0.wrapping_sub(other.0) << 8;
        distance.cast_signed() >> 8
    }

    /// Whether this PSN comes before `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether this PSN comes after `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Whether this PSN lies in `first..=last`.
    #[inline]
    #[must_use]
    pub const fn is_within(self, first: Self, last: Self) -> bool {
        !self.is_before(first) && !self.is_after(last)
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_wraps() {
        let top = Psn::new(0x00ff_fffe);
        assert_eq!(top.add(3), Psn::new(1));
        assert_eq!(Psn::new(1).distance_from(top), 3);
        assert_eq!(top.distance_from(Psn::new(1)), -3);
        assert!(top.is_before(Psn::new(1)));
        assert!(Psn::new(1).is_after(top));
        assert!(Psn::new(0).is_within(top, Psn::new(1)));
        assert!(!Psn::new(2).is_within(top, Psn::new(1)));
        assert_eq!(Psn::new(1).sub(3), top);
    }

    #[test]
    fn the_split_lies_at_half_the_space() {
        let here = Psn::new(5);
        assert_eq!(here.add(Psn::HALF - 1).distance_from(here), 0x7f_ffff);
        assert_eq!(here.add(Psn::HALF).distance_from(here), -0x80_0000);
        assert!(here.add(Psn::HALF).is_before(here));
    }
}
