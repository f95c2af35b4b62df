//! The AF_XDP port, native and generic, on veth and on tap.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use roce_dataplane::port::af_xdp::{AfXdpConfig, AfXdpPort, AttachMode, CopyMode};
use roce_dataplane::port::error::PortError;
use roce_dataplane::port::{Chunk, Port, RxBurst, RxMeta, RxToken};

use super::frames::{self, Ip};
use super::netns::Netns;
use super::peer::{PATIENCE, Peer, SILENCE};
use super::privilege::run_without;
use super::wire::{Wire, assert_same, soon};

/// Where the port runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Veth,
    Tap,
}

/// Each interface with each mode it can have; tap takes a program natively as well.
const EVERYWHERE: [(On, AttachMode); 4] = [
    (On::Veth, AttachMode::Native),
    (On::Veth, AttachMode::Generic),
    (On::Tap, AttachMode::Native),
    (On::Tap, AttachMode::Generic),
];

fn config(attach: AttachMode) -> AfXdpConfig {
    let mut config = AfXdpConfig::new("ours");
    // Few, so that tests go round all of them.
    config.rx_chunks = 128;
    config.tx_frames = 64;
    config.attach = attach;
    config
}

fn open(ns: &Netns, config: &AfXdpConfig) -> Result<AfXdpPort, PortError> {
    ns.run(|| AfXdpPort::open(config))
}

fn wire_with(on: On, mtu: usize, config: &AfXdpConfig) -> Option<Wire<AfXdpPort>> {
    let ns = Netns::new()?;
    let tap = match on {
        On::Veth => {
            ns.veth(mtu, 1);
            None
        }
        On::Tap => {
            let tap = ns.run(|| Peer::tap("ours"));
            ns.ip(&format!("link set ours address 02:00:00:00:00:01 mtu {mtu}"));
            ns.up(&["ours"]);
            Some(tap)
        }
    };
    let port = open(&ns, config).unwrap_or_else(|error| panic!("{on:?}: {error}"));
    let peer = tap.unwrap_or_else(|| ns.run(|| Peer::on("peer")));
    Some(Wire { port, peer, ns })
}

fn wire(on: On, attach: AttachMode, mtu: usize) -> Option<Wire<AfXdpPort>> {
    wire_with(on, mtu, &config(attach))
}

fn assert_detached(ns: &Netns) {
    let shown = soon(|| match ns.ip("link show ours") {
        attached if attached.contains("xdp") => Err(attached),
        detached => Ok(detached),
    });
    assert!(shown.is_ok(), "a program is left: {shown:?}");
}

/// All that `ip` and `ethtool` say of the pair's settings.
fn settings(ns: &Netns) -> String {
    ns.ip("-details link show ours")
        + &ns.ip("-details link show peer")
        + &ns.command("ethtool", "-k ours")
        + &ns.command("ethtool", "-k peer")
        + &ns.command("ethtool", "-l ours")
}

#[test]
fn frames_come_and_go_unchanged() {
    for (on, attach) in EVERYWHERE {
        for mtu in [1500, 4200] {
            println!("{on:?} {attach:?} {mtu}");
            let Some(mut wire) = wire(on, attach, mtu) else { return };
            println!("{}", wire.port.describe());
            assert_eq!(wire.port.mtu(), mtu);
            assert_eq!(wire.port.mac().0, frames::OURS);
            let lengths = [
                64, 65, 127, 128, 1098, 1513, 1514, 3839, 3840, 3841, 4095, 4096, 4097, 4170, 4214,
            ];
            wire.carries(lengths.into_iter().filter(|&length| length <= mtu + 14));
            assert_eq!(wire.port.invalid_descriptors(), 0);
        }
    }
}

