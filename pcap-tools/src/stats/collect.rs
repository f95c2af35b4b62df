//! Packet by packet.

use std::collections::HashMap;

use roce_codec::ib::{AethKind, NakCode, Operation};
use roce_codec::net::Ecn;
use roce_codec::{Frame, Transport};

use super::figures::Figures;
use super::flow::{Graphs, MAX_FLOWS, Row};
use super::pause::Pauses;
use super::psn_graph::{Mark, PsnGraph};
use super::{FlowSummary, HostSummary, Options, Summary};
use crate::capture::Packet;
use crate::dissect::Dissected;
use crate::flow::{FlowId, FlowTable};
use crate::message::{Arrival, Part, Recovery, Tracked, Tracker};
use crate::observed::{FlowKey, Host, Observed};

/// Flows that have graphs.
const MAX_GRAPHS: usize = 64;
/// Hosts told apart.
const MAX_HOSTS: usize = 256;

/// Collects the figures of a capture.
#[derive(Debug)]
pub struct Stats {
    options: Options,
    tracker: Tracker,
    rows: FlowTable<Row>,
    graphs: usize,
    packets: u64,
    total: Figures,
    hosts: Hosts,
    forgotten: Option<(Figures, u64)>,
    recoveries: Vec<Recovery>,
    recoveries_dropped: u64,
    pauses: Pauses,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

impl Stats {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let pauses = Pauses::new(options.link_bps);
        Self {
            options,
            tracker: Tracker::new(),
            rows: FlowTable::bounded(MAX_FLOWS),
            graphs: 0,
            packets: 0,
            total: Figures::default(),
            hosts: Hosts::default(),
            forgotten: None,
            recoveries: Vec::new(),
            recoveries_dropped: 0,
            pauses,
            first_ns: None,
            last_ns: None,
        }
    }

