//! Every field of every captured packet.

use std::net::IpAddr;
use std::path::Path;

use roce_codec::ib::{AethKind, HeaderKind};
use roce_codec::net::{EtherType, Ip, MacAddr};
use roce_codec::{Frame, ParseError, Start};

use crate::opcodes::in_wireshark;
use crate::packets::{ETHERNET, captures, packets, write_pcap};
use crate::{number, tshark};

/// A field as both can write it.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Mac(MacAddr),
    Ip(IpAddr),
    Bytes(Vec<u8>),
}

impl Value {
    /// What tshark printed, in the form of `like`.
    fn read(text: &str, like: &Self) -> Self {
        match like {
            Self::Number(_) => Self::Number(number(text)),
            Self::Mac(_) => {
                let mut octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
                Self::Mac(MacAddr([(); 6].map(|()| octets.next().unwrap().unwrap())))
            }
            Self::Ip(_) => Self::Ip(text.parse().unwrap()),
            Self::Bytes(_) => {
                let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
                Self::Bytes((0..text.len()).step_by(2).map(byte).collect())
            }
        }
    }
}

type Fields = Vec<(&'static str, Option<Value>)>;

fn n(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

fn some(value: impl Into<u64>) -> Option<Value> {
    Some(n(value))
}

/// The layers below the BTH; fields of an absent layer are `None`.
fn outer(frame: &Frame<'_>) -> Fields {
    let ethernet = frame.ethernet().unwrap();
    let udp = frame.udp();
    let mut fields = vec![
        ("eth.dst", Some(Value::Mac(ethernet.dst))),
        ("eth.src", Some(Value::Mac(ethernet.src))),
        ("udp.srcport", some(udp.src_port)),
        ("udp.dstport", some(udp.dst_port)),
        ("udp.length", some(udp.length)),
        ("udp.checksum", some(udp.checksum)),
    ];
    // Of several tags tshark prints the outer one first, and that is the one compared.
    let tag = ethernet.vlans.iter().next();
    let ieee_802_1ad = tag.is_some_and(|tag| tag.tpid == EtherType::QINQ);
    let in_tag = |wanted: bool, value: u64| (wanted == ieee_802_1ad).then(|| n(value));
    let of_tag = |wanted, field: fn(_) -> u64| tag.and_then(|tag| in_tag(wanted, field(tag)));
    fields.extend([
        ("vlan.priority", of_tag(false, |tag| tag.pcp().into())),
        ("vlan.dei", of_tag(false, |tag| tag.dei().into())),
        ("vlan.id", of_tag(false, |tag| tag.vid().into())),
    ]);
    let (v4, v6) = match frame.ip() {
        Ip::V4(ip) => (Some(ip), None),
        Ip::V6(ip) => (None, Some(ip)),
    };
    fields.extend([
        ("ip.version", some(if v4.is_some() { 4_u8 } else { 6 })),
        ("ip.hdr_len", v4.and(some(20_u8))),
        ("ip.dsfield.dscp", v4.map(|ip| n(ip.dscp_ecn >> 2))),
        ("ip.dsfield.ecn", v4.map(|ip| n(ip.dscp_ecn & 3))),
        ("ip.len", v4.map(|ip| n(ip.total_len))),
        ("ip.id", v4.map(|ip| n(ip.identification))),
        ("ip.flags.df", v4.map(|ip| n(ip.flags_fragment >> 14 & 1))),
        ("ip.flags.mf", v4.map(|ip| n(ip.flags_fragment >> 13 & 1))),
        ("ip.frag_offset", v4.map(|ip| n(ip.flags_fragment & 0x1fff))),
        ("ip.ttl", v4.map(|ip| n(ip.ttl))),
        ("ip.proto", v4.map(|ip| n(ip.protocol))),
        ("ip.checksum", v4.map(|ip| n(ip.checksum))),
        ("ip.src", v4.map(|ip| Value::Ip(ip.src.into()))),
        ("ip.dst", v4.map(|ip| Value::Ip(ip.dst.into()))),
        ("ipv6.tclass.dscp", v6.map(|ip| n(ip.traffic_class >> 2))),
        ("ipv6.tclass.ecn", v6.map(|ip| n(ip.traffic_class & 3))),
        ("ipv6.flow", v6.map(|ip| n(ip.flow_label))),
        ("ipv6.plen", v6.map(|ip| n(ip.payload_len))),
        ("ipv6.nxt", v6.map(|ip| n(ip.next_header))),
        ("ipv6.hlim", v6.map(|ip| n(ip.hop_limit))),
        ("ipv6.src", v6.map(|ip| Value::Ip(ip.src.into()))),
        ("ipv6.dst", v6.map(|ip| Value::Ip(ip.dst.into()))),
    ]);
    fields
}

/// The BTH, which tshark reads whatever the opcode.
fn bth(frame: &Frame<'_>) -> Fields {
    let bth = frame.bth();
    vec![
        ("infiniband.bth.opcode", some(bth.opcode.0)),
        ("infiniband.bth.se", some(bth.solicited)),
        ("infiniband.bth.m", some(bth.mig_req)),
        ("infiniband.bth.padcnt", some(bth.pad_count)),
        ("infiniband.bth.tver", some(bth.version)),
        ("infiniband.bth.p_key", some(bth.pkey.0)),
        ("infiniband.bth.destqp", some(bth.dest_qp.get())),
        ("infiniband.bth.a", some(bth.ack_req)),
        ("infiniband.bth.reserved7", some(bth.resv7)),
        ("infiniband.bth.psn", some(bth.psn.get())),
    ]
}

/// What follows the BTH.
fn behind(frame: &Frame<'_>) -> Fields {
    let (reth, atomic, aeth, deth) = (frame.reth(), frame.atomic_eth(), frame.aeth(), frame.deth());
    let syndrome = aeth.map(|aeth| aeth.syndrome);
    let kind = syndrome.map(roce_codec::ib::Syndrome::kind);
    let value = |wanted: bool| syndrome.filter(|_| wanted).map(|it| n(it.0 & 0x1f));
    vec![
        ("infiniband.deth.q_key", deth.map(|deth| n(deth.qkey.0))),
        ("infiniband.deth.srcqp", deth.map(|deth| n(deth.src_qp.get()))),
        ("infiniband.reth.va", reth.map(|it| it.va).or(atomic.map(|it| it.va)).map(n)),
        (
            "infiniband.reth.r_key",
            reth.map(|it| it.rkey).or(atomic.map(|it| it.rkey)).map(|key| n(key.0)),
        ),
        ("infiniband.reth.dmalen", reth.map(|reth| n(reth.dma_len))),
        ("infiniband.atomiceth.swapdt", atomic.map(|atomic| n(atomic.swap_add))),
        ("infiniband.atomiceth.cmpdt", atomic.map(|atomic| n(atomic.compare))),
        ("infiniband.aeth.syndrome", syndrome.map(|syndrome| n(syndrome.0))),
        ("infiniband.aeth.syndrome.opcode", syndrome.map(|syndrome| n(syndrome.0 >> 5 & 3))),
        ("infiniband.aeth.syndrome.credit_count", value(matches!(kind, Some(AethKind::Ack(_))))),
        ("infiniband.aeth.syndrome.timer", value(matches!(kind, Some(AethKind::RnrNak(_))))),
        ("infiniband.aeth.syndrome.error_code", value(matches!(kind, Some(AethKind::Nak(_))))),
        ("infiniband.aeth.msn", aeth.map(|aeth| n(aeth.msn.get()))),
        ("infiniband.atomicacketh.origremdt", frame.atomic_ack_eth().map(|ack| n(ack.original))),
        ("infiniband.immdt", frame.imm_dt().map(|imm| Value::Bytes(imm.0.to_be_bytes().to_vec()))),
        ("infiniband.ieth", frame.ext(HeaderKind::Ieth).map(|key| Value::Bytes(key.to_vec()))),
        ("infiniband.invariant.crc", some(u32::from_be_bytes(frame.icrc()))),
    ]
}

/// Compares all packets of a capture; says how many were RoCE and how many fields agreed, or
/// nothing where there is no tshark.
fn agree(path: &Path, packets: &[Vec<u8>]) -> Option<(usize, usize)> {
    // Any packet's fields will do to learn their names.
    let sample =
        packets.iter().find_map(|bytes| Frame::parse([bytes, &[]], Start::Ethernet).ok())?;
    let names = [outer(&sample), bth(&sample), behind(&sample)].concat();
    let names: Vec<&str> = names.iter().map(|field| field.0).collect();
    let rows = tshark(path, &names)?;
    assert_eq!(rows.len(), packets.len(), "{}", path.display());
    let (mut roce, mut agreed) = (0, 0);
    for (index, (bytes, row)) in packets.iter().zip(&rows).enumerate() {
        let at = format!("{} packet {}", path.display(), index + 1);
        let frame = match Frame::parse([bytes, &[]], Start::Ethernet) {
            Ok(frame) => frame,
            Err(ParseError::NotRoce { .. }) => {
                assert_eq!(row["infiniband.bth.opcode"], "", "{at}");
                continue;
            }
            Err(error) => panic!("{at}: {error}"),
        };
        roce += 1;
        let mut fields = outer(&frame);
        // TFTP's port: Wireshark looks at it first.
        if frame.udp().src_port == 69 {
            assert_eq!(row["infiniband.bth.opcode"], "", "{at}: mended since");
        } else {
            fields.extend(bth(&frame));
            if in_wireshark(frame.opcode()) {
                fields.extend(behind(&frame));
            }
        }
        for (name, ours) in fields {
            let text = row[name].split(',').next().filter(|text| !text.is_empty());
            let theirs = match (text, &ours) {
                (None, _) => None,
                (Some(text), Some(ours)) => Some(Value::read(text, ours)),
                (Some(text), None) => panic!("{at}: {name} is {text}, ours is absent"),
            };
            assert_eq!(theirs, ours, "{at}: {name}");
            agreed += usize::from(ours.is_some());
        }
    }
    Some((roce, agreed))
}

fn agree_on(folder: &str) -> Option<(usize, usize)> {
    let mut sum = (0, 0);
    for path in captures(folder) {
        let (roce, agreed) = agree(&path, &packets(&path))?;
        sum = (sum.0 + roce, sum.1 + agreed);
    }
    println!("{folder}: {} RoCE packets, {} fields agree", sum.0, sum.1);
    Some(sum)
}

#[test]
fn wireshark_reads_our_captures_as_we_do() {
    match agree_on("../tests/captures") {
        None => println!("passed over: no tshark here"),
        Some((roce, agreed)) => assert!(roce > 6000 && agreed > 30 * roce, "{roce} {agreed}"),
    }
}

#[test]
fn wireshark_reads_public_captures_as_we_do() {
    let folder = "../../shared/public-captures";
    if captures(folder).is_empty() {
        println!("passed over: no public captures beside the checkout");
        return;
    }
    match agree_on(folder) {
        None => println!("passed over: no tshark here"),
        Some((roce, agreed)) => assert!(roce > 100 && agreed > 30 * roce, "{roce} {agreed}"),
    }
}

/// What no capture has: tags, traffic classes, reserved bits.
#[test]
fn wireshark_reads_tagged_packets_as_we_do() {
    let paths = captures("../tests/captures");
    let mut tagged = Vec::new();
    for (index, bytes) in paths.iter().flat_map(|path| packets(path)).enumerate().step_by(97) {
        if Frame::parse([&bytes, &[]], Start::Ethernet).is_err() {
            continue;
        }
        let tci = u16::try_from(index & 0xffff).unwrap().to_be_bytes();
        let mut packet = bytes[..12].to_vec();
        packet.extend([0x81, 0x00, tci[0], tci[1]]);
        packet.extend(&bytes[12..]);
        // The traffic class and BTH byte 4 may change on the way.
        if packet[16..18] == [0x08, 0x00] {
            packet[19] = tci[1];
        }
        tagged.push(packet);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tagged.pcap");
    write_pcap(&path, ETHERNET, &tagged);
    match agree(&path, &tagged) {
        None => println!("passed over: no tshark here"),
        Some((roce, _)) => assert!(roce > 50, "{roce}"),
    }
}
