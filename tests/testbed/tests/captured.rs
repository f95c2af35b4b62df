//! What Linux was asked and answered, asked of our responder: requests of a capture go in as they
//! stand, and the answers are held to Linux's, field by field.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use roce_codec::ib::{AethKind, Opcode, PKey, PathMtu, Psn, Qpn, RKey, RnrTimer, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Frame, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, DropReason, Engine, Entropy, HeapStorage, Instant, Limits, LinkHeader, ModifyQp,
    MrAttr, NextHop, Path, QpInit, RtrAttr, Rx,
};
use roce_pcap::capture::Reader;

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../captures/rxe72-flush-atomicwrite.pcap");

/// Where the server's memory was.
const VA: u64 = 0x5576_15b1_a000;

/// Hands out what Linux had: with one slot of each kind, a number is what it is drawn to be.
struct Given(VecDeque<u32>);

impl Entropy for Given {
    fn next_u32(&mut self) -> u32 {
        self.0.pop_front().expect("a number for each draw")
    }
}

/// One connection of the capture: the server's memory, and the frames in their order; an answer
/// is marked.
struct Connection {
    rkey: RKey,
    access: Access,
    frames: Vec<(bool, Vec<u8>)>,
}

fn connections() -> BTreeMap<u32, Vec<(bool, Vec<u8>)>> {
    let bytes = std::fs::read(CAPTURE).expect("the capture beside this package");
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let server: IpAddr = "10.77.1.2".parse().unwrap();
    let mut connections: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let frame = Frame::parse([packet.data, &[]], Start::Ethernet).unwrap();
        if frame.info().service == Service::Rc {
            // rxe gave both ends of a connection the same number.
            let qpn = frame.bth().dest_qp.get();
            let answer = frame.src() == server;
            connections.entry(qpn).or_default().push((answer, packet.data.to_vec()));
        }
    }
    connections
}

