//! Judging captures: is what was captured RoCEv2 as the specification has it?
//!
//! [`check`] reads a whole capture into a [`Report`]; [`Checker`] takes packets one by one and
//! hands out findings as they arise. Each [`Rule`] comes to one of three verdicts: pass, fail, or
//! unknown where the capture cannot tell (it started mid-stream, shows one direction only, is cut
//! by its snap length, or was taken on the far side of a loss). Lost, repeated and reordered
//! packets break no rule by themselves.
//!
//! Memory is a fixed amount a flow, however long the capture is.
//!
//! ```no_run
//! let reader = roce_pcap::capture::Reader::open("trace.pcapng")?;
//! let report = roce_pcap::check(reader);
//! for finding in report.failures() {
//!     println!("{finding}");
//! }
//! # Ok::<(), roce_pcap::capture::CaptureError>(())
//! ```

mod agreed;
mod catalogue;
mod cm;
mod congestion;
mod flow;
mod gap;
mod habits;
mod history;
mod icrc;
mod judge;
mod kept;
mod keys;
mod limits;
mod opcode;
pub mod output;
mod packet;
mod path_mtu;
mod pause;
pub mod pipeline;
mod profile;
mod recovery;
mod refusal;
mod report;
mod request;
mod response;
mod rule;
mod second_tap;
mod source_port;

use std::io::Read;

use roce_codec::ib::{Operation, PathMtu, Qpn, Service};
use roce_codec::icrc::IcrcVerdict;

use crate::capture::{Packet, Reader};
use crate::connection::Connections;
use crate::dissect::{Dissected, Fault, Malformed, Other};
use crate::flow::pairing::{self, Pairing};
use crate::observed::{FlowKey, Observed};

pub use gap::{Gap, Missing};
#[cfg(feature = "profiles")]
pub use profile::ProfileError;
pub use profile::{CnpScope, KnownIcrcMistake, Profile};
pub use report::{Counts, Finding, Report, Summary};
pub use rule::{Rule, Severity, Verdict};
pub use second_tap::{Settled, settle};

use agreed::UnusedConnections;
use cm::Rejections;
use congestion::Congestion;
use flow::{Flow, FlowId, FlowTable};
use habits::{Habits, Tie};
use icrc::Trust;
use judge::{At, Judge};
use packet::{Network, Seen};
use pause::Pauses;
use request::{Arrival, Known, RequestStream};
use response::{Fit, ResponseStream};

/// Judges a whole capture.
///
/// It never fails: what keeps the capture from being read to its end is in [`Report::error`].
pub fn check<R: Read>(mut reader: Reader<R>) -> Report {
    let mut checker = Checker::new();
    let mut findings = Vec::new();
    let mut findings_dropped = 0;
    let mut error = None;
    let mut keep = |new: &[Finding]| {
        for finding in new {
            if findings.len() < Report::MAX_FINDINGS {
                findings.push(finding.clone());
            } else {
                findings_dropped += 1;
            }
        }
    };
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(packet) => keep(checker.packet(&packet)),
            Err(stop) => error = Some(stop),
        }
    }
    keep(checker.finish());
    let (summary, rules) = (checker.summary(), checker.rules());
    Report { summary, findings, findings_dropped, rules, error }
}