#[test]
fn the_best_mode_is_chosen_and_told() {
    let Some(wire) = wire(On::Veth, AttachMode::Auto, 4200) else { return };
    let chosen = wire.port.describe();
    assert!(chosen.native && chosen.native_refused.is_none());
    assert_eq!(
        chosen.to_string(),
        "ours: XDP native, queue 0 copy multi-buffer, sending on queue 0"
    );
    let Wire { port, ns, .. } = wire;
    drop(port);
    // The loopback driver takes no program.
    ns.ip("link set lo up");
    let mut config = config(AttachMode::Native);
    config.interface = "lo".to_owned();
    let error = open(&ns, &config).expect_err("insisted on");
    assert!(matches!(error, PortError::Os { errno: libc::EOPNOTSUPP, .. }), "{error:?}");
    config.attach = AttachMode::Auto;
    let port = open(&ns, &config).expect("generic works anywhere");
    assert!(!port.describe().native);
    assert_eq!(port.describe().native_refused, Some(libc::EOPNOTSUPP));
}

#[test]
fn zero_copy_insisted_on_where_there_is_none() {
    let Some(ns) = Netns::new() else { return };
    ns.veth(1500, 1);
    let mut config = config(AttachMode::Auto);
    config.copy = CopyMode::ZeroCopy;
    let error = open(&ns, &config).expect_err("veth cannot");
    assert!(matches!(error, PortError::Os { errno: libc::EOPNOTSUPP, .. }), "{error:?}");
    assert_detached(&ns);
    config.copy = CopyMode::Copy;
    open(&ns, &config).expect("copy can");
}

#[test]
fn bursts_keep_order_and_leak_nothing() {
    for (on, attach) in EVERYWHERE {
        for (mtu, length) in [(1500, 200), (4200, 4170)] {
            println!("{on:?} {attach:?} {length}");
            let Some(mut wire) = wire(on, attach, mtu) else { return };
            // 1,000 frames of one or two chunks through 128 receive chunks and 64 frames.
            wire.keeps_order_and_leaks_nothing(20, length);
            assert_eq!(wire.port.invalid_descriptors(), 0);
        }
    }
}

#[test]
fn frames_on_loan_stay_as_they_are() {
    for (on, attach) in EVERYWHERE {
        let Some(mut wire) = wire(on, attach, 4200) else { return };
        wire.lends(4170);
    }
}

#[test]
fn other_traffic_goes_to_the_kernel() {
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let Some(mut wire) = wire(On::Veth, attach, 1500) else { return };
        wire.takes_only_roce();
        wire.ns.ip("address add 10.9.0.1/24 dev ours");
        wire.ns.ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev ours");
        let kernel = wire.ns.run(|| std::net::UdpSocket::bind("10.9.0.1:4790")).expect("free");
        kernel.set_read_timeout(Some(PATIENCE)).expect("set");
        let frame = frames::udp(Ip::V4, &[], 4790, 100, 1);
        wire.peer.send(&frame);
        let mut got = [0; 200];
        let length = kernel.recv(&mut got).expect("the kernel's socket gets it");
        assert_eq!(got[..length], frame[42..]);
        // And RoCEv2 does not reach the kernel, which would answer "port unreachable".
        wire.peer.send(&frames::roce(Ip::V4, 100, 1));
        assert_eq!(wire.receive(1).len(), 1);
        let deadline = Instant::now() + SILENCE;
        while let Some(frame) = wire.peer.receive_any(deadline) {
            assert!(frame[12..14] != [8, 0] || frame[23] != 1, "ICMP: {frame:02x?}");
        }
    }
}

#[test]
fn only_what_is_for_our_addresses() {
    let mut config = config(AttachMode::Auto);
    config.addresses = vec![[10, 9, 0, 77].into(), "fd09::1".parse().expect("an address")];
    let Some(mut wire) = wire_with(On::Veth, 1500, &config) else { return };
    wire.peer.send(&frames::roce(Ip::V4, 100, 1));
    wire.receive_nothing();
    let frame = frames::roce(Ip::V6, 100, 1);
    wire.peer.send(&frame);
    assert_same(&wire.receive(1), &[frame], "one");
}

#[test]
fn vlan_tags_stay() {
    let Some(mut wire) = wire(On::Veth, AttachMode::Native, 1500) else { return };
    for tags in
        [&[[0x81, 0x00, 0x60, 0x05]][..], &[[0x88, 0xa8, 0x20, 0x07], [0x81, 0x00, 0x60, 0x05]]]
    {
        let frame = frames::udp(Ip::V4, tags, 4791, 300, 9);
        wire.peer.send(&frame);
        assert_same(&wire.receive(1), &[frame.as_slice()], &format!("{tags:02x?}"));
    }
}

