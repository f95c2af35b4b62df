//! The unreliable connection's responder (IBTA 9.8.2.2): a message of which something is missing
//! or wrong is dropped without a word, and nothing is ever answered.

use super::{Message, Refusal, Request};
use crate::backing::Backing;
use crate::counters::{DropReason, HwCounter};
use crate::engine::Engine;

impl Engine<'_> {
    /// Takes a request of the unreliable service. A First or Only begins a message, whatever its
    /// PSN: what was missing before it is lost. Anything else must be the next packet of the
    /// message in progress.
    pub(super) fn handle_unreliable<B: Backing>(
        &mut self,
        slot: u32,
        request: &Request<'_, '_>,
        backing: &B,
    ) -> Result<(), DropReason> {
        let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
        let psn = request.bth.psn;
        let in_order = psn == qp.responder.expected;
        let starts = request.info.position.starts();
        if !in_order {
            self.counters.count(HwCounter::OutOfSequence);
        }
        if !in_order || starts {
            self.abandon(slot);
        }
        self.established(slot);
        let Some(qp) = self.qps.get(slot) else { return Err(DropReason::UnknownQp) };
        if !starts && matches!(qp.responder.message, Message::None) {
            return Err(DropReason::OutOfSequence);
        }
        let executed = self.execute(slot, request, backing);
        let Some(qp) = self.qps.get_mut(slot) else { return Err(DropReason::UnknownQp) };
        qp.responder.expected = psn.next();
        match executed {
            Ok(_) => {
                if request.info.position.ends() {
                    qp.responder.msn = qp.responder.msn.next();
                }
                Ok(())
            }
            Err(refusal) => {
                self.abandon(slot);
                Err(match refusal {
                    Refusal::Drop(reason) => reason,
                    Refusal::NotReady => DropReason::ReceiverNotReady,
                    _ => DropReason::Refused,
                })
            }
        }
    }

    /// Forgets the message in progress. Its receive waits for the next one; a shared one stays the
    /// queue pair's, since it was taken (IBTA 10.2.9).
    fn abandon(&mut self, slot: u32) {
        if let Some(index) = self.take_message_receive(slot)
            && let Some(qp) = self.qps.get_mut(slot)
        {
            self.recvs.push_front(&mut qp.receives, index);
        }
        if let Some(qp) = self.qps.get_mut(slot) {
            qp.responder.message = Message::None;
        }
    }
}
