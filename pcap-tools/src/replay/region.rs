//! Which memory regions a host must have had, by the requests that it carried out.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use roce_codec::Frame;
use roce_codec::ib::{Operation, RKey};
use roce_engine::Access;

use super::fate::Fate;
use super::recording::Recording;

/// A memory region that the captured responder had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first byte that was reached by its key.
    pub va: u64,
    /// Bytes from there to the last one.
    pub len: u64,
    /// What was done with it.
    pub access: Access,
}

/// The memory that a request reaches, and by what right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) rkey: RKey,
    pub(super) va: u64,
    pub(super) len: u32,
    pub(super) access: Access,
}

impl Reach {
    /// What the headers of a request name; `None` where no key matters.
    pub(super) fn of(frame: &Frame<'_>) -> Option<Self> {
        if let Some(eth) = frame.atomic_eth() {
            let access = Access::REMOTE_ATOMIC;
            return Some(Self { rkey: eth.rkey, va: eth.va, len: 8, access });
        }
        let reth = frame.reth()?;
        let access = match frame.info().operation {
            Operation::ReadRequest => Access::REMOTE_READ,
            Operation::Flush => {
                let placement = frame.feth()?.placement_type();
                let right = |bit, right| if placement & bit != 0 { right } else { Access::NONE };
                right(1, Access::FLUSH_GLOBAL) | right(2, Access::FLUSH_PERSISTENT)
            }
            _ => Access::REMOTE_WRITE,
        };
        // IBTA C9-88: no key is needed for no bytes, but of a FLUSH.
        let matters = reth.dma_len > 0 || frame.info().operation == Operation::Flush;
        matters.then_some(Self { rkey: reth.rkey, va: reth.va, len: reth.dma_len, access })
    }

    /// Whether it lies in a region that allows it.
    pub(super) fn is_within(&self, region: &Region) -> bool {
        let end = |va: u64, len: u64| u128::from(va) + u128::from(len);
        region.access.contains(self.access)
            && self.va >= region.va
            && end(self.va, self.len.into()) <= end(region.va, region.len)
    }
}

impl Region {
    const fn empty(va: u64) -> Self {
        Self { va, len: 0, access: Access::NONE }
    }

    fn cover(&mut self, reach: &Reach) {
        self.access = self.access | reach.access;
        let Some(end) = reach.va.checked_add(reach.len.into()) else { return };
        let own_end = self.va.saturating_add(self.len).max(end);
        if self.len == 0 {
            self.va = reach.va;
        }
        self.va = self.va.min(reach.va);
        self.len = own_end - self.va;
    }
}

/// The regions of all hosts by key. A key that is taken away may come back: then there is another
/// region behind it, in the order of the capture.
#[derive(Debug, Default, Clone)]
pub(super) struct Regions {
    by_key: BTreeMap<(IpAddr, u32), VecDeque<Region>>,
    open: BTreeMap<(IpAddr, u32), bool>,
}

impl Regions {
    /// A request that its host carried out.
    pub(super) fn executed(&mut self, host: IpAddr, frame: &Frame<'_>) {
        if let Some(reach) = Reach::of(frame) {
            self.newest(host, reach.rkey, reach.va).cover(&reach);
        }
        if let Some(ieth) = frame.ieth() {
            let region = self.newest(host, ieth.0, 0);
            region.access = region.access | Access::REMOTE_INVALIDATE;
            self.open.insert((host, ieth.0.0), false);
        }
    }

    /// The region that has the key now.
    fn newest(&mut self, host: IpAddr, rkey: RKey, va: u64) -> &mut Region {
        let key = (host, rkey.0);
        let regions = self.by_key.entry(key).or_default();
        let open = self.open.entry(key).or_default();
        if !*open || regions.is_empty() {
            *open = true;
            regions.push_back(Region::empty(va));
        }
        let last = regions.len() - 1;
        &mut regions[last]
    }

    /// Takes the next region that has this key.
    pub(super) fn take(&mut self, host: IpAddr, rkey: RKey) -> Option<Region> {
        self.by_key.get_mut(&(host, rkey.0))?.pop_front()
    }

    /// All of them, by host and key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, RKey, &Region)> {
        let all = self.by_key.iter();
        all.flat_map(|((host, key), regions)| {
            regions.iter().map(|region| (*host, RKey(*key), region))
        })
    }
}

/// The regions that the requests of these streams need.
pub(super) fn regions<'a>(
    recording: &Recording,
    requests: impl Iterator<Item = (usize, IpAddr, &'a Fate)>,
) -> Regions {
    let mut regions = Regions::default();
    for (index, host, fate) in requests {
        if *fate == Fate::Executed {
            regions.executed(host, &recording.frame(index));
        }
    }
    regions
}