    /// Takes the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.observed(&Observed::new(packet));
    }

    /// Takes the next packet, which was observed already; says what it is among messages.
    pub fn observed(&mut self, observed: &Observed<'_>) -> Part {
        self.packets += 1;
        let packet = &observed.packet;
        let time_ns = packet.timestamp_ns;
        if let Some(now_ns) = time_ns {
            self.first_ns.get_or_insert(now_ns);
            self.last_ns = self.last_ns.max(time_ns);
        }
        if let Dissected::MacControl(frame) = &observed.what {
            self.pauses.frame(frame, time_ns);
            return Part::Other;
        }
        let Some((transport, key)) = observed.transport().zip(observed.flow()) else {
            return Part::Other;
        };
        let ce = matches!(&observed.what, Dissected::Roce(frame) if is_marked(frame));
        let id = row(&mut self.rows, key, &mut self.forgotten, &mut self.hosts, &mut self.graphs);
        let Self { tracker, rows, total, options, graphs, .. } = self;
        let tracked = tracker.packet(observed);
        let of_flow = rows.get_mut(id);
        if options.graphs && of_flow.graphs.is_none() && *graphs < MAX_GRAPHS {
            of_flow.graphs = self.first_ns.map(|start_ns| Box::new(Graphs::new(start_ns)));
            *graphs += usize::from(of_flow.graphs.is_some());
        }
        of_flow.peer = tracked.peer.or(of_flow.peer);
        for figures in [&mut of_flow.figures, &mut *total] {
            sent(figures, &tracked, packet, ce);
        }
        if tracked.part == Part::Damaged {
            return tracked.part;
        }
        if let Some((graphs, now_ns)) = of_flow.graphs.as_mut().zip(time_ns) {
            draw_sent(graphs, transport, tracked.part, packet, now_ns, ce, options);
        }
        match tracked.part {
            Part::Answer => {
                answered(total, transport);
                if let Some(peer) = tracked.peer.and_then(|peer| rows.get(peer)) {
                    let requester = rows.get_mut(peer);
                    answered(&mut requester.figures, transport);
                    requester.peer = Some(key);
                    requester.figures.heard(time_ns);
                    if let Some((graphs, now_ns)) = requester.graphs.as_mut().zip(time_ns) {
                        draw_answer(graphs, transport, packet, now_ns);
                    }
                }
            }
            Part::Notification => {
                total.cnps += 1;
                if let Some(sender) = tracked.peer.and_then(|peer| rows.get(peer)) {
                    let sender = rows.get_mut(sender);
                    sender.figures.cnps += 1;
                    if let Some((graphs, now_ns)) = sender.graphs.as_mut().zip(time_ns) {
                        let link_bps = options.link_bps.map(std::num::NonZeroU64::get);
                        graphs.cnp(now_ns, &options.dcqcn, link_bps);
                    }
                }
            }
            _ => {}
        }
        finished(&tracked, rows, total, &mut self.recoveries, &mut self.recoveries_dropped);
        tracked.part
    }

    /// The capture has ended.
    #[must_use]
    pub fn finish(mut self) -> Summary {
        let tracked = self.tracker.finish();
        finished(
            &tracked,
            &mut self.rows,
            &mut self.total,
            &mut self.recoveries,
            &mut self.recoveries_dropped,
        );
        let mut flows = Vec::new();
        for row in self.rows.into_flows() {
            self.hosts.add(&row.key, &row.figures);
            let mut flow = FlowSummary {
                key: row.key,
                peer: row.peer,
                figures: row.figures,
                psns: None,
                rates: None,
                allowed_bps: None,
            };
            if let Some(graphs) = row.graphs {
                let Graphs { psns, mut rates, reaction } = *graphs;
                if let Some((mut reaction, last_ns)) = reaction.zip(self.last_ns) {
                    reaction.advance(&self.options.dcqcn, last_ns, &mut rates);
                    flow.allowed_bps = Some(reaction.rate_bps());
                }
                (flow.psns, flow.rates) = (psns, Some(rates));
            }
            flows.push(flow);
        }
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.figures.wire_bytes));
        self.recoveries.sort_by_key(|recovery| recovery.detected_packet);
        Summary {
            packets: self.packets,
            total: self.total,
            hosts: self.hosts.into_summaries(),
            flows,
            forgotten: self.forgotten,
            recoveries: self.recoveries,
            recoveries_dropped: self.recoveries_dropped,
            pauses: self.pauses.finish(self.last_ns),
            link_bps: self.options.link_bps,
        }
    }
}

fn is_marked(frame: &Frame<'_>) -> bool {
    Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce
}

/// The row of a flow; one that was silent for long may have to go for it.
#[inline]
fn row(
    rows: &mut FlowTable<Row>,
    key: FlowKey,
    forgotten: &mut Option<(Figures, u64)>,
    hosts: &mut Hosts,
    graphs: &mut usize,
) -> FlowId {
    if let Some(id) = rows.get(key) {
        return id;
    }
    let oldest = rows.oldest();
    if let Some(id) = oldest {
        let row = rows.get_mut(id);
        let (sum, count) = forgotten.get_or_insert_default();
        sum.add(&row.figures);
        *count += 1;
        hosts.add(&row.key, &row.figures);
        *graphs -= usize::from(row.graphs.is_some());
    }
    rows.add(key, oldest)
}

/// What a packet adds to the figures of its flow.
fn sent(figures: &mut Figures, tracked: &Tracked<'_>, packet: &Packet<'_>, ce: bool) {
    figures.packets += 1;
    figures.wire_bytes = figures.wire_bytes.saturating_add(u64::from(packet.orig_len));
    figures.heard(packet.timestamp_ns);
    match tracked.part {
        Part::Damaged => {
            figures.damaged_packets += 1;
            return;
        }
        Part::Request(Arrival::Again) => figures.retransmitted_packets += 1,
        Part::Request(Arrival::Late) => figures.late_packets += 1,
        Part::Request(Arrival::Copy) => figures.copied_packets += 1,
        _ => {}
    }
    figures.ce_packets += u64::from(ce);
}

