//! Taking an RC WRITE only apart, Ethernet to payload, the ICRC left alone: against etherparse,
//! which stops at UDP, and against offsets written by hand.
//!
//! `cargo bench -p roce-codec`. Each line is `ratio NAME ours=<ns> peer=<ns> x=<ratio>`, above 1
//! where ours is better: medians over interleaved rounds in one process, a burst of packets in
//! the first-level cache. All three compute the same sum of what a responder looks at, or
//! etherparse of what it has.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use roce_codec::ib::{Bth, ExtHeaders, Opcode, Psn, Qpn, RKey, Reth};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, Udp, VlanStack};
use roce_codec::{Crc, Frame, FrameBuilder, Start};

/// Packets parsed in turn, so that no branch is learnt from one of them.
const BURST: u32 = 8;
/// Rounds of each side, ours and the peer's in turn.
const ROUNDS: usize = 101;
const BURSTS_A_ROUND: u32 = 2000;

fn main() {
    // What `cargo test --benches` passes: then only that it runs matters.
    let rounds = if std::env::args().any(|arg| arg == "--test") { 1 } else { ROUNDS };
    for payload in [64, 1024] {
        let packets: Vec<Vec<u8>> = (0..BURST).map(|number| write_only(number, payload)).collect();
        let expected: u64 = packets.iter().map(|packet| by_hand(packet).unwrap()).sum();
        assert_eq!(packets.iter().map(|packet| ours(packet).unwrap()).sum::<u64>(), expected);
        compare(&format!("parse-write/{payload}/etherparse"), rounds, &packets, ours, outer);
        compare(&format!("parse-write/{payload}/by-hand"), rounds, &packets, ours, by_hand);
    }
}

fn write_only(number: u32, payload_len: usize) -> Vec<u8> {
    let mut builder = FrameBuilder {
        ethernet: Some(Ethernet {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
            ethertype: EtherType::IPV4,
        }),
        ip: Ip::V4(Ipv4 {
            dscp_ecn: 2,
            total_len: 0,
            identification: 0,
            flags_fragment: Ipv4::DONT_FRAGMENT,
            ttl: 64,
            protocol: 17,
            checksum: 0,
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(192, 0, 2, 2),
        }),
        udp: Udp { src_port: 0xc000, dst_port: 4791, length: 0, checksum: 0 },
        bth: Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(0x11 + number), Psn::new(number)),
        ext: ExtHeaders {
            reth: Some(Reth { va: 0x10_0000, rkey: RKey(0x1234 + number), dma_len: 64 }),
            ..ExtHeaders::NONE
        },
        pad: [0; 3],
    };
    builder.set_payload_len(payload_len).unwrap();
    let mut out = vec![0; 2048];
    let len = builder.emit::<Crc>([&vec![0x5a; payload_len], b""], &mut out).unwrap();
    out.truncate(len);
    out
}

#[inline(never)]
fn ours(packet: &[u8]) -> Option<u64> {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).ok()?;
    let reth = frame.reth()?;
    Some(
        u64::from(frame.dest_qp().get())
            + u64::from(frame.psn().get())
            + u64::from(frame.opcode().0)
            + reth.va
            + u64::from(reth.rkey.0)
            + u64::from(reth.dma_len)
            + frame.payload()[0].len() as u64,
    )
}

#[inline(never)]
fn outer(packet: &[u8]) -> Option<u64> {
    let sliced = SlicedPacket::from_ethernet(packet).ok()?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (sliced.net, sliced.transport)
    else {
        return None;
    };
    Some(
        u64::from(u32::from_be_bytes(ip.header().source()))
            + u64::from(udp.destination_port())
            + udp.payload().len() as u64,
    )
}

/// The same checks as `Frame::parse` makes of such a packet, and no more generality.
#[inline(never)]
fn by_hand(packet: &[u8]) -> Option<u64> {
    let byte = |at: usize| packet.get(at).copied();
    let word = |at: usize| Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    if half(12)? != 0x0800 || byte(14)? != 0x45 || byte(23)? != 17 || half(20)? & 0x3fff != 0 {
        return None;
    }
    let total = usize::from(half(16)?);
    if half(36)? != 4791 || usize::from(half(38)?) + 20 != total || packet.len() < 14 + total {
        return None;
    }
    let opcode = byte(42)?;
    if opcode != 0x0a {
        return None;
    }
    let pad = usize::from(byte(43)? >> 4 & 3);
    let payload_len = total.checked_sub(20 + 8 + 12 + 16 + 4 + pad)?;
    let payload = packet.get(70..70 + payload_len)?;
    let va = u64::from(word(54)?) << 32 | u64::from(word(58)?);
    Some(
        u64::from(word(46)? & 0xff_ffff)
            + u64::from(word(50)? & 0xff_ffff)
            + u64::from(opcode)
            + va
            + u64::from(word(62)?)
            + u64::from(word(66)?)
            + payload.len() as u64,
    )
}

type Parse = fn(&[u8]) -> Option<u64>;

/// Times both in turn and prints the line.
fn compare(name: &str, rounds: usize, packets: &[Vec<u8>], ours: Parse, peer: Parse) {
    let mut times = [vec![], vec![]];
    for _ in 0..rounds {
        times[0].push(time(packets, ours));
        times[1].push(time(packets, peer));
    }
    let [ours, peer] = times.map(median);
    println!("ratio {name} ours={ours:.2} peer={peer:.2} x={:.2}", peer / ours);
}

/// Nanoseconds a packet.
fn time(packets: &[Vec<u8>], parse: Parse) -> f64 {
    let start = Instant::now();
    for _ in 0..BURSTS_A_ROUND {
        for packet in packets {
            black_box(parse(black_box(packet)));
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(BURSTS_A_ROUND * BURST)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
