//! Completion queues.

use core::fmt;

use roce_codec::ib::{Qpn, RKey};

use crate::pool::{Link, Linked, List, Pool};

/// A completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cq(pub(crate) u32);

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WcStatus {
    /// Done.
    Success,
    /// A message was longer than the receive's memory.
    LocalLength,
    /// The local memory was not, or is no longer, what the request says.
    LocalProtection,
    /// The queue pair could not do it: the address handle of a datagram is gone.
    LocalQpOperation,
    /// The queue pair went to error first.
    WrFlush,
    /// A memory window could not be bound, or a key not be taken away.
    MwBind,
    /// The peer answered something that does not fit the request.
    BadResponse,
    /// The peer refused: invalid request.
    RemoteInvalidRequest,
    /// The peer refused: key, range or rights.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// A SEND arrived with a key to invalidate that is not the peer's to take away.
    RemoteInvalidate,
    /// No answer, `retry_cnt` times over.
    RetryExceeded,
    /// Receiver not ready, `rnr_retry` times over.
    RnrRetryExceeded,
}

impl WcStatus {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Success,
        Self::LocalLength,
        Self::LocalProtection,
        Self::LocalQpOperation,
        Self::WrFlush,
        Self::MwBind,
        Self::BadResponse,
        Self::RemoteInvalidRequest,
        Self::RemoteAccess,
        Self::RemoteOperation,
        Self::RemoteInvalidate,
        Self::RetryExceeded,
        Self::RnrRetryExceeded,
    ];
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalProtection => "local protection error",
            Self::LocalQpOperation => "local QP operation error",
            Self::WrFlush => "work request flushed",
            Self::MwBind => "memory window bind error",
            Self::BadResponse => "bad response",
            Self::RemoteInvalidRequest => "remote invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RemoteInvalidate => "remote invalidate error",
            Self::RetryExceeded => "transport retry count exceeded",
            Self::RnrRetryExceeded => "RNR retry count exceeded",
        })
    }
}

/// What kind of work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WcOpcode {
    /// A SEND of ours.
    Send,
    /// A WRITE of ours.
    RdmaWrite,
    /// A READ of ours.
    RdmaRead,
    /// A COMPARE SWAP of ours.
    CompareSwap,
    /// A FETCH ADD of ours.
    FetchAdd,
    /// An ATOMIC WRITE of ours.
    AtomicWrite,
    /// A FLUSH of ours.
    Flush,
    /// A memory window bound.
    BindMw,
    /// A key taken away by ourselves.
    LocalInvalidate,
    /// A receive, consumed by a SEND.
    Recv,
    /// A receive, consumed by a WRITE with immediate.
    RecvRdmaWithImm,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wc {
    /// From the work request.
    pub wr_id: u64,
    /// How it ended. Unless `Success`, only `wr_id`, `status` and `qp` mean anything.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes received or read.
    pub byte_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The key of ours that the peer has taken away with its SEND.
    pub invalidated: Option<RKey>,
    /// The queue pair.
    pub qp: Qpn,
    /// Of a received datagram: who sent it. Its first 40 bytes are the
    /// [`GrhArea`](crate::GrhArea), which `byte_len` counts.
    pub src_qp: Option<Qpn>,
    /// The peer asked to wake the consumer.
    pub solicited: bool,
}

/// One completion; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct CqeSlot {
    link: Link,
    wc: Wc,
}

impl CqeSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        link: Link::NONE,
        wc: Wc {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            byte_len: 0,
            imm: None,
            invalidated: None,
            qp: Qpn::new(0),
            src_qp: None,
            solicited: false,
        },
    };
}

impl Linked for CqeSlot {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// One completion queue; part of [`Storage`](crate::Storage).
#[derive(Debug, Clone, Copy)]
pub struct CqSlot {
    list: List,
    depth: u32,
}

impl CqSlot {
    /// An empty slot: all zeroes.
    pub const EMPTY: Self = Self { list: List::EMPTY, depth: 0 };
}

/// All completion queues of an engine.
#[derive(Debug)]
pub(crate) struct CqTable<'s> {
    queues: &'s mut [CqSlot],
    pool: Pool<'s, CqeSlot>,
    used: u32,
}

impl<'s> CqTable<'s> {
    pub(crate) fn new(queues: &'s mut [CqSlot], cqes: &'s mut [CqeSlot]) -> Self {
        Self { queues, pool: Pool::new(cqes), used: 0 }
    }

    pub(crate) fn create(&mut self, depth: u32) -> Option<Cq> {
        let cq = Cq(self.used);
        let slot = self.queue_mut(cq)?;
        *slot = CqSlot { list: List::EMPTY, depth };
        self.used += 1;
        Some(cq)
    }

    pub(crate) fn contains(&self, cq: Cq) -> bool {
        cq.0 < self.used
    }

    fn queue_mut(&mut self, cq: Cq) -> Option<&mut CqSlot> {
        self.queues.get_mut(usize::try_from(cq.0).ok()?)
    }

    /// Adds a completion; says whether there was room.
    #[must_use]
    pub(crate) fn push(&mut self, cq: Cq, wc: Wc) -> bool {
        let Some(queue) = self.queue_mut(cq) else { return false };
        if queue.list.len() >= queue.depth {
            return false;
        }
        let mut list = queue.list;
        let Some(index) = self.pool.take() else { return false };
        if let Some(slot) = self.pool.get_mut(index) {
            slot.wc = wc;
        }
        self.pool.push_back(&mut list, index);
        if let Some(queue) = self.queue_mut(cq) {
            queue.list = list;
        }
        true
    }

    /// Slots taken.
    pub(crate) const fn taken(&self) -> u32 {
        self.pool.taken()
    }

    /// Completions that wait in all queues.
    pub(crate) fn waiting(&self) -> u32 {
        self.queues.iter().map(|queue| queue.list.len()).sum()
    }

    pub(crate) fn pop(&mut self, cq: Cq) -> Option<Wc> {
        let mut list = self.queue_mut(cq)?.list;
        let index = self.pool.pop_front(&mut list)?;
        let wc = self.pool.get(index).map(|slot| slot.wc);
        self.pool.give(index);
        if let Some(queue) = self.queue_mut(cq) {
            queue.list = list;
        }
        wc
    }
}
