//! A queue pair: what the caller sets, and the state of its two halves.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Qpn, RnrTimer, Service};

use crate::cq::Cq;
use crate::memory::{Access, Pd};
use crate::pacing::Bucket;
use crate::pool::List;
use crate::requester::Requester;
use crate::responder::Responder;

/// The states of a queue pair (IBTA 10.3.1), by libibverbs' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QpState {
    /// Nothing but a number.
    #[default]
    Reset,
    /// Receives may be posted; packets are dropped.
    Init,
    /// Ready to receive: the responder answers.
    Rtr,
    /// Ready to send: the requester sends, too.
    Rts,
    /// Work requests are flushed, packets dropped.
    Error,
}

impl QpState {
    /// Whether a queue pair may go from this state to `to` by a call to
    /// [`Engine::modify_qp`](crate::Engine::modify_qp).
    #[must_use]
    pub const fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Reset | Self::Error)
                | (Self::Reset | Self::Init, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr | Self::Rts, Self::Rts)
        )
    }
}

/// Where the next hop's link-layer address is kept: an index into a table of the poll loop's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NextHop(pub u16);

/// The way to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// Our address.
    pub src: IpAddr,
    /// The peer's address, of the same family.
    pub dst: IpAddr,
    /// The link-layer next hop.
    pub next_hop: NextHop,
    /// UDP source port, 0xC000 to 0xFFFF.
    pub src_port: u16,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Time to live or hop limit.
    pub hop_limit: u8,
}

impl Path {
    /// An unset path.
    pub const EMPTY: Self = Self {
        src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        dst: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        next_hop: NextHop(0),
        src_port: 0,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
    };
}

/// What a queue pair is created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpInit {
    /// Its service: [`Service::Rc`] or [`Service::Uc`].
    pub service: Service,
    /// Its protection domain.
    pub pd: Pd,
    /// Where its sends complete.
    pub send_cq: Cq,
    /// Where its receives complete.
    pub recv_cq: Cq,
    /// Send work requests it may hold.
    pub max_send_wr: u32,
    /// Receive work requests it may hold.
    pub max_recv_wr: u32,
    /// Scatter-gather elements a send work request may have.
    pub max_send_sge: u8,
    /// Scatter-gather elements a receive work request may have.
    pub max_recv_sge: u8,
    /// Bytes of inline data a send work request may have.
    pub max_inline_data: u16,
    /// Whether whole RDMA WRITEs are told as [`Event::RemoteWrite`](crate::Event::RemoteWrite).
    pub observe_writes: bool,
}

impl QpInit {
    /// A queue pair of 16 work requests each way, of one scatter-gather element each, without
    /// inline data.
    #[must_use]
    pub const fn new(service: Service, pd: Pd, send_cq: Cq, recv_cq: Cq) -> Self {
        Self {
            service,
            pd,
            send_cq,
            recv_cq,
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
            observe_writes: false,
        }
    }
}

/// A change of state with the attributes it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModifyQp {
    /// Back to nothing; work requests are forgotten without completion.
    Reset,
    /// To [`QpState::Init`].
    Init {
        /// Partition.
        pkey: PKey,
        /// What the peer may do by way of this QP.
        access: Access,
    },
    /// To [`QpState::Rtr`].
    Rtr(RtrAttr),
    /// To [`QpState::Rts`].
    Rts(RtsAttr),
    /// To [`QpState::Error`]: work requests complete as flushed, answers not yet out are
    /// forgotten.
    Error,
}

/// What the responder needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtrAttr {
    /// The way to the peer.
    pub path: Path,
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The first PSN the peer will send.
    pub rq_psn: roce_codec::ib::Psn,
    /// READs and atomics of the peer's that are kept for replay, at most
    /// [`Engine::max_dest_rd_atomic`](crate::Engine::max_dest_rd_atomic).
    pub max_dest_rd_atomic: u8,
    /// What the peer is told to wait when no receive is posted.
    pub min_rnr_timer: RnrTimer,
}

/// What the requester needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtsAttr {
    /// The first PSN we send.
    pub sq_psn: roce_codec::ib::Psn,
    /// Acknowledge timeout: 4.096 µs · 2^timeout, 0 to 31; 0 waits for ever.
    pub timeout: u8,
    /// Times a request is sent again without progress, 0 to 7.
    pub retry_cnt: u8,
    /// Times a request is sent again after an RNR NAK, 0 to 6; 7 is without end.
    pub rnr_retry: u8,
    /// READs and atomics we may have outstanding (what the peer agreed to keep).
    pub max_rd_atomic: u8,
}

impl RtsAttr {
    /// The acknowledge timeout in nanoseconds; `None` if infinite (IBTA 9.7.6.1.3, C9-140).
    #[must_use]
    pub const fn timeout_ns(&self) -> Option<u64> {
        match self.timeout & 31 {
            0 => None,
            code => Some(4096 << code),
        }
    }
}