#[test]
fn frames_too_long_are_counted_and_cost_nothing() {
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let Some(mut wire) = wire(On::Veth, attach, 9000) else { return };
        for round in 0..10 {
            for (seed, length) in (1..).zip([4353, 7680, 7681, 9000, 9014]) {
                wire.peer.send(&frames::roce(Ip::V4, length, seed));
            }
            let longest = frames::roce(Ip::V4, 4352, round + 1);
            wire.peer.send(&longest);
            assert_same(&wire.receive(1), &[longest], &format!("round {round}, {attach:?}"));
        }
        let counters = wire.port.counters();
        assert_eq!((counters.rx_oversize, counters.rx_missed), (50, 0), "{attach:?}");
        assert_eq!(wire.port.invalid_descriptors(), 0);
    }
}

#[test]
fn frames_that_find_no_chunk_are_counted() {
    let Some(mut wire) = wire(On::Veth, AttachMode::Native, 1500) else { return };
    for seed in 1..=200 {
        wire.peer.send(&frames::roce(Ip::V4, 100, seed));
    }
    let got = wire.receive(128);
    assert_eq!(got.len(), 128, "as many as there are chunks");
    wire.receive_nothing();
    assert_eq!(wire.port.counters().rx_missed, 72);
    wire.peer.send(&frames::roce(Ip::V4, 100, 1));
    assert_eq!(wire.receive(1).len(), 1, "and it goes on");
}

#[test]
fn a_full_ring_is_a_return_value() {
    for (on, attach) in EVERYWHERE {
        let Some(mut wire) = wire(on, attach, 4400) else { return };
        wire.says_when_it_is_full();
    }
}

#[test]
fn reservations_that_are_not_committed_cost_nothing() {
    let Some(mut wire) = wire(On::Veth, AttachMode::Auto, 1500) else { return };
    wire.reserves_for_free();
}

#[test]
fn an_interface_that_goes_down_and_up_again() {
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let Some(mut wire) = wire(On::Veth, attach, 1500) else { return };
        wire.outlives_an_interface_that_is_down();
    }
}

#[test]
fn waiting_ends_with_a_frame_or_with_the_time() {
    for (on, attach) in EVERYWHERE {
        let Some(mut wire) = wire(on, attach, 1500) else { return };
        wire.waits();
    }
}

#[test]
fn tokens_of_ones_own_making_show_and_free_nothing() {
    let Some(mut wire) = wire(On::Veth, AttachMode::Auto, 1500) else { return };
    for addr in [0, 1, 4096, 127 * 4096, 128 * 4096, 1 << 40, u64::MAX] {
        for len in [1, 64, 4096, 4097, u32::MAX] {
            let token = || RxToken { chunks: [Chunk { addr, len }; 2], meta: RxMeta::default() };
            assert_eq!(wire.port.frame(&token()), [&[][..], &[]]);
            wire.port.release(token());
        }
    }
    let frame = frames::roce(Ip::V4, 100, 1);
    wire.peer.send(&frame);
    let mut burst = RxBurst::new();
    let deadline = Instant::now() + PATIENCE;
    while burst.is_empty() && Instant::now() < deadline {
        wire.port.rx_burst(&mut burst);
    }
    let token = burst.pop().expect("a frame");
    let twin = RxToken { chunks: token.chunks, meta: token.meta };
    wire.port.release(token);
    assert_eq!(wire.port.frame(&twin), [&[][..], &[]], "no longer on loan");
    wire.port.release(twin);
    wire.keeps_order_after(1);
}

impl Wire<AfXdpPort> {
    /// As `keeps_order_and_leaks_nothing`, one way, after `before` frames.
    fn keeps_order_after(&mut self, before: u64) {
        for seed in 1..=300 {
            let frame = frames::roce(Ip::V4, 100, seed);
            self.peer.send(&frame);
            assert_same(&self.receive(1), &[frame], "one");
        }
        assert_eq!(self.port.counters().rx_frames, before + 300);
    }
}

