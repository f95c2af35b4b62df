//! The server's half of `ib_write_lat`: it writes first, and then once for each WRITE of the
//! client's. Both sides watch the last byte of the message, which counts up from 1, modulo 256.
//!
//! The message size is not told. The client's buffer lies behind another of the same size, which
//! begins at a page; neither is smaller than [`CYCLE_BUFFER`], which is a page. So where the
//! client's buffer begins within its page says the size modulo 4,096. A first WRITE of ones, as
//! long as the least such size, or of 4,096 bytes, sets the last byte of a message that is no
//! longer, and the client's answer has the true size. Each of the next sizes is tried when the
//! one before has gone unanswered.

use roce_codec::ib::{Qpn, RKey};
use roce_engine::{Backing, Instant, SendWr, WrOpcode};

use super::error::SessionError;
use super::key::KeyMessage;
use super::message::CYCLE_BUFFER;
use super::session::Options;
use crate::service::memory::Exposed;
use crate::service::{Context, Platform};

/// What a client may take to begin looking at its buffer: perftest first measures the clock of its
/// processor. Going on too early is fatal to it, so this is far more than the usual.
const BEGIN_NS: u64 = 3_000_000_000;
/// What it may take from then on.
const PATIENCE_NS: u64 = 100_000_000;
const PAGE: u32 = CYCLE_BUFFER;

/// The state of the exchange of WRITEs.
#[derive(Debug)]
pub(super) struct WriteLat {
    qpn: Qpn,
    peer_va: u64,
    peer_rkey: RKey,
    source: Exposed,
    wr_id: u64,
    region_len: u32,
    iterations: u64,
    size: Option<u32>,
    /// Bytes at the client that are ones, while the size is not known.
    probed: u32,
    /// While the size is not known: when to go on.
    due: Option<Instant>,
    /// When the client is looking at its buffer, whatever happens.
    begun: Instant,
    sent: u64,
    answered: u64,
    in_flight: bool,
}

impl WriteLat {
    pub(super) fn new(
        qpn: Qpn,
        peer: &KeyMessage,
        source: Exposed,
        options: &Options,
        wr_id: u64,
    ) -> Self {
        Self {
            qpn,
            peer_va: peer.va,
            peer_rkey: peer.rkey,
            source,
            wr_id,
            region_len: options.region_len,
            iterations: options.iterations.unwrap_or(u64::MAX),
            size: options.size,
            probed: 0,
            due: None,
            begun: Instant::ZERO,
            sent: 0,
            answered: 0,
            in_flight: false,
        }
    }

    /// The client has been told everything: the first WRITE.
    pub(super) fn start<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.begun = context.now.add_ns(BEGIN_NS);
        match self.size {
            Some(size) => {
                self.fill(0, size, context);
                self.sent = 1;
                self.write(0, size, context)
            }
            None => self.probe(context),
        }
    }

    /// A WRITE of the client's is in memory.
    pub(super) fn handle_write<P: Platform>(
        &mut self,
        len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.due = None;
        // The first answer says how long the messages are.
        self.sent = self.sent.max(1);
        self.size.get_or_insert(len);
        self.answered += 1;
        self.next(context)
    }

    /// A WRITE of ours is acknowledged.
    pub(super) fn handle_completion<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.in_flight = false;
        if self.size.is_none() {
            self.due = Some(context.now.add_ns(PATIENCE_NS).max(self.begun));
        }
        self.next(context)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn handle_timeout<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if self.due.is_none_or(|due| due > context.now) {
            return Ok(());
        }
        self.due = None;
        self.probe(context)
    }

    /// Sets more of the client's buffer to ones.
    fn probe<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        let end = next_size(self.peer_va, self.probed)
            .filter(|end| *end <= self.region_len)
            .ok_or(SessionError::SizeUnknown { tried: self.probed })?;
        let from = core::mem::replace(&mut self.probed, end);
        self.fill(from, end, context);
        self.write(from, end - from, context)
    }

    /// The next WRITE, once the client has answered the last one and acknowledged it.
    fn next<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        let Some(size) = self.size.filter(|size| *size > 0) else { return Ok(()) };
        if self.sent == 0
            || self.in_flight
            || self.answered < self.sent
            || self.sent >= self.iterations
        {
            return Ok(());
        }
        self.sent += 1;
        let [count, ..] = self.sent.to_le_bytes();
        let at = self.source.addr(size - 1);
        // Inside the region: a `size` beyond it has been refused by the engine or at the start.
        let _ = context.platform.memory().write(at, [&[count], &[]]);
        self.write(0, size, context)
    }

    /// Sets bytes of what we send from to ones.
    fn fill<P: Platform>(&self, from: u32, end: u32, context: &mut Context<'_, '_, P>) {
        let ones = [1; 256];
        let mut offset = from;
        while offset < end {
            let len = (end - offset).min(256);
            let piece = usize::try_from(len).ok().and_then(|len| ones.get(..len));
            let at = self.source.addr(offset);
            let _ = context.platform.memory().write(at, [piece.unwrap_or_default(), &[]]);
            offset += len;
        }
    }

    fn write<P: Platform>(
        &mut self,
        offset: u32,
        len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        self.in_flight = true;
        let va = self.peer_va.wrapping_add(u64::from(offset));
        let sges = [self.source.sge(offset, len)];
        let wr = SendWr::new(self.wr_id, WrOpcode::RdmaWrite { va, rkey: self.peer_rkey }, &sges);
        Ok(context.engine.post_send(self.qpn, &wr)?)
    }
}

/// The next size that the client's messages may have, if it is above `probed`; all sizes up to
/// 4,096 count as that.
fn next_size(va: u64, probed: u32) -> Option<u32> {
    let into_page = u32::try_from(va % u64::from(PAGE)).ok()?;
    if probed == 0 { PAGE.checked_add(into_page) } else { probed.checked_add(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_begins_where_its_neighbour_ends() {
        for size in [1, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 65_536, 70_001] {
            let buffer: u32 = CYCLE_BUFFER.max(size);
            let va = 0x7f00_0000_0000 + u64::from(buffer);
            let mut probed = 0;
            let mut steps = 0;
            while probed < size {
                probed = next_size(va, probed).unwrap();
                steps += 1;
            }
            assert_eq!(probed, buffer, "neither short of the buffer nor beyond it");
            assert!(steps <= 17, "{size}: {steps} steps");
        }
        assert_eq!(next_size(0x1020, u32::MAX), None);
    }
}
