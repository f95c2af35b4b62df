//! A run in which client and server send in turn: `write_lat`, where either watches the last byte
//! of what the other writes and the server begins, and `send_lat`, where the client begins.

use roce_engine::{Addr, Backing, PostError, WrOpcode};

use super::super::Test;
use super::error::ClientError;
use super::job::Job;
use super::meter::Meter;
use super::pair::ClientPair;
use crate::service::memory::read;
use crate::service::{Context, Platform};

/// Messages of ours that may wait for their acknowledgement while the server's answers come: an
/// acknowledgement can be late or lost.
const IN_FLIGHT: u64 = 16;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PingPong {
    writes: bool,
    size: u32,
    limit: u64,
    sent: u64,
    /// Messages of the server's.
    received: u64,
    acknowledged: u64,
}

impl PingPong {
    /// A run of messages of `size` bytes.
    pub(super) fn new(job: &Job, size: u32) -> Self {
        let writes = job.test == Test::WriteLat;
        Self { writes, size, limit: job.limit(), sent: 0, received: 0, acknowledged: 0 }
    }

    /// Posts the next message once it is our turn.
    pub(super) fn poll<P: Platform>(
        &mut self,
        pair: &ClientPair,
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        if self.writes {
            self.look(pair, meter, context);
        }
        let turn = if self.writes { self.sent + 1 } else { self.sent };
        // A WRITE of ours must be out of the way before its memory is changed.
        let in_flight = if self.writes { 1 } else { IN_FLIGHT };
        if self.sent >= self.limit
            || self.received < turn
            || self.sent - self.acknowledged >= in_flight
        {
            return Ok(());
        }
        let opcode = if self.writes {
            self.mark(pair, context);
            let (va, rkey) = pair.remote();
            WrOpcode::RdmaWrite { va, rkey }
        } else {
            WrOpcode::Send
        };
        let index = self.sent;
        self.sent += 1;
        meter.posted(0, index, context.now);
        pair.post(index, opcode, 0, self.size, true, context)
    }

    /// A message of ours, and those before it, are acknowledged.
    pub(super) fn handle_completion(&mut self, index: u64) {
        self.acknowledged = (index + 1).clamp(self.acknowledged, self.sent);
    }

    /// A SEND of the server's has come.
    pub(super) fn handle_receive<P: Platform>(
        &mut self,
        len: u32,
        pair: &ClientPair,
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), ClientError> {
        pair.post_receive(context)?;
        if len != self.size {
            return Err(ClientError::AnswerLen { wanted: self.size, found: len });
        }
        if self.received < self.sent {
            meter.completed(0, self.received, context.now);
            self.received += 1;
        }
        Ok(())
    }

    /// Whether the server has seen all that it can wait for, if it has gone.
    pub(super) const fn may_be_left(&self) -> bool {
        self.writes && self.sent == self.limit
    }

    /// Whether all messages are sent, acknowledged and answered.
    pub(super) const fn is_over(&self) -> bool {
        self.sent == self.limit && self.acknowledged == self.limit && self.received == self.limit
    }

    /// Looks whether the server has written: the last byte counts, from 1, modulo 256.
    fn look<P: Platform>(
        &mut self,
        pair: &ClientPair,
        meter: &mut impl Meter,
        context: &mut Context<'_, '_, P>,
    ) {
        if self.received > self.sent || self.received >= self.limit {
            return;
        }
        let next = self.received + 1;
        let [count, ..] = next.to_le_bytes();
        let mut last = [0];
        let at = self.last_byte(pair, pair.half);
        if read(context.platform.memory(), at, &mut last) && last == [count] {
            if let Some(answered) = self.received.checked_sub(1) {
                meter.completed(0, answered, context.now);
            }
            self.received = next;
        }
    }

    /// Sets the last byte of our next message.
    fn mark<P: Platform>(&self, pair: &ClientPair, context: &mut Context<'_, '_, P>) {
        let [count, ..] = (self.sent + 1).to_le_bytes();
        // Inside the region: the size is at most a half.
        let _ = context.platform.memory().write(self.last_byte(pair, 0), [&[count], &[]]);
    }

    /// The last byte of a message in the half that begins at `half`.
    fn last_byte(&self, pair: &ClientPair, half: u32) -> Addr {
        let start = pair.exposed.region.addr;
        Addr { offset: start.offset + u64::from(half) + u64::from(self.size) - 1, ..start }
    }
}