/// A namespace with two queues on each side of the pair.
fn two_queues() -> Option<Netns> {
    let ns = Netns::new()?;
    ns.veth(4200, 2);
    Some(ns)
}

/// Sends 64 flows, which the peer's kernel spreads over its queues; how many came on each.
fn queues_hit(wire: &mut Wire<AfXdpPort>) -> [usize; 2] {
    let mut hit = [0, 0];
    for seed in 1..=64 {
        wire.peer.send(&frames::roce(Ip::V4, 4170, seed));
    }
    let deadline = Instant::now() + SILENCE;
    while Instant::now() < deadline {
        let mut burst = RxBurst::new();
        wire.port.rx_burst(&mut burst);
        for token in burst {
            hit[usize::from(token.meta.queue)] += 1;
            wire.port.release(token);
        }
    }
    hit
}

#[test]
fn one_socket_a_queue() {
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let Some(ns) = two_queues() else { return };
        let port = open(&ns, &config(attach)).expect("opens");
        assert_eq!(port.describe().queues.len(), 2);
        let peer = ns.run(|| Peer::on("peer"));
        let mut wire = Wire { port, peer, ns };
        let hit = queues_hit(&mut wire);
        assert_eq!(hit[0] + hit[1], 64, "{attach:?}");
        // Without a native program veth does not tell the queue, and the stack takes the first.
        let both = hit[0] > 0 && hit[1] > 0;
        assert_eq!(both, attach == AttachMode::Native, "{attach:?}: {hit:?}");
        // Both ways on, whichever queue they are from.
        wire.keeps_order_after(64);
        let back = frames::turned(&frames::roce(Ip::V4, 4170, 7));
        wire.send(&back);
        assert_same(wire.peer.receive(PATIENCE).as_slice(), &[back], "back");
    }
}

#[test]
fn what_comes_on_another_queue_goes_to_the_kernel() {
    let Some(ns) = two_queues() else { return };
    let mut config = config(AttachMode::Native);
    config.queues = Some(vec![1]);
    let port = open(&ns, &config).expect("opens");
    let described = port.describe();
    assert_eq!((described.tx_queue, described.queues.len()), (1, 1));
    let peer = ns.run(|| Peer::on("peer"));
    let mut wire = Wire { port, peer, ns };
    let hit = queues_hit(&mut wire);
    assert!(hit[0] == 0 && hit[1] > 0 && hit[1] < 64, "{hit:?}");
    // The other queue is free for another owner, but not the program's place.
    config.queues = Some(vec![0]);
    let error = open(&wire.ns, &config).expect_err("one program an interface");
    assert!(matches!(error, PortError::ProgramAttached { .. }), "{error:?}");
}

