//! What the hostile peer sends: messages that may well be taken, answers that may well be
//! believed, and both bent.

use roce_codec::Frame;
use roce_codec::ib::{
    Aeth, AtomicAckEth, Deth, ImmDt, Msn, Opcode, Operation, Psn, QKey, Qpn, RKey, Service,
    Syndrome,
};

use roce_engine::Access;

use super::ground::{Ground, PLACE, STRIDE};
use super::{Asked, FRAMES, QKEY, Raid};
use crate::hostile::mutate::mutate;
use crate::hostile::packet::Packet;
use crate::hostile::target::{KEPT, MTU};

/// The bits of an opcode that say UC, and UD.
const UC: u8 = 0x20;

/// What datagrams with a wrong Q_Key are full of, and nothing else.
pub(super) const STRANGER: u8 = 0x7e;

/// Requests that are remembered to be answered.
const MOST_ASKED: usize = 12;

/// What a request is about.
struct Aim {
    rkey: RKey,
    va: u64,
    len: usize,
}

impl Raid<'_, '_> {
    /// Some frames, for one queue pair or several.
    pub(super) fn frames(&mut self) -> Vec<Vec<u8>> {
        let mut next = [None; 4];
        let mut frames = Vec::new();
        let count = self.random.within(1, FRAMES);
        for _ in 0..count {
            let which = self.random.index(self.qps.len());
            let reliable = self.qps[which].service == Service::Rc;
            let packets = match self.random.below(12) {
                0 => vec![self.at_the_honest_one()],
                1..=4 if reliable => self.answer(which),
                _ => self.message(which, &mut next[which]),
            };
            for packet in packets {
                let mut frame = packet.frame();
                if self.random.one_in(10) {
                    mutate(&mut self.random, &mut frame);
                }
                if self.random.one_in(12) {
                    frames.push(frame.clone());
                }
                if !self.random.one_in(16) {
                    frames.push(frame);
                }
            }
        }
        if self.random.one_in(4) {
            let (a, b) = (self.random.index(frames.len()), self.random.index(frames.len()));
            if !frames.is_empty() {
                frames.swap(a, b);
            }
        }
        frames
    }

    /// Remembers a request of the responder's.
    pub(super) fn note(&mut self, qp: Qpn, frame: &Frame<'_>) {
        let len = frame.reth().map_or(0, |reth| reth.dma_len);
        let len = usize::try_from(len).unwrap_or(0);
        self.asked.push_back(Asked { qp, psn: frame.psn(), opcode: frame.opcode(), len });
        if self.asked.len() > MOST_ASKED {
            self.asked.pop_front();
        }
    }

    /// A packet for the honest peer's queue pair, which knows all but its address.
    fn at_the_honest_one(&mut self) -> Packet {
        let (rkey, va, qp) = self.honest.prey();
        let psn = self.target.query(qp).expected_psn;
        let packet = Packet::new(self.addresses(), Opcode::RC_RDMA_WRITE_ONLY, qp, psn);
        packet.reth(va, rkey, 64).payload(vec![0x22; 64]).ask()
    }

    /// A key, mostly one that grants what is needed, and a range that it opens, or nearly.
    fn aim(&mut self, need: Access) -> Aim {
        let ground = &self.ground;
        let random = &mut self.random;
        let (mut rkey, from, len) = match random.below(30) {
            0 => (ground.foreign[0], 14 * STRIDE, PLACE),
            1 => (ground.foreign[1], 15 * STRIDE, PLACE),
            2 => (ground.base.rkey, Ground::WINDOWS, PLACE),
            3 => (RKey(ground.local.lkey.0), 0, PLACE),
            4 => {
                let (rkey, va, _) = self.honest.prey();
                return Aim { rkey, va, len: 64 };
            }
            5..=8 => {
                let grant = ground.grants[random.index(ground.grants.len())];
                (grant.rkey, grant.from, grant.len)
            }
            // The newest are windows.
            _ => {
                let fit = ground.grants.iter().rev();
                let fit = fit.filter(|grant| grant.open && grant.access.contains(need));
                let fit: Vec<_> = fit.take(4).collect();
                let grant = if fit.is_empty() { ground.grants[0] } else { *random.pick(&fit) };
                (grant.rkey, grant.from, grant.len)
            }
        };
        if random.one_in(40) {
            rkey = RKey(rkey.0 ^ 1 << random.index(32));
        }
        let offset = random.index(len + 1);
        let size = random.index(len - offset + 1);
        let (mut va, mut len) = (ground.va(from + offset), size);
        match random.below(30) {
            // A little beyond either end.
            0 => len += random.index(PLACE),
            1 => va = va.wrapping_sub(random.below(64)),
            2 => (va, len) = (ground.va(from), PLACE),
            _ => {}
        }
        Aim { rkey, va, len }
    }

