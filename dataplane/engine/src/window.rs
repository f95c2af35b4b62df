//! Memory windows (IBTA 10.6.7): rights to a part of a region that come and go without its being
//! registered anew.
//!
//! A window has an R_Key and a slot among the regions. Bound, it opens a range of a region to the
//! peer with rights of its own; the region itself need not be open to anybody. Type 1 is good for
//! every queue pair of its protection domain, and is bound anew at will. Type 2 is the
//! specification's 2B: good for the queue pair that it was bound by, of the same protection domain;
//! it has to be invalidated, by either end, before it is bound again.

use roce_codec::ib::{LKey, Qpn, RKey};

use crate::access::Access;
use crate::backing::Addr;
use crate::config::Entropy;
use crate::engine::Engine;
use crate::memory::{Kind, MemoryError, MrSlot, MrTable, Pd, Via};
use crate::wr::{PostError, SendWr, WrOpcode};

/// The types of memory windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MwType {
    /// Bound by [`Engine::bind_mw`]; any queue pair of its protection domain.
    Type1,
    /// Bound by [`WrOpcode::BindMw`]; the queue pair that bound it (2B).
    Type2,
}

/// A memory window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mw {
    /// Its R_Key: of the newest binding if its type is 1, and of its allocation if its type is 2.
    /// The lower eight bits change with each binding, the others name the window.
    pub rkey: RKey,
    /// Its type.
    pub kind: MwType,
}

impl Mw {
    /// Its R_Key with other lower eight bits, which whoever binds a window of type 2 chooses.
    #[must_use]
    pub const fn with_key(self, key: u8) -> RKey {
        RKey(self.rkey.0 & !TAG | key as u32)
    }

    /// The R_Key after this one, around 256.
    #[must_use]
    pub const fn next_rkey(self) -> RKey {
        RKey(self.rkey.0 & !TAG | self.rkey.0.wrapping_add(1) & TAG)
    }
}

/// The bits of a key that are its consumer's.
const TAG: u32 = 0xff;

/// What a window is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MwBindInfo {
    /// The region, which must have [`Access::MW_BIND`].
    pub lkey: LKey,
    /// Where the window begins.
    pub va: u64,
    /// Bytes. A window of type 1 is unbound by binding it to none.
    pub len: u64,
    /// What the peer may do through it. Writing and atomics need a region with
    /// [`Access::LOCAL_WRITE`], flushing one that may be flushed so.
    pub access: Access,
}

/// A request to bind a window of type 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MwBind {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// To what.
    pub info: MwBindInfo,
    /// Whether success is reported.
    pub signaled: bool,
    /// Whether it waits for the READs and atomics before it.
    pub fence: bool,
}

impl MwBind {
    /// A signaled request without fence.
    #[must_use]
    pub const fn new(wr_id: u64, info: MwBindInfo) -> Self {
        Self { wr_id, info, signaled: true, fence: false }
    }
}

/// A window could not be bound, or a key not be taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BindFault;

