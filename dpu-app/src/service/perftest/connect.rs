//! Joining a queue pair of ours to the peer's, by what perftest asks of a connection. Either side
//! does it alike.

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer};
use roce_codec::net::{flow_label_from_qpns, source_port_from_flow_label};
use roce_engine::{Access, Engine, ModifyQp, Path, QpError, RtrAttr, RtsAttr};

use super::key::KeyMessage;
use crate::service::Route;

/// Seven retries; receiver not ready for ever.
const RETRY_COUNT: u8 = 7;
const RNR_RETRY: u8 = 7;
/// 0.64 ms.
const MIN_RNR_TIMER: RnrTimer = RnrTimer::new(12);
const HOP_LIMIT: u8 = 64;
/// 67 ms.
pub(super) const TIMEOUT: u8 = 14;

/// A connection to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connect<'a> {
    pub(super) qpn: Qpn,
    /// The first PSN we send.
    pub(super) psn: Psn,
    pub(super) peer: &'a KeyMessage,
    pub(super) route: Route,
    pub(super) path_mtu: PathMtu,
    /// What the peer may do.
    pub(super) access: Access,
    /// READs and atomics of the peer's that we keep.
    pub(super) max_dest_rd_atomic: u8,
    /// READs and atomics that we may have outstanding.
    pub(super) max_rd_atomic: u8,
    /// 4.096 µs · 2^timeout.
    pub(super) timeout: u8,
}

impl Connect<'_> {
    /// Makes the queue pair ready to receive and to send.
    pub(super) fn apply(&self, engine: &mut Engine<'_>) -> Result<(), QpError> {
        let flow_label = flow_label_from_qpns(self.qpn, self.peer.qpn);
        let path = Path {
            src: self.route.src,
            dst: self.peer.gid.address(),
            next_hop: self.route.next_hop,
            src_port: source_port_from_flow_label(flow_label),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
        };
        let changes = [
            ModifyQp::Init { pkey: PKey::DEFAULT, access: self.access },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu: self.path_mtu,
                dest_qpn: self.peer.qpn,
                rq_psn: self.peer.psn,
                max_dest_rd_atomic: self.max_dest_rd_atomic,
                min_rnr_timer: MIN_RNR_TIMER,
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn: self.psn,
                timeout: self.timeout,
                retry_cnt: RETRY_COUNT,
                rnr_retry: RNR_RETRY,
                max_rd_atomic: self.max_rd_atomic,
            }),
        ];
        changes.iter().try_for_each(|change| engine.modify_qp(self.qpn, change))
    }
}
