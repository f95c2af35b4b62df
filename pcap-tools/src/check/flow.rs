//! Flows: one sender, one receiver, one destination QP. A connection is two of them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use roce_codec::ib::{PathMtu, Qpn};

use super::pairing::Peer;
use super::request::RequestStream;
use super::response::ResponseStream;

/// What tells flows apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination QP.
    pub dest_qp: Qpn,
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} QP {}", self.src, self.dst, self.dest_qp)
    }
}

/// A flow's place in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowId(usize);

/// What is known of a flow: a fixed amount, however long it runs.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// Rules that have been called unknown here already, a bit each.
    pub(super) told: u64,
    pub(super) mtu: Option<PathMtu>,
    /// What the sender asks of the receiver.
    pub(super) requests: Option<Box<RequestStream>>,
    /// What the sender answers to the receiver's requests.
    pub(super) responses: ResponseStream,
    pub(super) peer: Peer,
}

impl Flow {
    fn new(key: FlowKey) -> Self {
        Self {
            key,
            told: 0,
            mtu: None,
            requests: None,
            responses: ResponseStream::default(),
            peer: Peer::default(),
        }
    }
}

/// Slots of the cache in front of the map.
const CACHE: usize = 256;

/// All flows of a capture.
#[derive(Debug)]
pub(super) struct FlowTable {
    flows: Vec<Flow>,
    /// The standard hasher is keyed: a crafted capture cannot make it slow.
    by_key: HashMap<FlowKey, FlowId>,
    /// Captures come in bursts of few flows: this saves most of them the hashing.
    cache: [FlowId; CACHE],
}

impl FlowTable {
    pub(super) fn new() -> Self {
        Self { flows: Vec::new(), by_key: HashMap::new(), cache: [FlowId(usize::MAX); CACHE] }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The flow of that key, made if there is none.
    #[inline]
    pub(super) fn find(&mut self, key: FlowKey) -> FlowId {
        let slot = cache_slot(&key);
        let cached = self.cache[slot];
        if self.flows.get(cached.0).is_some_and(|flow| flow.key == key) {
            return cached;
        }
        let id = *self.by_key.entry(key).or_insert_with(|| {
            self.flows.push(Flow::new(key));
            FlowId(self.flows.len() - 1)
        });
        self.cache[slot] = id;
        id
    }

    /// A flow. Ids come from [`FlowTable::find`] and flows are never removed.
    #[inline]
    pub(super) fn get_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id.0]
    }

    /// Two flows at once, unless they are the same one.
    #[inline]
    pub(super) fn pair_mut(&mut self, one: FlowId, other: FlowId) -> Option<[&mut Flow; 2]> {
        self.flows.get_disjoint_mut([one.0, other.0]).ok()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut()
    }
}

#[inline]
fn cache_slot(key: &FlowKey) -> usize {
    let fold = |addr: &IpAddr| match addr {
        IpAddr::V4(addr) => u32::from_ne_bytes(addr.octets()),
        IpAddr::V6(addr) => {
            let [.., a, b, c, d] = addr.octets();
            u32::from_ne_bytes([a, b, c, d])
        }
    };
    let mixed = (key.dest_qp.get() ^ fold(&key.src) ^ fold(&key.dst).rotate_left(11))
        .wrapping_mul(0x9e37_79b1);
    usize::from(mixed.to_be_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_flow() {
        let mut table = FlowTable::new();
        let key = |host: u8, qp| FlowKey {
            src: IpAddr::from([10, 0, 0, host]),
            dst: IpAddr::from([10, 0, 1, host]),
            dest_qp: Qpn::new(qp),
        };
        let mut ids = Vec::new();
        for host in 0..20 {
            for qp in 0..50 {
                ids.push((key(host, qp), table.find(key(host, qp))));
            }
        }
        assert_eq!(table.len(), 1000);
        for (key, id) in ids {
            assert_eq!(table.find(key), id);
            assert_eq!(table.get_mut(id).key, key);
        }
        assert_eq!(table.len(), 1000);
    }
}
