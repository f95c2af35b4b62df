//! The body of a fuzz target: bytes are a list of operations on two connected engines.

mod party;
mod script;

use roce_codec::ib::PathMtu;
use roce_codec::ib::{AtomicEth, Deth, ExtHeaders, Feth, Ieth, ImmDt, Opcode, QKey, RKey, Reth};
use roce_engine::{HeapStorage, HwCounter, Instant, Limits, Placement, Selectivity, WrOpcode};

use self::party::{LEN, Party, Posting};
use self::script::Script;
use crate::hostile::mutate::repair;
use crate::hostile::packet::{Packet, v4};

/// The pools of each engine.
const LIMITS: Limits = Limits {
    qps: 4,
    replays_per_qp: 3,
    mrs: 10,
    cqs: 2,
    cqes: 64,
    send_wqes: 16,
    recv_wqes: 16,
    ahs: 4,
    events: 64,
    sges: 24,
    inlines: 4,
    srqs: 1,
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
    run(data);
}

/// What happened at both engines, in the order of [`HwCounter::ALL`].
fn run(data: &[u8]) -> Vec<u64> {
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
    let of_both = |counter| stage.parties.iter().map(|party| party.event(counter)).sum();
    HwCounter::ALL.iter().map(|counter| of_both(*counter)).collect()
}

struct Stage<'s> {
    parties: [Party<'s>; 2],
    /// Frames under way, and to whom.
    wire: Vec<(usize, Vec<u8>)>,
    now: Instant,
}