/// What an answer adds to the figures of the flow it answers.
fn answered(figures: &mut Figures, transport: &Transport<'_>) {
    match transport.aeth().map(|aeth| aeth.syndrome.kind()) {
        Some(AethKind::Nak(NakCode::PsnSequenceError)) => figures.sequence_naks += 1,
        Some(AethKind::Nak(_)) => figures.refusals += 1,
        Some(AethKind::RnrNak(_)) => figures.rnr_naks += 1,
        _ => {}
    }
}

fn draw_sent(
    graphs: &mut Graphs,
    transport: &Transport<'_>,
    part: Part,
    packet: &Packet<'_>,
    now_ns: u64,
    ce: bool,
    options: &Options,
) {
    let again = matches!(part, Part::Request(Arrival::Again | Arrival::Late));
    graphs.rates.sent(now_ns, packet.orig_len, again, ce);
    if let Some(reaction) = &mut graphs.reaction {
        reaction.sent(&options.dcqcn, now_ns, packet.orig_len, &mut graphs.rates);
    }
    if matches!(part, Part::Request(_)) {
        let mark = if again { Mark::Again } else { Mark::Request };
        let psn = transport.psn();
        let graph = graphs.psns.get_or_insert_with(|| PsnGraph::new(psn, now_ns));
        graph.add(psn, mark, now_ns, packet.number);
    }
}

fn draw_answer(graphs: &mut Graphs, transport: &Transport<'_>, packet: &Packet<'_>, now_ns: u64) {
    // Answers alone have no requests to be drawn against.
    let Some(graph) = &mut graphs.psns else { return };
    let mark = match transport.aeth().map(|aeth| aeth.syndrome.kind()) {
        Some(AethKind::Nak(_)) => Mark::Nak,
        Some(AethKind::RnrNak(_)) => Mark::NotReady,
        _ if transport.info().operation == Operation::ReadResponse => Mark::ReadResponse,
        _ => Mark::Ack,
    };
    graph.add(transport.psn(), mark, now_ns, packet.number);
}

/// Messages and recoveries that are over, to the figures of their flows.
fn finished(
    tracked: &Tracked<'_>,
    rows: &mut FlowTable<Row>,
    total: &mut Figures,
    recoveries: &mut Vec<Recovery>,
    dropped: &mut u64,
) {
    for message in tracked.messages {
        total.message(message);
        if let Some(id) = rows.get(message.flow) {
            rows.get_mut(id).figures.message(message);
        }
    }
    for recovery in tracked.recoveries {
        total.recovery(recovery);
        if let Some(id) = rows.get(recovery.flow) {
            rows.get_mut(id).figures.recovery(recovery);
        }
        if recoveries.len() < Summary::MAX_RECOVERIES {
            recoveries.push(*recovery);
        } else {
            *dropped += 1;
        }
    }
}

/// The figures of hosts, summed up from those of flows.
#[derive(Debug, Default)]
struct Hosts {
    by_host: HashMap<Option<Host>, HostSummary>,
}

impl Hosts {
    fn add(&mut self, key: &FlowKey, figures: &Figures) {
        self.of(key.src).figures.add(figures);
        let receiver = self.of(key.dst);
        receiver.received_packets += figures.packets;
        receiver.received_bytes = receiver.received_bytes.saturating_add(figures.wire_bytes);
    }

    fn of(&mut self, host: Host) -> &mut HostSummary {
        let known = self.by_host.contains_key(&Some(host)) || self.by_host.len() < MAX_HOSTS;
        let host = known.then_some(host);
        self.by_host.entry(host).or_insert_with(|| HostSummary {
            host,
            figures: Figures::default(),
            received_packets: 0,
            received_bytes: 0,
        })
    }

    fn into_summaries(self) -> Vec<HostSummary> {
        let mut all: Vec<_> = self.by_host.into_values().collect();
        all.sort_by_key(|host| (std::cmp::Reverse(host.figures.wire_bytes), host.host));
        all
    }
}
