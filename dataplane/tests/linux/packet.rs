//! The AF_PACKET port on a veth pair.

use std::time::Instant;

use roce_dataplane::port::Port;
use roce_dataplane::port::error::PortError;
use roce_dataplane::port::packet::{PacketConfig, PacketPort};

use super::frames::{self, Ip};
use super::netns::Netns;
use super::peer::{PATIENCE, Peer, SILENCE};
use super::privilege::run_without;
use super::wire::{Wire, assert_same, soon};

fn open(ns: &Netns) -> Result<PacketPort, PortError> {
    ns.run(|| PacketPort::open(&PacketConfig::new("ours")))
}

/// A port on one end of a fresh pair and a peer on the other.
fn wire(mtu: usize) -> Option<Wire<PacketPort>> {
    let ns = Netns::new()?;
    ns.veth(mtu, 1);
    let port = open(&ns).expect("opens");
    let peer = ns.run(|| Peer::on("peer"));
    Some(Wire { port, peer, ns })
}

#[test]
fn frames_come_and_go_unchanged() {
    for mtu in [1500, 4200] {
        let Some(mut wire) = wire(mtu) else { return };
        assert_eq!(wire.port.mtu(), mtu);
        assert_eq!(wire.port.mac().0, frames::OURS);
        let lengths = [64, 65, 127, 128, 1098, 1513, 1514, 4095, 4096, 4097, 4170, 4214];
        wire.carries(lengths.into_iter().filter(|&length| length <= mtu + 14));
    }
}

#[test]
fn bursts_keep_order_and_leak_nothing() {
    let Some(mut wire) = wire(1500) else { return };
    wire.keeps_order_and_leaks_nothing(40, 200);
}

#[test]
fn frames_on_loan_stay_as_they_are() {
    let Some(mut wire) = wire(1500) else { return };
    wire.lends(300);
}

#[test]
fn vlan_tags_are_put_back() {
    let Some(mut wire) = wire(1500) else { return };
    for tags in [
        &[[0x81, 0x00, 0x60, 0x05]][..],
        &[[0x88, 0xa8, 0x00, 0x07]],
        &[[0x88, 0xa8, 0x20, 0x07], [0x81, 0x00, 0x60, 0x05]],
    ] {
        for ip in [Ip::V4, Ip::V6] {
            let frame = frames::udp(ip, tags, 4791, 300, 9);
            wire.peer.send(&frame);
            assert_same(&wire.receive(1), &[frame.as_slice()], &format!("{tags:02x?}"));
            wire.send(&frames::turned(&frame));
            // The peer's kernel takes the outermost tag out and the test does not ask for it.
            let arrived = frames::turned(&frames::udp(ip, &tags[1..], 4791, 296, 9));
            assert_same(
                wire.peer.receive(PATIENCE).as_slice(),
                &[arrived],
                &format!("{tags:02x?}"),
            );
        }
    }
}

#[test]
fn other_traffic_and_our_own_stay_out() {
    let Some(mut wire) = wire(1500) else { return };
    let mut for_another_host = frames::roce(Ip::V4, 100, 1);
    for_another_host[5] = 0x77;
    wire.peer.send(&for_another_host);
    wire.takes_only_roce();
}

#[test]
fn the_kernel_does_not_answer_for_us() {
    let Some(Wire { port, peer, ns }) = wire(1500) else { return };
    ns.ip("address add 10.9.0.1/24 dev ours");
    ns.ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev ours");
    let answered = |peer: &Peer| {
        peer.send(&frames::roce(Ip::V4, 100, 1));
        let deadline = Instant::now() + SILENCE;
        let is_icmp = |frame: &Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 1;
        std::iter::from_fn(|| peer.receive_any(deadline)).any(|frame| is_icmp(&frame))
    };
    assert!(!answered(&peer), "no port unreachable while the port is open");
    drop(port);
    assert!(answered(&peer), "the test would have seen it");
}

#[test]
fn udp_port_4791_taken() {
    let Some(Wire { port, ns, .. }) = wire(1500) else { return };
    let second = open(&ns).expect_err("one owner an interface");
    assert!(matches!(second, PortError::UdpPortTaken { .. }), "{second:?}");
    drop(port);
    let other = soon(|| ns.run(|| std::net::UdpSocket::bind("0.0.0.0:4791")));
    let _other = other.expect("free again");
    let error = open(&ns).expect_err("taken");
    assert!(matches!(error, PortError::UdpPortTaken { .. }), "{error:?}");
}

#[test]
fn frames_too_long_are_counted_and_cost_nothing() {
    let Some(mut wire) = wire(9000) else { return };
    for seed in 1..=300 {
        wire.peer.send(&frames::roce(Ip::V4, 4353, seed));
    }
    let longest = frames::roce(Ip::V4, 4352, 1);
    wire.peer.send(&longest);
    assert_same(&wire.receive(1), &[longest], "one");
    assert_eq!(wire.port.counters().rx_oversize, 300);
}

#[test]
fn a_full_ring_is_a_return_value() {
    let Some(mut wire) = wire(1500) else { return };
    wire.says_when_it_is_full();
}

#[test]
fn reservations_that_are_not_committed_cost_nothing() {
    let Some(mut wire) = wire(1500) else { return };
    wire.reserves_for_free();
}

#[test]
fn an_interface_that_goes_down_loses_frames_and_no_more() {
    let Some(mut wire) = wire(1500) else { return };
    wire.outlives_an_interface_that_is_down();
    assert_eq!(wire.port.counters().tx_dropped, 10);
}

#[test]
fn waiting_ends_with_a_frame_or_with_the_time() {
    let Some(mut wire) = wire(1500) else { return };
    wire.waits();
}

#[test]
fn errors_say_what_is_wrong() {
    let Some(ns) = Netns::new() else { return };
    let error = open(&ns).expect_err("not there");
    assert!(matches!(error, PortError::NoSuchInterface { .. }), "{error:?}");
    ns.veth(1500, 1);
    ns.ip("link set ours down");
    let error = open(&ns).expect_err("down");
    assert!(matches!(error, PortError::InterfaceDown { .. }), "{error:?}");
    ns.up(&["ours"]);
    let mut config = PacketConfig::new("ours");
    config.rx_frames = 31;
    let error = ns.run(|| PacketPort::open(&config)).expect_err("fewer than a burst");
    assert!(matches!(error, PortError::BadConfig { .. }), "{error:?}");
    const CAP_NET_RAW: u32 = 13;
    let error = run_without(&[CAP_NET_RAW], || open(&ns)).expect_err("not permitted");
    assert!(error.to_string().contains("needs CAP_NET_RAW"), "{error}");
    open(&ns).expect("and with it");
}
