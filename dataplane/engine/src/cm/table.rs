//! The connections: a pool of slots, found by the peer's communication ID or queue pair, and two
//! queues of those that have something to send or to tell.

use core::net::IpAddr;

use roce_codec::cm::{CaGuid, CommunicationId, Gid};
use roce_codec::ib::Qpn;

use super::slot::{CmBucket, CmSlot, CmStorage};
use crate::pool::{Link, Pool};

/// By what a connection is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// The peer's name for it.
    Id(CaGuid, CommunicationId),
    /// The peer's name for the resolution of a datagram service; no CA GUID comes with it.
    Request(IpAddr, CommunicationId),
    /// The peer's queue pair.
    Qp(CaGuid, Qpn),
}

impl Key {
    fn hash(self, seed: u64) -> u64 {
        let (words, number) = match self {
            Self::Id(guid, id) => ([guid.0, 0], id.0),
            Self::Request(ip, id) => {
                let [a, b, c, d, e, f, g, h, rest @ ..] = Gid::from(ip).0;
                let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
                ([high, u64::from_be_bytes(rest)], id.0)
            }
            Self::Qp(guid, qpn) => ([guid.0, 0], qpn.get()),
        };
        // A multiplicative mix, seeded so that a stranger cannot aim at a bucket.
        let [first, second] = words;
        let mut hash = seed;
        for word in [first, second, u64::from(number)] {
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        hash
    }

    fn of_id(slot: &CmSlot) -> Self {
        if slot.datagram {
            Self::Request(slot.path.dst, slot.remote_id)
        } else {
            Self::Id(slot.remote_guid, slot.remote_id)
        }
    }

    const fn of_qp(slot: &CmSlot) -> Self {
        Self::Qp(slot.remote_guid, slot.qp.dest_qpn)
    }

    fn names(self, slot: &CmSlot) -> bool {
        match self {
            Self::Id(..) | Self::Request(..) => self == Self::of_id(slot),
            Self::Qp(..) => self == Self::of_qp(slot),
        }
    }

    const fn next(self, slot: &mut CmSlot) -> &mut Link {
        match self {
            Self::Id(..) | Self::Request(..) => &mut slot.links.by_id,
            Self::Qp(..) => &mut slot.links.by_qp,
        }
    }
}

/// A queue of connections.
#[derive(Debug, Clone, Copy)]
pub(super) enum Queue {
    /// Those with a message to send.
    Outgoing,
    /// Those with an event to poll.
    Telling,
}

impl Queue {
    const fn next(self, slot: &mut CmSlot) -> &mut Link {
        match self {
            Self::Outgoing => &mut slot.links.outgoing,
            Self::Telling => &mut slot.links.telling,
        }
    }
}

#[derive(Debug, Default)]
struct Ends {
    head: Link,
    tail: Link,
}

#[derive(Debug)]
pub(super) struct Table<'s> {
    slots: Pool<'s, CmSlot>,
    buckets: &'s mut [CmBucket],
    seed: u64,
    outgoing: Ends,
    telling: Ends,
    pub(super) live: usize,
    /// Bits of a communication ID that are the slot's index.
    pub(super) slot_bits: u32,
}

