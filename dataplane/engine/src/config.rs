//! What the caller chooses for a whole engine.

use roce_codec::ib::PathMtu;

use crate::pacing::Rate;

/// What a responder does with packets behind a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Recovery {
    /// They are dropped; the peer sends them again (IBTA 9.7.5.2.8).
    #[default]
    GoBackN,
    /// They are held, as far as there is room in [`Storage::held`](crate::Storage), and run in PSN
    /// order once the gap has filled. Nothing of them happens before.
    SelectiveAccept,
}

/// Settings of an engine, fixed at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Which of `1 << shard_bits` engines this is; part of every QPN it gives out.
    pub shard: u8,
    /// Bits of a QPN that name the shard, 0 to 6.
    pub shard_bits: u8,
    /// The largest path MTU a queue pair may have (what the port carries).
    pub max_path_mtu: PathMtu,
    /// Request packets a requester may have sent and not seen acknowledged, 1 to 2²². The packets
    /// of READ answers do not count; `max_rd_atomic` limits these.
    pub window: u32,
    /// Packets after which a requester asks for an acknowledgement within a message.
    pub ack_interval: u32,
    /// Bytes one QP may send before the next one has its turn.
    pub quantum: u32,
    /// What the responder does with packets behind a gap.
    pub recovery: Recovery,
    /// Packets that one QP may have held behind a gap, at most; never more than there are free.
    pub held_per_qp: u32,
    /// How fast a new QP's READ answers may go.
    pub read_rate: Rate,
}

impl Config {
    /// One shard, path MTU up to 4096, 128 packets in flight, go-back-N, READ answers as fast as the
    /// port takes them.
    pub const DEFAULT: Self = Self {
        shard: 0,
        shard_bits: 0,
        max_path_mtu: PathMtu::Mtu4096,
        window: 128,
        ack_interval: 32,
        quantum: 8192,
        recovery: Recovery::GoBackN,
        held_per_qp: 128,
        read_rate: Rate::UNLIMITED,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Where keys and QPNs get their unpredictable part. On a host, the operating system; on a
/// microcontroller, its generator; in a test, a seed.
pub trait Entropy {
    /// 32 random bits.
    fn next_u32(&mut self) -> u32;
}

/// A small deterministic generator (SplitMix64) for tests and simulations. Not for keys that
/// strangers must not guess.
#[derive(Debug, Clone)]
pub struct SeededEntropy(u64);

impl SeededEntropy {
    /// From a seed; the same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 pseudo-random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn next_u32(&mut self) -> u32 {
        let [a, b, c, d, ..] = self.next_u64().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}
