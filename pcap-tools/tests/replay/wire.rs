//! Out of a port, to a responder with numbers of its own at the other end.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use roce_codec::Start;
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RKey, RnrTimer, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{MacAddr, VlanStack};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::capture::{CapturePort, Direction};
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{
    Access, Addr, Config, Engine, HeapStorage, Limits, ModifyQp, MrAttr, NextHop, Path, QpInit,
    RecvWr, RtrAttr, SeededEntropy, Sge,
};
use roce_pcap::capture::{LinkType, Packet};
use roce_pcap::check::Checker;
use roce_pcap::replay::{Freedom, Replay, Report, SendOptions, Speed, Target};

use crate::support::{Owned, freedom, load, record};

const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Where the target's memory lies.
const VA: u64 = 0x4000_0000;
/// The target's peer, and the PSN that it expects first.
const PEER: u32 = 0x99;
const FIRST_PSN: u32 = 0x10;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// What a capture is of: the captured queue pair, key, address and path MTU.
struct Captured {
    name: &'static str,
    rkey: u32,
    va: u64,
    mtu: PathMtu,
    receives: u64,
}

/// Everything that passed, and what the target's memory held at the end.
struct Passed {
    report: Report,
    frames: Vec<Owned>,
    memory: Vec<u8>,
    took: Duration,
}

/// Replays the first connection of a capture to a responder over a wire in memory. `lose` names
/// requests that the wire loses, by how many have been sent before.
fn pass(captured: &Captured, speed: Speed, lose: &[usize]) -> Passed {
    let limits = Limits { qps: 1, recv_wqes: 64, mrs: 4, cqs: 1, cqes: 128, ..Limits::SMALL };
    let mut storage = HeapStorage::new(&limits);
    let mut engine = Engine::new(Config::DEFAULT, storage.lend());
    let mut entropy = SeededEntropy::new(7);
    let pd = engine.alloc_pd();
    let cq = engine.create_cq(128).unwrap();
    let init = QpInit { max_recv_wr: 64, ..QpInit::new(Service::Rc, pd, cq, cq) };
    let qpn = engine.create_qp(&init, &mut entropy).unwrap();
    let mut memory = HostMemory::new();
    let region = memory.map(1 << 17).unwrap();
    let backing = Addr { region, offset: 0 };
    let attr = MrAttr { pd, va: VA, len: 1 << 17, access: Access::ALL, backing };
    let mr = engine.register_mr(&attr, &mut entropy).unwrap();
    let path = Path {
        src: address("192.0.2.7"),
        dst: address("192.0.2.1"),
        next_hop: NextHop(0),
        src_port: 0xc000,
        ..Path::EMPTY
    };
    let rtr = RtrAttr {
        path,
        path_mtu: captured.mtu,
        dest_qpn: Qpn::new(PEER),
        rq_psn: Psn::new(FIRST_PSN),
        max_dest_rd_atomic: 16,
        min_rnr_timer: RnrTimer::new(12),
    };
    let access = Access::ALL;
    for change in [ModifyQp::Init { pkey: PKey::DEFAULT, access }, ModifyQp::Rtr(rtr)] {
        engine.modify_qp(qpn, &change).unwrap();
    }
    for wr_id in 0..captured.receives {
        let sge = Sge { va: VA, len: 8192, lkey: mr.lkey };
        engine.post_recv(qpn, &RecvWr::new(wr_id, &[sge])).unwrap();
    }

    let target = Target {
        addresses: [
            (address("10.77.1.3"), address("192.0.2.1")),
            (address("10.77.1.2"), address("192.0.2.7")),
        ]
        .into(),
        qpns: [(0x11, qpn.get())].into(),
        peer_qpns: [(0x11, PEER)].into(),
        first_psns: [(0x11, FIRST_PSN)].into(),
        rkeys: [(captured.rkey, mr.rkey.0)].into(),
        vas: [(captured.va, VA)].into(),
    };
    let mut options = SendOptions::new(target);
    options.speed = speed;
    options.timeout = Duration::from_millis(300);

    // The first connection alone.
    let mut packets = load(captured.name);
    packets.retain(|packet| packet.frame().dest_qp() == Qpn::new(0x11));
    let replay = Replay::new(record(&packets), None);
    let mut wire = Box::new(LoopbackWire::<64>::new());
    let [here, mut there] = wire.ends([HERE, THERE]);
    let mut frames = Vec::new();
    let begun = Instant::now();
    let mut port = CapturePort::new(here, |_: Direction, segments: [&[u8]; 2]| {
        let data = segments.concat();
        frames.push(Owned {
            timestamp_ns: Some(u64::try_from(begun.elapsed().as_nanos()).unwrap()),
            link: LinkType::ETHERNET,
            orig_len: u32::try_from(data.len()).unwrap(),
            data,
        });
    });
    let mut number = 0;
    let report = replay.send(
        &mut port,
        |hop| (hop == address("192.0.2.7")).then_some((THERE, VlanStack::EMPTY)),
        |_, _| {
            // What is to be lost is taken off the wire before the target sees it.
            let mut tokens = roce_dataplane::port::RxBurst::new();
            if lose.contains(&number) {
                there.rx_burst(&mut tokens);
            }
            for token in tokens {
                there.release(token);
            }
            number += 1;
            let now = u64::try_from(begun.elapsed().as_nanos()).unwrap();
            let now = roce_engine::Instant(now);
            let _ = turn(&mut engine, &mut there, &memory, &OneNeighbour(HERE), now);
        },
        &options,
    );
    let took = begun.elapsed();
    drop(port);
    let mut held = vec![0; 1 << 17];
    memory.read(backing, &mut held).unwrap();
    assert_eq!(mr.rkey, RKey(mr.rkey.0));
    Passed { report: report.unwrap(), frames, memory: held, took }
}

