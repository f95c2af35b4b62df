//! Protection domains, memory regions and their keys.

use core::fmt;

use roce_codec::ib::{LKey, Qpn, RKey};

use crate::access::Access;
use crate::backing::Addr;
use crate::config::Entropy;
use crate::pool::{Link, Linked, Pool};
use crate::window::MwType;

/// A protection domain: queue pairs reach only regions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pd(pub(crate) u32);

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
    /// Memory windows are bound to the region.
    WindowsBound,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlot => "all memory region slots are taken",
            Self::Range => "the range passes the end of the address space",
            Self::UnknownKey => "no memory region has this key",
            Self::WindowsBound => "memory windows are bound to the region",
        })
    }
}

impl core::error::Error for MemoryError {}

/// Why an access was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessFault {
    Key,
    Pd,
    Qp,
    Rights,
    Range,
}

/// By which queue pair an access comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Via {
    pub(crate) pd: Pd,
    pub(crate) qp: Qpn,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Free,
    Region,
    Window(MwType),
}

/// One memory region or window; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct MrSlot {
    pub(crate) link: Link,
    pub(crate) kind: Kind,
    /// The R_Key has been taken away, or the window is not bound; a region's L_Key is good for as
    /// long as the region lives.
    pub(crate) invalidated: bool,
    pub(crate) rkey: u32,
    pub(crate) lkey: u32,
    pub(crate) pd: u32,
    pub(crate) access: Access,
    pub(crate) va: u64,
    pub(crate) len: u64,
    pub(crate) backing: Addr,
    /// Of a region: how many windows are bound to it.
    pub(crate) windows: u32,
    /// Of a window: its region's slot.
    pub(crate) region: u32,
    /// The queue pair that alone may use it; 0 if all may.
    pub(crate) qp: Qpn,
}

impl MrSlot {
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        kind: Kind::Free,
        invalidated: false,
        rkey: 0,
        lkey: 0,
        pd: 0,
        access: Access::NONE,
        va: 0,
        len: 0,
        backing: Addr { region: 0, offset: 0 },
        windows: 0,
        region: 0,
        qp: Qpn::new(0),
    };
}

impl Linked for MrSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Bits of tag below the slot number: what the specification leaves to a window's owner.
const TAG_BITS: u32 = 8;

/// The regions and windows. A key is eight bits of tag, a slot number, and more tag above; the tag
/// is random, but for the lower eight bits of a window's. A freed slot waits behind all the others
/// before it is used again, and its next tags differ from the last.
#[derive(Debug)]
pub(crate) struct MrTable<'s> {
    pub(crate) pool: Pool<'s, MrSlot>,
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
        let index = self.take()?;
        let Some(last) = self.pool.get(index).copied() else { return Err(MemoryError::NoSlot) };
        let rkey = self.new_key(index, last.rkey, entropy);
        let lkey = self.new_key(index, last.lkey, entropy);
        if let Some(slot) = self.pool.get_mut(index) {
            *slot = MrSlot {
                kind: Kind::Region,
                rkey,
                lkey,
                pd: attr.pd.0,
                access: attr.access,
                va: attr.va,
                len: attr.len,
                backing: attr.backing,
                ..MrSlot::EMPTY
            };
        }
        Ok(Mr { lkey: LKey(lkey), rkey: RKey(rkey) })
    }

    /// A slot that a key can name.
    pub(crate) fn take(&mut self) -> Result<u32, MemoryError> {
        let index = self.pool.take().ok_or(MemoryError::NoSlot)?;
        if index >> self.index_bits == 0 { Ok(index) } else { Err(MemoryError::NoSlot) }
    }

    /// A new key for a slot.
    pub(crate) fn new_key(&self, index: u32, last: u32, entropy: &mut impl Entropy) -> u32 {
        loop {
            let tag = entropy.next_u32() & !(self.index_mask() << TAG_BITS);
            let key = tag | index << TAG_BITS;
            // Key 0 is what an uninitialised work request holds; the last tag may still be in
            // flight.
            if key != last && key != 0 {
                return key;
            }
        }
    }

    const fn index_mask(&self) -> u32 {
        !(u32::MAX << self.index_bits)
    }

    pub(crate) fn deregister(&mut self, rkey: RKey) -> Result<(), MemoryError> {
        let index = self.index_of(rkey.0);
        let slot = self
            .pool
            .get_mut(index)
            .filter(|slot| slot.kind == Kind::Region && slot.rkey == rkey.0)
            .ok_or(MemoryError::UnknownKey)?;
        // IBTA 10.6.7.
        if slot.windows > 0 {
            return Err(MemoryError::WindowsBound);
        }
        slot.kind = Kind::Free;
        self.pool.give(index);
        Ok(())
    }

    #[inline]
    pub(crate) fn index_of(&self, key: u32) -> u32 {
        key >> TAG_BITS & self.index_mask()
    }

    /// Checks an access by the peer: key, protection domain, rights, range.
    #[inline]
    pub(crate) fn remote(
        &self,
        rkey: RKey,
        via: Via,
        va: u64,
        len: u32,
        need: Access,
    ) -> Result<Addr, AccessFault> {
        self.of_rkey(rkey)?.check(via, va, len, need)
    }

    /// The region or window whose R_Key this is, unless it has been taken away.
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
        via: Via,
        need: Access,
    ) -> Result<(Addr, u64), AccessFault> {
        let slot = self.of_rkey(rkey)?;
        slot.check_rights(via, need)?;
        Ok((slot.backing, slot.len))
    }

    /// Checks whether this key may be taken away by way of a queue pair: a window of type 2 by
    /// whom it was bound, a region that has the right and no windows (IBTA 10.6.7.2).
    pub(crate) fn may_invalidate(&self, rkey: RKey, via: Via) -> Result<(), AccessFault> {
        let slot = self.of_rkey(rkey)?;
        let need = match slot.kind {
            Kind::Window(MwType::Type2) => Access::NONE,
            Kind::Region if slot.windows == 0 => Access::REMOTE_INVALIDATE,
            _ => return Err(AccessFault::Rights),
        };
        slot.check_rights(via, need)
    }

    /// Takes an R_Key away: a region stays until it is deregistered, a window is closed. Says which
    /// queue pair alone could use it.
    pub(crate) fn invalidate(&mut self, rkey: RKey) -> Option<Qpn> {
        let index = self.index_of(rkey.0);
        let slot = self.pool.get_mut(index).filter(|slot| slot.rkey == rkey.0)?;
        if slot.kind != Kind::Region {
            return self.unbind(index);
        }
        slot.invalidated = true;
        None
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
        // A window has no L_Key.
        if slot.lkey != lkey.0 || slot.kind != Kind::Region {
            return Err(AccessFault::Key);
        }
        slot.check(Via { pd, qp: Qpn::new(0) }, va, len, need)
    }
}

