//! The AF_PACKET port on a veth pair.

use std::time::{Duration, Instant};

use roce_dataplane::port::error::PortError;
use roce_dataplane::port::packet::{PacketConfig, PacketPort};
use roce_dataplane::port::{BURST, Port, RxBurst};

use super::frames::{self, Ip};
use super::netns::Netns;
use super::peer::{PATIENCE, Peer, SILENCE};
use super::privilege::run_without;

fn open(ns: &Netns) -> Result<PacketPort, PortError> {
    ns.run(|| PacketPort::open(&PacketConfig::new("ours")))
}

/// A port on one end of a fresh pair and a peer on the other.
fn wire(mtu: usize) -> Option<(Netns, PacketPort, Peer)> {
    let ns = Netns::new()?;
    ns.veth(mtu, 1);
    let port = open(&ns).expect("opens");
    let peer = ns.run(|| Peer::on("peer"));
    Some((ns, port, peer))
}

/// Receives until `count` frames have come or it has been silent for a while.
fn receive(port: &mut PacketPort, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut deadline = Instant::now() + if count == 0 { SILENCE } else { PATIENCE };
    while Instant::now() < deadline && (frames.len() < count || count == 0) {
        let mut burst = RxBurst::new();
        port.wait(10_000_000);
        port.rx_burst(&mut burst);
        for token in burst {
            frames.push(port.frame(&token).concat());
            port.release(token);
            deadline = Instant::now() + PATIENCE;
        }
    }
    frames
}

fn send(port: &mut PacketPort, frame: &[u8]) {
    port.tx_reserve(frame.len())
        .expect("room")
        .copy_from_slice(frame);
    port.tx_commit(frame.len());
}

#[test]
fn frames_come_and_go_unchanged() {
    for mtu in [1500, 4200] {
        let Some((_ns, mut port, peer)) = wire(mtu) else {
            return;
        };
        assert_eq!(port.mtu(), mtu);
        assert_eq!(port.mac().0, frames::OURS);
        let lengths = [
            64, 65, 127, 128, 1098, 1513, 1514, 4095, 4096, 4097, 4170, 4214,
        ];
        for (seed, length) in (1..).zip(lengths.into_iter().filter(|&length| length <= mtu + 14)) {
            for ip in [Ip::V4, Ip::V6] {
                let frame = frames::roce(ip, length, seed);
                peer.send(&frame);
                assert_eq!(
                    receive(&mut port, 1),
                    [frame.as_slice()],
                    "{ip:?} {length} at {mtu}"
                );
                let back = frames::turned(&frame);
                send(&mut port, &back);
                port.tx_flush();
                assert_eq!(
                    peer.receive(PATIENCE),
                    Some(back),
                    "{ip:?} {length} at {mtu}"
                );
            }
        }
    }
}

#[test]
fn bursts_keep_order_and_leak_nothing() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    // Far more frames than the port has slots.
    for round in 0..40 {
        let sent: Vec<_> = (0..50)
            .map(|n| frames::roce(Ip::V4, 200, round * 50 + n + 1))
            .collect();
        for frame in &sent {
            peer.send(frame);
        }
        assert_eq!(receive(&mut port, 50), sent);
        for frame in &sent {
            send(&mut port, &frames::turned(frame));
        }
        port.tx_flush();
        for frame in &sent {
            assert_eq!(peer.receive(PATIENCE), Some(frames::turned(frame)));
        }
    }
    let counters = port.counters();
    assert_eq!((counters.rx_frames, counters.rx_bytes), (2000, 400_000));
    assert_eq!((counters.tx_frames, counters.tx_bytes), (2000, 400_000));
    assert_eq!((counters.rx_missed, counters.rx_oversize), (0, 0));
    assert_eq!((counters.tx_dropped, counters.tx_full), (0, 0));
}

