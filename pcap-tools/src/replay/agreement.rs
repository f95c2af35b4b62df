//! What the connection manager's messages say of the connections that follow.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_codec::Frame;
use roce_codec::ib::{PathMtu, Psn, Qpn};

use crate::connection::{ConnectionId, Connections, Role, State, Step};
use crate::observed::{FlowKey, Host};

/// A queue pair of a host. Its number may serve one connection after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct QpId {
    pub(super) host: IpAddr,
    pub(super) qpn: Qpn,
    /// Which connection it is for, if its messages were seen.
    pub(super) connection: Option<ConnectionId>,
}

/// What was agreed on for one end of a connection, as a responder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) peer: QpId,
    /// The PSN that its peer starts with.
    pub(super) first_psn: Psn,
    /// READs and atomics that it keeps.
    pub(super) resources: u8,
    pub(super) mtu: Option<PathMtu>,
    /// Where the capture shows that the connection was taken down.
    pub(super) closed_at: Option<usize>,
}

/// Learns from the messages of the connection manager, in their order.
#[derive(Debug, Default)]
pub(super) struct Agreements {
    connections: Connections,
    ends: HashMap<QpId, End>,
}

impl Agreements {
    /// The queue pair that has the number now.
    pub(super) fn qp(&self, host: IpAddr, qpn: Qpn) -> QpId {
        let connection = self.connections.of_qp(Host::Ip(host), qpn).map(|(end, _)| end.id);
        QpId { host, qpn, connection }
    }

    pub(super) fn end(&self, qp: QpId) -> Option<&End> {
        self.ends.get(&qp)
    }

    /// Takes the packet at `index`, which goes to queue pair 1.
    pub(super) fn learn(&mut self, index: usize, frame: &Frame<'_>) {
        let step = self.connections.packet(FlowKey::of_frame(frame), frame);
        let Some(Step::Advanced(id)) = step else { return };
        let Some(connection) = self.connections.get(id).copied() else { return };
        for role in [Role::Active, Role::Passive] {
            let (Some(own), Some(peer)) = (connection.side(role), connection.side(role.peer()))
            else {
                return;
            };
            let (Host::Ip(host), Host::Ip(peer_host)) = (own.host, peer.host) else { return };
            let of = |host, qpn| QpId { host, qpn, connection: Some(id) };
            let end = self.ends.entry(of(host, own.qpn)).or_insert(End {
                peer: of(peer_host, peer.qpn),
                first_psn: own.starting_psn,
                resources: own.responder_resources,
                mtu: connection.path_mtu,
                closed_at: None,
            });
            if matches!(connection.state, State::Disconnecting | State::Disconnected) {
                end.closed_at.get_or_insert(index);
            }
        }
    }
}