const WRITE: Captured = Captured {
    name: "rxe-write",
    rkey: 0x27d,
    va: 0x55e5_8cc8_4000,
    mtu: PathMtu::Mtu1024,
    receives: 0,
};

#[test]
fn writes_arrive_under_other_numbers() {
    let passed = pass(&WRITE, Speed::Max, &[]);
    let total = passed.report.total();
    assert_eq!((total.given, total.compared, total.mismatches), (48, 16, 0));
    let wire = passed.report.wire.unwrap();
    assert_eq!((wire.sent, wire.foreign, wire.timeouts, wire.damaged), (48, 0, 0, 0));
    let requests = passed.frames.iter().filter(|frame| !frame.is_answer());
    for (at, request) in requests.enumerate() {
        let frame = request.frame();
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
        assert_eq!((frame.src(), frame.dst()), (address("192.0.2.1"), address("192.0.2.7")));
        assert_eq!(frame.psn(), Psn::new(FIRST_PSN + u32::try_from(at).unwrap()));
        assert!(frame.reth().is_none_or(|reth| reth.va == VA));
        let ethernet = frame.ethernet().unwrap();
        assert_eq!((ethernet.src, ethernet.dst), (HERE, THERE));
        let roce_codec::net::Ip::V4(ip) = frame.ip() else { panic!("IPv4") };
        assert_eq!(ip.checksum, ip.computed_checksum());
    }
    // The last message's bytes are in the target's memory.
    let packets = load("rxe-write");
    let last: Vec<u8> = packets
        .iter()
        .filter(|packet| !packet.is_answer())
        .flat_map(|packet| packet.frame().payload().concat())
        .collect();
    assert_eq!(passed.memory[..3000], last[last.len() - 3000..]);
    // Another judge: the checker of captures.
    let mut checker = Checker::new();
    for frame in &passed.frames {
        checker.packet(&Packet::new(frame.link, &frame.data));
    }
    checker.finish();
    // The target acknowledges several at once where they came in one burst.
    let coalesced = freedom(&passed.report, Freedom::Coalescing);
    assert_eq!((checker.summary().fail, checker.summary().icrc_valid), (0, 64 - coalesced));
}

#[test]
fn reads_sends_and_atomics_are_answered_over_the_wire() {
    let read = Captured { name: "rxe-read", rkey: 0x262, va: 0, ..WRITE };
    let send = Captured { name: "rxe-send", receives: 16, ..WRITE };
    let atomic = Captured { name: "rxe-atomic", rkey: 0x22b, va: 0x556b_c49f_3000, ..WRITE };
    for (captured, compared) in [(read, 48), (send, 16), (atomic, 8)] {
        let mut captured = captured;
        if captured.va == 0 {
            // What the READs name is learned from the capture.
            let plan = Replay::new(record(&load(captured.name)), None).plan();
            let (_, rkey, region) = plan.regions[0];
            (captured.rkey, captured.va) = (rkey.0, region.va);
        }
        let passed = pass(&captured, Speed::Max, &[]);
        let total = passed.report.total();
        assert_eq!((total.compared, total.mismatches), (compared, 0), "{}", captured.name);
        // The target's memory is its own: zeroes, where the captured one had noise.
        let stores = freedom(&passed.report, Freedom::OwnerStore);
        let expected = if captured.receives > 0 { 0 } else { compared };
        assert_eq!(stores, expected, "{}", captured.name);
    }
}

