//! A requester's books.

use roce_codec::ib::{Psn, Service};

use crate::audit::Discrepancy;
use crate::engine::Engine;

impl Engine<'_> {
    pub(crate) fn audit_requester(&self, slot: u32) -> Result<(), Discrepancy> {
        let Some(qp) = self.qps.get(slot) else { return Ok(()) };
        let (qpn, requester) = (qp.qpn, &qp.requester);
        let armed = self.timers.is_armed(slot);
        if !qp.state.sends() || qp.service != Service::Rc {
            return if armed { Err(Discrepancy::Timer(qpn)) } else { Ok(()) };
        }
        let [cursor, sent] =
            [requester.cursor_psn, requester.sent].map(|psn| requester.beyond_una(psn));
        if cursor > sent || sent > Psn::HALF {
            return Err(Discrepancy::Psns(qpn));
        }
        if requester.in_window() > self.config.window {
            return Err(Discrepancy::Window(qpn));
        }
        // Sent in this pass: what the cursor has gone past.
        let mut outstanding = 0;
        let mut next = requester.queue.head();
        while next != requester.cursor
            && let Some(wqe) = next.index().and_then(|index| self.sends.get(index))
        {
            outstanding += u32::from(wqe.opcode.awaits_response());
            next = wqe.link;
        }
        let counted = requester.rd_outstanding;
        if u32::from(counted) != outstanding || counted > requester.max_rd_atomic {
            return Err(Discrepancy::RdAtomic(qpn));
        }
        let timed = requester.timeout_ns.is_some();
        let (must, may) = match requester.rnr_until {
            Some(_) => (true, true),
            // What is about to be sent again from the start arms the timer when it is.
            None => (timed && cursor > 0, timed && requester.has_outstanding()),
        };
        if must && !armed || armed && !may {
            return Err(Discrepancy::Timer(qpn));
        }
        Ok(())
    }
}
