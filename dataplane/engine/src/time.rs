//! Time, which the caller owns.

use core::fmt;

/// A point in time: nanoseconds since an origin of the caller's choice. The engine never reads a
/// clock; a time that goes backwards is taken as the latest one seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// This instant and `ns` nanoseconds; the end of time if that overflows.
    #[inline]
    #[must_use]
    pub const fn add_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `earlier`; 0 if it is later.
    #[inline]
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