    /// A whole message: its packets, from where the responder is, or nearly.
    fn message(&mut self, which: usize, next: &mut Option<Psn>) -> Vec<Packet> {
        use Opcode as O;
        let there = self.qps[which];
        let expected = next.unwrap_or_else(|| self.target.query(there.qp).expected_psn);
        let psn = match self.random.below(12) {
            0 => expected.sub(1 + self.random.below_u32(6)),
            1 => expected.add(1 + self.random.below_u32(6)),
            _ => expected,
        };
        let addresses = self.addresses();
        let random = &mut self.random;
        let class = if there.service == Service::Uc { UC } else { 0 };
        let packet = |opcode: Opcode, psn| {
            let mut packet = Packet::new(addresses, Opcode(opcode.0 | class), there.qp, psn);
            packet.ext.imm_dt = Some(ImmDt(1));
            packet
        };
        let fill = random.bits().to_le_bytes()[0] & 0x3f;
        let mtu = usize::try_from(MTU.bytes()).unwrap_or(0);
        if there.service == Service::Ud {
            let opcode = random.pick(&[O::UD_SEND_ONLY, O::UD_SEND_ONLY_IMM]);
            let stranger = random.one_in(4);
            let (qkey, fill) = if stranger { (QKey(1), STRANGER) } else { (QKEY, fill) };
            let mut packet = packet(opcode, psn).payload(vec![fill; random.index(PLACE)]);
            packet.ext.deth = Some(Deth { qkey, resv8: 0, src_qp: Qpn::new(0x66_6666) });
            return vec![packet];
        }
        let unreliable = there.service == Service::Uc;
        let whole = match random.below(if unreliable { 5 } else { 11 }) {
            0 | 1 => [O::RC_SEND_ONLY, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST],
            2 => [O::RC_SEND_ONLY_IMM, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST_IMM],
            3 | 4 => [
                O::RC_RDMA_WRITE_ONLY,
                O::RC_RDMA_WRITE_FIRST,
                O::RC_RDMA_WRITE_MIDDLE,
                O::RC_RDMA_WRITE_LAST,
            ],
            5 => [O::RC_SEND_ONLY_INV, O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST_INV],
            6 | 7 => [O::RC_RDMA_READ_REQUEST; 4],
            8 => [random.pick(&[O::RC_FETCH_ADD, O::RC_COMPARE_SWAP]); 4],
            9 => [O::RC_ATOMIC_WRITE; 4],
            _ => [O::RC_FLUSH; 4],
        };
        let [only, first, middle, last] = whole;
        let need = match only.info().operation {
            Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
            Operation::ReadRequest => Access::REMOTE_READ,
            Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
            Operation::Flush => Access::FLUSH_GLOBAL,
            _ => Access::NONE,
        };
        let aim = self.aim(need);
        let random = &mut self.random;
        let size = u32::try_from(aim.len).unwrap_or(0);
        let doomed = self.ground.takeable(there.qp).filter(|_| !random.one_in(4));
        let doomed = doomed.unwrap_or(aim.rkey);
        let single = packet(only, psn).reth(aim.va, aim.rkey, size).ieth(doomed);
        let single = match only {
            O::RC_FETCH_ADD | O::RC_COMPARE_SWAP => {
                single.atomic(aim.va & !7, aim.rkey, random.below(256), 0)
            }
            O::RC_ATOMIC_WRITE => single.reth(aim.va & !7, aim.rkey, 8).payload(vec![fill; 8]),
            O::RC_FLUSH => single.feth(random.pick(&[0x01, 0x11, 0x02, 0x00])),
            O::RC_RDMA_READ_REQUEST => single,
            _ => single.payload(vec![fill; aim.len]),
        };
        if only == O::RC_RDMA_READ_REQUEST && random.one_in(3) {
            // As much as can be asked for at once.
            let open = self.ground.grants[1];
            let packets = MTU.packets(u32::try_from(PLACE).unwrap_or(0));
            let psns = (0..u32::from(KEPT)).map(|at| psn.add(at * packets));
            *next = Some(psn.add(u32::from(KEPT) * packets));
            let va = self.ground.va(open.from);
            let len = u32::try_from(PLACE).unwrap_or(0);
            return psns.map(|psn| packet(only, psn).reth(va, open.rkey, len)).collect();
        }
        if first == only || aim.len <= mtu {
            let packets = if only == O::RC_RDMA_READ_REQUEST { MTU.packets(size) } else { 1 };
            *next = Some(psn.add(packets));
            let mut single = single;
            single.bth.ack_req = random.one_in(2);
            return vec![single];
        }
        // Longer than a packet, cut as it should be.
        let count = aim.len.div_ceil(mtu);
        *next = Some(psn.add(u32::try_from(count).unwrap_or(0)));
        let cut = |at: usize| {
            let opcode = match at {
                0 => first,
                _ if at + 1 == count => last,
                _ => middle,
            };
            let psn = psn.add(u32::try_from(at).unwrap_or(0));
            let len = mtu.min(aim.len - at * mtu);
            let mut packet = packet(opcode, psn).reth(aim.va, aim.rkey, size).ieth(doomed);
            packet.bth.ack_req = at + 1 == count;
            packet.payload(vec![fill; len])
        };
        (0..count).map(cut).collect()
    }