impl<'s> Table<'s> {
    /// Takes the connections and buckets out of `storage`.
    pub(super) fn new(storage: &mut CmStorage<'s>, seed: u64) -> Self {
        let connections = core::mem::take(&mut storage.connections);
        let buckets = core::mem::take(&mut storage.buckets);
        // 2²⁴ at most, so that an ID has eight bits to tell one owner of a slot from the next.
        let most = if buckets.is_empty() { 0 } else { storage.timers.len().min(1 << 24) };
        let len = connections.len().min(most);
        let slots = connections.get_mut(..len).unwrap_or_default();
        let slot_bits = usize::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            slots: Pool::new(slots),
            buckets,
            seed,
            outgoing: Ends::default(),
            telling: Ends::default(),
            live: 0,
            slot_bits,
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&CmSlot> {
        self.slots.get(index)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut CmSlot> {
        self.slots.get_mut(index)
    }

    /// Takes a slot, emptied but for the ID it last had.
    pub(super) fn take(&mut self) -> Option<u32> {
        let index = self.slots.take()?;
        let slot = self.slots.get_mut(index)?;
        *slot = CmSlot { live: true, id: slot.id, ..CmSlot::EMPTY };
        self.live += 1;
        Some(index)
    }

    pub(super) fn give(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.live = false;
            self.live = self.live.saturating_sub(1);
            self.slots.give(index);
        }
    }

    /// The live connection of ours with this ID.
    pub(super) fn find(&self, id: CommunicationId) -> Option<u32> {
        let index = id.0 & !u32::MAX.checked_shl(self.slot_bits).unwrap_or(0);
        self.get(index).filter(|slot| slot.live && slot.id == id).map(|_| index)
    }

    /// The connection that a key names.
    pub(super) fn find_key(&mut self, key: Key) -> Option<u32> {
        let mut link = *self.bucket(key)?;
        while let Some(index) = link.index() {
            let slot = self.slots.get_mut(index)?;
            if key.names(slot) {
                return Some(index);
            }
            link = *key.next(slot);
        }
        None
    }

    /// Makes a connection found by the peer's ID.
    pub(super) fn index_by_id(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index)
            && !core::mem::replace(&mut slot.links.indexed_by_id, true)
        {
            let key = Key::of_id(slot);
            self.insert(key, index);
        }
    }

