//! Protection domains, memory regions and their keys.

use core::fmt;
use core::ops::BitOr;

use roce_codec::ib::{LKey, RKey};

use crate::backing::Addr;
use crate::config::Entropy;
use crate::pool::{Link, Linked, Pool};

/// A protection domain: queue pairs reach only regions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pd(pub(crate) u32);

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
    /// What any memory offers: all but [`FLUSH_PERSISTENT`](Self::FLUSH_PERSISTENT), which not
    /// every memory has, and [`REMOTE_INVALIDATE`](Self::REMOTE_INVALIDATE), which ends the
    /// others.
    pub const ALL: Self = Self(31);

    /// Whether all of `other` is granted.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
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
        ];
        f.debug_set()
            .entries(names.iter().filter(|(access, _)| self.contains(*access)).map(|(_, n)| n))
            .finish()
    }
}

/// A region to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MrAttr {
    /// The protection domain.
    pub pd: Pd,
    /// The virtual address by which peers and work requests name its first byte.
    pub va: u64,
    /// Bytes; `va + len` must not pass 2⁶⁴.
    pub len: u64,
    /// What may be done with it.
    pub access: Access,
    /// Where its bytes are; handed to [`Backing`](crate::Backing) as they stand.
    pub backing: Addr,
}

/// A registered region: its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mr {
    /// For work requests.
    pub lkey: LKey,
    /// For peers.
    pub rkey: RKey,
}

/// Why a region was not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// All region slots are taken.
    NoSlot,
    /// The range passes the end of the address space.
    Range,
    /// No region has this key.
    UnknownKey,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "all memory region slots are taken",
            Self::Range => "the range passes the end of the address space",
            Self::UnknownKey => "no memory region has this key",
        })
    }
}

impl core::error::Error for MemoryError {}

/// Why an access was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessFault {
    Key,
    Pd,
    Rights,
    Range,
}

/// One memory region slot; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct MrSlot {
    link: Link,
    live: bool,
    /// The R_Key has been taken away; the L_Key is good for as long as the region lives.
    invalidated: bool,
    rkey: u32,
    lkey: u32,
    pd: u32,
    access: Access,
    va: u64,
    len: u64,
    backing: Addr,
}

impl MrSlot {
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        live: false,
        invalidated: false,
        rkey: 0,
        lkey: 0,
        pd: 0,
        access: Access::NONE,
        va: 0,
        len: 0,
        backing: Addr { region: 0, offset: 0 },
    };
}

impl Linked for MrSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// The regions. A key is a slot number in its lower bits and a random tag above; a freed slot
/// waits behind all the others before it is used again, and its next tags differ from the last.
#[derive(Debug)]
pub(crate) struct MrTable<'s> {
    pool: Pool<'s, MrSlot>,
    index_bits: u32,
}

impl<'s> MrTable<'s> {
    pub(crate) fn new(slots: &'s mut [MrSlot]) -> Self {
        let index_bits = usize::BITS - slots.len().saturating_sub(1).leading_zeros();
        // A 32-bit key keeps at least eight bits of tag.
        Self { pool: Pool::new(slots), index_bits: index_bits.min(24) }
    }

    pub(crate) fn register(
        &mut self,
        attr: &MrAttr,
        entropy: &mut impl Entropy,
    ) -> Result<Mr, MemoryError> {
        attr.va.checked_add(attr.len).ok_or(MemoryError::Range)?;
        attr.backing.offset.checked_add(attr.len).ok_or(MemoryError::Range)?;
        let index = self.pool.take().ok_or(MemoryError::NoSlot)?;
        let bits = self.index_bits;
        let Some(slot) = self.pool.get_mut(index).filter(|_| index >> bits == 0) else {
            return Err(MemoryError::NoSlot);
        };
        let mut key = |last: u32| loop {
            let key = entropy.next_u32() << bits | index;
            // Key 0 is what an uninitialised work request holds; the last tag may still be in
            // flight.
            if key != last && key != 0 {
                return key;
            }
        };
        let (rkey, lkey) = (key(slot.rkey), key(slot.lkey));
        *slot = MrSlot {
            link: Link::NONE,
            live: true,
            invalidated: false,
            rkey,
            lkey,
            pd: attr.pd.0,
            access: attr.access,
            va: attr.va,
            len: attr.len,
            backing: attr.backing,
        };
        Ok(Mr { lkey: LKey(lkey), rkey: RKey(rkey) })
    }