impl MrTable<'_> {
    fn alloc_window(
        &mut self,
        pd: Pd,
        kind: MwType,
        entropy: &mut impl Entropy,
    ) -> Result<Mw, MemoryError> {
        let index = self.take()?;
        let Some(slot) = self.pool.get(index) else { return Err(MemoryError::NoSlot) };
        let (rkey, lkey) = (self.new_key(index, slot.rkey, entropy), slot.lkey);
        if let Some(slot) = self.pool.get_mut(index) {
            // The last L_Key stays behind, so that it does not come again; it opens nothing.
            let kind = Kind::Window(kind);
            *slot = MrSlot { kind, invalidated: true, rkey, lkey, pd: pd.0, ..MrSlot::EMPTY };
        }
        Ok(Mw { rkey: RKey(rkey), kind })
    }

    /// The slot of a window, by any of its keys.
    pub(crate) fn window(&self, rkey: RKey) -> Option<(u32, MwType)> {
        let index = self.index_of(rkey.0);
        let slot = self.pool.get(index)?;
        match slot.kind {
            Kind::Window(kind) if slot.rkey & !TAG == rkey.0 & !TAG => Some((index, kind)),
            _ => None,
        }
    }

    /// Binds a window; its R_Key is the new one from here on (IBTA 10.6.7.2).
    fn bind(&mut self, via: Via, rkey: RKey, info: &MwBindInfo) -> Result<(), BindFault> {
        let (index, kind) = self.window(rkey).ok_or(BindFault)?;
        let window = *self.pool.get(index).ok_or(BindFault)?;
        if window.pd != via.pd.0 || kind == MwType::Type2 && !window.invalidated {
            return Err(BindFault);
        }
        if kind == MwType::Type1 && info.len == 0 {
            self.unbind(index);
            if let Some(slot) = self.pool.get_mut(index) {
                slot.rkey = rkey.0;
            }
            return Ok(());
        }
        let region_index = self.index_of(info.lkey.0);
        let region = self.pool.get(region_index).ok_or(BindFault)?;
        let backing = region.bindable(via.pd, info).ok_or(BindFault)?;
        self.unbind(index);
        if let Some(slot) = self.pool.get_mut(index) {
            slot.invalidated = false;
            slot.rkey = rkey.0;
            slot.access = info.access;
            slot.va = info.va;
            slot.len = info.len;
            slot.backing = backing;
            slot.region = region_index;
            slot.qp = if kind == MwType::Type2 { via.qp } else { Qpn::new(0) };
        }
        if let Some(region) = self.pool.get_mut(region_index) {
            region.windows += 1;
        }
        Ok(())
    }

    /// Closes a window; says by which queue pair it had been bound, if only that one could use it.
    pub(crate) fn unbind(&mut self, index: u32) -> Option<Qpn> {
        let window = self.pool.get_mut(index)?;
        if core::mem::replace(&mut window.invalidated, true) {
            return None;
        }
        let (region, qp) = (window.region, window.qp);
        if let Some(region) = self.pool.get_mut(region) {
            region.windows = region.windows.saturating_sub(1);
        }
        (qp != Qpn::new(0)).then_some(qp)
    }

    fn dealloc_window(&mut self, mw: Mw) -> Result<Option<Qpn>, MemoryError> {
        let (index, _) = self.window(mw.rkey).ok_or(MemoryError::UnknownKey)?;
        let qp = self.unbind(index);
        if let Some(slot) = self.pool.get_mut(index) {
            slot.kind = Kind::Free;
        }
        self.pool.give(index);
        Ok(qp)
    }

    /// Closes all windows that only this queue pair could use.
    fn unbind_all(&mut self, qp: Qpn) {
        let mut index = 0;
        while let Some(slot) = self.pool.get(index) {
            if matches!(slot.kind, Kind::Window(_)) && slot.qp == qp {
                self.unbind(index);
            }
            index += 1;
        }
    }
}

impl MrSlot {
    /// Where a window to a part of this region leads, if there may be such a window.
    fn bindable(&self, pd: Pd, info: &MwBindInfo) -> Option<Addr> {
        let flush = Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
        let write = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let remote = write | Access::REMOTE_READ | flush;
        let mut need = Access::MW_BIND | info.access.and(flush);
        if info.access.and(write) != Access::NONE {
            need = need | Access::LOCAL_WRITE;
        }
        let offset = info.va.checked_sub(self.va)?;
        let room = self.len.checked_sub(offset)?;
        let fits = self.kind == Kind::Region
            && self.lkey == info.lkey.0
            && self.pd == pd.0
            && self.access.contains(need)
            && remote.contains(info.access)
            && info.len <= room;
        fits.then_some(Addr { region: self.backing.region, offset: self.backing.offset + offset })
    }
}

