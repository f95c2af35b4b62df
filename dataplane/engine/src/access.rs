//! Rights to memory.

use core::fmt;
use core::ops::BitOr;

/// What may be done with a region, or by way of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access(u8);

impl Access {
    /// Reading by local work requests, always granted.
    pub const NONE: Self = Self(0);
    /// Writing by local work requests: receives, READ answers, atomic results.
    pub const LOCAL_WRITE: Self = Self(1);
    /// RDMA WRITE by the peer.
    pub const REMOTE_WRITE: Self = Self(2);
    /// RDMA READ by the peer.
    pub const REMOTE_READ: Self = Self(4);
    /// Atomics by the peer.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// FLUSH by the peer, for global visibility.
    pub const FLUSH_GLOBAL: Self = Self(16);
    /// FLUSH by the peer, for persistence; only of memory whose
    /// [`Backing`](crate::Backing) can.
    pub const FLUSH_PERSISTENT: Self = Self(32);
    /// Taking the region's R_Key away, by a SEND with invalidate of the peer's. Asked of the
    /// region alone: a queue pair neither grants nor denies it.
    pub const REMOTE_INVALIDATE: Self = Self(64);
    /// Binding memory windows to the region.
    pub const MW_BIND: Self = Self(128);
    /// What any memory offers: all but [`FLUSH_PERSISTENT`](Self::FLUSH_PERSISTENT), which not
    /// every memory has, [`REMOTE_INVALIDATE`](Self::REMOTE_INVALIDATE), which ends the others,
    /// and [`MW_BIND`](Self::MW_BIND), which hands them on.
    pub const ALL: Self = Self(31);

    /// Whether all of `other` is granted.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What either grants.
    #[inline]
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both grant.
    #[inline]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.or(other)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::LOCAL_WRITE, "local write"),
            (Self::REMOTE_WRITE, "remote write"),
            (Self::REMOTE_READ, "remote read"),
            (Self::REMOTE_ATOMIC, "remote atomic"),
            (Self::FLUSH_GLOBAL, "flush to global visibility"),
            (Self::FLUSH_PERSISTENT, "flush to persistence"),
            (Self::REMOTE_INVALIDATE, "remote invalidate"),
            (Self::MW_BIND, "memory window bind"),
        ];
        f.debug_set()
            .entries(names.iter().filter(|(access, _)| self.contains(*access)).map(|(_, n)| n))
            .finish()
    }
}