/// The time between requests is that of the capture, so many times as fast.
#[test]
fn time_is_kept() {
    // Far more than a frame takes over the pair, and far less than lies between two requests.
    const TO_THE_TAP_NS: u64 = 1_000_000;
    let atomic = Captured { name: "rxe-atomic", rkey: 0x22b, va: 0x556b_c49f_3000, ..WRITE };
    // 14.2 ms from the first request to the last, at a fifth of the speed.
    let passed = pass(&atomic, Speed::Times(0.2), &[]);
    assert_eq!(passed.report.total().mismatches, 0);
    assert!(passed.took >= Duration::from_micros(71_000), "{:?}", passed.took);
    let sent: Vec<u64> = passed
        .frames
        .iter()
        .filter(|frame| !frame.is_answer())
        .map(|frame| frame.timestamp_ns.unwrap())
        .collect();
    let captured: Vec<u64> = load("rxe-atomic")
        .iter()
        .filter(|packet| !packet.is_answer() && packet.frame().dest_qp() == Qpn::new(0x11))
        .map(|packet| packet.timestamp_ns.unwrap())
        .collect();
    let latest = passed.report.wire.unwrap().latest_ns;
    for (at, captured_at) in captured.iter().enumerate() {
        let due = (captured_at - captured[0]) * 5;
        let since = sent[at] - sent[0];
        // Never early but for how late the first one was sent, and then came to the tap.
        assert!(since + latest + TO_THE_TAP_NS >= due, "request {at}: {since} of {due} ns");
    }
}

/// A request that does not arrive is found by what the target answers, or does not.
#[test]
fn what_the_wire_loses_is_a_mismatch() {
    let passed = pass(&WRITE, Speed::Max, &[0]);
    let total = passed.report.total();
    assert!(total.mismatches > 0);
    assert!(
        passed
            .frames
            .iter()
            .all(|frame| { roce_codec::Frame::parse([&frame.data, &[]], Start::Ethernet).is_ok() })
    );
}

/// Never a cut packet, nor what comes behind it.
#[test]
fn a_cut_request_is_not_sent() {
    let mut packets = load("rxe-write");
    packets[4].data.truncate(100);
    let replay = Replay::new(record(&packets), None);
    let mut wire = Box::new(LoopbackWire::<64>::new());
    let [mut here, mut there] = wire.ends([HERE, THERE]);
    let mut options = SendOptions::new(Target::default());
    options.speed = Speed::Times(1e6);
    options.timeout = Duration::from_millis(20);
    let link = |_| Some((THERE, VlanStack::EMPTY));
    let report = replay.send(&mut here, link, |_, _| {}, &options).unwrap();
    assert_eq!((report.wire.unwrap().sent, report.total().cut), (3, 1));
    let mut tokens = roce_dataplane::port::RxBurst::new();
    assert_eq!(there.rx_burst(&mut tokens), 3);
    for token in tokens {
        let bytes = there.frame(&token).concat();
        there.release(token);
        let frame = roce_codec::Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    }
}

/// Silence is no way of acknowledging several requests at once.
#[test]
fn a_silent_target_is_all_mismatches() {
    let replay = Replay::new(record(&load("rxe-write")), None);
    let mut wire = Box::new(LoopbackWire::<64>::new());
    let [mut here, _there] = wire.ends([HERE, THERE]);
    let mut options = SendOptions::new(Target::default());
    options.speed = Speed::Max;
    options.timeout = Duration::from_millis(20);
    let link = |_| Some((THERE, VlanStack::EMPTY));
    let report = replay.send(&mut here, link, |_, _| {}, &options).unwrap();
    assert_eq!((report.wire.unwrap().sent, report.wire.unwrap().timeouts), (48, 1));
    assert_eq!((report.total().compared, report.total().mismatches), (16, 16));
}

#[test]
fn what_cannot_be_sent_is_said() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [mut port, _] = wire.ends([HERE, THERE]);
    let replay = Replay::new(record(&load("rxe-write")), None);
    let mut say = |replay: &Replay, options: &SendOptions, reachable: bool| {
        let link = |_| reachable.then_some((THERE, VlanStack::EMPTY));
        replay.send(&mut port, link, |_, _| {}, options).unwrap_err().to_string()
    };
    let mut options = SendOptions::new(Target::default());
    assert!(say(&replay, &options, false).contains("no neighbour found for 10.77.1.2"));
    options.target.addresses = [(address("10.77.1.2"), address("2001:db8::1"))].into();
    assert!(say(&replay, &options, true).contains("one family"));
    options.from = Some(address("10.77.1.9"));
    assert!(say(&replay, &options, true).contains("no requests of that host"));
    assert!(say(&Replay::new(record(&[]), None), &options, true).contains("no requests"));
}
