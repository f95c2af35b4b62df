//! Frames that each aim at one step of the responder's pipeline.

use roce_codec::ib::{Opcode, PKey, Psn, Qpn, RKey};
use roce_testbed::hostile::packet::{ETHERNET, Packet, repair_icrc, repair_lengths};
use roce_testbed::random::Random;

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Malformed,
    BadIcrc,
    UnknownOpcode,
    Version,
    Pad,
    UnknownQp,
    WrongService,
    Cnp,
    Address,
    PKey,
    Gap,
    NoReceive,
    StaleDuplicate,
    Unexpected,
    Sequence,
    Key,
    Range,
}

impl Step {
    /// All of them.
    pub(crate) const ALL: [Self; 17] = [
        Self::Malformed,
        Self::BadIcrc,
        Self::UnknownOpcode,
        Self::Version,
        Self::Pad,
        Self::UnknownQp,
        Self::WrongService,
        Self::Cnp,
        Self::Address,
        Self::PKey,
        Self::Gap,
        Self::NoReceive,
        Self::StaleDuplicate,
        Self::Unexpected,
        Self::Sequence,
        Self::Key,
        Self::Range,
    ];

    /// The frames, made of a fair request: the first that the server expects.
    pub(crate) fn frames(self, random: &mut Random, fair: &Packet) -> Vec<Vec<u8>> {
        let mut packet = fair.clone();
        let psn = fair.bth.psn;
        let later = |packet: &Packet, by: u32| {
            let mut packet = packet.clone();
            packet.bth.psn = psn.add(by);
            packet.frame()
        };
        match self {
            Self::Malformed => {
                let mut frame = fair.frame();
                frame[ETHERNET + 6] = 0x20;
                return vec![frame];
            }
            Self::BadIcrc => {
                let mut frame = fair.frame();
                let at = frame.len() - 1 - random.index(20);
                frame[at] ^= 1 << random.below(8);
                return vec![frame];
            }
            Self::Pad => {
                let mut frame = fair.frame();
                frame.push(0);
                repair_lengths(&mut frame);
                repair_icrc(&mut frame);
                return vec![frame];
            }
            // The second tells a server that has reported the gap nothing new.
            Self::Gap => return vec![later(fair, 2), later(fair, 3)],
            Self::NoReceive => {
                packet.bth.opcode = Opcode::RC_SEND_ONLY;
                return vec![packet.frame(), later(fair, 1)];
            }
            Self::UnknownOpcode => {
                packet.bth.opcode = Opcode(random.pick(&[0x15, 0x1b, 0xc0, 0xff]));
            }
            Self::Version => packet.bth.version = 1 + random.bits().to_le_bytes()[0] % 15,
            Self::UnknownQp => packet.bth.dest_qp = Qpn::new(random.below_u32(1 << 24)),
            Self::WrongService => {
                packet.bth.opcode = Opcode(random.pick(&[0x24, 0x2a, 0x44, 0x64, 0xa4]));
            }
            Self::Cnp => packet.bth.opcode = Opcode::CNP,
            Self::Address => {
                let [a, b, c, _] = packet.addresses[0].octets();
                packet.addresses[0] = [a, b, c, 200 + random.bits().to_le_bytes()[0] % 50].into();
            }
            Self::PKey => packet.bth.pkey = PKey(0x7ffe),
            Self::StaleDuplicate => {
                packet.bth.opcode = Opcode::RC_RDMA_READ_REQUEST;
                packet.payload.clear();
                packet.bth.psn = psn.sub(1000 + random.below_u32(1000));
            }
            Self::Unexpected => {
                packet.bth.opcode = Opcode::RC_ACKNOWLEDGE;
                packet.bth.psn = Psn::new(random.below_u32(1 << 24));
                packet.payload.clear();
            }
            Self::Sequence => packet.bth.opcode = Opcode::RC_RDMA_WRITE_LAST,
            Self::Key => {
                let bit = 1 << random.below(32);
                if let Some(reth) = &mut packet.ext.reth {
                    reth.rkey = RKey(reth.rkey.0 ^ bit);
                }
                if let Some(atomic) = &mut packet.ext.atomic_eth {
                    atomic.rkey = RKey(atomic.rkey.0 ^ bit);
                }
            }
            Self::Range => {
                if let Some(reth) = &mut packet.ext.reth {
                    reth.va = random.pick(&[0, reth.va.wrapping_sub(4), u64::MAX - 3]);
                }
                if let Some(atomic) = &mut packet.ext.atomic_eth {
                    atomic.va = random.pick(&[0, atomic.va.wrapping_sub(8), u64::MAX - 7]);
                }
            }
        }
        vec![packet.frame()]
    }
}