impl Engine<'_> {
    /// A new memory window, not bound. It takes a slot of the regions'.
    ///
    /// # Errors
    /// [`MemoryError::NoSlot`].
    pub fn alloc_mw(
        &mut self,
        pd: Pd,
        kind: MwType,
        entropy: &mut impl Entropy,
    ) -> Result<Mw, MemoryError> {
        self.memory.alloc_window(pd, kind, entropy)
    }

    /// Takes a memory window away, bound or not.
    ///
    /// # Errors
    /// [`MemoryError::UnknownKey`].
    pub fn dealloc_mw(&mut self, mw: Mw) -> Result<(), MemoryError> {
        let qp = self.memory.dealloc_window(mw)?;
        self.window_closed(qp);
        Ok(())
    }

    /// Posts a request to bind a window of type 1, to the send queue. `mw` has the R_Key that the
    /// window will have; until then, and if it fails, the old one is the window's.
    ///
    /// # Errors
    /// [`PostError`]; nothing was queued, and `mw` is as it was.
    pub fn bind_mw(&mut self, qpn: Qpn, mw: &mut Mw, bind: &MwBind) -> Result<(), PostError> {
        if self.memory.window(mw.rkey).is_none_or(|(_, kind)| kind != MwType::Type1) {
            return Err(PostError::Window);
        }
        let rkey = mw.next_rkey();
        let opcode = WrOpcode::BindMw { rkey, info: bind.info };
        let (signaled, fence) = (bind.signaled, bind.fence);
        let wr = SendWr { signaled, fence, ..SendWr::new(bind.wr_id, opcode, &[]) };
        self.post(qpn, &wr)?;
        mw.rkey = rkey;
        Ok(())
    }

    /// Carries out a request that no packet carries.
    pub(crate) fn execute_local(&mut self, slot: u32, opcode: &WrOpcode) -> Result<(), BindFault> {
        let via = self.qps.get(slot).ok_or(BindFault)?.via();
        match opcode {
            WrOpcode::BindMw { rkey, info } => {
                self.memory.bind(via, *rkey, info)?;
                let tied = self.memory.window(*rkey).is_some_and(|w| w.1 == MwType::Type2);
                if let Some(qp) = self.qps.get_mut(slot).filter(|_| tied) {
                    qp.windows += 1;
                }
                Ok(())
            }
            WrOpcode::LocalInvalidate(rkey) => {
                self.memory.may_invalidate(*rkey, via).map_err(|_| BindFault)?;
                self.invalidate(*rkey);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes an R_Key away: a region's for good, a window's until it is bound again.
    pub(crate) fn invalidate(&mut self, rkey: RKey) {
        let qp = self.memory.invalidate(rkey);
        self.window_closed(qp);
    }

    fn window_closed(&mut self, qp: Option<Qpn>) {
        if let Some(slot) = qp.and_then(|qpn| self.find(qpn))
            && let Some(qp) = self.qps.get_mut(slot)
        {
            qp.windows = qp.windows.saturating_sub(1);
        }
    }

    /// Closes the windows that only this queue pair could use: it is reset or goes away. The
    /// regions' slots are gone through, but only if there are any.
    pub(crate) fn close_windows(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        if core::mem::replace(&mut qp.windows, 0) > 0 {
            let qpn = qp.qpn;
            self.memory.unbind_all(qpn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SeededEntropy;
    use crate::memory::{AccessFault, MrAttr};

    /// A slot that holds a window opens nothing to a work request, whatever its old L_Key was; not
    /// to one without a key either.
    #[test]
    fn a_window_has_no_local_key() {
        let mut slots = [MrSlot::EMPTY; 1];
        let mut table = MrTable::new(&mut slots);
        let mut entropy = SeededEntropy::new(1);
        let local = |table: &MrTable<'_>, lkey| table.local(lkey, Pd(1), 0, 0, Access::NONE);
        let key = Err(AccessFault::Key);
        let mw = table.alloc_window(Pd(1), MwType::Type1, &mut entropy).unwrap();
        assert_eq!(local(&table, LKey(0)), key);
        assert_eq!(local(&table, LKey(mw.rkey.0)), key);
        assert_eq!(table.deregister(mw.rkey), Err(MemoryError::UnknownKey), "it is no region");
        assert_eq!(table.dealloc_window(mw), Ok(None));
        let backing = Addr { region: 0, offset: 0 };
        let attr = MrAttr { pd: Pd(1), va: 0, len: 1, access: Access::ALL, backing };
        let mr = table.register(&attr, &mut entropy).unwrap();
        assert_eq!(table.dealloc_window(mw), Err(MemoryError::UnknownKey));
        let as_window = Mw { rkey: mr.rkey, kind: MwType::Type1 };
        assert_eq!(table.dealloc_window(as_window), Err(MemoryError::UnknownKey), "nor a window");
        table.deregister(mr.rkey).unwrap();
        table.alloc_window(Pd(1), MwType::Type2, &mut entropy).unwrap();
        assert_eq!(local(&table, mr.lkey), key);
    }

    /// `ibv_inc_rkey`: the lower eight bits, around 256.
    #[test]
    fn keys_of_a_window() {
        let mw = Mw { rkey: RKey(0x1234_56ff), kind: MwType::Type2 };
        assert_eq!(mw.next_rkey(), RKey(0x1234_5600));
        assert_eq!(mw.with_key(0x7e), RKey(0x1234_567e));
    }
}