impl Stage<'_> {
    fn operation(&mut self, script: &mut Script<'_>) {
        match script.byte() % 32 {
            // What ends connections is rare, so that they get somewhere.
            0..=4 => self.post_send(script),
            5..=7 => {
                let side = script.side();
                let len = if script.byte() < 32 { script.below(2048) } else { 2048 };
                let at = script.below(LEN / 2);
                self.parties[side].post_recv(at, len);
            }
            8..=13 => self.transmit(script.side(), 1 + script.below(8)),
            14..=19 => self.deliver(1 + script.below(8)),
            20 => {
                let at = script.below(self.wire.len());
                if at < self.wire.len() {
                    let (to, mut frame) = self.wire.remove(at);
                    bend(script, &mut frame);
                    self.receive(to, &[frame]);
                }
            }
            21 | 22 => {
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
            23 | 24 => {
                self.now = self.now.add_ns(1 << (script.byte() % 32));
                for party in &mut self.parties {
                    party.handle_timeout(self.now);
                }
            }
            25 if script.byte() < 50 => self.parties[script.side()].lose_region(),
            26 if script.byte() < 100 => {
                let side = script.side();
                self.parties[side].end();
                if script.flag() {
                    self.parties[1 - side].end();
                    party::connect(&mut self.parties, script.byte());
                    self.wire.clear();
                }
            }
            27 => self.parties[script.side()].modify(script.byte()),
            28 => {
                let side = script.side();
                let choice = script.byte();
                let len = script.below(LEN);
                let at = script.below(LEN / 2);
                self.parties[side].window(choice, at, len, script.byte());
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
        let mut va = peer.va();
        // Ranges mostly lie in their regions, and messages in their receives.
        let (most, far) = if script.byte() < 16 { (8192, 8192) } else { (2048, 4096) };
        va += u64::from(script.word() % far);
        let rkey = match script.byte() {
            0 => RKey(script.word()),
            choice => peer.key(choice),
        };
        let len = script.below(most);
        let operand = u64::from(script.byte());
        let placement = match script.byte() % 3 {
            0 => Placement::GLOBAL_VISIBILITY,
            1 => Placement::PERSISTENCE,
            _ => Placement::GLOBAL_VISIBILITY | Placement::PERSISTENCE,
        };
        let flushed = u32::try_from(len).unwrap_or(0);
        let (opcode, len) = match script.byte() % 12 {
            0 => (WrOpcode::Send, len),
            1 => (WrOpcode::SendWithImm(7), len),
            2 => (WrOpcode::RdmaWrite { va, rkey }, len),
            3 => (WrOpcode::RdmaWriteWithImm { va, rkey, imm: 8 }, len),
            4 => (WrOpcode::RdmaRead { va, rkey }, len),
            5 => (WrOpcode::CompareSwap { va: va & !7, rkey, compare: 0, swap: operand }, 8),
            6 => (WrOpcode::FetchAdd { va, rkey, add: operand }, 8),
            7 => (WrOpcode::SendWithInvalidate(rkey), len),
            8 => (WrOpcode::AtomicWrite { va: va & !7, rkey }, 8),
            9 => {
                let selectivity = Selectivity::Range { va, len: flushed };
                (WrOpcode::Flush { rkey, selectivity, placement }, 0)
            }
            10 => {
                let selectivity = Selectivity::Region;
                (WrOpcode::Flush { rkey, selectivity, placement }, 0)
            }
            // Few enough bytes for a datagram, and for inline data.
            _ => (WrOpcode::Send, len % 200),
        };
        let posting = Posting {
            opcode,
            at: script.below(LEN / 2),
            len,
            pieces: 1 + script.below(4),
            flags: script.byte(),
        };
        self.parties[side].post_send(&posting);
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
        // Of the receiver's service, mostly.
        let byte = script.byte();
        let opcode = if script.byte() == 0 {
            Opcode(byte)
        } else {
            Opcode((byte % 0x20) | receiver.kind.class())
        };
        let psn = receiver.psn(opcode.info().is_response()).add(script.word() % 7).sub(2);
        let addresses = [v4(self.parties[1 - to].address), v4(receiver.address)];
        let mut packet = Packet::new(addresses, opcode, receiver.qp, psn);
        let (base, rkey) = (receiver.va(), receiver.key(script.byte()));
        let va = base + u64::from(script.word() % 8192);
        let dma_len = u32::from(u16::from_le_bytes([script.byte(), script.byte()]));
        packet.bth.ack_req = script.flag();
        packet.ext = ExtHeaders {
            reth: Some(Reth { va, rkey, dma_len }),
            atomic_eth: Some(AtomicEth { va: va & !7, rkey, swap_add: 3, compare: 0 }),
            aeth: roce_codec::ib::Aeth::parse(&[script.byte(), 0, 0, 1]).ok(),
            imm_dt: Some(ImmDt(5)),
            ieth: Some(Ieth(rkey)),
            feth: Some(Feth(u32::from(script.byte()))),
            deth: Some(Deth {
                qkey: if script.byte() == 0 { QKey(script.word()) } else { receiver.kind.qkey() },
                resv8: 0,
                src_qp: self.parties[1 - to].qp,
            }),
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
    use roce_engine::HwCounter;

    use crate::random::Random;

    /// Without a fuzzer: inputs at random, which reach further than one would think.
    #[test]
    fn random_inputs() {
        let mut random = Random::new(11);
        let mut sums = vec![0; HwCounter::ALL.len()];
        for _ in 0..3000 {
            let len = random.index(1500);
            let mut input = vec![0; len];
            random.fill(&mut input);
            for (sum, count) in sums.iter_mut().zip(super::run(&input)) {
                *sum += count;
            }
        }
        // Each operation is carried out, and each way to go on after a loss is gone.
        for (counter, sum) in HwCounter::ALL.iter().zip(sums) {
            println!("  {:<24} {sum}", counter.name());
            // Several long READs in a row take more luck than there is.
            assert!(sum > 0 || *counter == HwCounter::ReadPaced, "{}: never", counter.name());
        }
    }

    #[test]
    fn no_input_and_all_zeroes() {
        super::engine(&[]);
        super::engine(&[0; 5000]);
        super::engine(&[0xff; 5000]);
    }
}
