//! FLUSH (IBTA Vol. 1, Annex A19): what was written before is where it must be.

use roce_codec::ib::{NakCode, Operation};

use super::replay::{Kept, ReplaySlot};
use super::{INVALID, Refusal, Request};
use crate::access::Access;
use crate::backing::Backing;
use crate::counters::HwCounter;
use crate::engine::Engine;
use crate::flush::{Placement, Selectivity, asked};
use crate::rules::length::MAX_MESSAGE;

/// The rights that a FLUSH needs, of the queue pair and of the region.
fn needs(placement: Placement) -> Access {
    let need = |asked: Placement, right: Access| {
        if placement.contains(asked) { right } else { Access::NONE }
    };
    need(Placement::GLOBAL_VISIBILITY, Access::FLUSH_GLOBAL)
        | need(Placement::PERSISTENCE, Access::FLUSH_PERSISTENT)
}

impl Request<'_, '_> {
    /// What a FLUSH asks for.
    fn flush(&self) -> Option<(Selectivity, Placement)> {
        let reth = self.frame.reth()?;
        asked(self.frame.feth()?, reth.va, reth.dma_len)
    }
}

impl Engine<'_> {
    /// Whether the header says what to flush, and the queue pair allows it.
    pub(super) fn may_flush(&self, slot: u32, request: &Request<'_, '_>) -> bool {
        request.flush().is_some_and(|(_, placement)| {
            self.qps.get(slot).is_some_and(|qp| qp.access.contains(needs(placement)))
        })
    }

    /// Everything before it has been executed, so that what remains is the backing's. A key is
    /// needed for no bytes, too.
    pub(super) fn execute_flush<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), Refusal> {
        let (selectivity, placement) = request.flush().ok_or(INVALID)?;
        let rkey = request.frame.reth().ok_or(INVALID)?.rkey;
        if request.len != 0 {
            return Err(INVALID);
        }
        self.check_place(slot)?;
        let Some(qp) = self.qps.get(slot) else { return Err(INVALID) };
        let need = needs(placement);
        let (addr, len) = match selectivity {
            Selectivity::Range { len, .. } if len > MAX_MESSAGE => return Err(INVALID),
            Selectivity::Range { va, len } => {
                self.memory.remote(rkey, qp.via(), va, len, need).map(|addr| (addr, u64::from(len)))
            }
            Selectivity::Region => self.memory.whole_region(rkey, qp.via(), need),
        }
        .map_err(|_| Refusal::Nak(NakCode::RemoteAccessError))?;
        backing
            .flush(addr, len, placement)
            .map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        let psn = request.bth.psn;
        self.keep(slot, ReplaySlot::new(psn, psn, Kept::Done(Operation::Flush)))?;
        self.counters.count(HwCounter::RxFlushRequests);
        Ok(())
    }
}
