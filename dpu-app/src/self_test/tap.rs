//! A port that is looked at: which opcodes come in, how many instructions it takes; and that loses
//! what it is told to.

use roce_codec::ib::Opcode;
use roce_codec::net::MacAddr;
use roce_codec::{Frame, Start};
use roce_dataplane::port::{Port, PortCounters, RxBurst, RxToken};

/// The port, and what was seen.
#[derive(Debug)]
pub(super) struct Tap<'m, P> {
    port: &'m mut P,
    clock: fn() -> u32,
    /// Instructions spent in here.
    pub(super) spent: u32,
    /// Packets received, by opcode.
    pub(super) seen: [u32; 256],
    /// Frames sent.
    pub(super) sent: u64,
    /// Frames received.
    pub(super) received: u64,
    /// Frames lost.
    pub(super) lost: u32,
    /// How many frames go out before one is lost.
    lose: Option<u32>,
}

impl<'m, P: Port> Tap<'m, P> {
    pub(super) const fn new(port: &'m mut P, clock: fn() -> u32) -> Self {
        Self { port, clock, spent: 0, seen: [0; 256], sent: 0, received: 0, lost: 0, lose: None }
    }

    /// Loses the frame that is sent behind `others`.
    pub(super) const fn lose_after(&mut self, others: u32) {
        self.lose = Some(others);
    }

    fn spent_since(&mut self, start: u32) {
        self.spent = self.spent.wrapping_add((self.clock)().wrapping_sub(start));
    }

    fn look(&mut self, token: &RxToken) {
        // What is no RoCE packet the engine drops and counts.
        let opcode = Frame::parse(self.port.frame(token), Start::Ethernet).map(|f| f.opcode());
        if let Ok(Opcode(opcode)) = opcode
            && let Some(seen) = self.seen.get_mut(usize::from(opcode))
        {
            *seen += 1;
        }
    }
}

impl<P: Port> Port for Tap<'_, P> {
    fn mac(&self) -> MacAddr {
        self.port.mac()
    }

    fn mtu(&self) -> usize {
        self.port.mtu()
    }

    fn rx_burst(&mut self, out: &mut RxBurst) -> usize {
        let start = (self.clock)();
        let before = out.len();
        let taken = self.port.rx_burst(out);
        for token in out.iter().skip(before) {
            self.received += 1;
            self.look(token);
        }
        self.spent_since(start);
        taken
    }

    fn frame(&self, token: &RxToken) -> [&[u8]; 2] {
        self.port.frame(token)
    }

    fn release(&mut self, token: RxToken) {
        let start = (self.clock)();
        self.port.release(token);
        self.spent_since(start);
    }

    fn tx_reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = (self.clock)();
        let room = self.port.tx_reserve(len);
        self.spent = self.spent.wrapping_add((self.clock)().wrapping_sub(start));
        room
    }

    fn tx_commit(&mut self, len: usize) {
        let start = (self.clock)();
        self.lose = match self.lose {
            // A reservation that is not committed is forgotten.
            Some(0) => {
                self.lost += 1;
                None
            }
            others => {
                self.port.tx_commit(len);
                self.sent += 1;
                others.map(|others| others - 1)
            }
        };
        self.spent_since(start);
    }

    fn tx_flush(&mut self) {
        self.port.tx_flush();
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }
}
