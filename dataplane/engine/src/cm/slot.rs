//! What a connection, a listener and an owed answer take of the memory the caller lends.

use roce_codec::cm::{AttributeId, CaGuid, CommunicationId, MAD_DATA_LEN, MAD_LEN, ServiceId};
use roce_codec::ib::{Psn, Qpn};

use super::answer::Answer;
use super::attributes::QpAttributes;
use super::state::{CmState, Tell};
use crate::pool::{Link, Linked};
use crate::qp::Path;
use crate::timer::TimerNode;

/// The most events of one connection that wait to be polled: one that a message brought, then
/// those of its timers. A message that would bring a second one is dropped and comes again.
const MAX_EVENTS: usize = 4;

/// Events of one connection, oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Events {
    kinds: [Tell; MAX_EVENTS],
}

impl Events {
    const NONE: Self = Self { kinds: [Tell::Nothing; MAX_EVENTS] };

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.iter().all(|kind| *kind == Tell::Nothing)
    }

    pub(super) fn push(&mut self, kind: Tell) {
        if let Some(free) = self.kinds.iter_mut().find(|kind| **kind == Tell::Nothing) {
            *free = kind;
        }
    }

    pub(super) fn pop(&mut self) -> Tell {
        let [first, second, third, fourth] = self.kinds;
        self.kinds = [second, third, fourth, Tell::Nothing];
        first
    }
}

/// One connection, or one resolution of a datagram service; part of [`CmStorage`].
#[derive(Debug)]
pub struct CmSlot {
    pub(super) live: bool,
    pub(super) active: bool,
    /// A resolution of a datagram service, not a connection.
    pub(super) datagram: bool,
    pub(super) state: CmState,
    pub(super) id: CommunicationId,
    /// The peer's name for it; 0 as long as we do not know.
    pub(super) remote_id: CommunicationId,
    pub(super) remote_guid: CaGuid,
    pub(super) local_qpn: Qpn,
    pub(super) service_id: ServiceId,
    /// The starting PSN of the REQ that began it.
    pub(super) req_psn: Psn,
    /// Transaction of the REQ, which the answers carry.
    pub(super) transaction_id: u64,
    /// The way of messages.
    pub(super) path: Path,
    pub(super) qp: QpAttributes,
    pub(super) response_ns: u64,
    pub(super) service_ns: u64,
    pub(super) max_retries: u8,
    pub(super) retries_left: u8,
    /// The listener's index and epoch.
    pub(super) listener: (usize, u32),
    /// It stands in the queue of those that send.
    pub(super) queued: bool,
    /// It still has something to send when its turn comes.
    pub(super) outgoing: bool,
    pub(super) events: Events,
    /// The message sent last.
    pub(super) sent_kind: AttributeId,
    pub(super) sent: [u8; MAD_LEN],
    /// The message whose event waits to be polled.
    pub(super) received: [u8; MAD_DATA_LEN],
    pub(super) links: Links,
    pub(super) free: Link,
}

/// The lists a connection can be in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    pub(super) by_id: Link,
    pub(super) by_qp: Link,
    pub(super) outgoing: Link,
    pub(super) telling: Link,
    pub(super) indexed_by_id: bool,
    pub(super) indexed_by_qp: bool,
}

impl CmSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        live: false,
        active: false,
        datagram: false,
        state: CmState::Idle,
        id: CommunicationId(0),
        remote_id: CommunicationId(0),
        remote_guid: CaGuid(0),
        local_qpn: Qpn::new(0),
        service_id: ServiceId(0),
        req_psn: Psn::new(0),
        transaction_id: 0,
        path: Path::EMPTY,
        qp: QpAttributes::EMPTY,
        response_ns: 0,
        service_ns: 0,
        max_retries: 0,
        retries_left: 0,
        listener: (usize::MAX, 0),
        queued: false,
        outgoing: false,
        events: Events::NONE,
        sent_kind: AttributeId(0),
        sent: [0; MAD_LEN],
        received: [0; MAD_DATA_LEN],
        links: Links {
            by_id: Link::NONE,
            by_qp: Link::NONE,
            outgoing: Link::NONE,
            telling: Link::NONE,
            indexed_by_id: false,
            indexed_by_qp: false,
        },
        free: Link::NONE,
    };
}

impl Linked for CmSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.free
    }
}

/// One service that is listened for; part of [`CmStorage`].
#[derive(Debug, Clone, Copy)]
pub struct ListenSlot {
    pub(super) live: bool,
    pub(super) service_id: ServiceId,
    pub(super) backlog: u32,
    /// Connections of it that are not established yet.
    pub(super) half_open: u32,
    /// Tells connections of an earlier listener in the same slot.
    pub(super) epoch: u32,
}

impl ListenSlot {
    /// An empty slot.
    pub const EMPTY: Self =
        Self { live: false, service_id: ServiceId(0), backlog: 0, half_open: 0, epoch: 0 };
}