    /// Makes a connection found by the peer's queue pair.
    pub(super) fn index_by_qp(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index)
            && !core::mem::replace(&mut slot.links.indexed_by_qp, true)
        {
            let key = Key::of_qp(slot);
            self.insert(key, index);
        }
    }

    /// Makes a connection found by neither.
    pub(super) fn unindex(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let (id, qp) = (Key::of_id(slot), Key::of_qp(slot));
        if core::mem::take(&mut slot.links.indexed_by_id) {
            self.remove(id, index);
        }
        if let Some(slot) = self.slots.get_mut(index)
            && core::mem::take(&mut slot.links.indexed_by_qp)
        {
            self.remove(qp, index);
        }
    }

    fn bucket(&mut self, key: Key) -> Option<&mut Link> {
        let count = u64::try_from(self.buckets.len()).ok()?;
        let at = usize::try_from(key.hash(self.seed).checked_rem(count)?).ok()?;
        let bucket = self.buckets.get_mut(at)?;
        Some(match key {
            Key::Id(..) | Key::Request(..) => &mut bucket.by_id,
            Key::Qp(..) => &mut bucket.by_qp,
        })
    }

    fn insert(&mut self, key: Key, index: u32) {
        let Some(bucket) = self.bucket(key) else { return };
        let head = core::mem::replace(bucket, Link::to(index));
        if let Some(slot) = self.slots.get_mut(index) {
            *key.next(slot) = head;
        }
    }

    fn remove(&mut self, key: Key, index: u32) {
        let Some(after) = self.slots.get_mut(index).map(|slot| *key.next(slot)) else { return };
        let Some(bucket) = self.bucket(key) else { return };
        if *bucket == Link::to(index) {
            *bucket = after;
            return;
        }
        let mut link = *bucket;
        while let Some(slot) = link.index().and_then(|at| self.slots.get_mut(at)) {
            let next = key.next(slot);
            if *next == Link::to(index) {
                *next = after;
                return;
            }
            link = *next;
        }
    }

    fn ends(&mut self, queue: Queue) -> &mut Ends {
        match queue {
            Queue::Outgoing => &mut self.outgoing,
            Queue::Telling => &mut self.telling,
        }
    }

    /// Appends a connection, which must not be in the queue, to it.
    pub(super) fn push(&mut self, queue: Queue, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        *queue.next(slot) = Link::NONE;
        let tail = core::mem::replace(&mut self.ends(queue).tail, Link::to(index));
        match tail.index().and_then(|tail| self.slots.get_mut(tail)) {
            Some(last) => *queue.next(last) = Link::to(index),
            None => self.ends(queue).head = Link::to(index),
        }
    }

    /// Takes the first connection of a queue.
    pub(super) fn pop(&mut self, queue: Queue) -> Option<u32> {
        let index = self.ends(queue).head.index()?;
        let next = *queue.next(self.slots.get_mut(index)?);
        let ends = self.ends(queue);
        ends.head = next;
        if next.is_none() {
            ends.tail = Link::NONE;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::slot::StaticCmStorage;
    use crate::config::SeededEntropy;

    /// Against a plain list: what was indexed is found by either key, what was taken out is not,
    /// in buckets so few that they are shared.
    #[test]
    fn connections_are_found_by_their_keys() {
        let mut storage = StaticCmStorage::<16, 0, 0>::EMPTY;
        let mut lent = storage.lend();
        lent.buckets = lent.buckets.get_mut(..3).unwrap();
        let mut table = Table::new(&mut lent, 5);
        assert_eq!(table.slot_bits, 4);
        let mut random = SeededEntropy::new(6);
        let mut model: Vec<(u32, u32, CaGuid)> = Vec::new();
        for round in 0..20_000_u32 {
            if random.next_u64().is_multiple_of(2) {
                let Some(index) = table.take() else {
                    assert_eq!(model.len(), 16);
                    continue;
                };
                let guid = CaGuid(random.next_u64() % 4);
                let slot = table.get_mut(index).unwrap();
                slot.remote_guid = guid;
                slot.remote_id = CommunicationId(round);
                slot.qp.dest_qpn = Qpn::new(round);
                table.index_by_id(index);
                table.index_by_qp(index);
                // Twice is once.
                table.index_by_qp(index);
                model.push((index, round, guid));
            } else if !model.is_empty() {
                let at = usize::try_from(random.next_u64()).unwrap() % model.len();
                let (index, round, guid) = model.swap_remove(at);
                table.unindex(index);
                table.unindex(index);
                table.give(index);
                assert_eq!(table.find_key(Key::Id(guid, CommunicationId(round))), None);
                assert_eq!(table.find_key(Key::Qp(guid, Qpn::new(round))), None);
            }
            assert_eq!(table.live, model.len());
            for &(index, round, guid) in &model {
                assert_eq!(table.find_key(Key::Id(guid, CommunicationId(round))), Some(index));
                assert_eq!(table.find_key(Key::Qp(guid, Qpn::new(round))), Some(index));
                let another = CaGuid(guid.0 + 9);
                assert_eq!(table.find_key(Key::Id(another, CommunicationId(round))), None);
            }
        }
    }

    #[test]
    fn without_buckets_there_are_no_connections() {
        let mut storage = StaticCmStorage::<2, 0, 0>::EMPTY;
        let mut lent = storage.lend();
        lent.buckets = &mut [];
        let mut table = Table::new(&mut lent, 5);
        assert_eq!(table.take(), None);
        assert_eq!(table.find_key(Key::Qp(CaGuid(1), Qpn::new(2))), None);
    }

    #[test]
    fn queues_keep_order() {
        let mut storage = StaticCmStorage::<3, 0, 0>::EMPTY;
        let mut table = Table::new(&mut storage.lend(), 5);
        for _ in 0..3 {
            table.take().unwrap();
        }
        for index in [2, 0, 1] {
            table.push(Queue::Outgoing, index);
        }
        table.push(Queue::Telling, 0);
        assert_eq!(table.pop(Queue::Outgoing), Some(2));
        table.push(Queue::Outgoing, 2);
        let rest: Vec<_> = std::iter::from_fn(|| table.pop(Queue::Outgoing)).collect();
        assert_eq!(rest, [0, 1, 2]);
        assert_eq!((table.pop(Queue::Telling), table.pop(Queue::Telling)), (Some(0), None));
    }
}
