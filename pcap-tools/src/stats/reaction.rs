//! DCQCN: what rate a sender's reaction point would have allowed, from the CNPs the tap saw.

use roce_codec::dcqcn::{Params, ReactionPoint};

use super::rate::Rates;

/// Increases that are followed one by one between two packets; what comes beyond that is one step.
const MOST_STEPS: u32 = 256;

/// The reaction point of a flow, from its first CNP on.
#[derive(Debug, Clone)]
pub(super) struct Reaction {
    point: ReactionPoint,
    now_ns: u64,
}

impl Reaction {
    /// A flow whose first CNP comes at `now_ns`.
    pub(super) fn new(params: &Params, link_bps: u64, now_ns: u64) -> Self {
        Self { point: ReactionPoint::new(params, link_bps), now_ns }
    }

    /// A CNP came.
    pub(super) fn cnp(&mut self, params: &Params, now_ns: u64, rates: &mut Rates) {
        self.advance(params, now_ns, rates);
        self.point.on_cnp(params, now_ns);
        rates.note_alpha(now_ns, self.point.alpha_q31(params, now_ns));
    }

    /// The flow sent something.
    pub(super) fn sent(&mut self, params: &Params, now_ns: u64, bytes: u32, rates: &mut Rates) {
        self.advance(params, now_ns, rates);
        self.point.on_bytes_sent(params, now_ns, bytes);
    }

    /// What it allows now, bits a second.
    pub(super) fn rate_bps(&self) -> u64 {
        self.point.rate_bps()
    }

    /// Spreads what was allowed since the last time over the intervals in between.
    pub(super) fn advance(&mut self, params: &Params, to_ns: u64, rates: &mut Rates) {
        let mut steps = 0;
        while self.now_ns < to_ns {
            let due_ns = self.point.next_timeout().filter(|_| steps < MOST_STEPS);
            let until_ns = due_ns.map_or(to_ns, |due_ns| due_ns.clamp(self.now_ns, to_ns));
            rates.allow(self.now_ns, until_ns, self.point.rate_bps());
            self.now_ns = until_ns;
            self.point.on_timeout(params, until_ns);
            rates.note_alpha(until_ns, self.point.alpha_q31(params, until_ns));
            steps += 1;
        }
    }
}
