//! The server's half of `ib_write_lat`: it writes first, and then once for each WRITE of the
//! client's. Both sides watch the last byte of the message, which counts up from 1, modulo 256.
//!
//! The message size is not told. Up to 4,096 bytes it need not be: the client's buffer is never
//! smaller, so a first WRITE of 4,096 ones sets the last byte of any smaller message, and the
//! client's answer has the true size. Beyond, the buffer ends where the message does, rounded up
//! to [`CACHE_LINE`], and starts as far behind a page boundary; so one end a page is possible,
//! and each is tried when the one before has gone unanswered.

use roce_codec::ib::{Qpn, RKey};
use roce_engine::{Addr, Backing, Instant, SendWr, WrOpcode};

use super::exchange::{CACHE_LINE, CYCLE_BUFFER};
use super::key::KeyMessage;
use super::session::{Options, SessionError};
use crate::service::memory::Exposed;
use crate::service::{Context, Platform};

/// What a client may take to see a WRITE and answer it. Going on too early is fatal to it, so
/// this allows for one that is not scheduled for a while.
const PATIENCE_NS: u64 = 100_000_000;
const PAGE: u32 = 4096;

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
    /// Bytes at the client that are ones.
    probed: u32,
    /// When the client is taken not to have seen the last probe.
    patience_ends: Option<Instant>,
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
            patience_ends: None,
            sent: 0,
            answered: 0,
            in_flight: false,
        }
    }

    /// The first WRITE.
    pub(super) fn start<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if self.size.is_some() { self.next(context) } else { self.probe(CYCLE_BUFFER, context) }
    }

    /// A WRITE of the client's is in memory.
    pub(super) fn handle_write<P: Platform>(
        &mut self,
        len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if self.size.is_none() {
            self.size = Some(len);
            self.patience_ends = None;
            self.sent = 1;
        }
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
            self.patience_ends = Some(context.now.add_ns(PATIENCE_NS));
        }
        self.next(context)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.patience_ends
    }

    pub(super) fn handle_timeout<P: Platform>(
        &mut self,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        if self.patience_ends.is_none_or(|end| end > context.now) {
            return Ok(());
        }
        self.patience_ends = None;
        let end = next_end(self.peer_va, self.probed)
            .filter(|end| *end <= self.region_len)
            .ok_or(SessionError::SizeUnknown { tried: self.probed })?;
        self.probe(end, context)
    }

    /// Sets what is not yet set of the client's first `end` bytes to ones.
    fn probe<P: Platform>(
        &mut self,
        end: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let from = core::mem::replace(&mut self.probed, end);
        self.fill(from, end, context);
        self.write(from, end - from, context)
    }

    /// The next WRITE, once the client has answered the last one and acknowledged it.
    fn next<P: Platform>(&mut self, context: &mut Context<'_, '_, P>) -> Result<(), SessionError> {
        let Some(size) = self.size.filter(|size| *size > 0) else { return Ok(()) };
        if self.in_flight || self.answered < self.sent || self.sent >= self.iterations {
            return Ok(());
        }
        self.sent += 1;
        let [count, ..] = self.sent.to_le_bytes();
        let at = Addr {
            offset: self.source.region.addr.offset + u64::from(size - 1),
            ..self.source.region.addr
        };
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
            let start = self.source.region.addr;
            let at = Addr { offset: start.offset + u64::from(offset), ..start };
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
        let wr = SendWr {
            wr_id: self.wr_id,
            opcode: WrOpcode::RdmaWrite { va, rkey: self.peer_rkey },
            sge: self.source.sge(offset, len),
            signaled: true,
            solicited: false,
        };
        Ok(context.engine.post_send(self.qpn, &wr)?)
    }
}

/// The next place where the client's buffer may end, if it does not by `probed` bytes.
fn next_end(va: u64, probed: u32) -> Option<u32> {
    let into_page = u32::try_from(va % u64::from(PAGE)).ok()?;
    // A buffer that does not begin where such a message ended is not understood.
    if into_page % CACHE_LINE != 0 {
        return None;
    }
    let page = probed / PAGE * PAGE;
    [page.checked_add(into_page)?, page.checked_add(into_page)?.checked_add(PAGE)?]
        .into_iter()
        .find(|end| *end > probed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_ends_where_its_neighbour_begins() {
        // Two messages lie side by side in a page-aligned buffer; ours is the second.
        for size in [4097, 5000, 8191, 8192, 8193, 65_536, 70_001] {
            let rounded = 64 * u32::div_ceil(size, 64);
            let va = 0x7f00_0000_0000 + u64::from(rounded);
            let mut probed = CYCLE_BUFFER;
            let mut steps = 0;
            while probed < size {
                probed = next_end(va, probed).unwrap();
                assert!(probed <= rounded, "{size}: {probed} is outside");
                steps += 1;
            }
            assert_eq!(probed, rounded);
            assert!(steps <= 18, "{size}: {steps} steps");
        }
        assert_eq!(next_end(0x1020, 4096), None);
    }
}
