//! Which packet belongs to which message.

use roce_codec::Transport;
use roce_codec::ib::{Answer as Answers, Operation, PathMtu, Qpn, Service};

use super::packet::{Answer, At, Request};
use super::requests::{Relation, Requests};
use super::{Arrival, Ending, Finished, Message, Part, Tracked};
use crate::connection::{Connections, State, Step};
use crate::flow::pairing::{self, Pairing, Peer};
use crate::flow::{Entry, FlowId, FlowTable, Paired};
use crate::observed::{FlowKey, Observed};

/// Messages that wait in all flows together; beyond that a flow has to give one up for a new one.
const MAX_WAITING: usize = 1 << 16;

/// What is known of a flow.
#[derive(Debug)]
struct Flow {
    key: FlowKey,
    peer: Peer,
    mtu: Option<PathMtu>,
    requests: Option<Box<Requests>>,
}

impl Entry for Flow {
    fn new(key: FlowKey) -> Self {
        Self { key, peer: Peer::default(), mtu: None, requests: None }
    }

    #[inline]
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Paired for Flow {
    #[inline]
    fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }
}

/// Puts messages together, packet by packet.
#[derive(Debug)]
pub struct Tracker {
    flows: FlowTable<Flow>,
    pairing: Pairing,
    connections: Connections,
    waiting: usize,
    finished: Finished,
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracker {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            flows: FlowTable::new(),
            pairing: Pairing::default(),
            connections: Connections::new(),
            waiting: 0,
            finished: Finished::default(),
        }
    }

    /// Takes the next packet. What it finishes is lent until the next call.
    #[inline]
    pub fn packet(&mut self, observed: &Observed<'_>) -> Tracked<'_> {
        self.finished.messages.clear();
        self.finished.recoveries.clear();
        let (part, peer) = match observed.transport().zip(observed.flow()) {
            Some(_) if observed.is_damaged() => (Part::Damaged, None),
            Some((transport, key)) => {
                let packet = &observed.packet;
                let at = At { packet: packet.number, time_ns: packet.timestamp_ns };
                self.transport(transport, key, at)
            }
            None => (Part::Other, None),
        };
        let Finished { messages, recoveries } = &self.finished;
        Tracked { part, peer, messages, recoveries }
    }

    /// The capture has ended: what still waits is finished as it is.
    pub fn finish(&mut self) -> Tracked<'_> {
        self.finished.messages.clear();
        self.finished.recoveries.clear();
        for flow in self.flows.iter_mut() {
            if let Some(mut requests) = flow.requests.take() {
                requests.finish(&mut self.finished);
            }
        }
        self.waiting = 0;
        let Finished { messages, recoveries } = &self.finished;
        Tracked { part: Part::Other, peer: None, messages, recoveries }
    }

    /// The connections that CM exchanges set up so far.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    #[inline]
    fn transport(
        &mut self,
        transport: &Transport<'_>,
        key: FlowKey,
        at: At,
    ) -> (Part, Option<FlowKey>) {
        let info = transport.info();
        match info.service {
            _ if key.dest_qp == Qpn::GSI && info.service != Service::Cnp => {
                self.management(transport, key, at);
                (Part::Datagram, None)
            }
            Service::Rc | Service::Uc | Service::Xrc if info.is_request() => {
                let id = self.flow(key);
                let arrival = self.request(&Request::new(transport), id, at);
                (Part::Request(arrival), self.peer_key(id))
            }
            Service::Rc | Service::Xrc if info.is_response() => {
                let id = self.flow(key);
                self.response(&Answer::new(transport), id, at);
                (Part::Answer, self.peer_key(id))
            }
            Service::Ud if info.is_request() => {
                self.datagram(transport, key, at);
                (Part::Datagram, None)
            }
            _ if info.operation == Operation::Cnp => {
                let id = self.flows.get(key);
                (Part::Notification, id.and_then(|id| self.peer_key(id)))
            }
            _ => (Part::Other, None),
        }
    }

    #[inline]
    fn peer_key(&mut self, id: FlowId) -> Option<FlowKey> {
        let peer = self.flows.get_mut(id).peer.flow()?;
        Some(self.flows.get_mut(peer).key)
    }

    /// The flow of that key. One that has been silent for long may have to go for it.
    #[inline]
    fn flow(&mut self, key: FlowKey) -> FlowId {
        match self.flows.get(key) {
            Some(id) => id,
            None => self.new_flow(key),
        }
    }

    #[cold]
    fn new_flow(&mut self, key: FlowKey) -> FlowId {
        let forgotten = self.flows.oldest();
        if let Some(id) = forgotten {
            self.new_connection(id);
        }
        let id = self.flows.add(key, forgotten);
        self.learn_from_cm(id);
        id
    }

    /// What the CM exchange says of a flow: its path MTU, and which flow is its pair.
    fn learn_from_cm(&mut self, id: FlowId) {
        let key = self.flows.get_mut(id).key;
        let Some((end, connection)) = self.connections.of_flow(key) else { return };
        let Some(sender) = connection.side(end.role) else { return };
        let back = FlowKey { src: key.dst, dst: key.src, dest_qp: sender.qpn };
        self.flows.get_mut(id).mtu = connection.path_mtu;
        if let Some(other) = self.flows.get(back) {
            pairing::join(&mut self.flows, id, other);
        }
    }

    /// A management datagram: a message, and perhaps one that tells of a connection.
    #[cold]
    fn management(&mut self, transport: &Transport<'_>, key: FlowKey, at: At) {
        if let Some(Step::Advanced(id)) = self.connections.packet(key, transport)
            && let Some(connection) = self.connections.get(id)
            && connection.state == State::Replied
            && let Some(passive) = connection.passive
        {
            // Both queue pairs serve a new connection.
            let active = connection.active;
            for (from, to) in [(active, passive), (passive, active)] {
                let key = FlowKey { src: from.host, dst: to.host, dest_qp: to.qpn };
                if let Some(id) = self.flows.get(key) {
                    self.new_connection(id);
                    self.learn_from_cm(id);
                }
            }
        }
        self.datagram(transport, key, at);
    }

    fn datagram(&mut self, transport: &Transport<'_>, key: FlowKey, at: At) {
        let info = transport.info();
        self.finished.messages.push(Message {
            flow: key,
            service: info.service,
            operation: info.operation,
            first_psn: transport.psn(),
            last_psn: transport.psn(),
            bytes: u64::try_from(transport.payload_len()).unwrap_or(u64::MAX),
            packets: 1,
            whole: true,
            first_packet: at.packet,
            last_packet: at.packet,
            started_ns: at.time_ns,
            sent_ns: at.time_ns,
            answer_packet: None,
            answered_ns: None,
            retransmitted: 0,
            rnr_naks: 0,
            ending: Ending::Unreliable,
        });
    }

    #[inline]
    fn request(&mut self, request: &Request, id: FlowId, at: At) -> Arrival {
        let relation = match &self.flows.get_mut(id).requests {
            Some(requests) => requests.relation(request, at),
            None => Relation::NewConnection,
        };
        if relation == Relation::NewConnection {
            self.new_connection(id);
        }
        let peer = self.flows.get_mut(id).peer.flow();
        let (peer_mtu, settled) = match peer.map(|peer| self.flows.get_mut(peer)) {
            Some(peer) => (peer.mtu, peer.peer.is_settled()),
            None => (None, false),
        };
        let flow = self.flows.get_mut(id);
        if let Some(shown) = request.mtu() {
            learn_mtu(flow, shown);
        }
        let mtu = flow.mtu.or(peer_mtu);
        let finished = &mut self.finished;
        let before = flow.requests.as_ref().map_or(0, |requests| requests.waiting());
        let arrival = match (&mut flow.requests, relation) {
            (Some(requests), Relation::Known(arrival)) => {
                requests.request(request, arrival, mtu, at, finished);
                if self.waiting >= MAX_WAITING && requests.waiting() > before {
                    requests.give_up_oldest(finished);
                }
                arrival
            }
            (requests, _) => {
                *requests = Some(Box::new(Requests::new(flow.key, request, mtu, at, finished)));
                Arrival::New
            }
        };
        let after = flow.requests.as_ref().map_or(0, |requests| requests.waiting());
        self.waiting = (self.waiting + after).saturating_sub(before);
        // A NAK may name any of them.
        if !settled && request.info.answer() != Answers::None {
            self.pairing.request(&mut self.flows, id, request.psn);
        }
        arrival
    }

    /// The flow's QPNs serve a new connection, or its first one: nothing known holds any more.
    #[cold]
    fn new_connection(&mut self, id: FlowId) {
        pairing::part(&mut self.flows, id);
        let flow = self.flows.get_mut(id);
        if let Some(mut requests) = flow.requests.take() {
            self.waiting = self.waiting.saturating_sub(requests.waiting());
            requests.finish(&mut self.finished);
            flow.mtu = None;
        }
    }

    #[inline]
    fn response(&mut self, answer: &Answer, id: FlowId, at: At) {
        if self.flows.get_mut(id).peer.flow().is_none() {
            self.pairing.response(&mut self.flows, id, answer.psn);
        }
        let Some(peer) = self.flows.get_mut(id).peer.flow() else { return };
        let Some([flow, peer]) = self.flows.pair_mut(id, peer) else { return };
        let Some(requests) = &mut peer.requests else { return };
        let near = requests.is_near(answer.psn);
        if requests.has_seen(answer.psn) {
            flow.peer.confirm();
        } else if (!near || answer.psn.is_after(requests.highest())) && flow.peer.misfit() {
            pairing::part(&mut self.flows, id);
            return;
        }
        // It may come before the tap shows its request, but not to what is far away.
        if !near {
            return;
        }
        let before = requests.waiting();
        if let Some(shown) = answer.mtu {
            learn_mtu(flow, shown);
            if peer.mtu != Some(shown) {
                peer.mtu = Some(shown);
                requests.set_mtu(shown);
            }
        }
        requests.answer(answer, at, &mut self.finished);
        self.waiting = (self.waiting + requests.waiting()).saturating_sub(before);
    }
}

/// The path MTU that a packet shows. READs whose end it tells are few: they wait for an answer.
#[inline]
fn learn_mtu(flow: &mut Flow, shown: PathMtu) {
    if flow.mtu != Some(shown) {
        flow.mtu = Some(shown);
        if let Some(requests) = &mut flow.requests {
            requests.set_mtu(shown);
        }
    }
}
