//! What a CM exchange says of a flow, and whether the flow keeps it: the PSN it starts at, the
//! queue pair it goes to, its service, path MTU and partition.

use std::collections::HashMap;

use roce_codec::ib::{AethKind, NakCode, PKey, PathMtu, Psn, Qpn, Service};

use super::Checker;
use super::flow::{Flow, FlowId};
use super::judge::{At, Judge};
use super::limits::Limits;
use super::packet::Seen;
use super::request::{Arrival, WINDOW};
use super::rule::Rule;
use crate::connection::{Connection, ConnectionId, End, Role};
use crate::observed::{FlowKey, Host};

/// Connections that nothing was sent on yet, at most; beyond that, all of them are forgotten.
const MAX_UNUSED: usize = 1024;
/// How soon after the REP a connection is used for sure, if it is used wrongly.
const SOON_NS: u64 = 2_000_000_000;

/// How far a flow has come.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Nothing of the connection has been seen.
    Waiting,
    /// A request came that has nothing to do with the PSN stated.
    Odd(At, Psn),
    /// It has begun at the PSN stated, or a little behind it.
    Begun,
}

/// What was agreed of a flow.
#[derive(Debug, Clone)]
pub(super) struct Agreed {
    /// The connection, and which side sends the flow.
    pub(super) end: End,
    /// The PSN that its requests start at.
    first_psn: Psn,
    service: Option<Service>,
    path_mtu: Option<PathMtu>,
    pkey: PKey,
    stage: Stage,
    pub(super) limits: Limits,
}

impl Agreed {
    fn of(end: End, connection: &Connection) -> Option<Self> {
        Some(Self {
            end,
            first_psn: connection.first_psn(end.role)?,
            service: connection.service,
            path_mtu: connection.path_mtu,
            pkey: connection.pkey,
            stage: Stage::Waiting,
            limits: Limits::new(
                connection.read_limit(end.role),
                connection.side(end.role)?.end_to_end_flow_control,
            ),
        })
    }

    /// Whether its requests are those of the connection.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Begun)
    }

    /// The partition, once the flow has begun.
    #[inline]
    pub(super) fn pkey(&self) -> Option<PKey> {
        self.has_begun().then_some(self.pkey)
    }

    /// Whether a PSN is the first one, or so near behind it that those between may have been lost.
    fn is_near(&self, psn: Psn) -> bool {
        psn.is_within(self.first_psn, self.first_psn.add(WINDOW))
    }
}

/// A direction of a connection that nothing was sent in yet.
#[derive(Debug, Clone, Copy)]
struct Unused {
    dest_qp: Qpn,
    since_ns: Option<u64>,
    /// Others start at the same PSN between the same hosts.
    ambiguous: bool,
}

/// The directions that nothing was sent in yet: by who sends to whom, and the PSN to start at.
#[derive(Debug, Default)]
pub(super) struct UnusedConnections(HashMap<(Host, Host, Psn), Unused>);

impl Checker {
    /// A REP was seen: both flows are known from now on.
    pub(super) fn agree(&mut self, id: ConnectionId, at: At) {
        for role in [Role::Active, Role::Passive] {
            let end = End { id, role };
            let Some(connection) = self.connections.get(id) else { return };
            let (Some(sender), Some(receiver)) =
                (connection.side(role), connection.side(role.peer()))
            else {
                return;
            };
            let key = FlowKey { src: sender.host, dst: receiver.host, dest_qp: receiver.qpn };
            let Some(mut agreed) = Agreed::of(end, connection) else { return };
            let first_psn = agreed.first_psn;
            let flow = self.flows.get(key).map(|id| self.flows.get_mut(id));
            let mut begun = false;
            if let Some(flow) = flow {
                // Where mirrors are merged, data may come before the exchange.
                let first = flow.requests.as_ref().map(|requests| requests.first());
                begun = first.is_some_and(|first| agreed.is_near(first));
                if begun {
                    agreed.stage = Stage::Begun;
                }
                flow.agreed = Some(Box::new(agreed));
            }
            if !begun {
                self.unused.add(key, first_psn, at.time_ns);
            }
        }
    }

    /// What was agreed of a flow that was not there when it was.
    #[cold]
    pub(super) fn agreed_before(&self, key: FlowKey) -> Option<Box<Agreed>> {
        let (end, connection) = self.connections.of_flow(key)?;
        Agreed::of(end, connection).map(Box::new)
    }

    /// Holds a request against the exchange that set its connection up. Says how it relates to
    /// those before it, which the exchange may know better.
    #[inline]
    pub(super) fn check_agreed(
        &mut self,
        seen: &Seen<'_, '_>,
        id: FlowId,
        arrival: Arrival,
        at: At,
    ) -> Arrival {
        let flow = self.flows.get_mut(id);
        let Some(agreed) = &mut flow.agreed else {
            if arrival == Arrival::NewConnection {
                self.check_destination(seen, id, at);
            }
            return arrival;
        };
        match agreed.stage {
            Stage::Begun => {
                if arrival == Arrival::NewConnection && !agreed.is_near(seen.bth.psn) {
                    // The queue pair has a new owner, whose exchange was not seen.
                    flow.agreed = None;
                    if let Some(peer) = flow.peer.flow() {
                        self.flows.get_mut(peer).agreed = None;
                    }
                    return arrival;
                }
                if arrival == Arrival::NewConnection {
                    agreed.limits.restart();
                }
                // Where the flow has shown no other, any excess is judged with all its payloads.
                if let Some(mtu) = agreed.path_mtu
                    && flow.mtu.is_none_or(|shown| shown.bytes() > mtu.bytes())
                {
                    check_mtu(mtu, seen, at, &mut self.judge);
                }
                arrival
            }
            Stage::Waiting | Stage::Odd(..) => self.begin(seen, id, arrival, at),
        }
    }

