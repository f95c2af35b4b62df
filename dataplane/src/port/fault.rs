//! A port that damages what passes it, by a seed: drops, duplicates, reorders, corrupts, delays,
//! in both directions.
//!
//! Frames are copied into the port's own memory, so it is for tests and trials, not for speed.

use std::collections::VecDeque;

use roce_codec::net::MacAddr;
use roce_engine::SeededEntropy;

use super::{Chunk, Port, PortCounters, RxBurst, RxMeta, RxToken};

/// How often each fault strikes a frame, as a probability from 0 to 1, each rolled by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultRates {
    /// The frame is lost.
    pub drop: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// It changes places with the one behind it.
    pub reorder: f64,
    /// One bit of it is flipped.
    pub corrupt: f64,
    /// It is held back for up to [`MAX_DELAY`] calls of the port.
    pub delay: f64,
}

/// The longest a delayed frame is held back: calls of `rx_burst` or `tx_flush` on its side.
pub const MAX_DELAY: u64 = 8;

/// How often each fault has struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// Frames lost.
    pub drop: u64,
    /// Frames sent twice.
    pub duplicate: u64,
    /// Frames that changed places.
    pub reorder: u64,
    /// Frames with a flipped bit.
    pub corrupt: u64,
    /// Frames held back.
    pub delay: u64,
}

/// Settings of a [`FaultPort`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultConfig {
    /// Faults on received frames.
    pub rx: FaultRates,
    /// Faults on sent frames.
    pub tx: FaultRates,
    /// The same seed and the same frames give the same faults.
    pub seed: u64,
}

/// One direction: frames that are due, and frames held back until a later call.
#[derive(Debug)]
struct Direction {
    rates: FaultRates,
    counts: FaultCounts,
    random: SeededEntropy,
    ready: VecDeque<Frame>,
    held: Vec<(u64, Frame)>,
    calls: u64,
}

#[derive(Debug, Clone)]
struct Frame {
    bytes: Vec<u8>,
    meta: RxMeta,
    /// Its successor goes first.
    swap: bool,
}

impl Direction {
    fn new(rates: FaultRates, seed: u64) -> Self {
        Self {
            rates,
            counts: FaultCounts::default(),
            random: SeededEntropy::new(seed),
            ready: VecDeque::new(),
            held: Vec::new(),
            calls: 0,
        }
    }

    fn strikes(&mut self, rate: f64) -> bool {
        // 32 bits are exact in an f64.
        let roll = f64::from(u32::try_from(self.random.next_u64() >> 32).unwrap_or(0));
        roll < rate * 4_294_967_296.0
    }

    /// Takes a frame in and decides its fate.
    fn push(&mut self, mut frame: Frame) {
        let rates = self.rates;
        if self.strikes(rates.drop) {
            self.counts.drop += 1;
            return;
        }
        if self.strikes(rates.corrupt) && !frame.bytes.is_empty() {
            self.counts.corrupt += 1;
            let bits = u64::try_from(frame.bytes.len()).unwrap_or(1) * 8;
            let bit = self.random.next_u64() % bits;
            if let Some(byte) = frame.bytes.get_mut(usize::try_from(bit / 8).unwrap_or(0)) {
                *byte ^= 1 << (bit % 8);
            }
        }
        if self.strikes(rates.delay) {
            self.counts.delay += 1;
            let due = self.calls + 1 + self.random.next_u64() % MAX_DELAY;
            self.held.push((due, frame));
            return;
        }
        let twice = self.strikes(rates.duplicate).then(|| frame.clone());
        frame.swap = self.strikes(rates.reorder);
        // The one that was to change places goes behind this one.
        match self.ready.back() {
            Some(last) if last.swap => {
                self.counts.reorder += 1;
                let mut last = self.ready.pop_back().unwrap_or_else(|| frame.clone());
                last.swap = false;
                self.ready.push_back(frame);
                self.ready.push_back(last);
            }
            _ => self.ready.push_back(frame),
        }
        if let Some(again) = twice {
            self.counts.duplicate += 1;
            self.ready.push_back(again);
        }
    }

    /// A call has passed: delayed frames may be due, and a frame that waited for a successor in
    /// vain goes out.
    fn tick(&mut self) {
        self.calls += 1;
        let calls = self.calls;
        let mut index = 0;
        while let Some((due, _)) = self.held.get(index) {
            if *due <= calls {
                let (_, frame) = self.held.swap_remove(index);
                self.ready.push_back(frame);
            } else {
                index += 1;
            }
        }
    }

    /// The next frame that may go: the last one may wait one call for a successor.
    fn pop(&mut self) -> Option<Frame> {
        if self.ready.len() == 1
            && let Some(last) = self.ready.front_mut()
            && last.swap
        {
            last.swap = false;
            let calls = self.calls;
            let frame = self.ready.pop_front()?;
            // It goes behind whatever comes within a few calls.
            self.counts.reorder += 1;
            self.held.push((calls + 2, frame));
            return None;
        }
        self.ready.pop_front()
    }
}

/// A port with faults; see the [module](self).
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    rx: Direction,
    tx: Direction,
    lent: Vec<Option<Frame>>,
    reserved: Vec<u8>,
    counters: PortCounters,
}

impl<P: Port> FaultPort<P> {
    /// Wraps a port.
    pub fn new(inner: P, config: &FaultConfig) -> Self {
        Self {
            inner,
            rx: Direction::new(config.rx, config.seed),
            tx: Direction::new(config.tx, config.seed ^ 0x5555_5555_5555_5555),
            lent: Vec::new(),
            reserved: Vec::new(),
            counters: PortCounters::default(),
        }
    }

    /// Faults so far: on received and on sent frames.
    pub fn faults(&self) -> [FaultCounts; 2] {
        [self.rx.counts, self.tx.counts]
    }

