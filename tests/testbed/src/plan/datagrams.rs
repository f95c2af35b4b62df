//! Unreliable datagrams: who sends what to whom, and what waits for it.

use roce_codec::ib::QKey;

use super::{MAX_INLINE, Plan, SOURCE_LEN};
use crate::random::Random;

/// The longest datagram: the largest path MTU.
pub const MAX_DATAGRAM: usize = 4096;

/// What goes between datagram queue pairs, one a host.
#[derive(Debug, Clone)]
pub struct Datagrams {
    /// The hosts' sides.
    pub sides: Vec<DatagramSide>,
    /// What is sent, and to whom, by time.
    pub sent: Vec<Datagram>,
}

/// A datagram queue pair.
#[derive(Debug, Clone)]
pub struct DatagramSide {
    /// What a sender must know.
    pub qkey: QKey,
    /// What its receives hold, the area in front of a payload included.
    pub receives: Vec<usize>,
    /// Whether they are those of a shared queue.
    pub srq: bool,
    /// Where every other one is cut into scatter-gather elements.
    pub cuts: u64,
}

/// Whom a datagram is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// The host's datagram queue pair.
    Datagrams,
    /// A connection of the host's, which takes none.
    Connection,
    /// A queue pair that there is not.
    Nobody,
}

/// A datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram {
    /// When it is posted, at the earliest.
    pub at_ns: u64,
    /// From which host.
    pub from: usize,
    /// To which host; also to itself.
    pub to: usize,
    /// For what queue pair there.
    pub aim: Aim,
    /// The Q_Key of its work request.
    pub qkey: QKey,
    /// Bytes.
    pub len: usize,
    /// Where in the sender's data they are.
    pub source: usize,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Whether its success is reported.
    pub signaled: bool,
    /// Whether the receiver is woken.
    pub solicited: bool,
    /// Whether its bytes are handed over with it.
    pub inline: bool,
    /// Where its memory is cut into scatter-gather elements.
    pub cuts: u64,
    /// Its traffic class, flow label (IPv6) and hop limit.
    pub traffic_class: u8,
    /// See `traffic_class`.
    pub flow_label: u32,
    /// See `traffic_class`.
    pub hop_limit: u8,
    /// Whether it is answered, by the way that it came.
    pub answered: bool,
}

/// Draws them.
pub(super) fn draw(random: &mut Random, plan: &Plan) -> Datagrams {
    let highest = 0x8000_0000;
    let common = random.bits().to_le_bytes();
    let common = u32::from_le_bytes([common[0], common[1], common[2], common[3]]);
    let sides: Vec<_> = (0..plan.hosts)
        .map(|_| {
            let own = common ^ 1 << random.index(32);
            let generous = random.one_in(2);
            let receives = (0..random.pick(&[0, 8, 24, 48]))
                .map(|_| 40 + if generous { MAX_DATAGRAM } else { draw_len(random) });
            let receives = receives.collect();
            DatagramSide {
                qkey: QKey(if random.one_in(3) { own } else { common }),
                receives,
                srq: random.one_in(3),
                cuts: if random.one_in(2) { random.bits() } else { 0 },
            }
        })
        .collect();
    let mut at_ns = 0;
    let sent = (0..random.pick(&[4, 16, 40]))
        .map(|_| {
            at_ns += random.below(20_000);
            let (from, to) = (random.index(plan.hosts), random.index(plan.hosts));
            let right = sides[to].qkey;
            let qkey = match random.below(8) {
                0 => QKey(right.0 ^ 1 << random.index(32)),
                1 => QKey(highest | random.below_u32(1 << 31)),
                _ => right,
            };
            let aim = match random.below(12) {
                0 => Aim::Connection,
                1 => Aim::Nobody,
                _ => Aim::Datagrams,
            };
            let len = draw_len(random);
            let imm = random.one_in(2).then(|| random.below_u32(u32::MAX));
            Datagram {
                at_ns,
                from,
                to,
                aim,
                qkey,
                len,
                source: random.index(SOURCE_LEN - len + 1),
                imm,
                signaled: !random.one_in(4),
                solicited: random.one_in(3),
                inline: len <= MAX_INLINE && random.one_in(3),
                cuts: if random.one_in(3) { random.bits() } else { 0 },
                traffic_class: random.pick(&[0, 0x20, 0x6a]),
                flow_label: random.below_u32(1 << 20),
                hop_limit: random.pick(&[1, 64, 255]),
                answered: random.one_in(4),
            }
        })
        .collect();
    Datagrams { sides, sent }
}

fn draw_len(random: &mut Random) -> usize {
    match random.below(6) {
        0 => 0,
        1 => MAX_DATAGRAM - random.index(5),
        2 => random.index(MAX_DATAGRAM),
        _ => random.index(300),
    }
}