/// Judges packets one by one.
#[derive(Debug)]
pub struct Checker {
    flows: FlowTable,
    pairing: Pairing,
    connections: Connections,
    unused: UnusedConnections,
    rejections: Rejections,
    pauses: Pauses,
    congestion: Congestion,
    judge: Judge,
    /// Of the ICRCs, those that are wrong and explained; the judge has the others.
    summary: Summary,
    /// Rules called unknown of packets that belong to no flow.
    told: u64,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_profile(Profile::default())
    }

    /// Knows the devices.
    #[must_use]
    pub fn with_profile(profile: Profile) -> Self {
        Self {
            flows: FlowTable::new(),
            pairing: Pairing::default(),
            connections: Connections::new(),
            unused: UnusedConnections::default(),
            rejections: Rejections::default(),
            pauses: Pauses::default(),
            congestion: Congestion::default(),
            judge: Judge::new(profile),
            summary: Summary::default(),
            told: 0,
        }
    }

    /// Judges the next packet; the findings it settles are lent until the next call. A finding
    /// may speak of an earlier packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) -> &[Finding] {
        self.observed(&Observed::new(packet))
    }

    /// Judges the next packet, which was observed already, perhaps on another core.
    #[inline]
    pub fn observed(&mut self, observed: &Observed<'_>) -> &[Finding] {
        self.judge.clear();
        self.summary.packets += 1;
        let packet = &observed.packet;
        let at = At { packet: packet.number, time_ns: packet.timestamp_ns, flow: None };
        match &observed.what {
            Dissected::Roce(frame) => {
                self.transport(observed, Network::Roce(frame), FlowKey::of_frame(frame), at);
            }
            Dissected::Native(frame) => {
                self.transport(observed, Network::Native(frame), FlowKey::of_native(frame), at);
            }
            Dissected::Malformed(malformed) => self.malformed(*malformed, at),
            Dissected::MacControl(frame) => {
                self.pauses.frame(frame, packet, at, &mut self.told, &mut self.judge);
            }
            Dissected::Other(Other::Protocol(error)) => {
                pause::check_unreadable(error, at, &mut self.told, &mut self.judge);
            }
            Dissected::Other(_) => {}
        }
        self.judge.findings()
    }

    /// The capture has ended: settles what waited for more packets.
    pub fn finish(&mut self) -> &[Finding] {
        self.judge.clear();
        for flow in self.flows.iter_mut() {
            if let Some(requests) = &mut flow.requests {
                requests.finish(&mut flow.told, &mut self.judge);
            }
            flow.finish_agreed(&mut self.judge);
        }
        self.congestion.finish(&mut self.told, &mut self.judge);
        self.judge.findings()
    }

    /// The numbers so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary;
        summary.flows = self.flows.seen();
        for counts in self.judge.counts() {
            summary.pass += counts.pass;
            summary.fail += counts.fail;
            summary.unknown += counts.unknown;
        }
        let icrc = self.judge.counts()[Rule::RoceIcrc.index()];
        summary.icrc_valid = icrc.pass;
        summary.icrc_invalid += icrc.fail;
        summary.icrc_uncheckable = icrc.unknown - self.summary.icrc_invalid;
        summary
    }

    /// Verdicts by rule so far, in the order of [`Rule::ALL`].
    #[must_use]
    pub fn rules(&self) -> Vec<(Rule, Counts)> {
        Rule::ALL.iter().copied().zip(self.judge.counts().iter().copied()).collect()
    }

    #[inline]
    fn transport(
        &mut self,
        observed: &Observed<'_>,
        network: Network<'_, '_>,
        key: FlowKey,
        at: At,
    ) {
        self.summary.roce_packets += 1;
        let Some(verdict) = observed.icrc else { return };
        let seen = Seen::new(network, verdict == IcrcVerdict::Valid);
        let id = self.flow(key);
        let at = At { flow: Some(key), ..at };
        let told = &mut self.flows.get_mut(id).told;
        match icrc::check(observed, verdict, at, told, &mut self.judge) {
            Trust::Damaged => return,
            Trust::Explained => self.summary.icrc_invalid += 1,
            Trust::Believed | Trust::Unchecked => {}
        }
        packet::check(&seen, at, told, &mut self.judge);
        if seen.bth.dest_qp == Qpn::GSI {
            self.management(&seen, id, at);
            return;
        }
        match seen.info.service {
            Service::Rc | Service::Uc | Service::Xrc if seen.info.is_request() => {
                self.request(&seen, id, at);
            }
            Service::Rc | Service::Xrc if seen.info.is_response() => self.response(&seen, id, at),
            Service::Ud | Service::Rd => self.other_service(&seen, id, at),
            Service::Cnp if seen.info.operation == Operation::Cnp => {
                self.notification(&seen, id, at);
            }
            _ => {}
        }
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
        let agreed = self.agreed_before(key);
        let id = self.flows.add(key, forgotten);
        self.flows.get_mut(id).agreed = agreed;
        id
    }

    #[cold]
    fn malformed(&mut self, malformed: Malformed, at: At) {
        self.summary.roce_packets += 1;
        let icrc = ("a whole packet".into(), malformed.to_string(), "no ICRC to check".into());
        self.judge.unknown_once(Rule::RoceIcrc, at, &mut self.told, || icrc);
        let rule = match malformed.fault {
            Fault::IpUdpLength => Rule::IpUdpLength,
            Fault::TooShort => Rule::RoceLength,
            Fault::Fragment => Rule::IpFragment,
            Fault::Ipv4Options => Rule::Ipv4Options,
            Fault::Cut => {
                let words = ("whole headers".into(), malformed.to_string(), "cut".into());
                self.judge.unknown_once(Rule::RoceLength, at, &mut self.told, || words);
                return;
            }
        };
        let expected = match malformed.fault {
            Fault::IpUdpLength => "IP and UDP lengths that agree",
            Fault::TooShort => "room for the opcode's headers, pad and ICRC",
            Fault::Fragment => "whole packets",
            _ => "an IPv4 header of 20 bytes",
        };
        let message = "the packet cannot be read".into();
        self.judge.fail(rule, at, (expected.into(), malformed.to_string(), message));
    }

    /// What is known of a flow and of the one in the other direction.
    #[inline]
    fn known(flow: &Flow, peer_mtu: Option<PathMtu>) -> Known {
        Known { confident: flow.peer.is_confident(), mtu: flow.mtu.or(peer_mtu) }
    }

    #[inline]
    fn peer_mtu(&mut self, id: FlowId) -> Option<PathMtu> {
        let peer = self.flows.get_mut(id).peer.flow()?;
        self.flows.get_mut(peer).mtu
    }

    #[inline]
    fn request(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let arrival = match &self.flows.get_mut(id).requests {
            Some(requests) => requests.arrival(seen),
            None => Arrival::NewConnection,
        };
        let arrival = self.check_agreed(seen, id, arrival, at);
        if arrival == Arrival::NewConnection {
            self.new_connection(id);
        }
        let tie = if arrival == Arrival::InOrder { Tie::Sure } else { Tie::Likely };
        self.check_habits(seen, id, tie, at);
        let peer = self.flows.get_mut(id).peer.flow();
        // The pair is as sure as the answers in the other direction have made it.
        let (peer_mtu, confident, settled) = match peer.map(|peer| self.flows.get_mut(peer)) {
            Some(peer) => (peer.mtu, peer.peer.is_confident(), peer.peer.is_settled()),
            None => (None, false, false),
        };
        let flow = self.flows.get_mut(id);
        path_mtu::check(flow, peer_mtu, seen, arrival == Arrival::InOrder, at, &mut self.judge);
        let known = Known { confident, ..Self::known(flow, peer_mtu) };
        match &mut flow.requests {
            Some(requests) => {
                let told = &mut flow.told;
                let went_back = requests.request(seen, arrival, known, at, told, &mut self.judge);
                if let Some(went_back) = went_back {
                    let agreed = self.connections.of_flow(flow.key);
                    let agreed = agreed.map(|(end, connection)| (connection, end.role));
                    went_back.judge(agreed, confident, at, told, &mut self.judge);
                }
            }
            none => {
                let requests = RequestStream::new(seen, known, at, &mut self.judge);
                *none = Some(Box::new(requests));
            }
        }
        self.count_request(seen, id, arrival, at);
        // Requests that are likely to be answered under their own PSN: those that ask for it, and
        // the first of a message, which is where refusals are.
        let answered = seen.bth.ack_req || seen.info.position.starts();
        if !settled && answered && opcode::is_reliable(seen.info.service) {
            self.pairing.request(&mut self.flows, id, seen.bth.psn);
        }
    }

    /// The flow's QPNs serve a new connection, or its first one: nothing known holds any more.
    #[cold]
    fn new_connection(&mut self, id: FlowId) {
        let flow = self.flows.get_mut(id);
        // Who has only answered so far has the pair that its answers have found.
        let Some(mut requests) = flow.requests.take() else { return };
        requests.finish(&mut flow.told, &mut self.judge);
        flow.mtu = None;
        flow.habits = Habits::default();
        if let Some(peer) = flow.peer.flow() {
            let peer = self.flows.get_mut(peer);
            peer.responses = ResponseStream::default();
            peer.mtu = None;
            peer.habits = Habits::default();
        }
        pairing::part(&mut self.flows, id);
    }

    /// Finds the requests that a flow answers by the CM exchange that set the connection up, if
    /// that was captured.
    fn pair_by_exchange(&mut self, id: FlowId) -> bool {
        let key = self.flows.get_mut(id).key;
        let Some((sender, connection)) = self.connections.of_flow(key) else { return false };
        let (Some(side), Some(stated)) =
            (connection.side(sender.role), connection.first_psn(sender.role.peer()))
        else {
            return false;
        };
        let requests = FlowKey { src: key.dst, dst: key.src, dest_qp: side.qpn };
        let Some(peer) = self.flows.get(requests) else { return false };
        // The queue pairs may serve another connection by now, whose exchange was not seen.
        let first = self.flows.get_mut(peer).requests.as_ref().map(|requests| requests.first());
        let begun = first.is_some_and(|first| first.is_within(stated, stated.add(request::WINDOW)));
        if begun && peer != id {
            pairing::join(&mut self.flows, id, peer);
        }
        begun
    }

    #[inline]
    fn response(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let psn = seen.bth.psn;
        if self.flows.get_mut(id).responses.restart_if_far(psn) {
            pairing::part(&mut self.flows, id);
            self.flows.get_mut(id).habits = Habits::default();
        }
        self.check_first_nak(seen, id);
        let confident = self.flows.get_mut(id).peer.is_confident();
        let tie = if confident { Tie::Sure } else { Tie::Likely };
        self.check_habits(seen, id, tie, at);
        if self.flows.get_mut(id).peer.flow().is_none() && !self.pair_by_exchange(id) {
            self.pairing.response(&mut self.flows, id, psn);
        }
        let peer_mtu = self.peer_mtu(id);
        let flow = self.flows.get_mut(id);
        let in_order = flow.responses.continues(psn);
        path_mtu::check(flow, peer_mtu, seen, in_order, at, &mut self.judge);
        let asked = flow.peer.flow();
        let Some([flow, peer]) = asked.and_then(|peer| self.flows.pair_mut(id, peer)) else {
            self.response_alone(seen, id, at);
            return;
        };
        let known = Self::known(flow, peer_mtu);
        let Some(requests) = &mut peer.requests else { return };
        let Flow { responses, told, .. } = flow;
        let judge = &mut self.judge;
        let missing = responses.check_read_order(seen, Some((requests, known)), at, told, judge);
        if let Some(psn) = missing {
            requests.missed_response(psn);
        }
        let give_up = match responses.check_against(seen, requests, known, at, told, judge) {
            Fit::Confirmed => {
                flow.peer.confirm();
                false
            }
            Fit::Open => false,
            Fit::Misfit => flow.peer.misfit(),
        };
        if give_up {
            pairing::part(&mut self.flows, id);
        } else if let Some(asked) = asked {
            self.count_answer(seen, asked, at);
        }
    }

    /// A response whose requests are not known.
    fn response_alone(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        let Flow { responses, told, .. } = self.flows.get_mut(id);
        responses.check_read_order(seen, None, at, told, &mut self.judge);
        self.judge.unknown_once(Rule::RcAckPsn, at, told, || {
            let message = "which requests it answers is not known: the other direction is missing, \
                           or has not matched yet";
            ("a request seen before".into(), seen.bth.psn.to_string(), message.into())
        });
    }

    /// A datagram in a flow of connected requests, with the PSN that comes next there.
    fn other_service(&mut self, seen: &Seen<'_, '_>, id: FlowId, at: At) {
        self.check_habits(seen, id, Tie::Likely, at);
        self.check_qkey(seen, id, at);
        let flow = self.flows.get_mut(id);
        let is_next = |requests: &RequestStream| requests.arrival(seen) == Arrival::InOrder;
        if flow.requests.as_deref().is_some_and(is_next) {
            let found = format!("{:?}", seen.info.service);
            let message = "the next request is of another service".into();
            self.judge.fail(Rule::QpService, at, ("a connected service".into(), found, message));
        }
    }
}