#[test]
fn reopened_at_once_many_times() {
    let Some(ns) = Netns::new() else { return };
    ns.veth(1500, 1);
    for round in 0..20 {
        // The kernel takes the last port's UMEM down in the background: its queue may be busy.
        let port = soon(|| match open(&ns, &config(AttachMode::Auto)) {
            Err(error @ PortError::ProgramAttached { .. }) => Err(error),
            other => Ok(other),
        });
        let port = port.and_then(|opened| opened);
        drop(port.unwrap_or_else(|error| panic!("round {round}: {error}")));
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let Some(ns) = Netns::new() else { return };
    let config = config(AttachMode::Auto);
    let error = open(&ns, &config).expect_err("not there");
    assert!(matches!(error, PortError::NoSuchInterface { .. }), "{error:?}");
    ns.veth(1500, 1);
    let mut no_queue = config.clone();
    no_queue.queues = Some(vec![0, 3]);
    let error = open(&ns, &no_queue).expect_err("one queue only");
    assert!(matches!(error, PortError::NoSuchQueue { queue: 3, queues: 1, .. }), "{error:?}");
    let mut odd = config.clone();
    odd.rx_chunks = 100;
    let error = open(&ns, &odd).expect_err("no power of two");
    assert!(matches!(error, PortError::BadConfig { .. }), "{error:?}");
    ns.ip("link set ours down");
    let error = open(&ns, &config).expect_err("down");
    assert!(matches!(error, PortError::InterfaceDown { .. }), "{error:?}");
}

#[test]
fn a_program_that_is_there_already_is_named() {
    let Some(ns) = Netns::new() else { return };
    ns.veth(1500, 1);
    for first in [AttachMode::Native, AttachMode::Generic] {
        let port = soon(|| open(&ns, &config(first))).expect("opens");
        for second in [AttachMode::Auto, AttachMode::Native, AttachMode::Generic] {
            let error = open(&ns, &config(second)).expect_err("taken");
            let PortError::ProgramAttached { id, name: Some(name), .. } = error else {
                panic!("{first:?} {second:?}: {error:?}");
            };
            assert!(id > 0 && name.to_string() == "roce_steer", "{error}");
            assert!(ns.ip("-details link show ours").contains(&format!("id {id} ")), "{error}");
        }
        drop(port);
    }
}

#[test]
fn missing_capabilities_are_named() {
    // linux/capability.h
    let [net_admin, net_raw, sys_admin, bpf] = [12, 13, 21, 39];
    let Some(ns) = Netns::new() else { return };
    ns.veth(1500, 1);
    let config = config(AttachMode::Auto);
    for (without, named) in [
        (&[net_raw][..], "CAP_NET_RAW"),
        (&[bpf, sys_admin], "CAP_BPF"),
        (&[net_admin, sys_admin], "CAP_NET_ADMIN"),
        (&[net_admin, bpf, sys_admin, net_raw], "CAP_NET_ADMIN, CAP_BPF"),
    ] {
        let error = ns.run(|| run_without(without, || AfXdpPort::open(&config)));
        let error = error.expect_err("not permitted");
        assert!(error.to_string().contains(&format!("needs {named}:")), "{without:?}: {error}");
        assert_detached(&ns);
    }
}

#[test]
fn frame_memory_beyond_the_limit() {
    const CAP_IPC_LOCK: u32 = 14;
    let Some(ns) = Netns::new() else { return };
    ns.veth(1500, 1);
    let mut config = config(AttachMode::Auto);
    config.rx_chunks = 65_536;
    // SAFETY: integers, for which all zeroes is a value.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is live.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_cur.min(8 << 20);
    // The limit is the process's, but the other tests have the capability to exceed it.
    // SAFETY: the structure is live.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
    let error = ns.run(|| run_without(&[CAP_IPC_LOCK], || AfXdpPort::open(&config)));
    let error = error.expect_err("256 MiB are too much");
    assert!(matches!(error, PortError::LockedMemory { .. }), "{error:?}");
    assert!(error.to_string().contains("cannot lock 262656 KiB"), "{error}");
    assert_detached(&ns);
}

/// Set for the child of [`killed_it_leaves_the_interface_as_it_was`].
const CHILD: &str = "ROCE_DATAPLANE_TEST_HOLD_PORT";

/// Not a test: the child that is killed.
#[test]
fn child_that_holds_the_port() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let port = AfXdpPort::open(&config(AttachMode::Auto)).expect("opens");
    println!("\nopen: {}", port.describe());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn killed_it_leaves_the_interface_as_it_was() {
    use std::io::BufRead;

    let Some(ns) = Netns::new() else { return };
    ns.veth(4200, 2);
    let before = settings(&ns);
    assert!(!before.contains("xdp/id"), "{before}");
    let mut child = ns.run(|| {
        Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "af_xdp::child_that_holds_the_port", "--nocapture"])
            .env(CHILD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts")
    });
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let opened = output.lines().map_while(Result::ok).any(|line| line.starts_with("open: "));
    assert!(opened, "the child opens the port");
    assert!(ns.ip("link show ours").contains("xdp"), "a program is attached");
    // SIGKILL.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // At once: the kernel has closed what the child had when `wait` returns.
    assert_eq!(settings(&ns), before);
    // And its queues are free.
    drop(open(&ns, &config(AttachMode::Auto)).expect("opens"));
    assert_detached(&ns);
    assert_eq!(settings(&ns), before);
}
