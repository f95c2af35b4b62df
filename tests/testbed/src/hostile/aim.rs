//! Attacks that each aim at one step of the responder's pipeline, or of the completer's, and
//! must meet exactly what that step does.

use std::net::Ipv4Addr;

use roce_codec::ib::{Aeth, Msn, Opcode, OpcodeClass, PKey, Psn, Qpn, RKey, Service, Syndrome};
use roce_engine::{Access, DropReason, QpState, SendWr, Sge, WrOpcode};

use super::Siege;
use super::packet::{ETHERNET, Packet, repair_icrc, repair_lengths};
use super::target::{Area, KEPT, MTU};

/// What an attack must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// Dropped, and counted so.
    Drop(DropReason),
    /// An Acknowledge with this syndrome, at the attack's PSN.
    Syndrome(u8),
    /// An answer with this opcode: it was a fair request.
    Answer(Opcode),
    /// Our request ended; nothing was sent.
    Completion,
}

macro_rules! aims {
    ($($(#[$doc:meta])* $name:ident => $met:expr,)*) => {
        /// What an attack aims at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Aim {
            $($(#[$doc])* $name,)*
        }

        impl Aim {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it must meet.
            #[must_use]
            pub const fn met(self) -> Met {
                match self {
                    $(Self::$name => $met,)*
                }
            }
        }
    };
}

const SEQUENCE: Met = Met::Syndrome(0x60);
const INVALID: Met = Met::Syndrome(0x61);
const ACCESS: Met = Met::Syndrome(0x62);
const OPERATIONAL: Met = Met::Syndrome(0x63);

aims! {
    /// Another protocol or port.
    NotRoce => Met::Drop(DropReason::NotRoce),
    /// Cut short, fragments, lengths that lie.
    Malformed => Met::Drop(DropReason::Malformed),
    /// A flipped bit, not repaired.
    BadIcrc => Met::Drop(DropReason::BadIcrc),
    /// Opcodes that nobody knows.
    UnknownOpcode => Met::Drop(DropReason::UnknownOpcode),
    /// Versions from the future.
    Version => Met::Drop(DropReason::Version),
    /// Odd bytes at the end.
    Pad => Met::Drop(DropReason::Pad),
    /// No such queue pair.
    UnknownQp => Met::Drop(DropReason::UnknownQp),
    /// A queue pair in Init.
    QpState => Met::Drop(DropReason::QpState),
    /// Opcodes of other services.
    WrongService => Met::Drop(DropReason::WrongService),
    /// From somebody else.
    Address => Met::Drop(DropReason::Address),
    /// Another partition.
    PKey => Met::Drop(DropReason::PKey),
    /// A second packet behind a gap.
    OutOfSequence => Met::Drop(DropReason::OutOfSequence),
    /// Behind an RNR NAK.
    BehindRnr => Met::Drop(DropReason::ReceiverNotReady),
    /// A duplicate of a READ that never was.
    StaleDuplicate => Met::Drop(DropReason::StaleDuplicate),
    /// An answer to nothing.
    UnexpectedResponse => Met::Drop(DropReason::UnexpectedResponse),
    /// A NAK twice.
    RepeatedNak => Met::Drop(DropReason::RepeatedNak),
    /// A syndrome that is reserved.
    ReservedSyndrome => Met::Drop(DropReason::ReservedSyndrome),
    /// A congestion notification.
    Cnp => Met::Drop(DropReason::Cnp),
    /// A gap.
    Gap => SEQUENCE,
    /// No receive.
    NoReceive => Met::Syndrome(0x21),
    /// Middle or Last before First.
    OpcodeSequence => INVALID,
    /// Another message inside a message.
    Interrupted => INVALID,
    /// What the queue pair does not allow.
    NotAllowed => INVALID,
    /// What this responder does not offer.
    NotOffered => INVALID,
    /// More READs than agreed.
    TooManyReads => INVALID,
    /// Payload against path MTU.
    PacketLength => INVALID,
    /// Payload against DMA length.
    DmaLength => INVALID,
    /// Above 2³¹.
    TooLong => INVALID,
    /// An atomic at an odd address.
    Misaligned => INVALID,
    /// A SEND above its receive.
    LongSend => INVALID,
    /// Keys out of the air.
    Key => ACCESS,
    /// A key of another protection domain.
    Domain => ACCESS,
    /// A key that is dead.
    DeadKey => ACCESS,
    /// A right that the region does not give.
    Right => ACCESS,
    /// A byte before or behind the region.
    Range => ACCESS,
    /// A range that wraps.
    Wrap => ACCESS,
    /// A receive whose region is gone.
    DeadReceive => OPERATIONAL,
    /// A region that goes while it is read.
    DyingRegion => OPERATIONAL,
    /// A duplicate WRITE.
    Duplicate => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A fair WRITE.
    Write => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A fair READ.
    Read => Met::Answer(Opcode::RC_RDMA_READ_RESPONSE_ONLY),
    /// A fair atomic.
    Atomic => Met::Answer(Opcode::RC_ATOMIC_ACKNOWLEDGE),
    /// A fair SEND.
    Send => Met::Answer(Opcode::RC_ACKNOWLEDGE),
    /// A NAK that ends our request.
    FatalNak => Met::Completion,
    /// An answer to our READ that is too short.
    BadResponse => Met::Completion,
}

/// An attack: frames that lead up to it, and the one that must meet what it aims at.
pub(super) struct Shot {
    pub(super) before: Vec<Vec<u8>>,
    pub(super) last: Vec<u8>,
    pub(super) psn: Psn,
    /// A key that is taken away when the first answer is out.
    pub(super) dies: Option<RKey>,
    /// All frames come in one burst.
    pub(super) at_once: bool,
}

impl Shot {
    fn new(before: Vec<Packet>, last: &Packet) -> Self {
        Self::raw(before, last.frame(), last.bth.psn)
    }

    fn raw(before: Vec<Packet>, last: Vec<u8>, psn: Psn) -> Self {
        let before = before.iter().map(Packet::frame).collect();
        Self { before, last, psn, dies: None, at_once: false }
    }
}

impl Siege<'_> {
    /// Prepares an attack.
    #[expect(clippy::too_many_lines, reason = "one arm an aim")]
    pub(super) fn shot(&mut self, aim: Aim) -> Shot {
        let full = self.queue_pairs.full;
        let [psn, own] = self.connect(full, Access::ALL, QpState::Rts);
        let areas = self.target.areas;
        let all = areas.all;
        let mtu = MTU.bytes();
        let size = usize::try_from(mtu).unwrap_or(0);
        let addresses = self.addresses();
        let packet = |opcode, psn| Packet::new(addresses, opcode, full, psn);
        let write = |psn| {
            packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
                .reth(all.va, all.rkey, 4)
                .payload(vec![1; 4])
                .ask()
        };
        let read =
            |psn, va, rkey, len| packet(Opcode::RC_RDMA_READ_REQUEST, psn).reth(va, rkey, len);
        let first = packet(Opcode::RC_RDMA_WRITE_FIRST, psn)
            .reth(all.va, all.rkey, 3 * mtu)
            .payload(vec![1; size]);
        let random = &mut self.random;
        match aim {
            Aim::NotRoce => {
                let mut frame = write(psn).frame();
                match random.below(3) {
                    0 => frame[ETHERNET + 23] ^= 1,
                    1 => frame[ETHERNET + 9] = 6,
                    _ => frame[13] = 6,
                }
                Shot::raw(vec![], frame, psn)
            }
            Aim::Malformed => {
                let mut frame = write(psn).frame();
                match random.below(3) {
                    0 => frame.truncate(ETHERNET + 28 + random.index(16)),
                    1 => frame[ETHERNET + 6] = 0x20,
                    _ => frame[ETHERNET + 24] ^= 1,
                }
                Shot::raw(vec![], frame, psn)
            }
            Aim::BadIcrc => {
                let mut frame = write(psn).frame();
                let at = frame.len() - 1 - random.index(24);
                frame[at] ^= 1 << random.below(8);
                Shot::raw(vec![], frame, psn)
            }
            Aim::UnknownOpcode => {
                let opcode = loop {
                    let opcode = Opcode(random.bits().to_le_bytes()[0]);
                    if opcode.info().class != OpcodeClass::Known {
                        break opcode;
                    }
                };
                Shot::new(vec![], &packet(opcode, psn).payload(vec![0; 4 * random.index(9)]))
            }
            Aim::Version => {
                let mut last = write(psn);
                last.bth.version = u8::try_from(random.within(1, 15)).unwrap_or(1);
                Shot::new(vec![], &last)
            }
            Aim::Pad => {
                let mut frame = write(psn).frame();
                let more = 1 + random.index(3);
                frame.resize(frame.len() + more, 0);
                repair_lengths(&mut frame);
                repair_icrc(&mut frame);
                Shot::raw(vec![], frame, psn)
            }
            Aim::UnknownQp => {
                let mut last = write(psn);
                // Not even a generation of a queue pair that there is.
                last.bth.dest_qp = loop {
                    let qp = Qpn::new(random.below_u32(1 << 24));
                    if self.target.engine.query_qp(qp).is_err() {
                        break qp;
                    }
                };
                Shot::new(vec![], &last)
            }
            Aim::QpState => {
                let mut last = write(psn);
                last.bth.dest_qp = self.queue_pairs.init;
                Shot::new(vec![], &last)
            }
            Aim::WrongService => {
                let opcode = loop {
                    let opcode = Opcode(random.bits().to_le_bytes()[0]);
                    let info = opcode.info();
                    let other = !matches!(info.service, Service::Rc | Service::Cnp);
                    if info.class == OpcodeClass::Known && other {
                        break opcode;
                    }
                };
                Shot::new(vec![], &packet(opcode, psn).ask())
            }
            Aim::Address => {
                let mut last = write(psn);
                let stranger =
                    Ipv4Addr::new(203, 0, 113, u8::try_from(random.below(8)).unwrap_or(0));
                last.addresses[random.index(2)] = stranger;
                Shot::new(vec![], &last)
            }
            Aim::PKey => {
                let mut last = write(psn);
                last.bth.pkey = PKey(u16::try_from(random.below(0x7fff)).unwrap_or(0));
                Shot::new(vec![], &last)
            }
            Aim::Gap => Shot::new(vec![], &write(psn.add(1 + random.below_u32(1000)))),
            Aim::OutOfSequence => Shot::new(vec![write(psn.add(2))], &write(psn.add(3))),
            Aim::NoReceive => {
                Shot::new(vec![], &packet(Opcode::RC_SEND_ONLY, psn).payload(vec![2; 8]))
            }
            Aim::BehindRnr => {
                Shot::new(vec![packet(Opcode::RC_SEND_ONLY, psn)], &write(psn.next()))
            }
            Aim::StaleDuplicate => {
                let back = 1 + random.below_u32(1000);
                Shot::new(vec![], &read(psn.sub(back), all.va, all.rkey, 8))
            }
            Aim::UnexpectedResponse => {
                let mut last = packet(Opcode::RC_ACKNOWLEDGE, own.add(random.below_u32(5000)));
                last.ext.aeth = Some(Aeth { syndrome: Syndrome(0x60), msn: Msn::new(0) });
                Shot::new(vec![], &last)
            }
            Aim::RepeatedNak | Aim::ReservedSyndrome | Aim::FatalNak => {
                let syndrome = match aim {
                    Aim::RepeatedNak => 0x60,
                    Aim::ReservedSyndrome => random.pick(&[0x40, 0x5f, 0x65, 0x7f, 0x80, 0xff]),
                    _ => random.pick(&[0x61, 0x62, 0x63, 0x64]),
                };
                let mut last = packet(Opcode::RC_ACKNOWLEDGE, own);
                last.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(0) });
                let before = if aim == Aim::RepeatedNak { vec![last.clone()] } else { vec![] };
                self.ask_peer(full, WrOpcode::RdmaWrite { va: 0, rkey: RKey(0) }, 4);
                Shot::new(before, &last)
            }
            Aim::BadResponse => {
                let opcode = random.pick(&[
                    Opcode::RC_RDMA_READ_RESPONSE_FIRST,
                    Opcode::RC_RDMA_READ_RESPONSE_ONLY,
                    Opcode::RC_RDMA_READ_RESPONSE_LAST,
                ]);
                let mut len = 4 * random.index(200);
                if len == size {
                    len += 4;
                }
                let last = packet(opcode, own).payload(vec![3; len]);
                self.ask_peer(full, WrOpcode::RdmaRead { va: 0, rkey: RKey(0) }, 3 * mtu);
                Shot::new(vec![], &last)
            }
            Aim::Cnp => {
                let opcode = random.pick(&[Opcode::CNP, Opcode::IB_CNP]);
                Shot::new(vec![], &packet(opcode, Psn::new(0)))
            }
            Aim::OpcodeSequence => {
                let opcode = random.pick(&[
                    Opcode::RC_RDMA_WRITE_MIDDLE,
                    Opcode::RC_RDMA_WRITE_LAST,
                    Opcode::RC_RDMA_WRITE_LAST_IMM,
                    Opcode::RC_SEND_MIDDLE,
                    Opcode::RC_SEND_LAST,
                    Opcode::RC_SEND_LAST_IMM,
                ]);
                Shot::new(vec![], &packet(opcode, psn).payload(vec![4; size]))
            }
            Aim::Interrupted => {
                let next = psn.next();
                let last = match random.below(4) {
                    0 => write(next),
                    1 => read(next, all.va, all.rkey, 8),
                    2 => packet(Opcode::RC_FETCH_ADD, next).atomic(all.va, all.rkey, 1, 0),
                    _ => packet(Opcode::RC_SEND_LAST, next).payload(vec![5; 8]),
                };
                Shot::new(vec![first], &last)
            }
            Aim::NotAllowed => {
                let bare = self.queue_pairs.bare;
                let [psn, _] = self.connect(bare, Access::LOCAL_WRITE, QpState::Rts);
                let mut last = match self.random.below(3) {
                    0 => write(psn),
                    1 => read(psn, all.va, all.rkey, 8),
                    _ => packet(Opcode::RC_COMPARE_SWAP, psn).atomic(all.va, all.rkey, 1, 0),
                };
                last.bth.dest_qp = bare;
                Shot::new(vec![], &last)
            }
            Aim::NotOffered => {
                let opcode = random.pick(&[
                    Opcode::RC_FLUSH,
                    Opcode::RC_ATOMIC_WRITE,
                    Opcode::RC_SEND_ONLY_INV,
                ]);
                self.target.post_receive(full, 8, false);
                Shot::new(vec![], &packet(opcode, psn).reth(all.va, all.rkey, 8))
            }
            Aim::TooManyReads => {
                let count = u32::from(KEPT);
                let reads = (0..count).map(|n| read(psn.add(n), all.va, all.rkey, 8)).collect();
                let mut shot = Shot::new(reads, &read(psn.add(count), all.va, all.rkey, 8));
                shot.at_once = true;
                shot
            }
            Aim::PacketLength => {
                let next = psn.next();
                let (before, last) = match random.below(4) {
                    0 => (
                        vec![],
                        packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
                            .reth(all.va, all.rkey, mtu + 4)
                            .payload(vec![6; size + 4]),
                    ),
                    1 => (vec![first], packet(Opcode::RC_RDMA_WRITE_LAST, next)),
                    2 => (
                        vec![first],
                        packet(Opcode::RC_RDMA_WRITE_MIDDLE, next).payload(vec![6; 8]),
                    ),
                    _ => (vec![], Packet { payload: vec![6; size - 4], ..first }),
                };
                Shot::new(before, &last)
            }
            Aim::DmaLength => {
                let len = random.pick(&[0, 3, 5, mtu, u32::MAX >> 1]);
                let last = packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
                    .reth(all.va, all.rkey, len)
                    .payload(vec![7; 4]);
                Shot::new(vec![], &last)
            }
            Aim::TooLong => {
                let len = random.pick(&[0x8000_0001, 0xc000_0000, u32::MAX]);
                let last = if random.one_in(2) {
                    read(psn, all.va, all.rkey, len)
                } else {
                    packet(Opcode::RC_RDMA_WRITE_FIRST, psn)
                        .reth(all.va, all.rkey, len)
                        .payload(vec![8; size])
                };
                Shot::new(vec![], &last)
            }
            Aim::Misaligned => {
                let va = all.va + random.within(1, 7);
                let opcode = random.pick(&[Opcode::RC_FETCH_ADD, Opcode::RC_COMPARE_SWAP]);
                Shot::new(vec![], &packet(opcode, psn).atomic(va, all.rkey, 1, 0))
            }
            Aim::LongSend => {
                let len = random.below_u32(64);
                let more = usize::try_from(len).unwrap_or(0) + 1 + random.index(64);
                self.target.post_receive(full, len, false);
                Shot::new(vec![], &packet(Opcode::RC_SEND_ONLY, psn).payload(vec![9; more]))
            }
            Aim::Key => {
                let (prey, va, _) = self.honest.prey();
                // One bit beside a good key, anything, or the honest peer's own.
                let (rkey, va) = match random.below(3) {
                    0 => (RKey(all.rkey.0 ^ 1 << random.below(32)), all.va),
                    1 => (RKey(u32::MAX & random.below_u32(u32::MAX)), all.va),
                    _ => (prey, va),
                };
                Shot::new(vec![], &request(random, packet, psn, va, rkey, 8))
            }
            Aim::Domain => {
                let foreign = areas.foreign;
                Shot::new(vec![], &request(random, packet, psn, foreign.va, foreign.rkey, 8))
            }
            Aim::DeadKey => {
                let dead = areas.dead;
                Shot::new(vec![], &request(random, packet, psn, dead.va, dead.rkey, 8))
            }
            Aim::Right => {
                let last = match random.below(4) {
                    0 => read(psn, areas.write.va, areas.write.rkey, 8),
                    1 => read(psn, areas.atomic.va, areas.atomic.rkey, 8),
                    2 => packet(Opcode::RC_FETCH_ADD, psn).atomic(
                        areas.read.va,
                        areas.read.rkey,
                        1,
                        0,
                    ),
                    _ => packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
                        .reth(areas.read.va, areas.read.rkey, 8)
                        .payload(vec![10; 8]),
                };
                Shot::new(vec![], &last)
            }
            Aim::Range => {
                let end = all.va + u64::from(Area::LEN);
                let far = end + 8 * random.below(4096);
                let va = random.pick(&[all.va - 8, end, far, 0]);
                Shot::new(vec![], &request(random, packet, psn, va, all.rkey, 8))
            }
            Aim::Wrap => {
                let va = u64::MAX - random.below(512) & !7;
                let len = random.pick(&[8, 512, 0x400, 0x8000_0000]);
                Shot::new(vec![], &read(psn, va, all.rkey, len))
            }
            Aim::DeadReceive => {
                self.target.post_receive(full, 64, true);
                Shot::new(vec![], &packet(Opcode::RC_SEND_ONLY, psn).payload(vec![11; 8]))
            }
            Aim::DyingRegion => {
                let rkey = self.target.lend_read_area();
                let last =
                    packet(Opcode::RC_RDMA_READ_REQUEST, psn).reth(areas.read.va, rkey, Area::LEN);
                let mut shot = Shot::new(vec![], &last);
                // Where the second answer would have been.
                shot.psn = psn.next();
                shot.dies = Some(rkey);
                shot
            }
            Aim::Duplicate => Shot::new(vec![write(psn)], &write(psn)),
            Aim::Write => Shot::new(vec![], &write(psn)),
            Aim::Read => Shot::new(vec![], &read(psn, all.va, all.rkey, 1 + random.below_u32(mtu))),
            Aim::Atomic => {
                let va = areas.atomic.va + 8 * random.below(512);
                let last = packet(Opcode::RC_FETCH_ADD, psn).atomic(va, areas.atomic.rkey, 3, 0);
                Shot::new(vec![], &last)
            }
            Aim::Send => {
                self.target.post_receive(full, 64, false);
                Shot::new(vec![], &packet(Opcode::RC_SEND_ONLY, psn).payload(vec![12; 64]).ask())
            }
        }
    }

    /// Makes the responder ask something of the hostile client.
    pub(super) fn ask_peer(&mut self, qp: Qpn, opcode: WrOpcode, len: u32) {
        let local = self.target.areas.local;
        let sge = Sge { va: local.va, len, lkey: local.lkey };
        let wr = SendWr { wr_id: 0, opcode, sge, signaled: true, solicited: false };
        // A full queue asks enough already.
        let _ = self.target.engine.post_send(qp, &wr);
    }
}

/// A READ, a WRITE or an atomic of some memory.
fn request(
    random: &mut crate::random::Random,
    packet: impl Fn(Opcode, Psn) -> Packet,
    psn: Psn,
    va: u64,
    rkey: RKey,
    len: u32,
) -> Packet {
    match random.below(3) {
        0 => packet(Opcode::RC_RDMA_READ_REQUEST, psn).reth(va, rkey, len),
        1 => packet(Opcode::RC_FETCH_ADD, psn).atomic(va & !7, rkey, 1, 0),
        _ => packet(Opcode::RC_RDMA_WRITE_ONLY, psn)
            .reth(va, rkey, len)
            .payload(vec![13; usize::try_from(len).unwrap_or(0)]),
    }
}
