//! The body of a fuzz target: bytes are a list of operations on two connected engines.

mod party;
mod script;

use roce_codec::ib::PathMtu;
use roce_codec::ib::{AtomicEth, ExtHeaders, ImmDt, Opcode, RKey, Reth};
use roce_engine::{HeapStorage, Instant, Limits, WrOpcode};

use self::party::{LEN, Party};
use self::script::Script;
use crate::hostile::mutate::repair;
use crate::hostile::packet::{Packet, v4};

/// The pools of each engine.
const LIMITS: Limits = Limits {
    qps: 2,
    replays_per_qp: 3,
    mrs: 6,
    cqs: 2,
    cqes: 64,
    send_wqes: 16,
    recv_wqes: 16,
    ahs: 4,
    events: 64,
    ..Limits::SMALL
};

/// Operations in one input, at most.
const MOST_OPERATIONS: usize = 400;
/// Frames on the wire, at most.
const MOST_FRAMES: usize = 64;

/// Carries out the operations that `data` says.
///
/// # Panics
/// If an engine does what it must not: that is a finding.
pub fn engine(data: &[u8]) {
    let mut storages = [(), ()].map(|()| HeapStorage::new(&LIMITS).with_held(4, PathMtu::Mtu4096));
    let [a, b] = &mut storages;
    let mut script = Script::new(data);
    let mut parties = [Party::new(a, 0), Party::new(b, 1)];
    party::connect(&mut parties, script.byte());
    let mut stage = Stage { parties, wire: Vec::new(), now: Instant::ZERO };
    for _ in 0..MOST_OPERATIONS {
        if script.is_over() {
            break;
        }
        stage.operation(&mut script);
        stage.parties.iter_mut().for_each(Party::check);
    }
    stage.parties.iter_mut().for_each(Party::finish);
}

struct Stage<'s> {
    parties: [Party<'s>; 2],
    /// Frames under way, and to whom.
    wire: Vec<(usize, Vec<u8>)>,
    now: Instant,
}