/// Serves the requests of a connection; returns how many answers were compared.
fn serve(qpn: u32, connection: &Connection) -> usize {
    let limits = Limits {
        qps: 1,
        replays_per_qp: 4,
        mrs: 1,
        cqs: 1,
        cqes: 16,
        send_wqes: 1,
        recv_wqes: 1,
        ahs: 4,
        events: 16,
        ..Limits::SMALL
    };
    let mut storage = HeapStorage::new(&limits);
    let mut engine = Engine::new(roce_engine::Config::DEFAULT, storage.lend());
    let mut given = Given([qpn, connection.rkey.0, 0x5555_5555].into());
    let pd = engine.alloc_pd();
    let cq = engine.create_cq(16).unwrap();
    let init = QpInit { max_send_wr: 1, max_recv_wr: 1, ..QpInit::new(Service::Rc, pd, cq, cq) };
    let qp = engine.create_qp(&init, &mut given).unwrap();
    assert_eq!(qp, Qpn::new(qpn));
    let mut memory = HostMemory::new();
    let region = memory.map(8192).unwrap();
    let backing = Addr { region, offset: 0 };
    let attr = MrAttr { pd, va: VA, len: 4096, access: connection.access, backing };
    let mr = engine.register_mr(&attr, &mut given).unwrap();
    assert_eq!(mr.rkey, connection.rkey);

    let first = Frame::parse([&connection.frames[0].1, &[]], Start::Ethernet).unwrap();
    let rtr = RtrAttr {
        path: Path {
            src: first.dst(),
            dst: first.src(),
            next_hop: NextHop(0),
            src_port: 0xc000,
            ..Path::EMPTY
        },
        path_mtu: PathMtu::Mtu1024,
        dest_qpn: Qpn::new(qpn),
        rq_psn: first.psn(),
        max_dest_rd_atomic: 4,
        min_rnr_timer: RnrTimer::new(12),
    };
    let access = Access::ALL;
    for change in [ModifyQp::Init { pkey: PKey::DEFAULT, access }, ModifyQp::Rtr(rtr)] {
        engine.modify_qp(qp, &change).unwrap();
    }

    let mut ours: VecDeque<Vec<u8>> = VecDeque::new();
    let mut compared = 0;
    for (answer, bytes) in &connection.frames {
        let frame = Frame::parse([bytes, &[]], Start::Ethernet).unwrap();
        if !answer {
            let mut rx =
                Rx { segments: [bytes, &[]], start: Start::Ethernet, icrc_verified: false };
            // rxe's ICRC of a FLUSH is wrong; what it asks for is not.
            if frame.verify_icrc() != IcrcVerdict::Valid {
                assert_eq!(frame.opcode(), Opcode::RC_FLUSH);
                let before = engine.counters().dropped(DropReason::BadIcrc);
                engine.handle_burst(Instant(1), &[rx], &memory);
                assert_eq!(engine.counters().dropped(DropReason::BadIcrc), before + 1);
                rx.icrc_verified = true;
            }
            engine.handle_burst(Instant(1), &[rx], &memory);
            let link = LinkHeader {
                dst: MacAddr([2, 0, 0, 0, 0, 2]),
                src: MacAddr([2, 0, 0, 0, 0, 1]),
                vlans: VlanStack::EMPTY,
            };
            while let Some(transmit) = engine.poll_transmit(Instant(1)) {
                let mut out = vec![0; 4352];
                let len = transmit.emit::<Crc, _>(&engine, &link, &memory, &mut out).unwrap();
                out.truncate(len);
                ours.push_back(out);
            }
            continue;
        }
        let own = ours.pop_front().expect("as many answers as Linux gave");
        let own = Frame::parse([&own, &[]], Start::Ethernet).unwrap();
        assert_eq!(own.verify_icrc(), IcrcVerdict::Valid);
        assert_eq!(own.bth(), frame.bth(), "every field of the BTH");
        let [mine, theirs] = [own, frame].map(|frame| {
            let mut ext = frame.ext_headers();
            let aeth = ext.aeth.take().expect("every answer has an AETH");
            // Linux states no credits; we do.
            let kind = match aeth.syndrome.kind() {
                AethKind::Ack(_) => None,
                kind => Some(kind),
            };
            (kind, aeth.msn, ext, frame.payload_len())
        });
        assert_eq!(mine, theirs, "QP {qpn:#x}, PSN {}", Psn::get(frame.psn()));
        compared += 1;
    }
    assert!(ours.is_empty(), "no more answers than Linux gave");
    let mut written = [0; 8];
    memory.read(Addr { region, offset: 0x40 }, &mut written).unwrap();
    // Where the ATOMIC WRITE went, and the WRITE; the others wrote nothing.
    let expect = match qpn {
        0x11 => *b"ATOMICWR",
        0x12 => [1; 8],
        _ => [0; 8],
    };
    assert_eq!(written, expect, "QP {qpn:#x}");
    compared
}

#[test]
fn flush_and_atomic_write_as_linux_answers_them() {
    let all = Access::ALL;
    let memory_of = |qpn: u32| match qpn {
        // ATOMIC WRITE; WRITE and FLUSH of a range; FLUSH of the whole region.
        0x11 => (0x23b, all),
        0x12 => (0x345, all),
        0x13 => (0x45b, all),
        // Misaligned; a wrong key; without the right.
        0x14 => (0x56a, all),
        0x15 => (0x636, all),
        0x16 => (0x7ff, Access::LOCAL_WRITE | Access::REMOTE_WRITE),
        _ => panic!("another connection: {qpn:#x}"),
    };
    let connections = connections();
    assert_eq!(connections.len(), 6);
    let mut compared = 0;
    for (qpn, frames) in connections {
        let (rkey, access) = memory_of(qpn);
        let connection = Connection { rkey: RKey(rkey), access, frames };
        compared += serve(qpn, &connection);
    }
    assert_eq!(compared, 7);
}
