//! etherparse as the oracle of the layers below the BTH: it reads what we read, and we read what
//! it writes.

#[path = "packets/mod.rs"]
mod packets;

use std::path::PathBuf;

use etherparse::{
    LinkExtSlice, LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId,
};
use packets::{captures, packets};
use roce_codec::ib::{Opcode, Psn, Qpn};
use roce_codec::net::{EtherType, Ip};
use roce_codec::{Frame, ParseError, Start};

/// Compares every field of every layer; says whether the packet is RoCEv2.
fn agree(bytes: &[u8], at: &str) -> bool {
    let theirs = SlicedPacket::from_ethernet(bytes).unwrap_or_else(|error| panic!("{at}: {error}"));
    let udp = match &theirs.transport {
        Some(TransportSlice::Udp(udp)) if udp.destination_port() == 4791 => udp,
        _ => {
            let error = Frame::parse([bytes, &[]], Start::Ethernet).unwrap_err();
            assert!(matches!(error, ParseError::NotRoce { .. }), "{at}: {error}");
            return false;
        }
    };
    let frame = Frame::parse([bytes, &[]], Start::Ethernet).unwrap();

    let ethernet = frame.ethernet().unwrap();
    let Some(LinkSlice::Ethernet2(link)) = &theirs.link else { panic!("{at}: no Ethernet") };
    assert_eq!((ethernet.dst.0, ethernet.src.0), (link.destination(), link.source()), "{at}");
    let tags: Vec<_> = ethernet.vlans.iter().collect();
    assert_eq!(tags.len(), theirs.link_exts.len(), "{at}");
    let mut announced = link.ether_type();
    for (ours, theirs) in tags.iter().zip(&theirs.link_exts) {
        let LinkExtSlice::Vlan(tag) = theirs else { panic!("{at}: not a tag") };
        assert_eq!(ours.tpid.0, announced.0, "{at}");
        assert_eq!(ours.pcp(), tag.priority_code_point().value(), "{at}");
        assert_eq!(ours.dei(), tag.drop_eligible_indicator(), "{at}");
        assert_eq!(ours.vid(), tag.vlan_identifier().value(), "{at}");
        announced = tag.ether_type();
    }
    assert_eq!(ethernet.ethertype.0, announced.0, "{at}");

    match (frame.ip(), &theirs.net) {
        (Ip::V4(ip), Some(NetSlice::Ipv4(theirs))) => {
            let header = theirs.header().to_header();
            assert_eq!(ip.dscp_ecn, header.dscp.value() << 2 | header.ecn.value(), "{at}");
            assert_eq!(ip.total_len, header.total_len, "{at}");
            assert_eq!(ip.identification, header.identification, "{at}");
            let flags = u16::from(header.dont_fragment) << 14
                | u16::from(header.more_fragments) << 13
                | header.fragment_offset.value();
            assert_eq!(ip.flags_fragment, flags, "{at}");
            assert_eq!((ip.ttl, ip.protocol), (header.time_to_live, header.protocol.0), "{at}");
            assert_eq!(ip.checksum, header.header_checksum, "{at}");
            assert_eq!(ip.computed_checksum(), header.calc_header_checksum(), "{at}");
            assert_eq!((ip.src.octets(), ip.dst.octets()), (header.source, header.destination));
        }
        (Ip::V6(ip), Some(NetSlice::Ipv6(theirs))) => {
            let header = theirs.header().to_header();
            assert_eq!(ip.traffic_class, header.traffic_class, "{at}");
            assert_eq!(ip.flow_label, header.flow_label.value(), "{at}");
            assert_eq!(ip.payload_len, header.payload_length, "{at}");
            assert_eq!((ip.next_header, ip.hop_limit), (header.next_header.0, header.hop_limit));
            assert_eq!((ip.src.octets(), ip.dst.octets()), (header.source, header.destination));
        }
        (ours, theirs) => panic!("{at}: {ours:?} but {theirs:?}"),
    }

    let ours = frame.udp();
    assert_eq!((ours.src_port, ours.dst_port), (udp.source_port(), udp.destination_port()), "{at}");
    assert_eq!((ours.length, ours.checksum), (udp.length(), udp.checksum()), "{at}");
    let payload = udp.payload();
    assert_eq!(frame.udp_payload_len(), payload.len(), "{at}");
    assert_eq!(frame.icrc()[..], payload[payload.len() - 4..], "{at}");
    true
}

fn count(paths: &[PathBuf]) -> usize {
    let mut roce = 0;
    for path in paths {
        for (index, packet) in packets(path).iter().enumerate() {
            let at = format!("{} packet {}", path.display(), index + 1);
            roce += usize::from(agree(packet, &at));
        }
    }
    roce
}

#[test]
fn the_outer_layers_of_every_captured_packet() {
    let ours = count(&captures("../tests/captures"));
    assert!(ours > 7000, "{ours} RoCE packets");
    let public = captures("../../shared/public-captures");
    if public.is_empty() {
        println!("passed over: no public captures beside the checkout");
    } else {
        assert!(count(&public) > 100);
    }
}

/// A zero-length SEND's BTH and room for an ICRC, which is another test's matter.
const SEND: [u8; 16] = [4, 0, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5, 0, 0, 0, 0];

fn send_is_found(packet: &[u8], tags: usize) {
    let frame = Frame::parse([packet, &[]], Start::Ethernet).unwrap();
    assert_eq!(frame.opcode(), Opcode::RC_SEND_ONLY);
    assert_eq!((frame.dest_qp(), frame.psn()), (Qpn::new(0x123), Psn::new(5)));
    assert_eq!(frame.payload_len(), 0);
    assert_eq!(frame.ethernet().unwrap().vlans.len(), tags);
    assert!(agree(packet, "built"));
}

#[test]
fn packets_that_etherparse_builds() {
    let vid = |id| VlanId::try_new(id).unwrap();
    let link = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut packet = Vec::new();
    link().ipv4([192, 0, 2, 1], [192, 0, 2, 2], 7).udp(69, 4791).write(&mut packet, &SEND).unwrap();
    send_is_found(&packet, 0);

    packet.clear();
    link()
        .single_vlan(vid(0xabc))
        .ipv6([0x20; 16], [0x30; 16], 7)
        .udp(0, 4791)
        .write(&mut packet, &SEND)
        .unwrap();
    send_is_found(&packet, 1);

    packet.clear();
    link()
        .double_vlan(vid(0x123), vid(0xfff))
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 7)
        .udp(0xffff, 4791)
        .write(&mut packet, &SEND)
        .unwrap();
    send_is_found(&packet, 2);
    let frame = Frame::parse([&packet, &[]], Start::Ethernet).unwrap();
    let outer = frame.ethernet().unwrap().vlans.iter().next().unwrap();
    assert_eq!((outer.tpid, outer.vid()), (EtherType::QINQ, 0x123));

    packet.clear();
    link().ipv4([192, 0, 2, 1], [192, 0, 2, 2], 7).udp(4791, 53).write(&mut packet, &SEND).unwrap();
    assert!(!agree(&packet, "DNS"));
}
