//! A queue pair: what the caller sets, and the state of its two halves.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, RnrTimer, Service};

use crate::access::Access;
use crate::cq::Cq;
use crate::memory::{Pd, Via};
use crate::pacing::Bucket;
use crate::pool::List;
use crate::qp_state::{QpAttrMask, QpState};
use crate::requester::Requester;
use crate::responder::Responder;
use crate::srq::Srq;

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
    /// Its service: [`Service::Rc`], [`Service::Uc`] or [`Service::Ud`].
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
    /// Where its receives come from if not from a queue of its own.
    pub srq: Option<Srq>,
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
            srq: None,
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
    /// A datagram queue pair's, to [`QpState::Init`].
    InitUd {
        /// Partition.
        pkey: PKey,
        /// What a sender must know; queue pair 1 has [`QKey::GSI`] whatever is given.
        qkey: QKey,
    },
    /// To [`QpState::Rtr`].
    Rtr(RtrAttr),
    /// A datagram queue pair's, to [`QpState::Rtr`]: it has no peer.
    RtrUd,
    /// From RTR to [`QpState::Rts`].
    Rts(RtsAttr),
    /// A datagram queue pair's, from RTR to [`QpState::Rts`].
    RtsUd {
        /// The first PSN we send.
        sq_psn: Psn,
    },
    /// From RTS to [`QpState::Sqd`].
    Sqd,
    /// In [`QpState::Sqd`]: all of these but the PSN.
    Retries(RtsAttr),
    /// From [`QpState::Sqd`] or [`QpState::Sqe`] back to [`QpState::Rts`].
    Resume,
    /// In INIT, RTS or SQD: what the peer may do by way of this QP.
    Access(Access),
    /// In INIT, RTS or SQD: what a sender of datagrams must know.
    QKey(QKey),
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
    pub rq_psn: Psn,
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
    pub sq_psn: Psn,
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
    /// The shared receive queue does not exist.
    UnknownSrq,
    /// The state machine has no such transition.
    Transition {
        /// The state it is in.
        from: QpState,
        /// The state asked for.
        to: QpState,
    },
    /// The transition must be given other attributes.
    Attributes {
        /// What it needs.
        missing: QpAttrMask,
        /// What it does not take.
        excess: QpAttrMask,
    },
    /// There is a queue pair 1 already.
    Gsi,
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
    /// The service is none of RC, UC and UD; or not that of queue pair 1, which is UD.
    Service,
}

impl fmt::Display for QpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot => f.write_str("all queue pair slots are taken"),
            Self::UnknownQp => f.write_str("no queue pair has this number"),
            Self::UnknownSrq => f.write_str("no such shared receive queue"),
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
            Self::Attributes { missing, excess } => {
                write!(f, "attributes missing: {missing}; not taken: {excess}")
            }
            Self::Gsi => f.write_str("there is a queue pair 1 already"),
            Self::Service => {
                f.write_str("the service is not one of RC, UC and UD that it can have")
            }
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
    pub expected_psn: Psn,
    /// Messages the responder completed, modulo 2²⁴.
    pub msn: roce_codec::ib::Msn,
    /// The oldest PSN of ours that is not acknowledged.
    pub unacknowledged_psn: Psn,
    /// The PSN the next work request starts with.
    pub next_psn: Psn,
    /// Send work requests held.
    pub send_wrs: u32,
    /// Receive work requests that have not ended; a shared one counts from when it is taken.
    pub recv_wrs: u32,
}

/// One queue pair; part of [`Storage`](crate::Storage).
#[derive(Debug)]
pub struct QpSlot {
    pub(crate) live: bool,
    pub(crate) state: QpState,
    pub(crate) service: Service,
    pub(crate) observe_writes: bool,
    /// In SQD: it has been told that the send queue is drained.
    pub(crate) drained: bool,
    pub(crate) qkey: QKey,
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
    pub(crate) srq: Option<Srq>,
    /// Memory windows that only it may use.
    pub(crate) windows: u32,
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
        drained: false,
        qkey: QKey(0),
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
        srq: None,
        windows: 0,
        path: Path::EMPTY,
        receives: List::EMPTY,
        responder: Responder::EMPTY,
        read_pace: Bucket::EMPTY,
        requester: Requester::EMPTY,
        link: crate::pool::Link::NONE,
    };

    /// Reads a little of each part that a packet needs, so that all of it comes into the cache.
    #[inline]
    pub(crate) fn touch(&self) -> bool {
        self.live
            ^ (self.path.hop_limit == 0)
            ^ (self.receives.len() == 0)
            ^ (self.responder.expected.get() == 0)
            ^ (self.requester.una.get() == 0)
    }

    /// Receives that have not ended: a message dropped half-way gives back the one it was filling
    /// (UC), so that one keeps its place among `max_recv_wr`.
    #[inline]
    pub(crate) fn outstanding_receives(&self) -> u32 {
        self.receives.len() + u32::from(self.responder.receive_in_hand().is_some())
    }

    /// As whom it reaches memory.
    #[inline]
    pub(crate) const fn via(&self) -> Via {
        Via { pd: self.pd, qp: self.qpn }
    }

    /// Whether requests are answered.
    #[inline]
    pub(crate) const fn receives_requests(&self) -> bool {
        self.state.receives()
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
    fn timeouts() {
        let attr = |timeout| RtsAttr {
            sq_psn: Psn::new(0),
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