    pub(crate) fn deregister(&mut self, rkey: RKey) -> Result<(), MemoryError> {
        let index = self.index_of(rkey.0);
        let slot = self
            .pool
            .get_mut(index)
            .filter(|slot| slot.live && slot.rkey == rkey.0)
            .ok_or(MemoryError::UnknownKey)?;
        slot.live = false;
        self.pool.give(index);
        Ok(())
    }

    #[inline]
    fn index_of(&self, key: u32) -> u32 {
        key & !(u32::MAX << self.index_bits)
    }

    /// Checks an access by the peer: key, protection domain, rights, range.
    #[inline]
    pub(crate) fn remote(
        &self,
        rkey: RKey,
        pd: Pd,
        va: u64,
        len: u32,
        need: Access,
    ) -> Result<Addr, AccessFault> {
        self.of_rkey(rkey)?.check(pd, va, len, need)
    }

    /// The region whose R_Key this is, unless it has been taken away.
    #[inline]
    fn of_rkey(&self, rkey: RKey) -> Result<&MrSlot, AccessFault> {
        let slot = self.pool.get(self.index_of(rkey.0)).ok_or(AccessFault::Key)?;
        if slot.rkey != rkey.0 || slot.invalidated {
            return Err(AccessFault::Key);
        }
        Ok(slot)
    }

    /// Checks an access by the peer to a whole region: key, protection domain, rights.
    pub(crate) fn whole_region(
        &self,
        rkey: RKey,
        pd: Pd,
        need: Access,
    ) -> Result<(Addr, u64), AccessFault> {
        let slot = self.of_rkey(rkey)?;
        slot.check_rights(pd, need)?;
        Ok((slot.backing, slot.len))
    }

    /// Checks whether a peer may take this key away: key, protection domain, right.
    pub(crate) fn may_invalidate(&self, rkey: RKey, pd: Pd) -> Result<(), AccessFault> {
        self.of_rkey(rkey)?.check_rights(pd, Access::REMOTE_INVALIDATE)
    }

    /// Takes an R_Key away. The region stays until it is deregistered.
    pub(crate) fn invalidate(&mut self, rkey: RKey) {
        let index = self.index_of(rkey.0);
        if let Some(slot) = self.pool.get_mut(index).filter(|slot| slot.rkey == rkey.0) {
            slot.invalidated = true;
        }
    }

    /// Checks an access by a work request.
    #[inline]
    pub(crate) fn local(
        &self,
        lkey: LKey,
        pd: Pd,
        va: u64,
        len: u32,
        need: Access,
    ) -> Result<Addr, AccessFault> {
        let slot = self.pool.get(self.index_of(lkey.0)).ok_or(AccessFault::Key)?;
        if slot.lkey != lkey.0 {
            return Err(AccessFault::Key);
        }
        slot.check(pd, va, len, need)
    }
}

impl MrSlot {
    #[inline]
    fn check_rights(&self, pd: Pd, need: Access) -> Result<(), AccessFault> {
        if !self.live {
            return Err(AccessFault::Key);
        }
        if self.pd != pd.0 {
            return Err(AccessFault::Pd);
        }
        if self.access.contains(need) { Ok(()) } else { Err(AccessFault::Rights) }
    }

