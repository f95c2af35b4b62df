//! Requests that are refused for good.

use roce_codec::ib::{Opcode, Psn, RKey};
use roce_engine::{Access, QpState};

use super::{Aim, Ground, Shot, Siege};
use crate::hostile::packet::Packet;
use crate::hostile::target::{Area, KEPT, MTU};
use crate::random::Random;

impl Siege<'_> {
    /// Requests that are invalid.
    pub(super) fn invalid_shot(&mut self, aim: Aim, ground: &Ground) -> Shot {
        use Opcode as O;
        let random = &mut self.random;
        let psn = ground.psn;
        let all = ground.areas.all;
        match aim {
            Aim::OpcodeSequence => {
                let opcode = random.pick(&[
                    O::RC_RDMA_WRITE_MIDDLE,
                    O::RC_RDMA_WRITE_LAST,
                    O::RC_RDMA_WRITE_LAST_IMM,
                    O::RC_SEND_MIDDLE,
                    O::RC_SEND_LAST,
                    O::RC_SEND_LAST_IMM,
                ]);
                Shot::new(&ground.packet(opcode, psn).payload(vec![4; Ground::mtu()]))
            }
            Aim::Interrupted => {
                let next = psn.next();
                let last = match random.below(4) {
                    0 => ground.write(next),
                    1 => ground.read(next, 8),
                    2 => ground.packet(O::RC_FETCH_ADD, next).atomic(all.va, all.rkey, 1, 0),
                    _ => ground.packet(O::RC_SEND_LAST, next).payload(vec![5; 8]),
                };
                Shot::behind(&[ground.write_first()], &last)
            }
            Aim::NotAllowed => {
                let qp = self.queue_pairs.bare;
                let [psn, _] = self.connect(qp, Access::LOCAL_WRITE, QpState::Rts);
                let ground = Ground { qp, psn, ..*ground };
                Shot::new(&match self.random.below(5) {
                    0 => ground.write(psn),
                    1 => ground.read(psn, 8),
                    2 => ground.flush(psn),
                    3 => ground.atomic_write(psn),
                    _ => ground.packet(O::RC_COMPARE_SWAP, psn).atomic(all.va, all.rkey, 1, 0),
                })
            }
            Aim::FlushHeader => {
                let feth = random.pick(&[0x00, 0x04, 0x08, 0x0f, 0x10, 0x21, 0x31]);
                Shot::new(&ground.packet(O::RC_FLUSH, psn).feth(feth).reth(all.va, all.rkey, 8))
            }
            Aim::TooManyReads => {
                let count = u32::from(KEPT);
                let reads: Vec<_> = (0..count).map(|n| ground.read(psn.add(n), 8)).collect();
                let shot = Shot::behind(&reads, &ground.read(psn.add(count), 8));
                Shot { at_once: true, ..shot }
            }
            Aim::PacketLength => packet_length(random, ground),
            Aim::DmaLength => {
                let len = random.pick(&[0, 3, 5, MTU.bytes(), u32::MAX >> 1]);
                Shot::new(&ground.write(psn).reth(all.va, all.rkey, len))
            }
            Aim::TooLong => {
                let len = random.pick(&[0x8000_0001, 0xc000_0000, u32::MAX]);
                let first = ground.write_first().reth(all.va, all.rkey, len);
                Shot::new(&if random.one_in(2) { ground.read(psn, len) } else { first })
            }
            Aim::Misaligned => {
                let va = all.va + random.within(1, 7);
                if random.one_in(3) {
                    return Shot::new(&ground.atomic_write(psn).reth(va, all.rkey, 8));
                }
                let opcode = random.pick(&[O::RC_FETCH_ADD, O::RC_COMPARE_SWAP]);
                Shot::new(&ground.packet(opcode, psn).atomic(va, all.rkey, 1, 0))
            }
            _ => {
                let len = random.below_u32(64);
                let more = usize::try_from(len).unwrap_or(0) + 1 + random.index(64);
                self.target.post_receive(ground.qp, len, false);
                Shot::new(&ground.packet(O::RC_SEND_ONLY, psn).payload(vec![9; more]))
            }
        }
    }

    /// Requests that reach for what they were not given, and some whose memory goes.
    pub(super) fn access_shot(&mut self, aim: Aim, ground: &Ground) -> Shot {
        use Opcode as O;
        let random = &mut self.random;
        let psn = ground.psn;
        let areas = ground.areas;
        let all = areas.all;
        match aim {
            Aim::Key => {
                let (prey, va, _) = self.honest.prey();
                // One bit beside a good key, anything, or the honest peer's own.
                let (rkey, va) = match random.below(3) {
                    0 => (RKey(all.rkey.0 ^ 1 << random.below(32)), all.va),
                    1 => (RKey(random.below_u32(u32::MAX)), all.va),
                    _ => (prey, va),
                };
                Shot::new(&request(random, ground, psn, va, rkey))
            }
            Aim::Domain => {
                let foreign = areas.foreign;
                Shot::new(&request(random, ground, psn, foreign.va, foreign.rkey))
            }
            Aim::DeadKey => {
                let dead = areas.dead;
                Shot::new(&request(random, ground, psn, dead.va, dead.rkey))
            }
            Aim::Uninvited => {
                let (honest, _, _) = self.honest.prey();
                let keys = [all.rkey, areas.dead.rkey, areas.foreign.rkey, honest, RKey(0)];
                let rkey = random.pick(&keys);
                self.target.post_receive(ground.qp, 64, false);
                Shot::new(&ground.packet(O::RC_SEND_ONLY_INV, psn).ieth(rkey).payload(vec![12; 8]))
            }
            Aim::Right => {
                let read = |area: Area| {
                    ground.packet(O::RC_RDMA_READ_REQUEST, psn).reth(area.va, area.rkey, 8)
                };
                let given = areas.read;
                Shot::new(&match random.below(6) {
                    0 => read(areas.write),
                    1 => read(areas.atomic),
                    3 => ground.flush(psn).reth(given.va, given.rkey, 8),
                    4 => ground.atomic_write(psn).reth(given.va, given.rkey, 8),
                    2 => ground.packet(O::RC_FETCH_ADD, psn).atomic(given.va, given.rkey, 1, 0),
                    _ => ground.write(psn).reth(given.va, given.rkey, 4),
                })
            }
            Aim::Range => {
                let end = all.va + u64::from(Area::LEN);
                let far = end + 8 * random.below(4096);
                let va = random.pick(&[all.va - 8, end, far, 0]);
                Shot::new(&request(random, ground, psn, va, all.rkey))
            }
            Aim::Wrap => {
                let va = (u64::MAX - random.below(512)) & !7;
                let len = random.pick(&[8, 512, 0x400, 0x8000_0000]);
                Shot::new(&ground.read(psn, len).reth(va, all.rkey, len))
            }
            Aim::DeadReceive => {
                self.target.post_receive(ground.qp, 64, true);
                Shot::new(&ground.packet(O::RC_SEND_ONLY, psn).payload(vec![11; 8]))
            }
            _ => {
                let rkey = self.target.lend_read_area(Access::NONE);
                let last = ground.read(psn, 0).reth(areas.read.va, rkey, Area::LEN);
                // The NAK comes where the second answer would have been.
                Shot { psn: psn.next(), dies: Some(rkey), ..Shot::new(&last) }
            }
        }
    }
}

