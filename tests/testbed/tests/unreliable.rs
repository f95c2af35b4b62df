//! Unreliable connections over faulty wires, from seeds: a message arrives whole or not at all,
//! in its place, and nobody ever answers.

use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, DropReason, Engine, HeapStorage, Instant, Limits,
    LinkHeader, ModifyQp, Mr, MrAttr, NextHop, Path, QpInit, QpState, RecvWr, RtrAttr, RtsAttr, Rx,
    SendWr, Sge, WcStatus, WrOpcode,
};
use roce_testbed::random::Random;
use roce_testbed::wire::{Faults, Wire};

const SEEDS: u64 = 400;
/// Messages of a seed, and the most bytes of one: each WRITE and each receive has a place of its
/// own.
const MESSAGES: usize = 48;
const PLACE: usize = 16 << 10;
const LEN: usize = MESSAGES * PLACE;
const VA: u64 = 0x10_0000;
/// What nobody writes over.
const FILL: u8 = 0xc5;

const LIMITS: Limits = Limits {
    qps: 1,
    replays_per_qp: 0,
    mrs: 4,
    cqs: 2,
    cqes: 256,
    send_wqes: 64,
    recv_wqes: 64,
    ahs: 4,
    events: 256,
    ..Limits::SMALL
};

/// Byte `at` of a message; the first eight say which one it is.
fn byte(message: usize, at: usize) -> u8 {
    match (message as u64).to_le_bytes().get(at) {
        Some(byte) => *byte,
        None => (at * 31 + message * 7).to_le_bytes()[0] | 1,
    }
}

fn payload(message: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(message, at)).collect()
}

struct Side<'s> {
    engine: Engine<'s>,
    memory: HostMemory,
    cqs: [Cq; 2],
    mr: Mr,
    qp: Qpn,
}

impl<'s> Side<'s> {
    fn new(storage: &'s mut HeapStorage, random: &mut Random) -> Self {
        let mut engine = Engine::new(Config { window: 1, ..Config::DEFAULT }, storage.lend());
        let pd = engine.alloc_pd();
        let cqs = [(); 2].map(|()| engine.create_cq(128).unwrap());
        let mut memory = HostMemory::new();
        // WRITEs and what is sent in the first half, receives in the second.
        let region = memory.map(2 * LEN).unwrap();
        memory.write(Addr { region, offset: 0 }, [&vec![FILL; 2 * LEN], &[]]).unwrap();
        let backing = Addr { region, offset: 0 };
        let attr = MrAttr { pd, va: VA, len: 2 * LEN as u64, access: Access::ALL, backing };
        let mr = engine.register_mr(&attr, random).unwrap();
        let init = QpInit {
            max_send_wr: 64,
            max_recv_wr: 64,
            ..QpInit::new(Service::Uc, pd, cqs[0], cqs[1])
        };
        let qp = engine.create_qp(&init, random).unwrap();
        Self { engine, memory, cqs, mr, qp }
    }

    fn connect(&mut self, own: u8, peer: Qpn, path_mtu: PathMtu, psn: Psn) {
        let address = |last| IpAddr::V4(Ipv4Addr::new(198, 51, 100, last));
        let path = Path {
            src: address(own),
            dst: address(3 - own),
            next_hop: NextHop(0),
            src_port: 0xc000,
            ..Path::EMPTY
        };
        let rtr = RtrAttr {
            path,
            path_mtu,
            dest_qpn: peer,
            rq_psn: psn,
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::new(1),
        };
        let rts = RtsAttr { sq_psn: psn, timeout: 8, retry_cnt: 1, rnr_retry: 1, max_rd_atomic: 0 };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
        for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
            self.engine.modify_qp(self.qp, &change).unwrap();
        }
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.memory.read(Addr { region: 0, offset: offset as u64 }, &mut out).unwrap();
        out
    }

    fn sge(&self, offset: usize, len: usize) -> Sge {
        let len = u32::try_from(len).unwrap();
        Sge { va: VA + offset as u64, len, lkey: self.mr.lkey }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
}

#[derive(Debug, Default)]
struct Sum {
    whole: usize,
    lost: usize,
    out_of_sequence: u64,
    without_receive: u64,
    bad_icrc: u64,
}