    /// A request in a flow that has not begun.
    #[cold]
    fn begin(&mut self, seen: &Seen<'_, '_>, id: FlowId, arrival: Arrival, at: At) -> Arrival {
        let psn = seen.bth.psn;
        let Flow { key, agreed, told, .. } = self.flows.get_mut(id);
        let Some(agreed) = agreed else { return arrival };
        let judge = &mut self.judge;
        let exact = psn == agreed.first_psn;
        if !agreed.is_near(psn) {
            // What goes on as before is the last owner's.
            if arrival == Arrival::NewConnection && matches!(agreed.stage, Stage::Waiting) {
                agreed.stage = Stage::Odd(at, psn);
            }
            return arrival;
        }
        if let Stage::Odd(odd_at, odd) = agreed.stage {
            fail_psn(agreed.first_psn, odd, odd_at, judge);
        } else if exact {
            judge.pass(Rule::CmPsn);
        } else if arrival != Arrival::NewConnection {
            return arrival;
        } else {
            judge.unknown_once(Rule::CmPsn, at, told, || {
                let message = "what comes before it was not seen";
                (agreed.first_psn.to_string(), psn.to_string(), message.into())
            });
        }
        agreed.stage = Stage::Begun;
        self.unused.remove(*key, agreed.first_psn);
        if exact && let Some(service) = agreed.service {
            judge.check(Rule::QpService, at, seen.info.service == service, || {
                let message = "the connection was set up for another service".into();
                (format!("{service:?}"), format!("{:?}", seen.info.service), message)
            });
        }
        Arrival::NewConnection
    }

    /// A request that starts a flow of which nothing was agreed: if a connection between the same
    /// hosts was just set up to start at that very PSN, its sender took another queue pair.
    #[cold]
    fn check_destination(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let key = self.flows.get_mut(id).key;
        let psn = seen.bth.psn;
        let Some(unused) = self.unused.0.get(&(key.src, key.dst, psn)).copied() else { return };
        let soon = unused
            .since_ns
            .zip(at.time_ns)
            .is_some_and(|(since, now)| now.checked_sub(since).is_some_and(|ns| ns <= SOON_NS));
        if unused.ambiguous || !soon || !seen.info.position.starts() {
            return;
        }
        self.unused.remove(key, psn);
        let message = "the connection just set up starts at this PSN, and at another queue pair";
        let words = (unused.dest_qp.to_string(), key.dest_qp.to_string(), message.into());
        self.judge.fail(Rule::CmQpn, at, words);
    }

    /// A sequence NAK that asks for the PSN that was stated: what came before it did not start
    /// there.
    #[inline]
    pub(super) fn check_first_nak(&mut self, seen: &Seen<'_, '_>, id: FlowId) {
        let flow = self.flows.get_mut(id);
        let Some(agreed) = &flow.agreed else { return };
        let Some(aeth) = seen.transport.aeth() else { return };
        if aeth.syndrome.kind() != AethKind::Nak(NakCode::PsnSequenceError) {
            return;
        }
        let (end, key) = (agreed.end, flow.key);
        let own = self.connections.get(end.id).and_then(|connection| connection.side(end.role));
        let Some(dest_qp) = own.map(|side| side.qpn) else { return };
        let asked = FlowKey { src: key.dst, dst: key.src, dest_qp };
        let Some(asked) = self.flows.get(asked) else { return };
        let Some(agreed) = &mut self.flows.get_mut(asked).agreed else { return };
        if let Stage::Odd(odd_at, odd) = agreed.stage
            && agreed.end.id == end.id
            && agreed.first_psn == seen.bth.psn
        {
            agreed.stage = Stage::Waiting;
            fail_psn(agreed.first_psn, odd, odd_at, &mut self.judge);
        }
    }
}

impl Flow {
    /// The capture ends: what was held is settled.
    pub(super) fn finish_agreed(&mut self, judge: &mut Judge) {
        if let Some(agreed) = &self.agreed
            && let Stage::Odd(odd_at, odd) = agreed.stage
        {
            judge.unknown_once(Rule::CmPsn, odd_at, &mut self.told, || {
                let message = "another connection's, unless its sender starts at the wrong PSN";
                (agreed.first_psn.to_string(), odd.to_string(), message.into())
            });
        }
    }
}

fn fail_psn(stated: Psn, odd: Psn, odd_at: At, judge: &mut Judge) {
    let message = "the receiver had stated another PSN to start with".into();
    judge.fail(Rule::CmPsn, odd_at, (stated.to_string(), odd.to_string(), message));
}

#[inline]
fn check_mtu(mtu: PathMtu, seen: &Seen<'_, '_>, at: At, judge: &mut Judge) {
    let shows = seen.info.payload && !seen.info.position.ends();
    if shows && u32::try_from(seen.payload_len).is_ok_and(|len| len > mtu.bytes()) {
        let found = format!("{} bytes", seen.payload_len);
        let message = "above the path MTU that the connection was set up with".into();
        judge.fail(Rule::PayloadMtu, at, (format!("at most {mtu} bytes"), found, message));
    }
}

impl UnusedConnections {
    fn add(&mut self, key: FlowKey, psn: Psn, since_ns: Option<u64>) {
        if self.0.len() >= MAX_UNUSED {
            self.0.clear();
        }
        let fresh = Unused { dest_qp: key.dest_qp, since_ns, ambiguous: false };
        let unused = self.0.entry((key.src, key.dst, psn)).or_insert(fresh);
        unused.ambiguous |= unused.dest_qp != key.dest_qp;
    }

    fn remove(&mut self, key: FlowKey, psn: Psn) {
        self.0.remove(&(key.src, key.dst, psn));
    }
}