/// Payloads that do not fit their place in the message.
fn packet_length(random: &mut Random, ground: &Ground) -> Shot {
    use Opcode as O;
    let (psn, next) = (ground.psn, ground.psn.next());
    let all = ground.areas.all;
    let mtu = Ground::mtu();
    let first = ground.write_first();
    match random.below(4) {
        0 => Shot::new(
            &ground
                .packet(O::RC_RDMA_WRITE_ONLY, psn)
                .reth(all.va, all.rkey, MTU.bytes() + 4)
                .payload(vec![6; mtu + 4]),
        ),
        1 => Shot::behind(&[first], &ground.packet(O::RC_RDMA_WRITE_LAST, next)),
        2 => {
            let middle = ground.packet(O::RC_RDMA_WRITE_MIDDLE, next).payload(vec![6; 8]);
            Shot::behind(&[first], &middle)
        }
        _ => Shot::new(&first.payload(vec![6; mtu - 4])),
    }
}

/// A READ, a WRITE, a FLUSH or an atomic of eight bytes.
fn request(random: &mut Random, ground: &Ground, psn: Psn, va: u64, rkey: RKey) -> Packet {
    match random.below(5) {
        0 => ground.packet(Opcode::RC_RDMA_READ_REQUEST, psn).reth(va, rkey, 8),
        2 => ground.flush(psn).reth(va, rkey, 8),
        3 => ground.atomic_write(psn).reth(va & !7, rkey, 8),
        1 => ground.packet(Opcode::RC_FETCH_ADD, psn).atomic(va & !7, rkey, 1, 0),
        _ => ground.packet(Opcode::RC_RDMA_WRITE_ONLY, psn).reth(va, rkey, 8).payload(vec![13; 8]),
    }
}
