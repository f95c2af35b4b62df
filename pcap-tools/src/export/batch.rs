//! Packets that wait for what those after them tell.

use arrow_array::ArrayRef;

use super::packets::{PacketRow, Packets, Settled, SettledRow};
use super::table::Columns;
use crate::check::{Finding, Rule, Verdict};
use crate::flow::{FlowId, FlowTable};

use super::flow::Flow;

/// Packets that are filled together. Which connection a packet belongs to and which rules it breaks
/// may show only later: it is looked up when the batch is full.
#[derive(Default)]
pub(super) struct PacketBatch {
    packets: Packets,
    settled: Settled,
    waiting: Vec<Waiting>,
    findings: Vec<(u64, Rule, Verdict)>,
    /// The connections of flows that have packets here.
    connections: Vec<Option<i64>>,
    /// Batches before it: flows know by it whether they have a place in `connections`.
    number: u64,
}

/// A packet of the batch.
struct Waiting {
    number: u64,
    connection: Option<i64>,
    /// The place of its flow's connection.
    flow: Option<usize>,
}

impl PacketBatch {
    /// Packets in it.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a packet, and its flow.
    #[inline]
    pub(super) fn push(&mut self, row: &PacketRow<'_, '_>, flow: Option<&mut Flow>) {
        self.packets.append(row);
        let connection = flow.as_ref().and_then(|flow| flow.connection);
        let flow = flow.map(|flow| match flow.in_batch {
            Some((number, place)) if number == self.number => place,
            _ => {
                let place = self.connections.len();
                self.connections.push(flow.connection);
                flow.in_batch = Some((self.number, place));
                place
            }
        });
        self.waiting.push(Waiting { number: row.observed.packet.number, connection, flow });
    }

    /// A flow's connection came to be known, or is another one.
    pub(super) fn connect(&mut self, flow: &Flow) {
        if let Some((number, place)) = flow.in_batch
            && number == self.number
            && let Some(connection) = self.connections.get_mut(place)
        {
            *connection = flow.connection;
        }
    }

    /// What was found of a packet.
    pub(super) fn found(&mut self, finding: &Finding) {
        // What is filtered out, or written already, is in the table of findings alone.
        if self.waiting.binary_search_by_key(&finding.packet, |waiting| waiting.number).is_ok() {
            self.findings.push((finding.packet, finding.rule, finding.verdict));
        }
    }

    /// The rows, column by column; it is empty afterwards.
    pub(super) fn finish(&mut self) -> Vec<ArrayRef> {
        self.findings.sort_by_key(|(packet, ..)| *packet);
        let mut findings = self.findings.drain(..).peekable();
        let mut rules = Vec::new();
        for waiting in self.waiting.drain(..) {
            let (mut fails, mut unknowns) = (0_u16, 0_u16);
            rules.clear();
            while let Some((_, rule, verdict)) =
                findings.next_if(|(packet, ..)| *packet == waiting.number)
            {
                match verdict {
                    Verdict::Fail => {
                        fails = fails.saturating_add(1);
                        rules.push(rule.id());
                    }
                    Verdict::Unknown => unknowns = unknowns.saturating_add(1),
                    Verdict::Pass => {}
                }
            }
            let learned = || self.connections.get(waiting.flow?).copied().flatten();
            let connection = waiting.connection.or_else(learned);
            self.settled.append(&SettledRow { connection, fails, unknowns, rules: &rules });
        }
        self.connections.clear();
        self.number += 1;
        let mut columns = self.packets.finish();
        columns.extend(self.settled.finish());
        columns
    }
}

/// Tells a flow which one is in the other direction, and the other one the same.
#[cold]
pub(super) fn pair(
    flows: &mut FlowTable<Flow>,
    batch: &mut PacketBatch,
    id: FlowId,
    peer: Option<crate::observed::FlowKey>,
) {
    use crate::flow::Entry;
    let flow = flows.get_mut(id);
    flow.pair(peer);
    batch.connect(flow);
    let key = *flow.key();
    if let Some(other) = peer.and_then(|peer| flows.get(peer)) {
        let other = flows.get_mut(other);
        other.pair(Some(key));
        batch.connect(other);
    }
}