#[test]
fn frames_on_loan_stay_as_they_are() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    let first: Vec<_> = (1..=20)
        .map(|seed| frames::roce(Ip::V4, 300, seed))
        .collect();
    first.iter().for_each(|frame| peer.send(frame));
    let mut held = RxBurst::new();
    let deadline = Instant::now() + PATIENCE;
    while held.len() < 20 && Instant::now() < deadline {
        port.rx_burst(&mut held);
    }
    for seed in 100..500 {
        peer.send(&frames::roce(Ip::V6, 400, seed));
    }
    assert_eq!(receive(&mut port, 400).len(), 400);
    for (token, frame) in held.iter().zip(&first) {
        assert_eq!(port.frame(token).concat(), *frame);
    }
    held.into_iter().for_each(|token| port.release(token));
}

#[test]
fn vlan_tags_are_put_back() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    for tags in [
        &[[0x81, 0x00, 0x60, 0x05]][..],
        &[[0x88, 0xa8, 0x00, 0x07]],
        &[[0x88, 0xa8, 0x20, 0x07], [0x81, 0x00, 0x60, 0x05]],
    ] {
        for ip in [Ip::V4, Ip::V6] {
            let frame = frames::udp(ip, tags, 4791, 300, 9);
            peer.send(&frame);
            assert_eq!(receive(&mut port, 1), [frame.as_slice()], "{tags:02x?}");
            send(&mut port, &frames::turned(&frame));
            port.tx_flush();
            // The peer's kernel takes the outermost tag out and the test does not ask for it.
            let arrived = frames::turned(&frames::udp(ip, &tags[1..], 4791, 296, 9));
            assert_eq!(peer.receive(PATIENCE), Some(arrived), "{tags:02x?}");
        }
    }
}

#[test]
fn other_traffic_and_our_own_stay_out() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    peer.send(&frames::udp(Ip::V4, &[], 4790, 100, 1));
    peer.send(&frames::udp(Ip::V6, &[], 53, 100, 1));
    let mut for_another_host = frames::roce(Ip::V4, 100, 1);
    for_another_host[5] = 0x77;
    peer.send(&for_another_host);
    send(&mut port, &frames::turned(&frames::roce(Ip::V4, 100, 2)));
    port.tx_flush();
    assert!(peer.receive(PATIENCE).is_some(), "our frame went out");
    assert_eq!(receive(&mut port, 0), Vec::<Vec<u8>>::new());
    assert_eq!(port.counters().rx_frames, 0);
}

#[test]
fn the_kernel_does_not_answer_for_us() {
    let Some((ns, port, peer)) = wire(1500) else {
        return;
    };
    ns.ip("address add 10.9.0.1/24 dev ours");
    ns.ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev ours");
    let answered = |peer: &Peer| {
        peer.send(&frames::roce(Ip::V4, 100, 1));
        let deadline = Instant::now() + SILENCE;
        let is_icmp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 1;
        std::iter::from_fn(|| peer.receive_any(deadline)).any(|frame| is_icmp(&frame))
    };
    assert!(
        !answered(&peer),
        "no port unreachable while the port is open"
    );
    drop(port);
    assert!(answered(&peer), "the test would have seen it");
}

#[test]
fn udp_port_4791_taken() {
    let Some((ns, port, _peer)) = wire(1500) else {
        return;
    };
    let second = open(&ns).expect_err("one owner an interface");
    assert!(
        matches!(second, PortError::UdpPortTaken { .. }),
        "{second:?}"
    );
    drop(port);
    let _other = ns
        .run(|| std::net::UdpSocket::bind("0.0.0.0:4791"))
        .expect("free again");
    let error = open(&ns).expect_err("taken");
    assert!(matches!(error, PortError::UdpPortTaken { .. }), "{error:?}");
}

#[test]
fn frames_too_long_are_counted_and_cost_nothing() {
    let Some((_ns, mut port, peer)) = wire(9000) else {
        return;
    };
    for seed in 1..=300 {
        peer.send(&frames::roce(Ip::V4, 4353, seed));
    }
    let longest = frames::roce(Ip::V4, 4352, 1);
    peer.send(&longest);
    assert_eq!(receive(&mut port, 1), [longest]);
    assert_eq!(port.counters().rx_oversize, 300);
    assert!(port.tx_reserve(4353).is_none());
    assert!(port.tx_reserve(4352).is_some());
}