    /// The port below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The port below.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    fn lend(&mut self, frame: Frame) -> u64 {
        let at = match self.lent.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.lent.push(None);
                self.lent.len() - 1
            }
        };
        self.lent[at] = Some(frame);
        u64::try_from(at).unwrap_or(u64::MAX)
    }
}

impl<P: Port> Port for FaultPort<P> {
    fn mac(&self) -> MacAddr {
        self.inner.mac()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        self.rx.tick();
        let mut tokens = RxBurst::new();
        self.inner.rx_burst(&mut tokens);
        for token in tokens {
            let [head, tail] = self.inner.frame(&token);
            let frame = Frame { bytes: [head, tail].concat(), meta: token.meta, swap: false };
            self.inner.release(token);
            self.rx.push(frame);
        }
        let before = out.len();
        while !out.is_full()
            && let Some(frame) = self.rx.pop()
        {
            let len = u32::try_from(frame.bytes.len()).unwrap_or(0);
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += u64::from(len);
            let meta = RxMeta { icrc_verified: false, ..frame.meta };
            let addr = self.lend(frame);
            let token = RxToken { chunks: [Chunk { addr, len }, Chunk::default()], meta };
            if out.push(token).is_err() {
                break;
            }
        }
        out.len() - before
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        let at = usize::try_from(token.chunks[0].addr).unwrap_or(usize::MAX);
        let frame = self.lent.get(at).and_then(Option::as_ref);
        [frame.map(|frame| frame.bytes.as_slice()).unwrap_or_default(), &[]]
    }

    fn release(&mut self, token: RxToken) {
        let at = usize::try_from(token.chunks[0].addr).unwrap_or(usize::MAX);
        if let Some(slot) = self.lent.get_mut(at) {
            *slot = None;
        }
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.tx.ready.len() > super::BURST || len > super::MAX_FRAME {
            self.counters.tx_full += 1;
            return None;
        }
        self.reserved.clear();
        self.reserved.resize(len, 0);
        Some(&mut self.reserved)
    }

    fn tx_commit(&mut self, len: usize) {
        if len > self.reserved.len() {
            return;
        }
        let mut bytes = core::mem::take(&mut self.reserved);
        bytes.truncate(len);
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += u64::try_from(len).unwrap_or(0);
        self.tx.push(Frame { bytes, meta: RxMeta::default(), swap: false });
    }

    fn tx_flush(&mut self) {
        self.tx.tick();
        while let Some(frame) = self.tx.pop() {
            let len = frame.bytes.len();
            let Some(room) = self.inner.tx_reserve(len) else {
                self.tx.ready.push_front(frame);
                break;
            };
            if let Some(room) = room.get_mut(..len) {
                room.copy_from_slice(&frame.bytes);
            }
            self.inner.tx_commit(len);
        }
        self.inner.tx_flush();
    }

    fn counters(&self) -> PortCounters {
        let inner = self.inner.counters();
        PortCounters { rx_missed: inner.rx_missed, rx_oversize: inner.rx_oversize, ..self.counters }
    }

    fn wait(&mut self, timeout_ns: u64) {
        let idle = self.rx.ready.is_empty() && self.rx.held.is_empty() && self.tx.held.is_empty();
        if idle && self.tx.ready.is_empty() {
            self.inner.wait(timeout_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::loopback::LoopbackWire;

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

    /// Sends numbered frames through faults on the sending side; what arrives, in order.
    fn pass(rates: FaultRates, seed: u64, count: u32) -> (Vec<Vec<u8>>, FaultCounts) {
        let mut wire = LoopbackWire::<64>::new();
        let [a, mut b] = wire.ends(MACS);
        let config = FaultConfig { tx: rates, seed, ..FaultConfig::default() };
        let mut a = FaultPort::new(a, &config);
        let mut arrived = Vec::new();
        for number in 0..count + 20 {
            if number < count {
                let room = a.tx_reserve(64).unwrap();
                room[..4].copy_from_slice(&number.to_be_bytes());
                a.tx_commit(64);
            }
            a.tx_flush();
            let mut burst = RxBurst::new();
            b.rx_burst(&mut burst);
            for token in burst {
                arrived.push(b.frame(&token).concat());
                b.release(token);
            }
        }
        (arrived, a.faults()[1])
    }

    #[test]
    fn without_rates_nothing_changes() {
        let (arrived, faults) = pass(FaultRates::default(), 1, 500);
        assert_eq!(arrived.len(), 500);
        assert!(arrived.iter().zip(0u32..).all(|(frame, n)| frame[..4] == n.to_be_bytes()));
        assert_eq!(faults, FaultCounts::default());
    }

    #[test]
    fn every_fault_strikes_as_often_as_it_says() {
        let rates =
            FaultRates { drop: 0.1, duplicate: 0.1, reorder: 0.1, corrupt: 0.1, delay: 0.1 };
        let (arrived, faults) = pass(rates, 7, 5000);
        for count in [faults.drop, faults.duplicate, faults.reorder, faults.corrupt, faults.delay] {
            assert!((300..700).contains(&count), "{faults:?}");
        }
        let expected = 5000 - faults.drop + faults.duplicate;
        assert_eq!(u64::try_from(arrived.len()).unwrap(), expected, "nothing else is lost");
        let out_of_order = arrived.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(out_of_order > 300, "{out_of_order}");
    }

    #[test]
    fn a_seed_repeats_itself() {
        let rates = FaultRates { drop: 0.2, reorder: 0.2, ..FaultRates::default() };
        assert_eq!(pass(rates, 3, 300), pass(rates, 3, 300));
        assert_ne!(pass(rates, 3, 300).0, pass(rates, 4, 300).0);
    }
}
