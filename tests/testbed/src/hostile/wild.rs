//! Wild attacks: valid traffic, bent.

use roce_codec::ib::{Aeth, AtomicAckEth, ImmDt, Msn, Opcode, Psn, Qpn, RKey, Syndrome};
use roce_engine::{Access, QpState, WrOpcode};

use super::Siege;
use super::mutate::mutate;
use super::packet::Packet;
use super::target::{Area, MTU};

impl Siege<'_> {
    /// One to four bent frames in a burst, on one or several queue pairs.
    pub(super) fn wild_attack(&mut self) -> Result<(), String> {
        let mut frames = Vec::new();
        for _ in 0..self.random.within(1, 4) {
            let qp = self.wild_queue_pair();
            let mut frame = self.valid(qp).frame();
            if !self.random.one_in(6) {
                mutate(&mut self.random, &mut frame);
            }
            frames.push(frame);
        }
        self.wild += u64::try_from(frames.len()).unwrap_or(0);
        self.deliver(&frames)?;
        self.answers.clear();
        if self.random.one_in(64) {
            // Long enough for timers to go off.
            self.now = self.now.add_ns(2_000_000);
            self.target.handle_timeout(self.now);
        }
        Ok(())
    }

    /// A wild queue pair that is alive: one that is in error is connected again.
    fn wild_queue_pair(&mut self) -> Qpn {
        let qp = self.random.pick(&self.queue_pairs.wild);
        let state = self.target.query(qp).state;
        let tired = self.random.one_in(2000);
        if !tired && matches!(state, QpState::Rtr | QpState::Rts) {
            return qp;
        }
        let access = match self.random.below(6) {
            0 => Access::REMOTE_READ,
            1 => Access::REMOTE_WRITE,
            2 => Access::REMOTE_ATOMIC,
            _ => Access::ALL,
        };
        let to = if self.random.one_in(8) { QpState::Rtr } else { QpState::Rts };
        self.connect(qp, access, to);
        for _ in 0..self.random.below(6) {
            let len = self.random.below_u32(2048);
            let dead = self.random.one_in(12);
            self.target.post_receive(qp, len, dead);
        }
        if to == QpState::Rts {
            for _ in 0..self.random.below(3) {
                let (va, rkey) = (0x1000, RKey(7));
                let (opcode, len) = match self.random.below(4) {
                    0 => (WrOpcode::RdmaRead { va, rkey }, self.random.below_u32(4096)),
                    1 => (WrOpcode::FetchAdd { va, rkey, add: 1 }, 8),
                    2 => (WrOpcode::RdmaWrite { va, rkey }, self.random.below_u32(2048)),
                    _ => (WrOpcode::Send, self.random.below_u32(2048)),
                };
                self.ask_peer(qp, opcode, len);
            }
        }
        qp
    }

    /// A packet that the queue pair may well take as it stands.
    fn valid(&mut self, qp: Qpn) -> Packet {
        use Opcode as O;
        let info = self.target.query(qp);
        let areas = self.target.areas;
        let random = &mut self.random;
        let area = random.pick(&[
            areas.all,
            areas.all,
            areas.read,
            areas.write,
            areas.atomic,
            areas.local,
            areas.foreign,
        ]);
        let psn = match random.below(8) {
            0 => info.expected_psn.sub(1 + random.below_u32(8)),
            1 => info.expected_psn.add(1 + random.below_u32(8)),
            _ => info.expected_psn,
        };
        let [hostile, target] = self.addresses();
        let packet = |opcode, psn| Packet::new([hostile, target], opcode, qp, psn);
        let random = &mut self.random;
        let offset = random.below(u64::from(Area::LEN));
        let va = area.va + offset;
        let room = u64::from(Area::LEN) - offset;
        let mtu = usize::try_from(MTU.bytes()).unwrap_or(0);
        let fill = random.bits().to_le_bytes()[0] & 0x7f;
        let opcode = random.pick(&[
            O::RC_SEND_ONLY,
            O::RC_SEND_ONLY_IMM,
            O::RC_SEND_FIRST,
            O::RC_SEND_MIDDLE,
            O::RC_SEND_LAST,
            O::RC_RDMA_WRITE_ONLY,
            O::RC_RDMA_WRITE_ONLY_IMM,
            O::RC_RDMA_WRITE_FIRST,
            O::RC_RDMA_WRITE_MIDDLE,
            O::RC_RDMA_WRITE_LAST,
            O::RC_RDMA_READ_REQUEST,
            O::RC_RDMA_READ_REQUEST,
            O::RC_FETCH_ADD,
            O::RC_COMPARE_SWAP,
            O::RC_ATOMIC_WRITE,
            O::RC_FLUSH,
            O::RC_SEND_ONLY_INV,
            O::RC_ACKNOWLEDGE,
            O::RC_ATOMIC_ACKNOWLEDGE,
            O::RC_RDMA_READ_RESPONSE_ONLY,
            O::RC_RDMA_READ_RESPONSE_FIRST,
            O::RC_RDMA_READ_RESPONSE_MIDDLE,
        ]);
        let below = |random: &mut crate::random::Random, most: usize| {
            let room = usize::try_from(room).unwrap_or(0);
            random.index(most.min(room) + 1)
        };
        let mut packet = if opcode.info().is_response() {
            let own = own_psn(random, &info);
            answer(random, packet(opcode, own), mtu)
        } else {
            match opcode {
                O::RC_RDMA_READ_REQUEST => {
                    let len = u32::try_from(below(random, 4096)).unwrap_or(0);
                    packet(opcode, psn).reth(va, area.rkey, len)
                }
                O::RC_FETCH_ADD | O::RC_COMPARE_SWAP => {
                    // Small numbers cannot make a secret.
                    packet(opcode, psn).atomic(va & !7, area.rkey, random.below(256), 0)
                }
                O::RC_SEND_FIRST | O::RC_SEND_MIDDLE | O::RC_RDMA_WRITE_MIDDLE => {
                    packet(opcode, psn).payload(vec![fill; mtu])
                }
                O::RC_RDMA_WRITE_FIRST => {
                    let more = u32::try_from(below(random, 3 * mtu)).unwrap_or(0);
                    packet(opcode, psn)
                        .reth(area.va, area.rkey, MTU.bytes() + 1 + more)
                        .payload(vec![fill; mtu])
                }
                _ => {
                    let len = below(random, mtu);
                    let size = u32::try_from(len).unwrap_or(0);
                    packet(opcode, psn).reth(va, area.rkey, size).payload(vec![fill; len])
                }
            }
        };
        packet.bth.ack_req = random.one_in(2);
        packet.ext.imm_dt = Some(ImmDt(1));
        packet
    }
}

/// A PSN of the responder's own requests, about where it is.
fn own_psn(random: &mut crate::random::Random, info: &roce_engine::QpInfo) -> Psn {
    info.unacknowledged_psn.add(random.pick(&[0, 0, 1, 2, 5]))
}

/// Fills in an answer to what the responder asks.
fn answer(random: &mut crate::random::Random, mut packet: Packet, mtu: usize) -> Packet {
    let syndrome = random.pick(&[0x00, 0x1f, 0x1f, 0x21, 0x60, 0x61, 0x62, 0x63, 0x65]);
    packet.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(1) });
    packet.ext.atomic_ack_eth = Some(AtomicAckEth { original: random.below(256) });
    if packet.bth.opcode.info().payload {
        let len = if random.one_in(2) { mtu } else { random.index(mtu + 1) };
        packet.payload = vec![1; len];
    }
    packet
}
