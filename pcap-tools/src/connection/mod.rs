//! Connections that a capture's CM exchanges set up: which queue pairs belong together, the PSNs
//! they start at, and what both sides agreed (IBTA Vol. 1, 12.9).
//!
//! [`Connections`] takes the connection manager's messages one by one and remembers a bounded
//! number of connections, found by host and queue pair. What the capture missed stays unknown: a
//! connection whose REQ was not seen is not there.
//!
//! ```no_run
//! use roce_pcap::capture::Reader;
//! use roce_pcap::connection::Connections;
//! use roce_pcap::observed::Observed;
//!
//! let mut connections = Connections::new();
//! let mut reader = Reader::open("trace.pcapng")?;
//! while let Some(packet) = reader.next_packet() {
//!     let observed = Observed::new(&packet?);
//!     if let Some((flow, transport)) = observed.flow().zip(observed.transport()) {
//!         connections.packet(flow, transport);
//!     }
//! }
//! # Ok::<(), roce_pcap::capture::CaptureError>(())
//! ```

pub(crate) mod table;

use roce_codec::Transport;
use roce_codec::cm::{
    CommunicationId, Mad, Message, Rej, RejReason, Rep, Req, ServiceId, SidrRep, SidrReq,
    SidrStatus, Timeout,
};
use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, Service};

use crate::observed::{FlowKey, Host};
use table::Table;

/// Connections remembered at a time; the oldest go first.
const MAX_CONNECTIONS: usize = 8192;
/// Datagram services and their requests remembered at a time.
const MAX_DATAGRAMS: usize = 1024;

/// One side of a connection, as its own messages state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    /// Its address.
    pub host: Host,
    /// What it calls the connection.
    pub comm_id: CommunicationId,
    /// Its queue pair.
    pub qpn: Qpn,
    /// The PSN that its *peer* starts to send with.
    pub starting_psn: Psn,
    /// How many READs and atomics it serves at a time.
    pub responder_resources: u8,
    /// How many READs and atomics it would like to have outstanding (REQ), or will (REP).
    pub initiator_depth: u8,
    /// Times its peer retries after an RNR NAK; 7 is without end.
    pub rnr_retry_count: u8,
    /// It has a shared receive queue, and states no credits.
    pub srq: bool,
    /// Its requester heeds the credits in acknowledgements.
    pub end_to_end_flow_control: bool,
}

/// Which side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It asked: sender of the REQ.
    Active,
    /// It was asked: sender of the REP.
    Passive,
}

impl Role {
    /// The other side.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Active => Self::Passive,
            Self::Passive => Self::Active,
        }
    }
}

/// How far a connection has come, by the messages seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// REQ.
    Requested,
    /// REQ, REP.
    Replied,
    /// REQ, REP, RTU.
    Established,
    /// REQ, REJ.
    Rejected,
    /// DREQ.
    Disconnecting,
    /// DREQ, DREP.
    Disconnected,
}

/// A connection, from its REQ on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// How far it has come.
    pub state: State,
    /// The service asked for.
    pub service_id: ServiceId,
    /// The transport service; `None` if the REQ names an unknown one.
    pub service: Option<Service>,
    /// Partition key.
    pub pkey: PKey,
    /// Path MTU; `None` if the REQ's code is none of the five.
    pub path_mtu: Option<PathMtu>,
    /// How long a requester waits for an acknowledgement; code 0 is without end.
    pub local_ack_timeout: Timeout,
    /// Times a requester retries for want of an acknowledgement, or after a sequence NAK.
    pub retry_count: u8,
    /// Flow label of the path, which Linux folds into the UDP source port.
    pub flow_label: u32,
    /// The side that asked.
    pub active: Side,
    /// The side that was asked; `None` until its REP.
    pub passive: Option<Side>,
    /// Transaction that the REQ began.
    pub transaction_id: u64,
    /// Why it was rejected.
    pub reject_reason: Option<RejReason>,
    /// Who rejected it.
    pub rejected_by: Option<Role>,
}

impl Connection {
    /// A side, once it is known.
    #[must_use]
    pub fn side(&self, role: Role) -> Option<&Side> {
        match role {
            Role::Active => Some(&self.active),
            Role::Passive => self.passive.as_ref(),
        }
    }

