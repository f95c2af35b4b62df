//! Accepting out of order: packets behind a gap are held whole and run in PSN order once it has
//! filled (`Recovery::SelectiveAccept`).
//!
//! Nothing of a held packet happens before its turn: no byte is placed, no receive taken, no key
//! looked at, nothing refused. So a late older WRITE cannot overwrite a newer one, whoever polls on
//! a last byte sees it last, and a key that goes in the gap is gone for what is behind. A peer that
//! goes back by the specification notices no more than that acknowledgements reach farther than
//! what it has sent again.
//!
//! What fills a gap is acknowledged at once, asked for or not, so that the peer need not send again
//! what was held. What it has sent again by then is acknowledged again, as any duplicate is: there
//! are requesters (Linux rxe) that have no use for an acknowledgement beyond what they have resent.
//! A second gap is reported when something behind it comes again: a peer that goes back is about to
//! fill it by itself, and to report it at once makes it go back once more (at 5 % loss and a round
//! trip of 122 packets, 0.40 of the link instead of 0.49). The acknowledgement goes before that NAK, since there are requesters (rxe
//! again) that have no ear for a NAK between another one and an acknowledgement.

use roce_codec::ib::Psn;
use roce_codec::{Frame, Start};

use super::{Answer, Waiting};
use crate::backing::Backing;
use crate::counters::HwCounter;
use crate::engine::Engine;
use crate::held::Holding;
use crate::pool::List;
use crate::rules::psn::{PsnClass, classify};

impl Engine<'_> {
    /// Holds a packet that is ahead of the expected PSN, if there is room.
    pub(super) fn hold(&mut self, slot: u32, frame: &Frame<'_>) -> Holding {
        let Some(qp) = self.qps.get_mut(slot) else { return Holding::NoRoom };
        let responder = &mut qp.responder;
        let holding = self.held.hold(&mut responder.held, responder.expected, frame);
        if holding == Holding::Held {
            self.counters.count(HwCounter::RxHeld);
        }
        holding
    }

    /// Runs what is held as far as it is its turn. At most as many packets as one queue pair may
    /// hold, each of which came in a packet of its own.
    pub(super) fn run_held<B: Backing>(&mut self, slot: u32, backing: &B) {
        let newest = |engine: &Self| engine.qps.get(slot).map(|qp| qp.responder.newest);
        let before = newest(self);
        let bytes = self.held.lend();
        while let Some(index) = self.next_held(slot) {
            let packet = self.held.packet(bytes, index);
            // ICRC, addresses and P_Key were good when it came, and cannot have become bad.
            let frame = packet.and_then(|packet| Frame::parse([packet, &[]], Start::Ip).ok());
            if let Some(frame) = frame {
                let bth = frame.bth();
                // It was counted when it came.
                let _ = self.take_request(slot, &frame, &bth, backing);
                self.counters.count(HwCounter::RxHeldRun);
            }
            self.held.give(index);
        }
        self.held.take_back(bytes);
        if newest(self) != before {
            self.acknowledge_gap(slot);
        }
    }

    /// The held packet whose turn it is, off its list. A READ in the gap may have taken the PSNs
    /// of some: these are no requests of an honest peer's, and are forgotten.
    fn next_held(&mut self, slot: u32) -> Option<u32> {
        loop {
            let qp = self.qps.get_mut(slot)?;
            if !qp.receives_requests() {
                return None;
            }
            let responder = &mut qp.responder;
            let class = classify(responder.expected, self.held.first(&responder.held)?);
            if class == PsnClass::Ahead {
                return None;
            }
            let index = self.held.take_first(&mut responder.held)?;
            if class == PsnClass::Expected {
                return Some(index);
            }
            self.held.give(index);
            self.counters.count(HwCounter::RxHeldFreed);
        }
    }

    /// Owes an acknowledgement of what was held, whether it is asked for or not.
    fn acknowledge_gap(&mut self, slot: u32) {
        let Some(qp) = self.qps.get(slot) else { return };
        if !matches!(qp.responder.answer, Answer::Nak(..)) {
            self.owe(slot, Answer::Ack(qp.responder.newest));
        }
    }

    /// Forgets what is held. Always safe: to the peer, it was lost.
    pub(crate) fn release_held(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let mut list = core::mem::replace(&mut qp.responder.held, List::EMPTY);
        while let Some(index) = self.held.take_first(&mut list) {
            self.held.give(index);
            self.counters.count(HwCounter::RxHeldFreed);
        }
    }
}

impl super::Responder {
    /// A gap is found at `psn`, what follows it being held or not.
    pub(super) fn wait_for_missing(&mut self, psn: Psn, holding: Holding) {
        if holding == Holding::NoRoom {
            self.note_dropped(psn);
        } else {
            self.dropped_to = self.expected.sub(1);
        }
        self.waiting = Waiting::ForMissing;
    }
}