    /// An answer to something that the responder has asked: right, or nearly, or a lie.
    fn answer(&mut self, which: usize) -> Vec<Packet> {
        use Opcode as O;
        let qp = self.qps[which].qp;
        let asked: Vec<_> = self.asked.iter().filter(|asked| asked.qp == qp).copied().collect();
        let oldest = self.target.query(qp).unacknowledged_psn;
        let addresses = self.addresses();
        let random = &mut self.random;
        let first = asked.iter().find(|asked| asked.psn == oldest).copied();
        let first = first.filter(|_| !random.one_in(3));
        let asked = if let Some(first) = first {
            first
        } else if asked.is_empty() {
            Asked { qp, psn: oldest, opcode: O::RC_SEND_ONLY, len: 0 }
        } else {
            random.pick(&asked)
        };
        let right = !random.one_in(5);
        let msn = Msn::new(random.below_u32(20));
        let good = random.pick(&[0x1f, 0x1f, 0x00, 0x03]);
        let bad = random.pick(&[0x20, 0x21, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x7f]);
        let syndrome = Syndrome(if random.one_in(8) { bad } else { good });
        let packet = |opcode, psn, payload| {
            let mut packet = Packet::new(addresses, opcode, qp, psn).payload(payload);
            packet.ext.aeth = Some(Aeth { syndrome, msn });
            packet.ext.atomic_ack_eth = Some(AtomicAckEth { original: 5 });
            packet
        };
        let psn = if right { asked.psn } else { asked.psn.add(random.below_u32(6)).sub(2) };
        let mtu = usize::try_from(MTU.bytes()).unwrap_or(0);
        match asked.opcode.info().operation {
            _ if !right && random.one_in(2) => {
                let opcode = random.pick(&[
                    O::RC_ACKNOWLEDGE,
                    O::RC_ATOMIC_ACKNOWLEDGE,
                    O::RC_RDMA_READ_RESPONSE_ONLY,
                    O::RC_RDMA_READ_RESPONSE_FIRST,
                    O::RC_RDMA_READ_RESPONSE_MIDDLE,
                    O::RC_RDMA_READ_RESPONSE_LAST,
                ]);
                let len = if random.one_in(2) { mtu } else { random.index(mtu + 1) };
                let len = if opcode.info().payload { len } else { 0 };
                vec![packet(opcode, psn, vec![0x33; len])]
            }
            Operation::ReadRequest if right && asked.len > mtu => {
                let last = asked.len - mtu;
                vec![
                    packet(O::RC_RDMA_READ_RESPONSE_FIRST, psn, vec![0x33; mtu]),
                    packet(O::RC_RDMA_READ_RESPONSE_LAST, psn.next(), vec![0x33; last]),
                ]
            }
            Operation::ReadRequest => {
                let len = if right { asked.len } else { random.index(mtu + 1) };
                vec![packet(O::RC_RDMA_READ_RESPONSE_ONLY, psn, vec![0x33; len.min(mtu)])]
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                vec![packet(O::RC_ATOMIC_ACKNOWLEDGE, psn, Vec::new())]
            }
            Operation::AtomicWrite | Operation::Flush => {
                vec![packet(O::RC_RDMA_READ_RESPONSE_ONLY, psn, Vec::new())]
            }
            _ => vec![packet(O::RC_ACKNOWLEDGE, psn, Vec::new())],
        }
    }
}
