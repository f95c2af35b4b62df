//! Taking packets apart, Ethernet to payload, the ICRC left alone.
//!
//! Peers: etherparse, which stops at UDP; smoltcp and pnet_packet, the
//! transport headers read by hand behind their UDP; and all of it by hand for one kind of packet.
//! All but etherparse compute the same sum of what a responder looks at.

use std::hint::black_box;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pnet_packet::Packet as _;
use roce_codec::ib::{Aeth, Msn, Opcode, Syndrome};
use roce_codec::net::{EtherType, Ip, Ipv6, VlanTag};
use roce_codec::{Frame, Start};

use crate::compare::compare_burst;
use crate::packets::{emit, headers, write_only};

/// Packets parsed in turn, so that no branch is learnt from one of them.
const BURST: u32 = 8;

type Parse = fn(&[u8]) -> Option<u64>;

pub(crate) fn run() {
    let packets = burst(write);
    for peer in [by_hand, smoltcp, pnet] {
        assert_eq!(sum(&packets, ours_write), sum(&packets, peer));
    }
    versus("parse-write/etherparse", &packets, ours_write, etherparse);
    versus("parse-write/smoltcp", &packets, ours_write, smoltcp);
    versus("parse-write/pnet_packet", &packets, ours_write, pnet);
    versus("parse-write/by-hand", &packets, ours_write, by_hand);
    versus("parse-ack/etherparse", &burst(acknowledge), ours_ack, etherparse);
    versus("parse-vlan-ipv6/etherparse", &burst(tagged_ipv6), ours_send, etherparse);
}

fn burst(packet: impl Fn(u32) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..BURST).map(packet).collect()
}

fn sum(packets: &[Vec<u8>], parse: Parse) -> u64 {
    packets.iter().map(|packet| parse(packet).unwrap()).sum()
}

fn versus(name: &str, packets: &[Vec<u8>], ours: Parse, peer: Parse) {
    // Both understand them.
    assert!(sum(packets, ours) > 0 && sum(packets, peer) > 0);
    let with = |parse: Parse| {
        move || {
            for packet in black_box(packets) {
                black_box(parse(packet));
            }
        }
    };
    compare_burst(name, BURST, with(ours), with(peer));
}

// ---- The packets -------------------------------------------------------------------------------

fn write(number: u32) -> Vec<u8> {
    emit(write_only(0x11 + number, number, 1024), &[0x5a; 1024])
}

fn acknowledge(number: u32) -> Vec<u8> {
    let mut builder = headers(Opcode::RC_ACKNOWLEDGE, 0x11 + number, number);
    builder.ext.aeth = Some(Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(number) });
    emit(builder, &[])
}

fn tagged_ipv6(number: u32) -> Vec<u8> {
    let mut builder = headers(Opcode::RC_SEND_MIDDLE, 0x11 + number, number);
    builder.ip = Ip::V6(Ipv6::new([0x20; 16].into(), [0x21; 16].into()));
    let ethernet = builder.ethernet.as_mut().unwrap();
    ethernet.ethertype = EtherType::IPV6;
    ethernet.vlans.push(VlanTag { tpid: EtherType::VLAN, tci: 0x6007 });
    emit(builder, &[0x5a; 1024])
}

// ---- Ours --------------------------------------------------------------------------------------

#[inline(never)]
fn ours_write(packet: &[u8]) -> Option<u64> {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).ok()?;
    let reth = frame.reth()?;
    Some(bth(&frame) + reth.va + u64::from(reth.rkey.0) + u64::from(reth.dma_len))
}

#[inline(never)]
fn ours_ack(packet: &[u8]) -> Option<u64> {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).ok()?;
    let aeth = frame.aeth()?;
    Some(bth(&frame) + u64::from(aeth.syndrome.0) + u64::from(aeth.msn.get()))
}

#[inline(never)]
fn ours_send(packet: &[u8]) -> Option<u64> {
    Some(bth(&Frame::parse([packet, &[]], Start::Ethernet).ok()?))
}

#[inline(always)]
fn bth(frame: &Frame<'_>) -> u64 {
    u64::from(frame.dest_qp().get())
        + u64::from(frame.psn().get())
        + u64::from(frame.opcode().0)
        + frame.payload()[0].len() as u64
}

// ---- The peers ---------------------------------------------------------------------------------

#[inline(never)]
fn etherparse(packet: &[u8]) -> Option<u64> {
    let sliced = SlicedPacket::from_ethernet(packet).ok()?;
    let address = match sliced.net? {
        NetSlice::Ipv4(ip) => u32::from_be_bytes(ip.header().source()),
        NetSlice::Ipv6(ip) => ip.header().payload_length().into(),
        _ => return None,
    };
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { return None };
    Some(u64::from(address) + u64::from(udp.destination_port()) + udp.payload().len() as u64)
}

#[inline(never)]
fn smoltcp(packet: &[u8]) -> Option<u64> {
    use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, UdpPacket};
    let ethernet = EthernetFrame::new_checked(packet).ok()?;
    if ethernet.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
    let fragment = ip.more_frags() || ip.frag_offset() != 0;
    if ip.version() != 4 || fragment || ip.next_header() != IpProtocol::Udp {
        return None;
    }
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    if udp.dst_port() != 4791 || usize::from(udp.len()) != ip.payload().len() {
        return None;
    }
    write_by_hand(udp.payload())
}

#[inline(never)]
fn pnet(packet: &[u8]) -> Option<u64> {
    use pnet_packet::ethernet::{EtherTypes, EthernetPacket};
    use pnet_packet::ip::IpNextHeaderProtocols;
    use pnet_packet::{ipv4::Ipv4Packet, udp::UdpPacket};
    let ethernet = EthernetPacket::new(packet)?;
    if ethernet.get_ethertype() != EtherTypes::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new(ethernet.payload())?;
    let fragment = ip.get_flags() & 1 != 0 || ip.get_fragment_offset() != 0;
    if ip.get_version() != 4
        || fragment
        || ip.get_next_level_protocol() != IpNextHeaderProtocols::Udp
    {
        return None;
    }
    let udp = UdpPacket::new(ip.payload())?;
    if udp.get_destination() != 4791 || usize::from(udp.get_length()) != ip.payload().len() {
        return None;
    }
    write_by_hand(udp.payload())
}

/// A WRITE only behind UDP.
#[inline(always)]
fn write_by_hand(packet: &[u8]) -> Option<u64> {
    let (headers, rest) = packet.split_first_chunk::<28>()?;
    let word = |at: usize| u32::from_be_bytes(*headers[at..].first_chunk().unwrap());
    if headers[0] != 0x0a {
        return None;
    }
    let payload_len = rest.len().checked_sub(4 + usize::from(headers[1] >> 4 & 3))?;
    let va = u64::from(word(12)) << 32 | u64::from(word(16));
    Some(
        u64::from(word(4) & 0xff_ffff)
            + u64::from(word(8) & 0xff_ffff)
            + u64::from(headers[0])
            + va
            + u64::from(word(20))
            + u64::from(word(24))
            + rest[..payload_len].len() as u64,
    )
}

/// The same checks as `Frame::parse` makes of a WRITE only over IPv4, and no more generality.
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
