//! Two ports joined in memory.

use core::cell::RefCell;

use heapless::{Deque, Vec};
use roce_codec::net::MacAddr;

use super::{BURST, Chunk, MAX_FRAME, Port, PortCounters, RxBurst, RxMeta, RxToken};

type Frame = Vec<u8, MAX_FRAME>;

/// The wire between two loopback ports, with room for `N` frames each way. A frame that finds it
/// full is lost, as on a real wire. All frames lie in here, those that the ports lend included: the
/// ports themselves are small.
#[derive(Debug)]
pub struct LoopbackWire<const N: usize> {
    directions: [RefCell<Deque<Frame, N>>; 2],
    held: [Held; 2],
}

/// The frames that an end has taken from the wire, or is about to give to it.
#[derive(Debug)]
struct Held {
    /// On loan, by token address.
    lent: [Option<Frame>; BURST],
    reserved: Option<Frame>,
}

impl Held {
    const fn new() -> Self {
        Self { lent: [const { None }; BURST], reserved: None }
    }
}

impl<const N: usize> LoopbackWire<N> {
    /// An idle wire.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            directions: [const { RefCell::new(Deque::new()) }; 2],
            held: [const { Held::new() }; 2],
        }
    }

    /// The two ends, with their MAC addresses.
    pub fn ends(&mut self, [first, second]: [MacAddr; 2]) -> [LoopbackPort<'_, N>; 2] {
        let Self { directions, held: [one, other] } = self;
        let end = |end, mac, held| LoopbackPort {
            directions,
            end,
            mac,
            held,
            counters: PortCounters::ZERO,
        };
        [end(0, first, one), end(1, second, other)]
    }
}

impl<const N: usize> Default for LoopbackWire<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// One end of a [`LoopbackWire`].
#[derive(Debug)]
pub struct LoopbackPort<'w, const N: usize> {
    directions: &'w [RefCell<Deque<Frame, N>>; 2],
    end: usize,
    mac: MacAddr,
    held: &'w mut Held,
    counters: PortCounters,
}

impl<const N: usize> Port for LoopbackPort<'_, N> {
    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn mtu(&self) -> usize {
        MAX_FRAME - 14
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        let mut inbound = self.directions[1 - self.end].borrow_mut();
        let mut taken = 0;
        for (addr, slot) in (0u64..).zip(&mut self.held.lent) {
            if slot.is_some() || out.is_full() {
                continue;
            }
            let Some(frame) = inbound.pop_front() else { break };
            let len = u32::try_from(frame.len()).unwrap_or(0);
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += u64::from(len);
            let chunks = [Chunk { addr, len }, Chunk::default()];
            *slot = Some(frame);
            if out.push(RxToken { chunks, meta: RxMeta::default() }).is_ok() {
                taken += 1;
            }
        }
        taken
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        let lent = usize::try_from(token.chunks[0].addr).ok().and_then(|at| self.held.lent.get(at));
        [lent.and_then(|slot| slot.as_deref()).unwrap_or_default(), &[]]
    }

    fn release(&mut self, token: RxToken) {
        let at = usize::try_from(token.chunks[0].addr).unwrap_or(usize::MAX);
        if let Some(slot) = self.held.lent.get_mut(at) {
            *slot = None;
        }
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > MAX_FRAME || self.directions[self.end].borrow().is_full() {
            self.counters.tx_full += 1;
            return None;
        }
        // All of it at once: growing a vector goes byte by byte.
        let frame = self.held.reserved.insert(Frame::from_array([0; MAX_FRAME]));
        frame.truncate(len);
        Some(frame)
    }

    fn tx_commit(&mut self, len: usize) {
        let Some(mut frame) = self.held.reserved.take() else { return };
        if len > frame.len() {
            return;
        }
        frame.truncate(len);
        if self.directions[self.end].borrow_mut().push_back(frame).is_ok() {
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += u64::try_from(len).unwrap_or(0);
        }
    }

    fn tx_flush(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

    fn send(port: &mut impl Port, bytes: &[u8]) -> bool {
        let Some(room) = port.tx_reserve(bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        port.tx_commit(bytes.len());
        port.tx_flush();
        true
    }

    #[test]
    fn frames_arrive_in_order_at_the_other_end() {
        let mut wire = LoopbackWire::<4>::new();
        let [mut a, mut b] = wire.ends(MACS);
        for byte in 0..4 {
            assert!(send(&mut a, &[byte; 60]));
        }
        assert!(!send(&mut a, &[9; 60]), "the wire is full");
        assert_eq!(a.counters().tx_full, 1);
        let mut burst = RxBurst::new();
        assert_eq!(b.rx_burst(&mut burst), 4);
        for (byte, token) in (0..4).zip(&burst) {
            assert_eq!(b.frame(token), [&[byte; 60][..], &[]]);
        }
        for token in burst {
            b.release(token);
        }
        assert_eq!(a.rx_burst(&mut RxBurst::new()), 0, "nothing comes back");
        assert!(b.held.lent.iter().all(Option::is_none));
    }
}
