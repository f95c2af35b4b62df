//! A responder's books.

use super::{Answer, Responder};
use crate::audit::Discrepancy;
use crate::engine::Engine;

impl Responder {
    /// Packets held behind a gap.
    pub(crate) const fn held_count(&self) -> u32 {
        self.held.len()
    }
}

impl Engine<'_> {
    pub(crate) fn audit_responder(&mut self, slot: u32) -> Result<(), Discrepancy> {
        let to_come = self.replays_of(slot).iter().filter(|replay| replay.next.is_some()).count();
        let Some(qp) = self.qps.get(slot) else { return Ok(()) };
        let (qpn, from) = (qp.qpn, [qp.responder.look_from, qp.responder.replay_next]);
        let [looked_for, oldest] = from.map(|from| self.unanswered_from(slot, from));
        let Some(qp) = self.qps.get(slot) else { return Ok(()) };
        let responder = &qp.responder;
        if usize::from(responder.unanswered) != to_come || looked_for != oldest {
            return Err(Discrepancy::Unanswered(qpn));
        }
        let owes = responder.unanswered > 0 || responder.answer != Answer::None;
        if owes && !self.ready.is_queued(slot) && !self.pacers.is_armed(slot) {
            return Err(Discrepancy::Silent(qpn));
        }
        Ok(())
    }
}