    /// The PSN that a side starts to send with: its peer states it.
    #[must_use]
    pub fn first_psn(&self, role: Role) -> Option<Psn> {
        self.side(role.peer()).map(|peer| peer.starting_psn)
    }

    /// READs and atomics that a side may have outstanding: what its peer serves at a time, and no
    /// more than the REP made of its own wish.
    #[must_use]
    pub fn read_limit(&self, role: Role) -> Option<u8> {
        let passive = self.passive?;
        Some(match role {
            Role::Active => passive.responder_resources,
            Role::Passive => self.active.responder_resources.min(passive.initiator_depth),
        })
    }
}

/// A connection's place, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// The connection.
    pub id: ConnectionId,
    /// The side.
    pub role: Role,
}

/// A connection's number in the capture, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a message of the connection manager did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A connection, or a datagram service's address, came to be known or got further.
    Advanced(ConnectionId),
    /// The same message again.
    Repeated(ConnectionId),
    /// A message that says nothing of how far the connection is (MRA, LAP, APR, SAP, SPR).
    Aside(ConnectionId),
    /// The connection is known, and what its messages said does not allow this one.
    Refused(ConnectionId, Refusal),
    /// It speaks of a connection whose REQ was not seen.
    Unknown,
    /// Service ID resolution: no connection.
    Datagram,
}

/// Why a message does not fit its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The other side sends this message.
    WrongSide,
    /// It repeats a message with other contents.
    Changed,
    /// It does not follow from the state the connection was in; a message in between may have been
    /// missed.
    OutOfOrder(State),
}

/// A datagram service, as a SIDR_REP states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The service asked for.
    pub service_id: ServiceId,
    /// Queue key that datagrams to it carry.
    pub qkey: QKey,
}

/// The connections of a capture.
#[derive(Debug)]
pub struct Connections {
    /// By the active side's name.
    connections: Table<ConnectionKey, Connection>,
    /// By the passive side's.
    passive: Table<ConnectionKey, ConnectionId>,
    by_qp: Table<(Host, Qpn), End>,
    datagrams: Table<(Host, Qpn), Datagram>,
    /// Service IDs of SIDR_REQs, by who asked whom under which number.
    resolutions: Table<(Host, Host, u32), ServiceId>,
}