/// Why a verb on a queue pair was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QpError {
    /// All queue pair slots are taken.
    NoSlot,
    /// No queue pair has this number.
    UnknownQp,
    /// The completion queue does not exist.
    UnknownCq,
    /// The state machine has no such transition.
    Transition {
        /// The state it is in.
        from: QpState,
        /// The state asked for.
        to: QpState,
    },
    /// The path MTU is above what the engine's port carries.
    PathMtu {
        /// What was asked for.
        asked: PathMtu,
        /// What the port carries.
        most: PathMtu,
    },
    /// More READs and atomics than the storage keeps for replay.
    RdAtomic {
        /// What was asked for.
        asked: u8,
        /// What the storage keeps.
        most: u8,
    },
    /// Source and destination address are of different families.
    AddressFamily,
    /// The service is neither RC nor UC.
    Service,
}

impl fmt::Display for QpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot => f.write_str("all queue pair slots are taken"),
            Self::UnknownQp => f.write_str("no queue pair has this number"),
            Self::UnknownCq => f.write_str("no such completion queue"),
            Self::Transition { from, to } => {
                write!(f, "a queue pair cannot go from {from:?} to {to:?}")
            }
            Self::PathMtu { asked, most } => {
                write!(f, "path MTU {asked} is above the {most} that the port carries")
            }
            Self::RdAtomic { asked, most } => {
                write!(f, "{asked} READs and atomics asked for, {most} are kept for replay")
            }
            Self::Service => f.write_str("the service is neither RC nor UC"),
            Self::AddressFamily => f.write_str("addresses of different families"),
        }
    }
}

impl core::error::Error for QpError {}

/// What can be asked of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpInfo {
    /// Its state.
    pub state: QpState,
    /// The PSN the responder expects next.
    pub expected_psn: roce_codec::ib::Psn,
    /// Messages the responder completed, modulo 2²⁴.
    pub msn: roce_codec::ib::Msn,
    /// The oldest PSN of ours that is not acknowledged.
    pub unacknowledged_psn: roce_codec::ib::Psn,
    /// The PSN the next work request starts with.
    pub next_psn: roce_codec::ib::Psn,
    /// Send work requests held.
    pub send_wrs: u32,
    /// Receive work requests held.
    pub recv_wrs: u32,
}

/// One queue pair; part of [`Storage`](crate::Storage).
#[derive(Debug)]
pub struct QpSlot {
    pub(crate) live: bool,
    pub(crate) state: QpState,
    pub(crate) service: Service,
    pub(crate) observe_writes: bool,
    pub(crate) qpn: Qpn,
    pub(crate) dest_qpn: Qpn,
    pub(crate) path_mtu: PathMtu,
    pub(crate) pkey: PKey,
    pub(crate) access: Access,
    pub(crate) pd: Pd,
    pub(crate) send_cq: Cq,
    pub(crate) recv_cq: Cq,
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u8,
    pub(crate) max_recv_sge: u8,
    pub(crate) max_inline_data: u16,
    pub(crate) path: Path,
    pub(crate) receives: List,
    pub(crate) responder: Responder,
    /// What its READ answers may cost.
    pub(crate) read_pace: Bucket,
    pub(crate) requester: Requester,
    pub(crate) link: crate::pool::Link,
}

impl QpSlot {
    /// An empty slot.
    pub const EMPTY: Self = Self {
        live: false,
        state: QpState::Reset,
        service: Service::Rc,
        observe_writes: false,
        qpn: Qpn::new(0),
        dest_qpn: Qpn::new(0),
        path_mtu: PathMtu::Mtu1024,
        pkey: PKey::DEFAULT,
        access: Access::NONE,
        pd: Pd(0),
        send_cq: Cq(0),
        recv_cq: Cq(0),
        max_send_wr: 0,
        max_recv_wr: 0,
        max_send_sge: 0,
        max_recv_sge: 0,
        max_inline_data: 0,
        path: Path::EMPTY,
        receives: List::EMPTY,
        responder: Responder::EMPTY,
        read_pace: Bucket::EMPTY,
        requester: Requester::EMPTY,
        link: crate::pool::Link::NONE,
    };

    /// Reads what the first check of a packet reads, and the responder's state.
    #[inline]
    pub(crate) fn touch(&self) -> bool {
        self.live ^ (self.responder.expected.get() & 1 == 0)
    }

    /// Whether requests are answered.
    #[inline]
    pub(crate) const fn receives_requests(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts)
    }
}

impl crate::pool::Linked for QpSlot {
    fn link(&mut self) -> &mut crate::pool::Link {
        &mut self.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_table() {
        use QpState::{Error, Init, Reset, Rtr, Rts};
        let states = [Reset, Init, Rtr, Rts, Error];
        let table = [
            // to: Reset  Init   Rtr    Rts    Error
            (Reset, [true, true, false, false, true]),
            (Init, [true, true, true, false, true]),
            (Rtr, [true, false, false, true, true]),
            (Rts, [true, false, false, true, true]),
            (Error, [true, false, false, false, true]),
        ];
        for (from, row) in table {
            for (to, legal) in states.into_iter().zip(row) {
                assert_eq!(from.may_become(to), legal, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn timeouts() {
        let attr = |timeout| RtsAttr {
            sq_psn: roce_codec::ib::Psn::new(0),
            timeout,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
        };
        assert_eq!(attr(0).timeout_ns(), None);
        assert_eq!(attr(14).timeout_ns(), Some(67_108_864));
        assert_eq!(attr(31).timeout_ns(), Some(8_796_093_022_208));
    }
}