#[test]
fn a_full_ring_is_a_return_value() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    let frame = frames::turned(&frames::roce(Ip::V4, 100, 1));
    let mut queued = 0;
    while let Some(room) = port.tx_reserve(100) {
        room.copy_from_slice(&frame);
        port.tx_commit(100);
        queued += 1;
        assert!(queued <= 1000, "bounded");
    }
    assert!(queued >= BURST, "at least a burst fits");
    assert_eq!(port.counters().tx_full, 1);
    port.tx_flush();
    assert!((0..queued).all(|_| peer.receive(PATIENCE).is_some()));
    assert!(port.tx_reserve(100).is_some());
}

#[test]
fn reservations_that_are_not_committed_cost_nothing() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    for _ in 0..1000 {
        port.tx_reserve(500).expect("still room").fill(0xee);
    }
    port.tx_commit(501);
    port.tx_commit(100);
    port.tx_flush();
    assert_eq!(
        port.counters().tx_frames,
        0,
        "501 was more than reserved and ended it"
    );
    let frame = frames::turned(&frames::roce(Ip::V4, 100, 1));
    port.tx_reserve(200).expect("room")[..100].copy_from_slice(&frame);
    port.tx_commit(100);
    port.tx_commit(100);
    port.tx_flush();
    assert_eq!(peer.receive(PATIENCE), Some(frame));
    assert_eq!(peer.receive(SILENCE), None);
}

#[test]
fn an_interface_that_goes_down_loses_frames_and_no_more() {
    let Some((ns, mut port, peer)) = wire(1500) else {
        return;
    };
    ns.ip("link set ours down");
    for seed in 1..=10 {
        send(&mut port, &frames::turned(&frames::roce(Ip::V4, 100, seed)));
        port.tx_flush();
        assert_eq!(port.rx_burst(&mut RxBurst::new()), 0);
    }
    assert_eq!(port.counters().tx_dropped, 10);
    ns.ip("link set ours up");
    let frame = frames::roce(Ip::V4, 100, 99);
    peer.send(&frame);
    assert_eq!(receive(&mut port, 1), [frame.as_slice()]);
    send(&mut port, &frames::turned(&frame));
    port.tx_flush();
    assert_eq!(peer.receive(PATIENCE), Some(frames::turned(&frame)));
}

#[test]
fn waiting_ends_with_a_frame_or_with_the_time() {
    let Some((_ns, mut port, peer)) = wire(1500) else {
        return;
    };
    let start = Instant::now();
    port.wait(50_000_000);
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_millis(50) && waited < Duration::from_secs(2),
        "{waited:?}"
    );
    peer.send(&frames::roce(Ip::V4, 100, 1));
    let start = Instant::now();
    port.wait(60_000_000_000);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(receive(&mut port, 1).len(), 1);
}

#[test]
fn errors_say_what_is_wrong() {
    let Some(ns) = Netns::new() else { return };
    let error = open(&ns).expect_err("not there");
    assert!(
        matches!(error, PortError::NoSuchInterface { .. }),
        "{error:?}"
    );
    ns.veth(1500, 1);
    ns.ip("link set ours down");
    let error = open(&ns).expect_err("down");
    assert!(
        matches!(error, PortError::InterfaceDown { .. }),
        "{error:?}"
    );
    ns.ip("link set ours up");
    let mut config = PacketConfig::new("ours");
    config.rx_frames = 31;
    let error = ns
        .run(|| PacketPort::open(&config))
        .expect_err("fewer than a burst");
    assert!(matches!(error, PortError::BadConfig { .. }), "{error:?}");
    const CAP_NET_RAW: u32 = 13;
    let error = run_without(&[CAP_NET_RAW], || open(&ns)).expect_err("not permitted");
    assert!(error.to_string().contains("needs CAP_NET_RAW"), "{error}");
    open(&ns).expect("and with it");
}
