//! A port that loses frames, and does not allocate for it as `FaultPort` does.

use roce_codec::net::MacAddr;
use roce_dataplane::port::{Port, PortCounters, RxBurst, RxToken};
use roce_engine::{Entropy, SeededEntropy};

/// Loses one sent frame in so many, by chance.
pub(crate) struct Lossy<P> {
    pub(crate) port: P,
    pub(crate) lost: u64,
    one_in: u32,
    random: SeededEntropy,
}

impl<P> Lossy<P> {
    pub(crate) fn new(port: P, one_in: u32) -> Self {
        Self { port, lost: 0, one_in, random: SeededEntropy::new(5) }
    }
}

impl<P: Port> Port for Lossy<P> {
    fn mac(&self) -> MacAddr {
        self.port.mac()
    }

    fn mtu(&self) -> usize {
        self.port.mtu()
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        self.port.rx_burst(out)
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        self.port.frame(token)
    }

    fn release(&mut self, token: RxToken) {
        self.port.release(token);
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.port.tx_reserve(len)
    }

    fn tx_commit(&mut self, len: usize) {
        if self.random.next_u32().is_multiple_of(self.one_in) {
            self.lost += 1;
        } else {
            self.port.tx_commit(len);
        }
    }

    fn tx_flush(&mut self) {
        self.port.tx_flush();
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }
}
