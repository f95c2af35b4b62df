//! Packets that are dropped before the transport looks at them.

use std::net::Ipv4Addr;

use roce_codec::ib::{Opcode, OpcodeClass, PKey, Psn, Qpn, RKey, Service};
use roce_engine::{Access, QpState};

use super::{Aim, Ground, Shot, Siege};
use crate::hostile::packet::{ETHERNET, repair_icrc, repair_lengths};
use crate::random::Random;

impl Siege<'_> {
    /// Attacks at what comes before the PSN.
    pub(super) fn arrival_shot(&mut self, aim: Aim, ground: &Ground) -> Shot {
        let random = &mut self.random;
        let psn = ground.psn;
        let mut last = ground.write(psn);
        let mut frame = last.frame();
        match aim {
            Aim::NotRoce => {
                match random.below(3) {
                    0 => frame[ETHERNET + 23] ^= 1,
                    1 => frame[ETHERNET + 9] = 6,
                    _ => frame[13] = 6,
                }
                return Shot::raw(frame, psn);
            }
            Aim::Malformed => {
                match random.below(3) {
                    0 => frame.truncate(ETHERNET + 28 + random.index(16)),
                    1 => frame[ETHERNET + 6] = 0x20,
                    _ => frame[ETHERNET + 24] ^= 1,
                }
                return Shot::raw(frame, psn);
            }
            Aim::BadIcrc => {
                let at = frame.len() - 1 - random.index(24);
                frame[at] ^= 1 << random.below(8);
                return Shot::raw(frame, psn);
            }
            Aim::Pad => {
                let more = 1 + random.index(3);
                frame.resize(frame.len() + more, 0);
                repair_lengths(&mut frame);
                repair_icrc(&mut frame);
                return Shot::raw(frame, psn);
            }
            Aim::Version => last.bth.version = u8::try_from(random.within(1, 15)).unwrap_or(1),
            Aim::UnknownOpcode => {
                let opcode = opcode(random, |opcode| opcode.info().class != OpcodeClass::Known);
                last = ground.packet(opcode, psn).payload(vec![0; 4 * random.index(9)]);
            }
            Aim::WrongService => {
                let opcode = opcode(random, |opcode| {
                    let info = opcode.info();
                    info.class == OpcodeClass::Known
                        && !matches!(info.service, Service::Rc | Service::Cnp)
                });
                last = ground.packet(opcode, psn).ask();
            }
            Aim::Cnp => {
                let opcode = random.pick(&[Opcode::CNP, Opcode::IB_CNP]);
                last = ground.packet(opcode, Psn::new(0));
            }
            Aim::Refused => {
                let qp = self.queue_pairs.unreliable;
                let [psn, _] = self.connect(qp, Access::ALL, QpState::Rts);
                self.target.post_receive(qp, 8, false);
                let ground = Ground { qp, psn, ..*ground };
                let all = ground.areas.all;
                let write = ground.packet(Opcode::UC_RDMA_WRITE_ONLY, psn).ask();
                let write = write.payload(vec![15; 4]);
                return Shot::new(&match self.random.below(4) {
                    0 => write.reth(all.va, RKey(all.rkey.0 ^ 1), 4),
                    1 => write.reth(all.va - 1, all.rkey, 4),
                    2 => write.reth(all.va, all.rkey, 5),
                    _ => ground.packet(Opcode::UC_SEND_ONLY, psn).payload(vec![15; 12]),
                });
            }
            Aim::UnknownQp => {
                last.bth.dest_qp = loop {
                    let qp = Qpn::new(random.below_u32(1 << 24));
                    if self.target.engine.query_qp(qp).is_err() {
                        break qp;
                    }
                };
            }
            Aim::QpState => last.bth.dest_qp = self.queue_pairs.init,
            Aim::Address => {
                let host = u8::try_from(random.below(8)).unwrap_or(0);
                last.addresses[random.index(2)] = Ipv4Addr::new(203, 0, 113, host);
            }
            _ => last.bth.pkey = PKey(u16::try_from(random.below(0x7fff)).unwrap_or(0)),
        }
        Shot::new(&last)
    }
}

fn opcode(random: &mut Random, wanted: impl Fn(Opcode) -> bool) -> Opcode {
    loop {
        let opcode = Opcode(random.bits().to_le_bytes()[0]);
        if wanted(opcode) {
            return opcode;
        }
    }
}
