//! One connection: its slot is opened, moved by a row of the table, given back.

use roce_codec::cm::{CommunicationId, MAD_LEN, Mad, Message};

use super::state::{CmState, Input, Send, Tell, Transition, transition};
use super::table::Queue;
use super::{Cm, CmCallError, CmDropReason};
use crate::config::Entropy;
use crate::qp::Path;

impl Cm<'_> {
    /// A new slot in `state` with an ID of its own.
    pub(super) fn open(&mut self, state: CmState) -> Option<u32> {
        let index = self.table.take()?;
        let bits = self.table.slot_bits;
        let slot = self.table.get_mut(index)?;
        let id = loop {
            let id = CommunicationId(self.random.next_u32().checked_shl(bits).unwrap_or(0) | index);
            // 0 means "none"; messages for the slot's last owner may still be under way.
            if id != slot.id && id.0 != 0 {
                break id;
            }
        };
        slot.id = id;
        slot.state = state;
        Some(index)
    }

    /// Keeps `message` as the one a connection sends.
    pub(super) fn write(
        &mut self,
        index: u32,
        message: &Message<'_>,
        tid: u64,
    ) -> Result<(), CmCallError> {
        let Some(slot) = self.table.get_mut(index) else { return Err(CmCallError::UnknownId) };
        let mut mad = [0; MAD_LEN];
        message.emit(tid, &mut mad).map_err(CmCallError::PrivateData)?;
        slot.sent = mad;
        slot.sent_kind = message.attribute();
        Ok(())
    }

    /// A transaction ID of our own.
    pub(super) fn transaction_id(&self, id: CommunicationId) -> u64 {
        u64::from(self.transaction_high) << 32 | u64::from(id.0)
    }

    /// The connection that a call names, and the row of the table the call takes.
    pub(super) fn call(
        &self,
        id: CommunicationId,
        input: Input,
    ) -> Result<(u32, &'static Transition), CmCallError> {
        let index = self.table.find(id).ok_or(CmCallError::UnknownId)?;
        let state = self.table.get(index).map_or(CmState::Idle, |slot| slot.state);
        if state == CmState::Idle {
            return Err(CmCallError::UnknownId);
        }
        Ok((index, transition(state, input).ok_or(CmCallError::State(state))?))
    }

    /// The row that a message takes. One that would bring an event while another of the same
    /// connection waits to be polled is dropped: there is one place for what it says.
    pub(super) fn message(
        &self,
        index: u32,
        input: Input,
    ) -> Result<&'static Transition, CmDropReason> {
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        let row = transition(slot.state, input).ok_or(CmDropReason::State)?;
        if row.tell != Tell::Nothing && !slot.events.is_empty() {
            return Err(CmDropReason::EventPending);
        }
        Ok(row)
    }

    /// The connection a message is for: known to us by `id`, to the peer by `remote`, and sent
    /// from the peer's address to ours.
    pub(super) fn connection(
        &self,
        id: CommunicationId,
        remote: Option<CommunicationId>,
        from: &Path,
    ) -> Result<u32, CmDropReason> {
        let index = self.table.find(id).ok_or(CmDropReason::UnknownConnection)?;
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        if slot.state == CmState::Idle || remote.is_some_and(|remote| remote != slot.remote_id) {
            return Err(CmDropReason::UnknownConnection);
        }
        if (slot.path.src, slot.path.dst) != (from.src, from.dst) {
            return Err(CmDropReason::Address);
        }
        Ok(index)
    }

    /// Keeps what a message said until its event is polled.
    pub(super) fn keep(&mut self, index: u32, mad: &Mad<'_>) {
        if let Some(slot) = self.table.get_mut(index) {
            slot.received = *mad.data;
        }
    }

    /// Sends what was sent last once more.
    pub(super) fn send_again(&mut self, index: u32) {
        let Some(slot) = self.table.get_mut(index) else { return };
        slot.outgoing = true;
        if !core::mem::replace(&mut slot.queued, true) {
            self.table.push(Queue::Outgoing, index);
        }
    }

    /// Does what a row says, but for writing the message.
    pub(super) fn commit(&mut self, index: u32, row: &Transition) {
        let max_wait = self.config.max_wait.ns();
        let Some(slot) = self.table.get_mut(index) else { return };
        slot.state = row.to;
        let sends = !matches!(row.send, Send::Nothing | Send::Answer);
        let tell = row.tell != Tell::Nothing;
        let queue_event = tell && slot.events.is_empty();
        if tell {
            slot.events.push(row.tell);
        }
        if row.to != row.from {
            // What the old state had still to say is out of date.
            slot.outgoing = false;
        }
        let wait_ns = match row.to {
            CmState::ReqSent | CmState::RepSent | CmState::DreqSent | CmState::SidrReqSent => {
                Some(slot.response_ns)
            }
            CmState::RepWait | CmState::MraRepRcvd => Some(slot.service_ns),
            // IBTA 12.9.8: until nothing of the connection can be under way any more.
            CmState::Timewait => Some(slot.qp.timeout.ns().min(max_wait)),
            _ => None,
        };
        let listener = slot.listener;
        let closed = row.from.is_half_open() && !row.to.is_half_open();
        if sends {
            self.send_again(index);
        }
        if queue_event {
            self.table.push(Queue::Telling, index);
        }
        // What comes twice does not make the wait longer.
        if row.to != row.from || row.on == Input::Timeout {
            match wait_ns {
                Some(ns) => self.timers.arm(index, self.now, self.now.add_ns(ns)),
                None => self.timers.disarm(index),
            }
        }
        if closed {
            self.forget_half_open(listener);
        }
        if row.to == CmState::Idle {
            self.table.unindex(index);
            self.release_if_done(index);
        }
    }

    /// Gives a slot back once nothing of it is left to be sent or polled.
    pub(super) fn release_if_done(&mut self, index: u32) {
        if let Some(slot) = self.table.get(index)
            && slot.live
            && slot.state == CmState::Idle
            && !slot.queued
            && slot.events.is_empty()
        {
            self.table.give(index);
        }
    }
}