/// What a host calls its connection with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ConnectionKey {
    host: Host,
    peer: Host,
    comm_id: CommunicationId,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// Knows none yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connections: Table::new(MAX_CONNECTIONS),
            passive: Table::new(MAX_CONNECTIONS),
            by_qp: Table::new(2 * MAX_CONNECTIONS),
            datagrams: Table::new(MAX_DATAGRAMS),
            resolutions: Table::new(MAX_DATAGRAMS),
        }
    }

    /// Takes a packet that goes to QP1; `None` if it is no message of the connection manager. Its
    /// ICRC is the caller's to have checked.
    pub fn packet(&mut self, flow: FlowKey, packet: &Transport<'_>) -> Option<Step> {
        if packet.dest_qp() != Qpn::GSI {
            return None;
        }
        let mad = Mad::from_frame(packet)?;
        let message = Message::parse(&mad).ok()?;
        Some(self.message(flow.src, flow.dst, mad.header.transaction_id, &message))
    }

    /// Takes a message.
    pub fn message(
        &mut self,
        src: Host,
        dst: Host,
        transaction_id: u64,
        message: &Message<'_>,
    ) -> Step {
        let [local, remote] = match message {
            Message::Req(req) => return self.req(src, dst, transaction_id, req),
            Message::Rep(rep) => return self.rep(src, dst, transaction_id, rep),
            Message::SidrReq(req) => return self.sidr_req(src, dst, req),
            Message::SidrRep(rep) => return self.sidr_rep(src, dst, rep),
            Message::Mra(mra) => [mra.local_comm_id, mra.remote_comm_id],
            Message::Rej(rej) => [rej.local_comm_id, rej.remote_comm_id],
            Message::Rtu(rtu) => [rtu.local_comm_id, rtu.remote_comm_id],
            Message::Dreq(dreq) => [dreq.local_comm_id, dreq.remote_comm_id],
            Message::Drep(drep) => [drep.local_comm_id, drep.remote_comm_id],
            Message::Lap(lap) => [lap.local_comm_id, lap.remote_comm_id],
            Message::Apr(apr) => [apr.local_comm_id, apr.remote_comm_id],
            Message::Sap(sap) => [sap.local_comm_id, sap.remote_comm_id],
            Message::Spr(spr) => [spr.local_comm_id, spr.remote_comm_id],
            _ => return Step::Unknown,
        };
        let Some(sender) = self.sender(src, dst, local, remote) else { return Step::Unknown };
        let Some(connection) = self.connections.by_number_mut(sender.id.0) else {
            return Step::Unknown;
        };
        let refused = Step::Refused(sender.id, Refusal::OutOfOrder(connection.state));
        match (message, connection.state) {
            (Message::Rtu(_), _) if sender.role == Role::Passive => {
                Step::Refused(sender.id, Refusal::WrongSide)
            }
            (Message::Rtu(_), State::Replied) => connection.advance(sender.id, State::Established),
            (Message::Rtu(_), State::Established) => Step::Repeated(sender.id),
            // It may have been overtaken by the DREQ of an impatient peer.
            (Message::Rtu(_), State::Disconnecting) => Step::Repeated(sender.id),
            (Message::Rej(_), State::Rejected) => Step::Repeated(sender.id),
            (Message::Rej(Rej { reason, .. }), _) => {
                connection.reject_reason = Some(*reason);
                connection.rejected_by = Some(sender.role);
                connection.advance(sender.id, State::Rejected)
            }
            (Message::Dreq(_), State::Replied | State::Established) => {
                connection.advance(sender.id, State::Disconnecting)
            }
            (Message::Dreq(_), State::Disconnecting | State::Disconnected) => {
                Step::Repeated(sender.id)
            }
            (Message::Drep(_), State::Disconnecting) => {
                connection.advance(sender.id, State::Disconnected)
            }
            (Message::Drep(_), State::Disconnected) => Step::Repeated(sender.id),
            (Message::Rtu(_) | Message::Dreq(_) | Message::Drep(_), _) => refused,
            _ => Step::Aside(sender.id),
        }
    }

    /// A connection.
    #[must_use]
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.by_number(id.0)
    }

    /// The newest connection that a host has or had on a queue pair, and which side it is.
    #[must_use]
    pub fn of_qp(&self, host: Host, qpn: Qpn) -> Option<(End, &Connection)> {
        let end = *self.by_qp.get(&(host, qpn))?;
        Some((end, self.get(end.id)?))
    }

    /// The connection of a flow, and which side *sends* it.
    #[must_use]
    pub fn of_flow(&self, flow: FlowKey) -> Option<(End, &Connection)> {
        let (receiver, connection) = self.of_qp(flow.dst, flow.dest_qp)?;
        let role = receiver.role.peer();
        // Without a REP the passive side's address is that of the REQ, which is not kept.
        let sender = connection.side(role)?;
        (sender.host == flow.src).then_some((End { id: receiver.id, role }, connection))
    }

    /// The datagram service at a host's queue pair.
    #[must_use]
    pub fn datagram(&self, host: Host, qpn: Qpn) -> Option<Datagram> {
        self.datagrams.get(&(host, qpn)).copied()
    }

    /// Whose message it is, by either side's name for the connection.
    fn sender(
        &self,
        src: Host,
        dst: Host,
        local: CommunicationId,
        remote: CommunicationId,
    ) -> Option<End> {
        let active = |host, peer, comm_id| {
            self.connections.number(&ConnectionKey { host, peer, comm_id }).map(ConnectionId)
        };
        let passive =
            |host, peer, comm_id| self.passive.get(&ConnectionKey { host, peer, comm_id }).copied();
        // What the sender calls it itself may be missing: a REJ of a REQ has no name yet.
        [
            (active(src, dst, local), Role::Active),
            (passive(src, dst, local), Role::Passive),
            (active(dst, src, remote), Role::Passive),
            (passive(dst, src, remote), Role::Active),
        ]
        .into_iter()
        .filter_map(|(id, role)| Some(End { id: id?, role }))
        .find(|end| self.is_named(*end, local, remote))
    }

    /// Whether a connection's sides have these names, as far as they are known: names are used
    /// again, and each side's are its own.
    fn is_named(&self, sender: End, local: CommunicationId, remote: CommunicationId) -> bool {
        let Some(connection) = self.get(sender.id) else { return false };
        let named =
            |role, comm_id| connection.side(role).is_none_or(|side| side.comm_id == comm_id);
        named(sender.role, local) && named(sender.role.peer(), remote)
    }

    fn req(&mut self, src: Host, dst: Host, transaction_id: u64, req: &Req<'_>) -> Step {
        let key = ConnectionKey { host: src, peer: dst, comm_id: req.local_comm_id };
        let connection = Connection {
            state: State::Requested,
            service_id: req.service_id,
            service: req.service(),
            pkey: req.pkey,
            path_mtu: req.path_mtu(),
            local_ack_timeout: req.primary.local_ack_timeout,
            retry_count: req.retry_count,
            flow_label: req.primary.flow_label,
            active: Side {
                host: src,
                comm_id: req.local_comm_id,
                qpn: req.local_qpn,
                starting_psn: req.starting_psn,
                responder_resources: req.responder_resources,
                initiator_depth: req.initiator_depth,
                rnr_retry_count: req.rnr_retry_count,
                srq: req.srq,
                end_to_end_flow_control: req.end_to_end_flow_control,
            },
            passive: None,
            transaction_id,
            reject_reason: None,
            rejected_by: None,
        };
        if let Some(number) = self.connections.number(&key)
            && let Some(known) = self.connections.by_number(number)
            && known.transaction_id == transaction_id
        {
            let Connection { state, passive, reject_reason, rejected_by, .. } = *known;
            let id = ConnectionId(number);
            return if *known
                == (Connection { state, passive, reject_reason, rejected_by, ..connection })
            {
                Step::Repeated(id)
            } else {
                Step::Refused(id, Refusal::Changed)
            };
        }
        let id = ConnectionId(self.connections.insert(key, connection));
        self.by_qp.insert((src, req.local_qpn), End { id, role: Role::Active });
        Step::Advanced(id)
    }

    fn rep(&mut self, src: Host, dst: Host, transaction_id: u64, rep: &Rep<'_>) -> Step {
        let Some(sender) = self.sender(src, dst, rep.local_comm_id, rep.remote_comm_id) else {
            return Step::Unknown;
        };
        let Some(connection) = self.connections.by_number_mut(sender.id.0) else {
            return Step::Unknown;
        };
        // A name that is used again, by an exchange whose REQ was missed.
        if connection.transaction_id != transaction_id {
            return Step::Unknown;
        }
        if sender.role == Role::Active {
            return Step::Refused(sender.id, Refusal::WrongSide);
        }
        let passive = Side {
            host: src,
            comm_id: rep.local_comm_id,
            qpn: rep.local_qpn,
            starting_psn: rep.starting_psn,
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            end_to_end_flow_control: rep.end_to_end_flow_control,
        };
        match (connection.passive, connection.state) {
            (Some(known), _) if known == passive => Step::Repeated(sender.id),
            (Some(_), _) => Step::Refused(sender.id, Refusal::Changed),
            (None, State::Requested) => {
                connection.passive = Some(passive);
                connection.state = State::Replied;
                let comm_id = rep.local_comm_id;
                self.passive.insert(ConnectionKey { host: src, peer: dst, comm_id }, sender.id);
                self.by_qp.insert((src, rep.local_qpn), sender);
                Step::Advanced(sender.id)
            }
            (None, state) => Step::Refused(sender.id, Refusal::OutOfOrder(state)),
        }
    }

    fn sidr_req(&mut self, src: Host, dst: Host, req: &SidrReq<'_>) -> Step {
        self.resolutions.insert((src, dst, req.request_id), req.service_id);
        Step::Datagram
    }

    fn sidr_rep(&mut self, src: Host, dst: Host, rep: &SidrRep<'_>) -> Step {
        if rep.status == SidrStatus::VALID {
            let asked = self.resolutions.get(&(dst, src, rep.request_id)).copied();
            let service_id = asked.unwrap_or(rep.service_id);
            self.datagrams.insert((src, rep.qpn), Datagram { service_id, qkey: rep.qkey });
        }
        Step::Datagram
    }
}

impl Connection {
    fn advance(&mut self, id: ConnectionId, state: State) -> Step {
        self.state = state;
        Step::Advanced(id)
    }
}
