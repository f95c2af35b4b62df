//! Who sends next: acknowledgements first, then a round robin by deficit between queue pairs.

use crate::pool::Link;

/// One queue pair's places in the queues; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct ReadyNode {
    next: [Link; 2],
    queued: [bool; 2],
    deficit: i64,
}

impl ReadyNode {
    /// Not queued.
    pub const EMPTY: Self = Self { next: [Link::NONE; 2], queued: [false; 2], deficit: 0 };
}

/// The two queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// ACK and NAK: small, and what the peer waits for.
    Control = 0,
    /// Requests, READ responses and acknowledgements that wait behind these.
    Data = 1,
}

#[derive(Debug)]
pub(crate) struct Scheduler<'s> {
    nodes: &'s mut [ReadyNode],
    head: [Link; 2],
    tail: [Link; 2],
    quantum: i64,
}

impl<'s> Scheduler<'s> {
    pub(crate) fn new(nodes: &'s mut [ReadyNode], quantum: u32) -> Self {
        Self {
            nodes,
            head: [Link::NONE; 2],
            tail: [Link::NONE; 2],
            quantum: i64::from(quantum.max(1)),
        }
    }

    /// Queues a queue pair unless it is queued already.
    pub(crate) fn push(&mut self, class: Class, index: u32) {
        let queue = class as usize & 1;
        let Some(node) = self.node(index) else { return };
        if core::mem::replace(&mut node.queued[queue], true) {
            return;
        }
        node.next[queue] = Link::NONE;
        match self.tail[queue].index() {
            None => self.head[queue] = Link::to(index),
            Some(tail) => {
                if let Some(last) = self.node(tail) {
                    last.next[queue] = Link::to(index);
                }
            }
        }
        self.tail[queue] = Link::to(index);
    }

    /// Whether a queue pair waits for its turn.
    pub(crate) fn is_queued(&self, index: u32) -> bool {
        let node = usize::try_from(index).ok().and_then(|index| self.nodes.get(index));
        node.is_some_and(|node| node.queued.contains(&true))
    }

    /// The queue pair whose turn it is.
    pub(crate) fn front(&self, class: Class) -> Option<u32> {
        self.head[class as usize & 1].index()
    }

    /// Takes the first queue pair off: it has nothing more to send. Its deficit is forgotten.
    pub(crate) fn pop(&mut self, class: Class) {
        let queue = class as usize & 1;
        let Some(index) = self.head[queue].index() else { return };
        let Some(node) = self.node(index) else { return };
        node.queued[queue] = false;
        if class == Class::Data {
            node.deficit = 0;
        }
        let next = node.next[queue];
        self.head[queue] = next;
        if next.is_none() {
            self.tail[queue] = Link::NONE;
        }
    }

    /// Charges the first queue pair of the data queue for `bytes`; one that has used up its
    /// quantum goes to the back.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let Some(index) = self.front(Class::Data) else { return };
        let quantum = self.quantum;
        let Some(node) = self.node(index) else { return };
        node.deficit += i64::try_from(bytes).unwrap_or(i64::MAX);
        if node.deficit < quantum {
            return;
        }
        let left = node.deficit - quantum;
        self.pop(Class::Data);
        self.push(Class::Data, index);
        if let Some(node) = self.node(index) {
            node.deficit = left;
        }
    }

    /// Reads a little of a queue pair's node, so that it comes into the cache.
    #[inline]
    pub(crate) fn touch(&self, index: u32) -> bool {
        let node = usize::try_from(index).ok().and_then(|index| self.nodes.get(index));
        node.is_some_and(|node| node.deficit == 0)
    }

    fn node(&mut self, index: u32) -> Option<&mut ReadyNode> {
        self.nodes.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_queue_pairs_share_by_bytes() {
        let mut nodes = [ReadyNode::EMPTY; 2];
        let mut scheduler = Scheduler::new(&mut nodes, 1000);
        scheduler.push(Class::Data, 0);
        scheduler.push(Class::Data, 1);
        scheduler.push(Class::Data, 0);
        let sizes = [300, 100];
        let mut sent = [0, 0];
        for _ in 0..400 {
            let index = scheduler.front(Class::Data).unwrap();
            sent[index as usize] += sizes[index as usize];
            scheduler.charge(sizes[index as usize]);
        }
        let [a, b]: [i64; 2] = sent.map(|bytes| i64::try_from(bytes).unwrap());
        assert!((a - b).abs() <= 2000, "{a} and {b}");
        scheduler.pop(Class::Data);
        scheduler.pop(Class::Data);
        assert_eq!(scheduler.front(Class::Data), None);
    }
}
