//! What a peer's packets may cost: the table of ARCHITECTURE.md as sums.

use roce_codec::Frame;
use roce_codec::ib::{Operation, PathMtu};

use roce_engine::Instant;

use super::ground::{Ground, PLACE};

/// What may be sent, and what was.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Packets of answers that are called for.
    packets: u64,
    /// Bytes of these.
    bytes: u64,
    /// Packets of own requests that are called for.
    requests: u64,
    timed: Instant,
    sent_packets: u64,
    sent_bytes: u64,
    sent_requests: u64,
}

/// The time that [`Target::connect`](crate::hostile::target::Target::connect) gives an answer, and the queue pairs that wait for some.
const TIMEOUT_NS: u64 = 4096 << 8;
const RELIABLE: u32 = 2;

/// Own request packets under way, and READs and atomics: as many may be sent again at once.
const AGAIN: u64 = 8 + 4;

impl Ledger {
    pub(super) const EMPTY: Self = Self {
        packets: 0,
        bytes: 0,
        requests: 0,
        timed: Instant::ZERO,
        sent_packets: 0,
        sent_bytes: 0,
        sent_requests: 0,
    };

    /// A valid packet for a reliable queue pair.
    pub(super) fn received(&mut self, frame: &Frame<'_>, ground: &Ground, mtu: PathMtu) {
        let info = frame.info();
        if info.is_response() {
            self.again();
            return;
        }
        self.packets += 1;
        let Some(reth) = frame.reth().filter(|_| info.operation == Operation::ReadRequest) else {
            return;
        };
        if ground.readable(reth.rkey, reth.va, reth.dma_len) {
            self.packets += u64::from(mtu.packets(reth.dma_len).saturating_sub(1));
            self.bytes += u64::from(reth.dma_len);
        }
    }

    /// Packets are held behind a gap: one NAK for that, and one answer when it has filled.
    pub(super) fn held(&mut self, packets: u64) {
        self.packets += packets;
    }

    /// A request of `len` bytes was posted.
    pub(super) fn posted(&mut self, len: usize, mtu: PathMtu) {
        let len = u32::try_from(len.min(PLACE)).unwrap_or(0);
        self.requests += u64::from(mtu.packets(len));
    }

    /// Something may have to be sent again: an answer says so, or time has passed.
    pub(super) fn again(&mut self) {
        self.requests += AGAIN;
    }

    /// So late is it: every queue pair's timer may have gone off as often as it can.
    pub(super) fn time(&mut self, now: Instant) {
        while self.timed.add_ns(TIMEOUT_NS) <= now {
            self.timed = self.timed.add_ns(TIMEOUT_NS);
            (0..RELIABLE).for_each(|_| self.again());
        }
    }

    /// A packet was sent.
    pub(super) fn sent(&mut self, frame: &Frame<'_>) -> Result<(), String> {
        if !frame.info().is_response() {
            self.sent_requests += 1;
        } else {
            self.sent_packets += 1;
            self.sent_bytes += u64::try_from(frame.payload_len()).unwrap_or(u64::MAX);
        }
        let over = self.sent_packets > self.packets
            || self.sent_bytes > self.bytes
            || self.sent_requests > self.requests;
        if over { Err(format!("more was sent than called for: {self:?}")) } else { Ok(()) }
    }
}
