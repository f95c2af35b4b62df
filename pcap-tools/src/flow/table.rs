//! The flows that were heard of last, found by key.

use std::collections::HashMap;
use std::net::IpAddr;

use super::pairing::Peer;
use crate::observed::{FlowKey, Host};

/// A flow's place in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowId(usize);

/// What is known of a flow: a bounded amount, however long it runs.
pub(crate) trait Entry {
    /// A flow of which nothing is known yet.
    fn new(key: FlowKey) -> Self;

    /// Whose flow it is.
    fn key(&self) -> &FlowKey;
}

/// A flow that is paired with the one in the other direction.
pub(crate) trait Paired: Entry {
    /// What it knows of that.
    fn peer(&mut self) -> &mut Peer;
}

/// Flows remembered at a time, each some 5 kB at most, unless the table's user wants fewer: beyond
/// that, one that has been silent for long is forgotten, and starts mid-stream if it comes again.
const MAX_FLOWS: usize = 8192;
/// Slots of the cache in front of the map.
const CACHE: usize = 256;

/// The flows of a capture, those that were heard of last.
#[derive(Debug)]
pub(crate) struct FlowTable<F> {
    flows: Vec<F>,
    /// Whether a packet of it came since it was last considered for being forgotten.
    recent: Vec<bool>,
    most: usize,
    /// Flows ever seen; one that was forgotten counts again.
    seen: u64,
    /// Where to look for one to forget.
    hand: usize,
    /// The standard hasher is keyed: a crafted capture cannot make it slow.
    by_key: HashMap<FlowKey, FlowId>,
    /// Captures come in bursts of few flows: this saves most of them the hashing.
    cache: [FlowId; CACHE],
}

impl<F: Entry> FlowTable<F> {
    pub(crate) fn new() -> Self {
        Self::bounded(MAX_FLOWS)
    }

    /// A table that remembers at most that many, at least one.
    pub(crate) fn bounded(most: usize) -> Self {
        Self {
            most,
            flows: Vec::new(),
            recent: Vec::new(),
            seen: 0,
            hand: 0,
            by_key: HashMap::new(),
            cache: [FlowId(usize::MAX); CACHE],
        }
    }

    /// Flows ever seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The flow of that key, if it is remembered.
    #[inline]
    pub(crate) fn get(&mut self, key: FlowKey) -> Option<FlowId> {
        let slot = cache_slot(&key);
        let cached = self.cache[slot];
        let id = match self.flows.get(cached.0) {
            Some(flow) if *flow.key() == key => cached,
            _ => *self.by_key.get(&key)?,
        };
        self.cache[slot] = id;
        self.recent[id.0] = true;
        Some(id)
    }

    /// The flow that must be forgotten before one is [added](FlowTable::add), if the table is full.
    pub(crate) fn oldest(&mut self) -> Option<FlowId> {
        if self.flows.len() < self.most {
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.flows.len();
            if !std::mem::take(&mut self.recent[self.hand]) {
                return Some(FlowId(self.hand));
            }
        }
    }

    /// Adds a flow in place of `forgotten`, whose pair has been parted.
    pub(crate) fn add(&mut self, key: FlowKey, forgotten: Option<FlowId>) -> FlowId {
        self.seen += 1;
        let flow = F::new(key);
        let id = match forgotten {
            Some(id) => {
                self.by_key.remove(self.flows[id.0].key());
                self.flows[id.0] = flow;
                self.recent[id.0] = true;
                id
            }
            None => {
                self.flows.push(flow);
                self.recent.push(true);
                FlowId(self.flows.len() - 1)
            }
        };
        self.by_key.insert(key, id);
        id
    }

    /// A flow. Ids come from [`FlowTable::get`] and hold until the flow is forgotten.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> &mut F {
        &mut self.flows[id.0]
    }

    /// Two flows at once, unless they are the same one.
    #[inline]
    pub(crate) fn pair_mut(&mut self, one: FlowId, other: FlowId) -> Option<[&mut F; 2]> {
        self.flows.get_disjoint_mut([one.0, other.0]).ok()
    }

    pub(crate) fn into_flows(self) -> impl Iterator<Item = F> {
        self.flows.into_iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut F> {
        self.flows.iter_mut()
    }
}

#[inline]
fn cache_slot(key: &FlowKey) -> usize {
    let fold = |host: &Host| match host {
        Host::Ip(IpAddr::V4(addr)) => u32::from_ne_bytes(addr.octets()),
        Host::Ip(IpAddr::V6(addr)) => {
            let [.., a, b, c, d] = addr.octets();
            u32::from_ne_bytes([a, b, c, d])
        }
        Host::Lid(lid) => u32::from(*lid),
    };
    let mixed = (key.dest_qp.get() ^ fold(&key.src) ^ fold(&key.dst).rotate_left(11))
        .wrapping_mul(0x9e37_79b1);
    usize::from(mixed.to_be_bytes()[0])
}

#[cfg(test)]
pub(super) mod tests {
    use roce_codec::ib::Qpn;

    use super::*;

    /// A flow of which no more is known.
    pub(in crate::flow) struct Bare(FlowKey, Peer);

    impl Entry for Bare {
        fn new(key: FlowKey) -> Self {
            Self(key, Peer::default())
        }

        fn key(&self) -> &FlowKey {
            &self.0
        }
    }

    impl Paired for Bare {
        fn peer(&mut self) -> &mut Peer {
            &mut self.1
        }
    }

    #[test]
    fn a_key_is_one_flow() {
        let mut table = FlowTable::<Bare>::new();
        let find = |table: &mut FlowTable<Bare>, key| match table.get(key) {
            Some(id) => id,
            None => {
                let forgotten = table.oldest();
                table.add(key, forgotten)
            }
        };
        let key = |host: u8, qp| FlowKey {
            src: IpAddr::from([10, 0, 0, host]).into(),
            dst: IpAddr::from([10, 0, 1, host]).into(),
            dest_qp: Qpn::new(qp),
        };
        let mut ids = Vec::new();
        for host in 0..20 {
            for qp in 0..50 {
                ids.push((key(host, qp), find(&mut table, key(host, qp))));
            }
        }
        assert_eq!(table.seen(), 1000);
        for (key, id) in ids {
            assert_eq!(find(&mut table, key), id);
            assert_eq!(table.get_mut(id).0, key);
        }
        assert_eq!(table.seen(), 1000);
        // What is heard of again and again stays; the others make room.
        for qp in 0..20_000 {
            find(&mut table, key(21, qp));
            assert!(table.get(key(0, 7)).is_some(), "{qp}");
        }
        assert_eq!(table.seen(), 21_000);
        assert_eq!(table.flows.len(), MAX_FLOWS);
        assert!(table.get(key(0, 8)).is_none());
    }
}
