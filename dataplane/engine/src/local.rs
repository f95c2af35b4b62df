//! Requests that no packet carries: binding a memory window, taking a key away. They have their
//! turn among the others of the send queue: what is posted behind one finds it done, and it
//! completes behind what was posted before.

use crate::cq::WcStatus;
use crate::engine::Engine;
use crate::qp_state::QpState;

impl Engine<'_> {
    /// Carries out the requests at the cursor that no packet carries, each once, also where the
    /// queue goes back. Returns the first request with packets behind them; `None` if there is
    /// none, or if one has to wait or has failed.
    pub(crate) fn run_local(&mut self, slot: u32) -> Option<u32> {
        loop {
            let qp = self.qps.get(slot)?;
            let requester = &qp.requester;
            let cursor = requester.cursor;
            let index = cursor.index()?;
            let wqe = *self.sends.get(index)?;
            if !wqe.opcode.is_local() {
                return Some(index);
            }
            let oldest = cursor == requester.queue.head();
            if !wqe.done {
                // A draining queue begins nothing new; and the fence (IBTA 10.8.3).
                let fenced = wqe.fence && requester.rd_outstanding > 0;
                if fenced || qp.state == QpState::Sqd {
                    return None;
                }
                match self.execute_local(slot, &wqe.opcode) {
                    Ok(()) => {}
                    // Completions come in order: what was sent before may still succeed.
                    Err(_) if !oldest => return None,
                    Err(_) => {
                        self.fail_request(slot, WcStatus::MwBind);
                        return None;
                    }
                }
                self.sends.get_mut(index)?.done = true;
            }
            if oldest {
                self.complete_oldest(slot, 0);
            } else {
                let next = self.sends.next(cursor);
                self.qps.get_mut(slot)?.requester.cursor = next;
            }
        }
    }
}
