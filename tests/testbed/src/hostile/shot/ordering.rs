//! Packets at the wrong time: gaps, duplicates of nothing, answers to nothing.

use roce_codec::ib::{Aeth, Msn, Opcode, RKey, Syndrome};
use roce_engine::WrOpcode;

use super::{Aim, Ground, Shot, Siege};
use crate::hostile::packet::Packet;
use crate::hostile::target::MTU;

impl Siege<'_> {
    /// Attacks at PSNs, receives and what our own requests wait for.
    pub(super) fn ordering_shot(&mut self, aim: Aim, ground: &Ground) -> Shot {
        use Opcode as O;
        let random = &mut self.random;
        let psn = ground.psn;
        match aim {
            Aim::Gap => Shot::new(&ground.write(psn.add(1 + random.below_u32(1000)))),
            Aim::OutOfSequence => {
                // The second time, it is dropped by a responder that holds it, too.
                let behind = ground.write(psn.add(3));
                Shot::behind(&[ground.write(psn.add(2)), behind.clone()], &behind)
            }
            Aim::NoReceive => Shot::new(&ground.packet(O::RC_SEND_ONLY, psn).payload(vec![2; 8])),
            Aim::BehindRnr => {
                let send = ground.packet(O::RC_SEND_ONLY, psn);
                Shot::behind(&[send], &ground.write(psn.next()))
            }
            Aim::StaleDuplicate => Shot::new(&ground.read(psn.sub(1 + random.below_u32(1000)), 8)),
            Aim::UnexpectedResponse => {
                let mut last = acknowledge(ground, 0x60);
                last.bth.psn = ground.own.add(random.below_u32(5000));
                Shot::new(&last)
            }
            Aim::BadResponse => {
                let opcode = random.pick(&[
                    O::RC_RDMA_READ_RESPONSE_FIRST,
                    O::RC_RDMA_READ_RESPONSE_ONLY,
                    O::RC_RDMA_READ_RESPONSE_LAST,
                ]);
                let mut len = 4 * random.index(200);
                if len == Ground::mtu() {
                    len += 4;
                }
                let last = ground.packet(opcode, ground.own).payload(vec![3; len]);
                let read = WrOpcode::RdmaRead { va: 0, rkey: RKey(0) };
                self.ask_peer(ground.qp, read, 3 * MTU.bytes());
                Shot::new(&last)
            }
            _ => {
                let syndrome = match aim {
                    Aim::RepeatedNak => 0x60,
                    Aim::ReservedSyndrome => random.pick(&[0x40, 0x5f, 0x65, 0x7f, 0x80, 0xff]),
                    _ => random.pick(&[0x61, 0x62, 0x63, 0x64]),
                };
                let last = acknowledge(ground, syndrome);
                let write = WrOpcode::RdmaWrite { va: 0, rkey: RKey(0) };
                self.ask_peer(ground.qp, write, 4);
                let before = if aim == Aim::RepeatedNak { vec![last.clone()] } else { vec![] };
                Shot::behind(&before, &last)
            }
        }
    }
}

/// An answer to the responder's first request.
fn acknowledge(ground: &Ground, syndrome: u8) -> Packet {
    let mut packet = ground.packet(Opcode::RC_ACKNOWLEDGE, ground.own);
    packet.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(0) });
    packet
}