/// A bucket of the two indexes; part of [`CmStorage`].
#[derive(Debug, Clone, Copy)]
pub struct CmBucket {
    pub(super) by_id: Link,
    pub(super) by_qp: Link,
}

impl CmBucket {
    /// An empty bucket.
    pub const EMPTY: Self = Self { by_id: Link::NONE, by_qp: Link::NONE };
}

/// An answer owed to a message that belongs to no connection; part of [`CmStorage`].
#[derive(Debug, Clone, Copy)]
pub struct AnswerSlot(pub(super) Option<Answer>);

impl AnswerSlot {
    /// Nothing owed.
    pub const EMPTY: Self = Self(None);
}

/// The memory a [`Cm`](super::Cm) works in, lent by the caller. How much it can hold is how much
/// it was lent; about 800 bytes a connection.
#[derive(Debug)]
pub struct CmStorage<'s> {
    /// Connections, those in time-wait and resolutions of datagram services included.
    pub connections: &'s mut [CmSlot],
    /// A timer for each connection; the shorter of the two counts.
    pub timers: &'s mut [TimerNode],
    /// Buckets to find connections by: as many as connections is good. Without any, there can be
    /// no connection.
    pub buckets: &'s mut [CmBucket],
    /// Services listened for.
    pub listeners: &'s mut [ListenSlot],
    /// Answers owed to messages that belong to no connection. What does not fit is dropped and
    /// counted.
    pub answers: &'s mut [AnswerSlot],
}

/// Pools of fixed sizes for a `static` or a stack.
#[derive(Debug)]
pub struct StaticCmStorage<const CONNECTIONS: usize, const LISTENERS: usize, const ANSWERS: usize> {
    connections: [CmSlot; CONNECTIONS],
    timers: [TimerNode; CONNECTIONS],
    buckets: [CmBucket; CONNECTIONS],
    listeners: [ListenSlot; LISTENERS],
    answers: [AnswerSlot; ANSWERS],
}

impl<const CONNECTIONS: usize, const LISTENERS: usize, const ANSWERS: usize>
    StaticCmStorage<CONNECTIONS, LISTENERS, ANSWERS>
{
    /// Empty pools.
    pub const EMPTY: Self = Self {
        connections: [const { CmSlot::EMPTY }; CONNECTIONS],
        timers: [TimerNode::EMPTY; CONNECTIONS],
        buckets: [CmBucket::EMPTY; CONNECTIONS],
        listeners: [ListenSlot::EMPTY; LISTENERS],
        answers: [AnswerSlot::EMPTY; ANSWERS],
    };

    /// Lends the pools to a connection manager.
    pub fn lend(&mut self) -> CmStorage<'_> {
        CmStorage {
            connections: &mut self.connections,
            timers: &mut self.timers,
            buckets: &mut self.buckets,
            listeners: &mut self.listeners,
            answers: &mut self.answers,
        }
    }
}

/// Pools on the heap, allocated once.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct HeapCmStorage {
    connections: Box<[CmSlot]>,
    timers: Box<[TimerNode]>,
    buckets: Box<[CmBucket]>,
    listeners: Box<[ListenSlot]>,
    answers: Box<[AnswerSlot]>,
}

#[cfg(feature = "std")]
impl HeapCmStorage {
    /// Allocates pools for so many connections, listeners and answers.
    #[must_use]
    pub fn new(connections: usize, listeners: usize, answers: usize) -> Self {
        Self {
            connections: (0..connections).map(|_| CmSlot::EMPTY).collect(),
            timers: vec![TimerNode::EMPTY; connections].into(),
            buckets: vec![CmBucket::EMPTY; connections].into(),
            listeners: vec![ListenSlot::EMPTY; listeners].into(),
            answers: vec![AnswerSlot::EMPTY; answers].into(),
        }
    }

    /// Lends the pools to a connection manager.
    pub fn lend(&mut self) -> CmStorage<'_> {
        CmStorage {
            connections: &mut self.connections,
            timers: &mut self.timers,
            buckets: &mut self.buckets,
            listeners: &mut self.listeners,
            answers: &mut self.answers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_as_large_as_the_storage_says() {
        let bytes = size_of::<CmSlot>() + size_of::<TimerNode>() + size_of::<CmBucket>();
        assert!((700..=850).contains(&bytes), "{bytes}");
    }

    #[test]
    fn events_come_in_order() {
        let mut events = Events::NONE;
        assert_eq!(events.pop(), Tell::Nothing);
        events.push(Tell::Established);
        events.push(Tell::Stale);
        assert_eq!(events.pop(), Tell::Established);
        events.push(Tell::TimewaitExit);
        assert_eq!([events.pop(), events.pop()], [Tell::Stale, Tell::TimewaitExit]);
        assert!(events.is_empty());
    }
}