impl Stage<'_> {
    fn operation(&mut self, script: &mut Script<'_>) {
        match script.byte() % 16 {
            0 | 1 => self.post_send(script),
            2 => {
                let side = script.side();
                let (at, len) = (script.below(LEN), script.below(2048));
                self.parties[side].post_recv(at, len);
            }
            3 | 4 => self.transmit(script.side(), 1 + script.below(8)),
            5 | 6 => self.deliver(1 + script.below(8)),
            7 => {
                let at = script.below(self.wire.len());
                if at < self.wire.len() {
                    let (to, mut frame) = self.wire.remove(at);
                    bend(script, &mut frame);
                    self.receive(to, &[frame]);
                }
            }
            8 => {
                let at = script.below(self.wire.len());
                if at < self.wire.len() {
                    let frame = self.wire.remove(at);
                    match script.byte() % 3 {
                        0 => {}
                        1 => self.wire.push(frame),
                        _ => {
                            self.wire.insert(0, frame.clone());
                            self.wire.push(frame);
                        }
                    }
                }
            }
            9 => {
                self.now = self.now.add_ns(1 << (script.byte() % 32));
                for party in &mut self.parties {
                    party.handle_timeout(self.now);
                }
            }
            10 => self.parties[script.side()].lose_region(),
            11 => {
                let side = script.side();
                self.parties[side].end();
                if script.flag() {
                    self.parties[1 - side].end();
                    party::connect(&mut self.parties, script.byte());
                    self.wire.clear();
                }
            }
            _ => {
                let to = script.side();
                let frame = self.forge(script, to);
                self.receive(to, &[frame]);
            }
        }
    }

    fn post_send(&mut self, script: &mut Script<'_>) {
        let side = script.side();
        let peer = &self.parties[1 - side];
        let (mut va, mut rkey) = peer.offer();
        va += u64::from(script.word() % 8192);
        if script.byte() == 0 {
            rkey = RKey(script.word());
        }
        let len = script.below(8192);
        let operand = u64::from(script.byte());
        let (opcode, len) = match script.byte() % 7 {
            0 => (WrOpcode::Send, len),
            1 => (WrOpcode::SendWithImm(7), len),
            2 => (WrOpcode::RdmaWrite { va, rkey }, len),
            3 => (WrOpcode::RdmaWriteWithImm { va, rkey, imm: 8 }, len),
            4 => (WrOpcode::RdmaRead { va, rkey }, len),
            5 => (WrOpcode::CompareSwap { va: va & !7, rkey, compare: 0, swap: operand }, 8),
            _ => (WrOpcode::FetchAdd { va, rkey, add: operand }, 8),
        };
        let at = script.below(LEN);
        let signaled = !script.flag();
        self.parties[side].post_send(opcode, at, len, signaled);
    }

    fn transmit(&mut self, side: usize, most: usize) {
        for _ in 0..most {
            if self.wire.len() >= MOST_FRAMES {
                return;
            }
            let Some(frame) = self.parties[side].transmit(self.now) else { return };
            self.wire.push((1 - side, frame));
        }
    }

    /// Delivers frames to whomever the first is for, in one burst.
    fn deliver(&mut self, most: usize) {
        let Some(&(to, _)) = self.wire.first() else { return };
        let mut burst = Vec::new();
        while burst.len() < most
            && let Some(at) = self.wire.iter().position(|frame| frame.0 == to)
        {
            burst.push(self.wire.remove(at).1);
        }
        self.receive(to, &burst);
    }

    fn receive(&mut self, to: usize, burst: &[Vec<u8>]) {
        self.parties[to].receive(self.now, burst);
    }

    /// A frame out of the air, near enough to what the receiver expects.
    fn forge(&self, script: &mut Script<'_>, to: usize) -> Vec<u8> {
        let receiver = &self.parties[to];
        let opcode = Opcode(script.byte() % 0x20);
        let psn = receiver.psn(opcode.info().is_response()).add(script.word() % 7).sub(2);
        let addresses = [v4(self.parties[1 - to].address), v4(receiver.address)];
        let mut packet = Packet::new(addresses, opcode, receiver.qp, psn);
        let (base, rkey) = receiver.offer();
        let va = base + u64::from(script.word() % 8192);
        let dma_len = u32::from(u16::from_le_bytes([script.byte(), script.byte()]));
        packet.bth.ack_req = script.flag();
        packet.ext = ExtHeaders {
            reth: Some(Reth { va, rkey, dma_len }),
            atomic_eth: Some(AtomicEth { va: va & !7, rkey, swap_add: 3, compare: 0 }),
            aeth: roce_codec::ib::Aeth::parse(&[script.byte(), 0, 0, 1]).ok(),
            imm_dt: Some(ImmDt(5)),
            ..ExtHeaders::NONE
        };
        if opcode.info().payload {
            packet.payload = vec![script.byte(); script.below(1100)];
        }
        let mut frame = packet.frame();
        if script.flag() {
            bend(script, &mut frame);
        }
        frame
    }
}

/// Changes some bytes of a frame and repairs what keeps it from getting far.
fn bend(script: &mut Script<'_>, frame: &mut Vec<u8>) {
    for _ in 0..1 + script.below(4) {
        let at = script.below(frame.len());
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= script.byte();
        }
    }
    if script.byte().is_multiple_of(8) {
        frame.truncate(script.below(frame.len() + 1));
    }
    if !script.byte().is_multiple_of(8) {
        repair(frame);
    }
}

#[cfg(test)]
mod tests {
    use crate::random::Random;

    /// Without a fuzzer: inputs at random, which reach further than one would think.
    #[test]
    fn random_inputs() {
        let mut random = Random::new(11);
        for _ in 0..3000 {
            let len = random.index(1500);
            let mut input = vec![0; len];
            random.fill(&mut input);
            super::engine(&input);
        }
    }

    #[test]
    fn no_input_and_all_zeroes() {
        super::engine(&[]);
        super::engine(&[0; 5000]);
        super::engine(&[0xff; 5000]);
    }
}
