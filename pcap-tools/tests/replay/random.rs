//! Captures that nobody would make: whatever they hold, a replay ends, and says something.

use roce_pcap::capture::Packet;
use roce_pcap::replay::{Recording, Replay};

use crate::support::{Owned, load, record, replay};

/// xorshift64*: a seed replays a failure.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % bound
    }
}

/// Packets lost, doubled, moved, their headers and payload changed with a right ICRC and without.
fn disturb(packets: &mut Vec<Owned>, random: &mut Random) {
    for _ in 0..1 + random.below(8) {
        let at = random.below(packets.len());
        match random.below(6) {
            0 => drop(packets.remove(at)),
            1 => packets.insert(at, packets[at].clone()),
            2 => {
                let other = random.below(packets.len());
                packets.swap(at, other);
            }
            3 => {
                let len = packets[at].data.len();
                packets[at].data.truncate(58 + random.below(len - 54));
            }
            4 => {
                let byte = 14 + random.below(packets[at].data.len() - 14);
                packets[at].data[byte] ^= 1 << random.below(8);
            }
            _ => {
                if packets[at].data.len() < usize::try_from(packets[at].orig_len).unwrap() {
                    continue;
                }
                let byte = random.below(40);
                let bit = 1 << random.below(8);
                let (value, wide) = (1 << random.below(24), 1 << random.below(64));
                let Ok(_) =
                    roce_codec::Frame::parse([&packets[at].data, &[]], roce_codec::Start::Ethernet)
                else {
                    continue;
                };
                packets[at].change(|builder, payload| {
                    builder.bth.psn = builder.bth.psn.add(value);
                    if let Some(reth) = &mut builder.ext.reth {
                        reth.va ^= wide;
                        reth.dma_len ^= value;
                    }
                    if let Some(byte) = payload.get_mut(byte) {
                        *byte ^= bit;
                    }
                });
            }
        }
    }
}

#[test]
fn disturbed_captures_end() {
    let originals: Vec<_> =
        ["rxe-cm", "rxe-send", "rxe-atomic", "rxe-errors", "rxe72-flush-atomicwrite"]
            .map(load)
            .into();
    for seed in 1..=200_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut packets = originals[random.below(originals.len())].clone();
        disturb(&mut packets, &mut random);
        let replay = Replay::new(record(&packets), None);
        assert!(!replay.plan().to_string().is_empty(), "seed {seed}");
        if let Ok(report) = replay.run(1 << 24) {
            report.write_text(true, &mut Vec::new()).unwrap();
            report.write_json(&mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn nothing_but_other_protocols() {
    let report = replay(&[]);
    assert!(report.is_clean() && report.streams.is_empty());
    let mut recording = Recording::new(1 << 20);
    for data in [&[0_u8; 4][..], &[0xff; 200], &[0; 60]] {
        recording.push(&Packet::new(roce_pcap::capture::LinkType::ETHERNET, data));
    }
    let report = Replay::new(recording, None).run(1 << 20).unwrap();
    assert_eq!(report.skipped.iter().map(|(_, count)| count).sum::<u64>(), 3);
}
