//! The numbers that name things.

use core::fmt;

/// A number of 24 bits with the usual conveniences.
macro_rules! id24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            /// From the lower 24 bits of `value`.
            #[inline]
            #[must_use]
            pub const fn new(value: u32) -> Self {
                Self(value & 0x00ff_ffff)
            }

            /// The number, 0 to 0xFFFFFF.
            #[inline]
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#08x})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#08x}", self.0)
            }
        }
    };
}

id24! {
    /// A queue pair number, 24 bits.
    Qpn
}

impl Qpn {
    /// The subnet management QP (unused on RoCE).
    pub const SMI: Self = Self(0);
    /// The general service QP, on which the connection manager speaks.
    pub const GSI: Self = Self(1);
    /// The destination of multicast packets.
    pub const MULTICAST: Self = Self(0x00ff_ffff);
}

id24! {
    /// A message sequence number, 24 bits: messages the responder has completed.
    Msn
}

impl Msn {
    /// The number after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }
}

id24! {
    /// An end-to-end context number of reliable datagrams, 24 bits; 0 for every other service.
    Eecn
}

id24! {
    /// A shared receive queue number, 24 bits.
    Srqn
}

/// A local identifier: a port's address within its InfiniBand subnet, 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lid(pub u16);

impl Lid {
    /// Whoever is at the other end of the link.
    pub const PERMISSIVE: Self = Self(0xffff);
}

/// A partition key: 15 bits of key and a membership bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full member.
    pub const DEFAULT: Self = Self(0xffff);

    /// Whether packets with one key may reach a QP with the other: the same non-zero 15 bits,
    /// and at least one full member (IBTA 10.9.3).
    #[inline]
    #[must_use]
    pub const fn matches(self, other: Self) -> bool {
        let key = self.0 & 0x7fff;
        key != 0 && key == other.0 & 0x7fff && (self.0 | other.0) & 0x8000 != 0
    }
}

impl Default for PKey {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A queue key of a datagram QP, 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct QKey(pub u32);

impl QKey {
    /// The well-known key of QP1.
    pub const GSI: Self = Self(0x8001_0000);
}

/// A remote key: names a region to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RKey(pub u32);

/// A local key: names a region in a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LKey(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkey_match_rule() {
        assert!(PKey(0x2a00).matches(PKey(0xaa00)));
        assert!(PKey(0xaa00).matches(PKey(0xaa00)));
        assert!(!PKey(0x2a00).matches(PKey(0x2a00)), "two limited members");
        assert!(!PKey(0x8000).matches(PKey(0xffff)), "zero key");
        assert!(!PKey(0x8000).matches(PKey(0x8000)), "zero key");
        assert!(!PKey(0xaa00).matches(PKey(0xaa01)));
    }

    #[test]
    fn twenty_four_bits() {
        assert_eq!(Qpn::new(0xff12_3456).get(), 0x12_3456);
        assert_eq!(Msn::new(0x00ff_ffff).next(), Msn::new(0));
    }
}
