//! What two ends agreed on, as the queue pair takes it.

use roce_codec::cm::{Rep, Req, Timeout, TransportType};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer};

use super::{Accept, Connect};
use crate::qp::{Path, RtrAttr, RtsAttr};

/// Everything that takes a queue pair from INIT over RTR to RTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpAttributes {
    /// The transport service: reliable or unreliable connection.
    pub transport: TransportType,
    /// The way to the peer.
    pub path: Path,
    /// Partition.
    pub pkey: PKey,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// The first PSN the peer sends: what we said in our message.
    pub rq_psn: Psn,
    /// The first PSN we send: what the peer said in its message.
    pub sq_psn: Psn,
    /// How long our requester waits for an acknowledgement; code 0 is for ever.
    pub timeout: Timeout,
    /// Times our requester sends again without progress, 0 to 7.
    pub retry_cnt: u8,
    /// Times our requester sends again after an RNR NAK, 0 to 6; 7 is without end.
    pub rnr_retry: u8,
    /// READs and atomics we may have outstanding: no more than we asked for, nor than the peer
    /// serves.
    pub max_rd_atomic: u8,
    /// READs and atomics of the peer's that we serve: no more than we offered, nor than the peer
    /// wants.
    pub max_dest_rd_atomic: u8,
    /// The peer's requester heeds the credits in our acknowledgements.
    pub end_to_end_flow_control: bool,
}

impl QpAttributes {
    pub(super) const EMPTY: Self = Self {
        transport: TransportType::Rc,
        path: Path::EMPTY,
        pkey: PKey::DEFAULT,
        dest_qpn: Qpn::new(0),
        path_mtu: PathMtu::Mtu1024,
        rq_psn: Psn::new(0),
        sq_psn: Psn::new(0),
        timeout: Timeout::new(0),
        retry_cnt: 0,
        rnr_retry: 0,
        max_rd_atomic: 0,
        max_dest_rd_atomic: 0,
        end_to_end_flow_control: false,
    };

    /// What the active side knows before the REP.
    pub(super) const fn asked(connect: &Connect<'_>) -> Self {
        Self {
            transport: connect.transport,
            path: connect.path,
            pkey: connect.pkey,
            path_mtu: connect.path_mtu,
            rq_psn: connect.starting_psn,
            timeout: connect.local_ack_timeout,
            retry_cnt: connect.retry_count & 7,
            max_rd_atomic: connect.initiator_depth,
            max_dest_rd_atomic: connect.responder_resources,
            ..Self::EMPTY
        }
    }

    /// The active side's, when the REP has come (IBTA 12.6.8). READs and atomics: no more than
    /// one side wants, nor than the other serves (IBTA 12.7).
    pub(super) fn answered(self, rep: &Rep<'_>) -> Self {
        Self {
            dest_qpn: rep.local_qpn,
            sq_psn: rep.starting_psn,
            timeout: ack_timeout(self.timeout, rep.target_ack_delay),
            rnr_retry: rep.rnr_retry_count,
            max_rd_atomic: self.max_rd_atomic.min(rep.responder_resources),
            max_dest_rd_atomic: self.max_dest_rd_atomic.min(rep.initiator_depth),
            end_to_end_flow_control: rep.end_to_end_flow_control,
            ..self
        }
    }

    /// What the passive side knows from the REQ (IBTA 12.6.5). Its numbers of READs and atomics are the
    /// peer's offer.
    pub(super) const fn requested(req: &Req<'_>, path_mtu: PathMtu, path: Path) -> Self {
        Self {
            transport: req.transport,
            path,
            pkey: req.pkey,
            dest_qpn: req.local_qpn,
            path_mtu,
            sq_psn: req.starting_psn,
            timeout: req.primary.local_ack_timeout,
            retry_cnt: req.retry_count,
            rnr_retry: req.rnr_retry_count,
            max_rd_atomic: req.responder_resources,
            max_dest_rd_atomic: req.initiator_depth,
            end_to_end_flow_control: req.end_to_end_flow_control,
            ..Self::EMPTY
        }
    }

    /// The passive side's, when the consumer has accepted.
    pub(super) fn accepted(self, accept: &Accept<'_>) -> Self {
        Self {
            rq_psn: accept.starting_psn,
            max_rd_atomic: self.max_rd_atomic.min(accept.initiator_depth),
            max_dest_rd_atomic: self.max_dest_rd_atomic.min(accept.responder_resources),
            ..self
        }
    }

    /// For [`ModifyQp::Rtr`](crate::ModifyQp::Rtr).
    #[must_use]
    pub const fn rtr(&self, min_rnr_timer: RnrTimer) -> RtrAttr {
        RtrAttr {
            path: self.path,
            path_mtu: self.path_mtu,
            dest_qpn: self.dest_qpn,
            rq_psn: self.rq_psn,
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            min_rnr_timer,
        }
    }

    /// For [`ModifyQp::Rts`](crate::ModifyQp::Rts).
    #[must_use]
    pub const fn rts(&self) -> RtsAttr {
        RtsAttr {
            sq_psn: self.sq_psn,
            timeout: self.timeout.code(),
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            max_rd_atomic: self.max_rd_atomic,
        }
    }
}

/// The acknowledge timeout over the same path towards a target of another delay: twice the
/// packet's life time, which is the power of two below `local`, and the delay, to the nearest
/// power of two (IBTA Vol. 1, 12.7: local ACK timeout, target ACK delay).
fn ack_timeout(local: Timeout, target_delay: Timeout) -> Timeout {
    let (long, short) =
        (local.code().max(target_delay.code()), local.code().min(target_delay.code()));
    // 2^long + 2^short is nearer to 2^(long + 1) if the shorter is at least half the longer.
    let up = u8::from(short + 1 >= long);
    Timeout::new((long + up).min(Timeout::MAX.code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_towards_slow_targets() {
        for (local, delay, timeout) in [
            (19, 15, 19),
            (19, 18, 20),
            (19, 19, 20),
            (10, 15, 15),
            (14, 15, 16),
            (31, 31, 31),
            (0, 0, 1),
        ] {
            let code = ack_timeout(Timeout::new(local), Timeout::new(delay)).code();
            assert_eq!(code, timeout, "{local} and {delay}");
        }
    }
}