fn run(seed: u64, sum: &mut Sum) {
    let random = &mut Random::new(seed);
    let path_mtu = random.pick(&PathMtu::ALL);
    let mtu = usize::try_from(path_mtu.bytes()).unwrap();
    let mut rate = || if random.one_in(3) { 0 } else { random.below_u32(100) };
    let (drop, corrupt, reorder, duplicate) = (rate(), rate(), rate(), rate());
    let faults = match seed % 3 {
        0 => Faults::NONE,
        1 => Faults { drop, corrupt, ..Faults::NONE },
        _ => Faults { drop, corrupt, reorder, duplicate, delay: reorder },
    };
    let in_order = seed % 3 < 2;
    let receives = if random.one_in(3) { random.index(MESSAGES) } else { MESSAGES };

    let mut storages = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [a, b] = &mut storages;
    let (mut sender, mut receiver) = (Side::new(a, random), Side::new(b, random));
    let psn = Psn::new(0x00ff_ffff - random.below_u32(200));
    sender.connect(1, receiver.qp, path_mtu, psn);
    receiver.connect(2, sender.qp, path_mtu, psn);

    for index in 0..receives {
        let sges = [receiver.sge(LEN + index * PLACE, PLACE)];
        let wr = RecvWr::new(index as u64, &sges);
        receiver.engine.post_recv(receiver.qp, &wr).unwrap();
    }
    let kinds = [Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm];
    let mut messages = Vec::new();
    for message in 0..MESSAGES {
        let len = 8 + random.index((4 * mtu).min(PLACE - 64));
        let kind = random.pick(&kinds);
        messages.push((kind, len));
        let offset = message * PLACE;
        let at = Addr { region: 0, offset: offset as u64 };
        sender.memory.write(at, [&payload(message, len), &[]]).unwrap();
        let (va, rkey) = (VA + offset as u64, receiver.mr.rkey);
        let imm = u32::try_from(message).unwrap();
        let opcode = match kind {
            Kind::Send => WrOpcode::Send,
            Kind::SendImm => WrOpcode::SendWithImm(imm),
            Kind::Write => WrOpcode::RdmaWrite { va, rkey },
            Kind::WriteImm => WrOpcode::RdmaWriteWithImm { va, rkey, imm },
        };
        let sge = sender.sge(offset, len);
        let sges = [sge];
        let wr = SendWr::new(message as u64, opcode, &sges);
        sender.engine.post_send(sender.qp, &wr).unwrap();
    }

    let mut wire = Wire::new(faults, 2_000, 20_000, !seed);
    let link = LinkHeader {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        vlans: VlanStack::EMPTY,
    };
    let mut arrived: Vec<usize> = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        for _ in 0..random.within(1, 16) {
            let Some(transmit) = sender.engine.poll_transmit(now) else { break };
            assert!(!transmit.bth.ack_req);
            let mut out = vec![0; 4352];
            let len =
                transmit.emit::<Crc, _>(&sender.engine, &link, &sender.memory, &mut out).unwrap();
            out.truncate(len);
            now = now.add_ns(100);
            wire.send(now, out, false);
        }
        let Some(next) = wire.next() else { break };
        now = now.max(next);
        while let Some(frame) = wire.receive(now) {
            let rx = Rx { segments: [&frame, &[]], start: Start::Ethernet, icrc_verified: false };
            receiver.engine.handle_burst(now, &[rx], &receiver.memory);
            assert_eq!(receiver.engine.poll_transmit(now), None, "seed {seed}: an answer");
            while let Some(wc) = receiver.engine.poll_cq(receiver.cqs[1]) {
                assert_eq!(wc.status, WcStatus::Success, "seed {seed}");
                let place = LEN + usize::try_from(wc.wr_id).unwrap() * PLACE;
                let message = match wc.imm {
                    Some(imm) => usize::try_from(imm).unwrap(),
                    None => {
                        let name = receiver.bytes(place, 8).try_into().unwrap();
                        usize::try_from(u64::from_le_bytes(name)).unwrap()
                    }
                };
                let (kind, len) = messages[message];
                assert_eq!(usize::try_from(wc.byte_len).unwrap(), len, "seed {seed}");
                assert_eq!(wc.imm.is_some(), matches!(kind, Kind::SendImm | Kind::WriteImm));
                let write = kind == Kind::WriteImm;
                let at = if write { message * PLACE } else { place };
                assert_eq!(
                    receiver.bytes(at, len),
                    payload(message, len),
                    "seed {seed}: {message}"
                );
                arrived.push(message);
            }
        }
    }
    let sent: Vec<_> = std::iter::from_fn(|| sender.engine.poll_cq(sender.cqs[0])).collect();
    let expect: Vec<_> = (0..MESSAGES).map(|message| message as u64).collect();
    assert!(sent.iter().all(|wc| wc.status == WcStatus::Success));
    assert_eq!(sent.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), expect, "seed {seed}");
    if in_order {
        assert!(arrived.is_sorted_by(|a, b| a < b), "seed {seed}: {arrived:?}");
    }
    let announced = messages.iter().filter(|(kind, _)| *kind != Kind::Write).count();
    if faults == Faults::NONE {
        assert_eq!(arrived.len(), announced.min(receives), "seed {seed}");
    }
    // Of a WRITE, each packet is there or is not; around it, nothing is.
    for (message, (kind, len)) in messages.iter().enumerate() {
        let place = receiver.bytes(message * PLACE, PLACE);
        let writes = matches!(kind, Kind::Write | Kind::WriteImm);
        let (written, around) = place.split_at(if writes { *len } else { 0 });
        assert!(around.iter().all(|byte| *byte == FILL), "seed {seed}: around {message}");
        let whole = payload(message, *len);
        for (is, must) in written.chunks(mtu).zip(whole.chunks(mtu)) {
            let missing = is.iter().all(|byte| *byte == FILL);
            assert!(is == must || missing, "seed {seed}: a packet of {message}");
            let needed = faults == Faults::NONE && *kind == Kind::Write;
            assert!(!(needed && missing), "seed {seed}: {message}");
        }
    }
    let counters = receiver.engine.counters();
    assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
    for side in [&sender, &receiver] {
        assert_eq!(side.engine.query_qp(side.qp).unwrap().state, QpState::Rts);
        assert_eq!(side.engine.poll_timeout(), None, "nobody waits");
    }
    sum.whole += arrived.len();
    sum.lost += announced.saturating_sub(arrived.len());
    sum.out_of_sequence += counters.dropped(DropReason::OutOfSequence);
    sum.without_receive += counters.dropped(DropReason::ReceiverNotReady);
    sum.bad_icrc += counters.dropped(DropReason::BadIcrc);
    assert_eq!(counters.dropped(DropReason::Refused), 0, "seed {seed}: nothing was wrong");
}

#[test]
fn a_message_arrives_whole_or_not_at_all() {
    let mut sum = Sum::default();
    for seed in 0..SEEDS {
        run(seed, &mut sum);
    }
    println!("{SEEDS} seeds: {sum:?}");
    assert!(sum.whole > 1000 && sum.lost > 500, "{sum:?}");
    assert!(
        sum.out_of_sequence > 500 && sum.without_receive > 100 && sum.bad_icrc > 100,
        "{sum:?}"
    );
}