impl MrSlot {
    #[inline]
    fn check_rights(&self, via: Via, need: Access) -> Result<(), AccessFault> {
        if self.kind == Kind::Free {
            return Err(AccessFault::Key);
        }
        if self.pd != via.pd.0 {
            return Err(AccessFault::Pd);
        }
        // IBTA 10.6.7: a window of type 2 is for the queue pair that bound it.
        if self.qp != Qpn::new(0) && self.qp != via.qp {
            return Err(AccessFault::Qp);
        }
        if self.access.contains(need) { Ok(()) } else { Err(AccessFault::Rights) }
    }

    #[inline]
    fn check(&self, via: Via, va: u64, len: u32, need: Access) -> Result<Addr, AccessFault> {
        self.check_rights(via, need)?;
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

    const fn via(pd: u32) -> Via {
        Via { pd: Pd(pd), qp: Qpn::new(7) }
    }

    const ATTR: MrAttr = MrAttr {
        pd: Pd(1),
        va: 0x1000,
        len: 100,
        access: Access::REMOTE_WRITE.or(Access::LOCAL_WRITE),
        backing: Addr { region: 7, offset: 50 },
    };

    #[test]
    fn every_check_is_made() {
        let mut slots = [MrSlot::EMPTY; 5];
        let mut table = MrTable::new(&mut slots);
        let mr = table.register(&ATTR, &mut SeededEntropy::new(1)).unwrap();
        let write = Access::REMOTE_WRITE;
        let at = |offset| Ok(Addr { region: 7, offset });
        let remote = |va, len| table.remote(mr.rkey, via(1), va, len, write);
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
        let fault = |key, via, need| table.remote(key, via, 0x1000, 1, need);
        assert_eq!(fault(mr.rkey, via(2), write), Err(AccessFault::Pd));
        assert_eq!(fault(mr.rkey, via(1), Access::REMOTE_READ), Err(AccessFault::Rights));
        assert_eq!(fault(mr.rkey, via(1), write | Access::REMOTE_ATOMIC), Err(AccessFault::Rights));
        for bit in 0..32 {
            let key = RKey(mr.rkey.0 ^ 1 << bit);
            assert_eq!(fault(key, via(1), write), Err(AccessFault::Key), "bit {bit}");
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
            assert!(table.remote(mr.rkey, via(1), 0x1000, 1, Access::REMOTE_WRITE).is_err());
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
        assert_eq!(table.may_invalidate(other.rkey, via(1)), Err(AccessFault::Rights));
        assert_eq!(table.may_invalidate(mr.rkey, via(2)), Err(AccessFault::Pd));
        assert_eq!(table.may_invalidate(RKey(mr.lkey.0), via(1)), Err(AccessFault::Key));
        assert_eq!(table.may_invalidate(mr.rkey, via(1)), Ok(()));
        table.invalidate(mr.rkey);
        let write = Access::REMOTE_WRITE;
        assert_eq!(table.remote(mr.rkey, via(1), 0x1000, 1, write), Err(AccessFault::Key));
        assert_eq!(table.may_invalidate(mr.rkey, via(1)), Err(AccessFault::Key), "once");
        assert!(table.local(mr.lkey, Pd(1), 0x1000, 1, Access::LOCAL_WRITE).is_ok());
        assert!(table.remote(other.rkey, via(1), 0x1000, 1, write).is_ok());
        assert_eq!(table.deregister(mr.rkey), Ok(()));
        let again = table.register(&attr, &mut SeededEntropy::new(6)).unwrap();
        assert!(table.remote(again.rkey, via(1), 0x1000, 1, write).is_ok());
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
