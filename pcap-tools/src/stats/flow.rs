//! The figures of each flow while the capture runs.

use roce_codec::dcqcn::Params;

use super::figures::Figures;
use super::psn_graph::PsnGraph;
use super::rate::Rates;
use super::reaction::Reaction;
use crate::flow::Entry;
use crate::observed::FlowKey;

/// Flows whose figures are kept apart; those that are silent for long when there are more are
/// summed up.
pub(super) const MAX_FLOWS: usize = 1024;

/// A flow, and its requests with their answers.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) key: FlowKey,
    pub(super) peer: Option<FlowKey>,
    pub(super) figures: Figures,
    pub(super) graphs: Option<Box<Graphs>>,
}

/// What changes over time.
#[derive(Debug)]
pub(super) struct Graphs {
    pub(super) psns: Option<PsnGraph>,
    pub(super) rates: Rates,
    pub(super) reaction: Option<Reaction>,
}

impl Entry for Row {
    fn new(key: FlowKey) -> Self {
        Self { key, peer: None, figures: Figures::default(), graphs: None }
    }

    #[inline]
    fn key(&self) -> &FlowKey {
        &self.key
    }
}

impl Graphs {
    pub(super) fn new(start_ns: u64) -> Self {
        Self { psns: None, rates: Rates::new(start_ns), reaction: None }
    }

    /// A congestion notification for this flow; the first one starts its reaction point, if the
    /// rate of the link is known.
    pub(super) fn cnp(&mut self, now_ns: u64, params: &Params, link_bps: Option<u64>) {
        self.rates.cnp(now_ns);
        let Some(link_bps) = link_bps else { return };
        let new = || Reaction::new(params, link_bps, now_ns);
        self.reaction.get_or_insert_with(new).cnp(params, now_ns, &mut self.rates);
    }
}