    #[inline]
    fn check(&self, pd: Pd, va: u64, len: u32, need: Access) -> Result<Addr, AccessFault> {
        self.check_rights(pd, need)?;
        // Nothing here can wrap: the offset is at most what `checked_sub` leaves.
        let offset = va.checked_sub(self.va).ok_or(AccessFault::Range)?;
        let room = self.len.checked_sub(offset).ok_or(AccessFault::Range)?;
        if u64::from(len) > room {
            return Err(AccessFault::Range);
        }
        Ok(Addr { region: self.backing.region, offset: self.backing.offset + offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SeededEntropy;

    const ATTR: MrAttr = MrAttr {
        pd: Pd(1),
        va: 0x1000,
        len: 100,
        access: Access(Access::REMOTE_WRITE.0 | Access::LOCAL_WRITE.0),
        backing: Addr { region: 7, offset: 50 },
    };

    #[test]
    fn every_check_is_made() {
        let mut slots = [MrSlot::EMPTY; 5];
        let mut table = MrTable::new(&mut slots);
        let mr = table.register(&ATTR, &mut SeededEntropy::new(1)).unwrap();
        let write = Access::REMOTE_WRITE;
        let at = |offset| Ok(Addr { region: 7, offset });
        let remote = |va, len| table.remote(mr.rkey, Pd(1), va, len, write);
        assert_eq!(remote(0x1000, 100), at(50));
        assert_eq!(remote(0x1000 + 99, 1), at(149));
        assert_eq!(remote(0x1000 + 100, 0), at(150));
        for (va, len) in [
            (0x0fff, 1),
            (0x0fff, 2),
            (0x1000, 101),
            (0x1001, 100),
            (0x1000 + 101, 0),
            (u64::MAX, 1),
            (u64::MAX - 0x3ff, 0x400),
            (0x1000, u32::MAX),
        ] {
            assert_eq!(remote(va, len), Err(AccessFault::Range), "{va:#x}+{len}");
        }
        let fault = |key, pd, need| table.remote(key, pd, 0x1000, 1, need);
        assert_eq!(fault(mr.rkey, Pd(2), write), Err(AccessFault::Pd));
        assert_eq!(fault(mr.rkey, Pd(1), Access::REMOTE_READ), Err(AccessFault::Rights));
        assert_eq!(fault(mr.rkey, Pd(1), write | Access::REMOTE_ATOMIC), Err(AccessFault::Rights));
        for bit in 0..32 {
            let key = RKey(mr.rkey.0 ^ 1 << bit);
            assert_eq!(fault(key, Pd(1), write), Err(AccessFault::Key), "bit {bit}");
        }
        assert_eq!(
            table.local(LKey(mr.rkey.0), Pd(1), 0x1000, 1, Access::NONE),
            Err(AccessFault::Key),
            "an R_Key is no L_Key"
        );
        assert_eq!(table.local(mr.lkey, Pd(1), 0x1000, 1, Access::LOCAL_WRITE), at(50));
    }

    #[test]
    fn a_freed_key_is_dead_and_its_slot_waits() {
        let mut slots = [MrSlot::EMPTY; 3];
        let mut table = MrTable::new(&mut slots);
        let mut entropy = SeededEntropy::new(2);
        let all: [Mr; 3] = core::array::from_fn(|_| table.register(&ATTR, &mut entropy).unwrap());
        assert_eq!(table.register(&ATTR, &mut entropy), Err(MemoryError::NoSlot));
        for mr in all {
            table.deregister(mr.rkey).unwrap();
            assert_eq!(table.deregister(mr.rkey), Err(MemoryError::UnknownKey));
            assert!(table.remote(mr.rkey, Pd(1), 0x1000, 1, Access::REMOTE_WRITE).is_err());
        }
        for old in all {
            let new = table.register(&ATTR, &mut entropy).unwrap();
            assert_eq!(table.index_of(new.rkey.0), table.index_of(old.rkey.0), "oldest first");
            assert_ne!(new.rkey, old.rkey);
            assert_ne!(new.lkey, old.lkey);
        }
    }

    #[test]
    fn an_invalidated_key_is_dead_and_the_region_is_not() {
        let mut slots = [MrSlot::EMPTY; 2];
        let mut table = MrTable::new(&mut slots);
        let attr = MrAttr { access: ATTR.access | Access::REMOTE_INVALIDATE, ..ATTR };
        let mr = table.register(&attr, &mut SeededEntropy::new(4)).unwrap();
        let other = table.register(&ATTR, &mut SeededEntropy::new(5)).unwrap();
        assert_eq!(table.may_invalidate(other.rkey, Pd(1)), Err(AccessFault::Rights));
        assert_eq!(table.may_invalidate(mr.rkey, Pd(2)), Err(AccessFault::Pd));
        assert_eq!(table.may_invalidate(RKey(mr.lkey.0), Pd(1)), Err(AccessFault::Key));
        assert_eq!(table.may_invalidate(mr.rkey, Pd(1)), Ok(()));
        table.invalidate(mr.rkey);
        let write = Access::REMOTE_WRITE;
        assert_eq!(table.remote(mr.rkey, Pd(1), 0x1000, 1, write), Err(AccessFault::Key));
        assert_eq!(table.may_invalidate(mr.rkey, Pd(1)), Err(AccessFault::Key), "once");
        assert!(table.local(mr.lkey, Pd(1), 0x1000, 1, Access::LOCAL_WRITE).is_ok());
        assert!(table.remote(other.rkey, Pd(1), 0x1000, 1, write).is_ok());
        assert_eq!(table.deregister(mr.rkey), Ok(()));
        let again = table.register(&attr, &mut SeededEntropy::new(6)).unwrap();
        assert!(table.remote(again.rkey, Pd(1), 0x1000, 1, write).is_ok());
    }

    #[test]
    fn ranges_that_wrap_are_not_registered() {
        let mut slots = [MrSlot::EMPTY; 1];
        let mut table = MrTable::new(&mut slots);
        let attr = MrAttr { va: u64::MAX - 10, len: 11, ..ATTR };
        let error = table.register(&attr, &mut SeededEntropy::new(3));
        assert_eq!(error, Err(MemoryError::Range));
    }
}
