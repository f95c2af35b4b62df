//! What RoCE comes in: every link type and every tunnel, against tshark where it knows them.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use roce_pcap::capture::{InterfaceInfo, LinkType, Packet, PacketRecord, PcapngWriter, Reader};
use roce_pcap::dissect::{Dissected, Fault, Malformed, Outer, dissect, dissect_through};
use roce_pcap::field::{Row, Value, find};
use roce_pcap::filter::Filter;

/// An Ethernet frame of rxe: a compare-and-swap.
fn frame() -> Vec<u8> {
    first_of("rxe-atomic")
}

fn first_of(capture: &str) -> Vec<u8> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    let path = captures.join(format!("{capture}.pcap"));
    let mut reader = Reader::open(path).unwrap();
    reader.next_packet().unwrap().unwrap().data.to_vec()
}

/// The ICRC of RoCE v1 and of InfiniBand is another, so these have no valid one.
fn transport() -> Vec<u8> {
    frame()[42..].to_vec()
}

fn ethernet(protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(protocol.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).unwrap();
    let mut bytes = vec![0x45, 0];
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([next, 64]);
    for last in [1, 2] {
        bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xd0, 0];
    bytes.extend(port.to_be_bytes());
    bytes.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn grh(payload: &[u8]) -> Vec<u8> {
    let mut bytes = ipv6(0x1b, payload);
    bytes[0] = 0x60;
    bytes
}

/// Behind an LRH, with a VCRC.
fn infiniband() -> Vec<u8> {
    let body = transport();
    let words = u16::try_from((8 + body.len()) / 4).unwrap();
    let mut bytes = vec![0, 2, 0, 1];
    bytes.extend(words.to_be_bytes());
    bytes.extend([0, 2]);
    bytes.extend(body);
    bytes.extend([0, 0]);
    bytes
}

fn erf(kind: u8, extensions: &[u8], pad: usize, packet: &[u8]) -> Vec<u8> {
    let record = (16 + extensions.len() + pad + packet.len()).next_multiple_of(8);
    let mut bytes = vec![0; 8];
    bytes.extend([kind, 4]);
    bytes.extend(u16::try_from(record).unwrap().to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(u16::try_from(packet.len()).unwrap().to_be_bytes());
    bytes.extend(extensions);
    bytes.resize(bytes.len() + pad, 0);
    bytes.extend(packet);
    bytes.resize(record, 0);
    bytes
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

struct Case {
    name: &'static str,
    link: LinkType,
    bytes: Vec<u8>,
    /// The tunnels around it, as they are written.
    outer: &'static str,
    /// A protocol that tshark must have seen in it; empty where tshark 4.0 gets it wrong.
    tshark: &'static str,
}

fn links() -> Vec<Case> {
    let frame = frame();
    let ip = &frame[14..];
    let sll = |protocol: u16, payload: &[u8]| {
        let head = [0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        join(&[&head, &protocol.to_be_bytes(), payload])
    };
    let sll2 = |protocol: u16, payload: &[u8]| {
        let tail = [0, 0, 0, 0, 0, 7, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        join(&[&protocol.to_be_bytes(), &tail, payload])
    };
    let tagged = join(&[&frame[..12], &[0x81, 0, 0x60, 5], &frame[12..]]);
    let twice = join(&[&frame[..12], &[0x88, 0xa8, 0, 9, 0x81, 0, 0x60, 5], &frame[12..]]);
    let case = |name, link, bytes, tshark| Case { name, link, bytes, outer: "", tshark };
    vec![
        case("Ethernet", LinkType::ETHERNET, frame.clone(), "eth"),
        case("VLAN", LinkType::ETHERNET, tagged, "vlan"),
        case("QinQ", LinkType::ETHERNET, twice, "vlan"),
        case("RoCE v1", LinkType::ETHERNET, ethernet(0x8915, &grh(&transport())), "infiniband"),
        case("cooked", LinkType::LINUX_SLL, sll(0x0800, ip), "sll"),
        case("cooked RoCE v1", LinkType::LINUX_SLL, sll(0x8915, &grh(&transport())), ""),
        case("cooked v2", LinkType::LINUX_SLL2, sll2(0x0800, ip), "sll"),
        case("raw", LinkType::RAW, ip.to_vec(), "raw"),
        case("raw IPv4", LinkType::IPV4, ip.to_vec(), "ip"),
        case("raw IPv6", LinkType::IPV6, ipv6(17, &ip[20..]), "ipv6"),
        case("loopback", LinkType::NULL, join(&[&[2, 0, 0, 0], ip]), "null"),
        case("OpenBSD loopback", LinkType::LOOP, join(&[&[0, 0, 0, 2], ip]), ""),
        case("InfiniBand", LinkType::INFINIBAND, infiniband(), ""),
        case("ERF InfiniBand", LinkType::ERF, erf(21, &[], 0, &infiniband()), "erf"),
        case(
            "ERF InfiniBand with extensions",
            LinkType::ERF,
            erf(21 | 0x80, &[0x83, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 2], 0, &infiniband()),
            "erf",
        ),
        case("ERF Ethernet", LinkType::ERF, erf(2, &[], 2, &frame), "erf"),
        case("ERF coloured Ethernet", LinkType::ERF, erf(11, &[], 2, &frame), "erf"),
        case("ERF IPv4", LinkType::ERF, erf(22, &[], 0, ip), "erf"),
    ]
}

fn tunnels() -> Vec<Case> {
    let frame = frame();
    let ip = &frame[14..];
    let over_udp = |port, head: &[u8], inner: &[u8]| {
        ethernet(0x0800, &ipv4(17, &udp(port, &join(&[head, inner]))))
    };
    let over_gre = |head: &[u8], inner: &[u8]| ethernet(0x0800, &ipv4(47, &join(&[head, inner])));
    let vxlan = |vni: u8, inner: &[u8]| over_udp(4789, &[8, 0, 0, 0, 0, 0x12, vni, 0], inner);
    let options = [0x01, 0x03, 0x80, 0x02, 1, 2, 3, 4, 5, 6, 7, 8];
    let geneve = join(&[&[3, 0, 0x65, 0x58, 0, 0, 77, 0], &options]);
    let erspan2 = [0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 0x05, 0x18, 0x2a, 0, 0, 0, 3];
    let erspan3 =
        [0x10, 0, 0x22, 0xeb, 0, 0, 0, 9, 0x20, 0x05, 0x00, 0x2b, 0, 0, 0, 1, 0, 0, 0, 0x08];
    let mut platform = erspan3;
    platform[19] |= 1;
    let hop_by_hop = join(&[&[41, 0, 1, 4, 0, 0, 0, 0], &ipv6(17, &ip[20..])]);
    let case =
        |name, outer, bytes, tshark| Case { name, link: LinkType::ETHERNET, bytes, outer, tshark };
    vec![
        case("VXLAN", "VXLAN 4660", vxlan(0x34, &frame), "vxlan"),
        case("VXLAN, port 8472", "VXLAN 5", over_udp(8472, &[8, 0, 0, 0, 0, 0, 5, 0], &frame), ""),
        case(
            "VXLAN over IPv6",
            "VXLAN 7",
            ethernet(0x86dd, &ipv6(17, &udp(4789, &join(&[&[8, 0, 0, 0, 0, 0, 7, 0], &frame])))),
            "vxlan",
        ),
        case("VXLAN-GPE", "VXLAN 6", over_udp(4790, &[0x0c, 0, 0, 1, 0, 0, 6, 0], ip), ""),
        case("GENEVE", "GENEVE 77", over_udp(6081, &geneve, &frame), "geneve"),
        case("GRE", "GRE", over_gre(&[0, 0, 8, 0], ip), "gre"),
        case(
            "GRE with everything",
            "GRE 0x2a",
            over_gre(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 0x2a, 0, 0, 0, 1], ip),
            "gre",
        ),
        case(
            "NVGRE",
            "GRE 0x123400",
            over_gre(&[0x20, 0, 0x65, 0x58, 0, 0x12, 0x34, 0], &frame),
            "gre",
        ),
        case("ERSPAN I", "ERSPAN 0", over_gre(&[0, 0, 0x88, 0xbe], &frame), "erspan"),
        case("ERSPAN II", "ERSPAN 42", over_gre(&erspan2, &frame), "erspan"),
        case("ERSPAN III", "ERSPAN 43", over_gre(&erspan3, &frame), "erspan"),
        case(
            "ERSPAN III, platform",
            "ERSPAN 43",
            over_gre(&platform, &join(&[&[0x0c; 8], &frame])),
            "erspan",
        ),
        case("IP in IP", "IP", ethernet(0x0800, &ipv4(4, ip)), "ip"),
        case("IPv6 in IPv4", "IP", ethernet(0x0800, &ipv4(41, &ipv6(17, &ip[20..]))), "ipv6"),
        case("behind hop by hop", "IP", ethernet(0x86dd, &ipv6(0, &hop_by_hop)), "ipv6"),
        case("Ethernet in IP", "Ethernet", ethernet(0x86dd, &ipv6(143, &frame)), ""),
        case(
            "MPLS",
            "MPLS 16",
            ethernet(0x8847, &join(&[&[0, 1, 0, 64, 0, 2, 1, 64], ip])),
            "mpls",
        ),
        case(
            "MPLS, Ethernet",
            "MPLS 17",
            ethernet(0x8847, &join(&[&[0, 1, 0x11, 64], &frame])),
            "",
        ),
        case(
            "MPLS, control word",
            "MPLS 17",
            ethernet(0x8847, &join(&[&[0, 1, 0x11, 64, 0, 0, 0, 0], &frame])),
            "",
        ),
        case("MPLS over UDP", "MPLS 18", over_udp(6635, &[0, 1, 0x21, 64], ip), "mpls"),
        case(
            "four of them",
            "ERSPAN 42, VXLAN 4661, GRE, IP",
            over_gre(&erspan2, &vxlan(0x35, &over_gre(&[0, 0, 8, 0], &ipv4(4, ip)))),
            "",
        ),
        case(
            "QinQ outside",
            "VXLAN 4662",
            {
                let plain = vxlan(0x36, &frame);
                join(&[&plain[..12], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5], &plain[12..]])
            },
            "vxlan",
        ),
    ]
}

/// PSN, whether the ICRC is right, and the tunnels.
fn seen(case: &Case, data: &[u8]) -> Option<(u32, bool, String)> {
    let packet = Packet::new(case.link, data);
    let (dissected, outer) = dissect_through(&packet);
    match dissected {
        Dissected::Roce(frame) => Some((
            frame.bth().psn.get(),
            frame.verify_icrc() == roce_codec::icrc::IcrcVerdict::Valid,
            outer.to_string(),
        )),
        Dissected::Native(frame) => Some((frame.bth().psn.get(), false, outer.to_string())),
        _ => None,
    }
}

#[test]
fn roce_is_found_behind_every_link_and_tunnel() {
    let plain = frame();
    let psn = seen(&links()[0], &plain).unwrap().0;
    for case in links().into_iter().chain(tunnels()) {
        let found = seen(&case, &case.bytes);
        let (found_psn, valid, outer) = found.unwrap_or_else(|| panic!("{}: nothing", case.name));
        assert_eq!((found_psn, outer.as_str()), (psn, case.outer), "{}", case.name);
        // IPv6 in place of IPv4, and other transports, have another ICRC.
        let kept = case.bytes.windows(plain.len() - 14).any(|window| window == &plain[14..]);
        assert_eq!(valid, kept, "{}: ICRC", case.name);
    }
}

/// What `--where` and `--fields` know of tunnels is what the tunnels say of themselves.
#[test]
fn tunnels_have_fields() {
    let names = [
        ("VXLAN ", "vxlan.vni"),
        ("GENEVE ", "geneve.vni"),
        ("GRE ", "gre.key"),
        ("ERSPAN ", "erspan.spanid"),
        ("MPLS ", "mpls.label"),
    ];
    let mut seen = [0; 5];
    for case in links().into_iter().chain(tunnels()) {
        let packet = Packet::new(case.link, &case.bytes);
        let row = Row::new(&packet, dissect(&packet));
        let expected: Vec<&str> = case.outer.split(", ").filter(|text| !text.is_empty()).collect();
        for ((prefix, name), seen) in names.into_iter().zip(&mut seen) {
            let expected = expected.iter().filter_map(|text| text.strip_prefix(prefix));
            let mut values = Vec::new();
            find(name).unwrap().values(&row, &mut |value| match value {
                Value::Number(value) => values.push(value.to_string()),
                Value::Key(value, 8) => values.push(format!("{value:#x}")),
                other => panic!("{name}: {other:?}"),
            });
            assert!(expected.eq(values.iter().map(String::as_str)), "{}: {name}", case.name);
            *seen += values.len();
        }
        let is_inside = Filter::parse("tunnels").unwrap().matches(&row);
        assert_eq!(is_inside, !case.outer.is_empty(), "{}", case.name);
    }
    assert!(seen.iter().all(|seen| *seen > 0), "{seen:?}");
    let packet = tunnels().remove(0);
    let packet = Packet::new(packet.link, &packet.bytes);
    let row = Row::new(&packet, dissect(&packet));
    for (text, holds) in
        [("vxlan.vni == 0x1234", true), ("vxlan.vni == 7", false), ("gre.key", false)]
    {
        assert_eq!(Filter::parse(text).unwrap().matches(&row), holds, "{text}");
    }
}

/// tshark reads the same packets: each gives the PSN, and shows that what was built is what it
/// is called.
#[test]
fn tshark_agrees() {
    let cases: Vec<Case> = links().into_iter().chain(tunnels()).collect();
    let path = std::env::temp_dir().join(format!("roce-pcap-layers-{}", std::process::id()));
    let mut writer = PcapngWriter::new(File::create(&path).unwrap()).unwrap();
    for case in &cases {
        let info = InterfaceInfo { link: case.link, ..InterfaceInfo::ETHERNET };
        let interface = writer.add_interface(&info).unwrap();
        writer.write(&PacketRecord { interface, ..PacketRecord::new(1, &case.bytes) }).unwrap();
    }
    drop(writer.into_inner().unwrap());
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-e", "frame.protocols"]);
    tshark.args(["-e", "infiniband.bth.psn"]);
    let output = tshark.output();
    std::fs::remove_file(&path).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) => return println!("passed over: tshark does not run here: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), cases.len());
    let psn = seen(&cases[0], &cases[0].bytes).unwrap().0.to_string();
    let mut differ = Vec::new();
    for (line, case) in text.lines().zip(&cases) {
        if case.tshark.is_empty() {
            continue;
        }
        let (protocols, their_psn) = line.split_once('\t').unwrap();
        if !protocols.split(':').any(|it| it == case.tshark) || their_psn != psn {
            differ.push(format!("{}: {line}", case.name));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

/// A capture may end anywhere: nothing panics, nothing else is found, and what is found is whole
/// up to the cut.
#[test]
fn every_cut_of_every_layer() {
    for case in links().into_iter().chain(tunnels()) {
        let whole = seen(&case, &case.bytes).unwrap();
        for len in 0..case.bytes.len() {
            if let Some((psn, _, outer)) = seen(&case, &case.bytes[..len]) {
                assert_eq!((psn, &outer), (whole.0, &whole.2), "{} cut to {len}", case.name);
            }
        }
    }
}

#[test]
fn five_tunnels_are_too_many() {
    let mut bytes = frame()[14..].to_vec();
    for depth in 0..7 {
        let packet = Packet::new(LinkType::RAW, &bytes);
        let (dissected, outer) = dissect_through(&packet);
        assert_eq!(matches!(dissected, Dissected::Roce(_)), depth <= Outer::MOST, "{depth}");
        assert_eq!(outer.tunnels().count(), if depth <= Outer::MOST { depth } else { 0 });
        bytes = ipv4(4, &bytes);
    }
}

#[test]
fn what_is_broken_in_a_tunnel_is_malformed() {
    let mut inner = frame();
    // The UDP length.
    inner[39] += 1;
    let bytes =
        ethernet(0x0800, &ipv4(17, &udp(4789, &join(&[&[8, 0, 0, 0, 0, 0, 5, 0], &inner]))));
    let (dissected, outer) = dissect_through(&Packet::new(LinkType::ETHERNET, &bytes));
    assert!(matches!(dissected, Dissected::Malformed(Malformed { fault: Fault::IpUdpLength, .. })));
    assert_eq!(outer.to_string(), "VXLAN 5");
}

/// An FCS is no part of the packet: without it a packet one byte short would seem whole.
#[test]
fn the_fcs_is_not_read() {
    let mut bytes = first_of("rxe-write");
    let whole = bytes.len();
    bytes.truncate(whole - 4);
    bytes.extend([0xde, 0xad, 0xbe, 0xef]);
    let missing = |fcs_len, data: &[u8]| {
        let packet = Packet {
            fcs_len,
            orig_len: u32::try_from(whole).unwrap(),
            ..Packet::new(LinkType::ETHERNET, data)
        };
        match dissect(&packet) {
            Dissected::Roce(frame) => frame.missing(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((missing(0, &bytes), missing(4, &bytes)), (0, 4));
    assert_eq!(missing(4, &bytes[..whole - 10]), 10, "the capture cut it and took the FCS away");
}
