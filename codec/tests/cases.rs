//! Ways in which implementations have been wrong in the field, one test each, under the numbers of
//! the collection of such reports (those of responders and tools are tested there; 5, 33 and 72 in
//! `vectors.rs` and where RoCE v1 and the connection manager are). The packets are ours; their ICRCs were computed by zlib from the rule in [`roce_codec::icrc`], not by us.

use roce_codec::ib::{
    Aeth, AethKind, Answer, Bth, Credits, HeaderKind, NakCode, Opcode, OpcodeClass, PKey, PathMtu,
    Psn, QKey, Qpn, Service, Syndrome,
};
use roce_codec::icrc::{Icrc, IcrcVerdict, NotCheckable};
use roce_codec::net::{Ecn, EtherType, Ethernet, Ip, Ipv4, MacAddr, VlanStack};
use roce_codec::{Crc, Crc32, Frame, FrameBuilder, Layer, ParseError, Start};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn parse(bytes: &[u8]) -> Frame<'_> {
    Frame::parse([bytes, &[]], Start::Ip).unwrap()
}

/// SEND only of two bytes, so two pad bytes.
const SEND_2: &str = "45020030 12344000 40110000 c0000201 c0000202 c00112b7 001c0000 \
    0420ffff 00000123 80000005 cafe 0000";

/// An IP packet without its ICRC, IP and UDP lengths set for it, the ICRC right.
fn sealed(text: &str) -> Vec<u8> {
    let mut bytes = hex(text);
    let len = u16::try_from(bytes.len() + 4).unwrap();
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[24..26].copy_from_slice(&(len - 20).to_be_bytes());
    let mut icrc: Icrc = Icrc::ipv4(bytes.first_chunk().unwrap());
    icrc.update(&bytes[40..]);
    bytes.extend(icrc.finish());
    bytes
}

/// Case 1.
#[test]
fn the_icrc_covers_the_pad_bytes() {
    let bytes = hex("45020030 12344000 4011a483 c0000201 c0000202 c00112b7 001c0000 \
        0420ffff 00000123 80000005 cafe0000 5ccebf46");
    let frame = parse(&bytes);
    assert_eq!((frame.payload()[0], &*frame.pad()), (&b"\xca\xfe"[..], &b"\0\0"[..]));
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);

    // What a sender that leaves the pad out would write.
    let mut without = bytes.clone();
    without[44..].copy_from_slice(&hex("cf2565c3"));
    let expected = [0x5c, 0xce, 0xbf, 0x46];
    let found = [0xcf, 0x25, 0x65, 0xc3];
    assert_eq!(parse(&without).verify_icrc(), IcrcVerdict::Invalid { expected, found });
    let mut icrc: Icrc = Icrc::ipv4(bytes.first_chunk().unwrap());
    icrc.update(b"\xca\xfe");
    assert_eq!(icrc.finish(), found);
}

/// Case 2.
#[test]
fn the_icrc_is_the_one_field_with_the_low_byte_first() {
    // The register of zlib's crc32 over the masked packet reads 0x92170ec9.
    let bytes = hex("4502002c 00014000 4011b6ba c0000201 c0000202 c00012b7 00180000 \
        0440ffff 00000123 80000005 c90e1792");
    assert_eq!(parse(&bytes).verify_icrc(), IcrcVerdict::Valid);
    let mut masked = vec![0xff; 8];
    masked.extend(&bytes[..40]);
    for at in [1, 8, 10, 11, 26, 27, 32] {
        masked[8 + at] = 0xff;
    }

    let mut crc = Crc::new();
    crc.update(&masked);
    assert_eq!(crc.finish(), 0x9217_0ec9);
    assert_eq!(bytes[40..], 0x9217_0ec9_u32.to_le_bytes());
}

/// Case 6.
#[test]
fn the_icrc_starts_on_eight_bytes_of_ones() {
    // They stand for the local route header that RoCE lacks; forgotten, nothing matches.
    assert_eq!(Crc::after_ones8().state(), 0xdebb_20e3);
    let mut crc = Crc::new();
    crc.update(&[0xff; 8]);
    assert_eq!(crc.state(), 0xdebb_20e3);
}

/// Cases 3 and 12.
#[test]
fn what_routers_change_leaves_the_icrc_alone_and_nothing_else_does() {
    let bytes = sealed(SEND_2);
    let verdict = |at: usize, mask: u8| {
        let mut changed = bytes.clone();
        changed[at] ^= mask;
        parse(&changed).verify_icrc()
    };
    for (at, what) in
        [(1, "type of service"), (8, "TTL"), (10, "IP checksum"), (26, "UDP checksum")]
    {
        assert_eq!(verdict(at, 1), IcrcVerdict::Valid, "{what}");
    }
    assert_eq!(verdict(32, 0xff), IcrcVerdict::Valid, "FECN, BECN, Resv6");
    for (at, what) in [(4, "IP identification"), (15, "source address"), (20, "source port")] {
        assert!(matches!(verdict(at, 1), IcrcVerdict::Invalid { .. }), "{what}");
    }
    for (at, what) in [(29, "AckReq's byte"), (35, "destination QP"), (36, "Resv7"), (39, "PSN")] {
        assert!(matches!(verdict(at, 0x40), IcrcVerdict::Invalid { .. }), "{what}");
    }
}

/// Case 8.
#[test]
fn an_unknown_opcode_has_no_headers_to_measure() {
    // One such packet brought a kernel down: its table said 0 bytes of header, less than a BTH.
    let bytes = hex("4502002c 12344000 4011a487 c0000201 c0000202 c00112b7 00180000 \
        ff00ffff 00ffffff 80000005 e538d2d0");
    let frame = parse(&bytes);
    assert_eq!(frame.opcode().info().class, OpcodeClass::Manufacturer);
    assert_eq!(frame.dest_qp(), Qpn::MULTICAST);
    assert_eq!((frame.payload_len(), frame.ext_bytes()), (0, &[][..]));
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    assert_eq!(frame.opcode().to_string(), "opcode 0xff");
}

/// Case 9.
#[test]
fn pad_and_icrc_never_outgrow_the_packet() {
    // BTH and AETH and 3 pad bytes and the ICRC are 23 bytes; BTH, 3 and 4 are 19.
    for (bth, udp_payload) in [("1130ffff", 20), ("0430ffff", 16)] {
        let mut bytes = hex("45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000");
        bytes.extend(hex(bth));
        bytes.resize(28 + udp_payload, 0);
        let len = u16::try_from(bytes.len()).unwrap();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        let error = Frame::parse_captured([&bytes, &[]], Start::Ip).unwrap_err();
        assert!(matches!(error, ParseError::Length { layer: Layer::Udp, .. }), "{error}");
    }
}

/// Case 10.
#[test]
fn the_shortest_packet_is_a_bth_and_an_icrc() {
    let whole = sealed(
        "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
        0400ffff 00000123 80000005",
    );
    assert_eq!(parse(&whole).udp().length, 24);
    // One that ends with the BTH: measured from the UDP header it would look long enough.
    let mut bytes = whole[..40].to_vec();
    bytes[3] -= 4;
    bytes[25] -= 4;
    let error = Frame::parse([&bytes, &[]], Start::Ip).unwrap_err();
    assert_eq!(error, ParseError::Length { layer: Layer::Udp, field: 20, expected: 24 });
}

/// Case 16.
#[test]
fn clearing_resv6_clears_nothing_else() {
    let mut bytes = hex("0400ffff 7f000118 80000005");
    let mut bth = Bth::parse(&bytes).unwrap();
    bth.resv6 = 0;
    bth.emit(&mut bytes).unwrap();
    assert_eq!(bytes[4..8], [0x40, 0x00, 0x01, 0x18]);
}

/// Case 18.
#[test]
fn reserved_bits_and_odd_ports_and_odd_pads_are_no_decoding_errors() {
    // A bit of Resv6 set; the ICRC holds because that byte counts as ones.
    let resv6 = hex("4502002c 12344000 4011a487 c0000201 c0000202 c00112b7 00180000 \
        0400ffff 10000123 80000005 fed26614");
    assert_eq!(parse(&resv6).bth().resv6, 0x10);
    assert_eq!(parse(&resv6).verify_icrc(), IcrcVerdict::Valid);
    // A pad byte that is not zero, kept and covered.
    let pad = hex("45020030 12344000 4011a483 c0000201 c0000202 c00112b7 001c0000 \
        0410ffff 00000123 80000005 61626399 99a37823");
    assert_eq!((parse(&pad).payload()[0], &*parse(&pad).pad()), (&b"abc"[..], &b"\x99"[..]));
    assert_eq!(parse(&pad).verify_icrc(), IcrcVerdict::Valid);
}

/// Case 19.
#[test]
fn the_service_is_a_number_of_three_bits_and_no_mask() {
    let services: Vec<Service> = (0..8).map(|high| Opcode(high << 5 | 4).info().service).collect();
    assert_eq!(
        services,
        [
            Service::Rc,
            Service::Uc,
            Service::Rd,
            Service::Ud,
            Service::Cnp,
            Service::Xrc,
            Service::Other,
            Service::Other
        ]
    );
    // 0x64 has every bit of RC, UC and RD; it is none of them.
    assert_eq!(Opcode::UD_SEND_ONLY.0, 0x64);
    assert_eq!(Opcode(0x81).info().service, Service::Cnp);
    // 0x84 and 0x82 carry the CNP's service and are reserved.
    assert_eq!(Opcode(0x84).info().class, OpcodeClass::Reserved);
}

/// Cases 25 and 26.
#[test]
fn a_cnp_is_known_by_its_destination_port() {
    // As network cards send it: source port 0, DSCP 48, BECN set, no MigReq.
    let bytes = hex("45c2003c 12344000 4011a3b7 c0000201 c0000202 000012b7 00280000 \
        8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 8bcc9315");
    let frame = parse(&bytes);
    assert_eq!(frame.opcode(), Opcode(0x81));
    assert_eq!(frame.udp().src_port, 0);
    assert!(frame.bth().becn && !frame.bth().mig_req && !frame.bth().ack_req);
    assert_eq!(frame.ext_headers().cnp_reserved, Some([0; 16]));
    assert_eq!(frame.payload_len(), 0);
    assert_eq!(frame.traffic_class() >> 2, 48);
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
}

/// What a ConnectX-4 Lx sent, field by field; its ICRC was 82fd002a.
#[test]
fn a_cnp_is_built_as_hardware_builds_it() {
    let ethernet = Ethernet {
        dst: MacAddr([0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2]),
        src: MacAddr([0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32]),
        vlans: VlanStack::EMPTY,
        ethertype: EtherType::IPV4,
    };
    let ip = Ip::V4(Ipv4 {
        dscp_ecn: 0,
        total_len: 0,
        identification: 0x718c,
        flags_fragment: Ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: 0,
        checksum: 0,
        src: [10, 0, 17, 1].into(),
        dst: [10, 0, 18, 1].into(),
    });
    let cnp = FrameBuilder::cnp(Some(ethernet), ip, 0, Qpn::new(0x118));
    let mut out = [0xa5; 80];
    let len = cnp.emit::<Crc>([b"", b""], &mut out).unwrap();
    let ethernet = "e41d2dab2bc2 7cfe90643b32 0800";
    let ip = "45 c2 003c 718c 4000 40 11 9161 0a001101 0a001201";
    let udp = "0000 12b7 0028 0000";
    let bth = "81 00 ffff 40 000118 00 000000";
    assert_eq!(len, 14 + 20 + 8 + 12 + 16 + 4);
    assert_eq!(out[..54], hex(&[ethernet, ip, udp, bth].concat()));
    assert_eq!(out[54..70], [0; 16]);
    assert_eq!(out[70..74], [0x82, 0xfd, 0x00, 0x2a]);
    assert_eq!(out[74..], [0xa5; 6]);

    // Over IPv6 it is the same from UDP on.
    let ip = Ip::V6(roce_codec::net::Ipv6 {
        traffic_class: 0,
        flow_label: 0x1_2345,
        payload_len: 0,
        next_header: 0,
        hop_limit: 64,
        src: [0x20; 16].into(),
        dst: [0x30; 16].into(),
    });
    let cnp = FrameBuilder::cnp(None, ip, 0, Qpn::new(0x118));
    let len = cnp.emit::<Crc>([b"", b""], &mut out).unwrap();
    assert_eq!(out[..8], hex("6c212345 0028 11 40"));
    assert_eq!(out[40..len - 20], hex(&[udp, bth].concat()));
    assert_eq!(parse(&out[..len]).verify_icrc(), IcrcVerdict::Valid);
}

/// Case 28.
#[test]
fn dscp_is_the_upper_six_bits_of_the_traffic_class() {
    let mut bytes = sealed(SEND_2);
    for (byte, dscp, ecn) in [
        (0x68, 26, Ecn::NotEct),
        (0xc0, 48, Ecn::NotEct),
        (0x69, 26, Ecn::Ect1),
        (0x6a, 26, Ecn::Ect0),
        (0x6b, 26, Ecn::Ce),
    ] {
        bytes[1] = byte;
        let class = parse(&bytes).traffic_class();
        assert_eq!((class >> 2, Ecn::of_traffic_class(class)), (dscp, ecn), "{byte:#x}");
    }
    // The same in IPv6, where the class straddles two bytes.
    let mut v6 = hex("66b00000 001c1140 20010db8000000000000000000000001 \
        20010db8000000000000000000000002 c00112b7 001c0000 0410ffff 00000123 80000005 00000000");
    v6.extend([0; 4]);
    let class = parse(&v6).traffic_class();
    assert_eq!((class, Ecn::of_traffic_class(class)), (0x6b, Ecn::Ce));
}

/// Cases 30 and 74.
#[test]
fn any_source_port_is_legal_to_receive() {
    // 69 is TFTP's; a dissector that asks the source port first makes TFTP of RoCE.
    for (port, icrc) in [(0_u16, "9cb28d9d"), (69, "0ed30fee"), (72, "314324d9")] {
        let mut bytes = hex("4502002c 12344000 4011a487 c0000201 c0000202 000012b7 00180000 \
            0400ffff 00000123 80000005");
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        bytes.extend(hex(icrc));
        assert_eq!(parse(&bytes).udp().src_port, port);
        assert_eq!(parse(&bytes).verify_icrc(), IcrcVerdict::Valid, "{port}");
    }
}

/// Case 34.
#[test]
fn padding_of_the_ethernet_frame_is_not_payload() {
    let header = Ethernet {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        vlans: VlanStack::EMPTY,
        ethertype: EtherType::IPV4,
    };
    let mut bytes = vec![0; 14];
    header.emit(&mut bytes).unwrap();
    bytes.extend(hex("4502002c 00014000 4011b6ba c0000201 c0000202 c00012b7 00180000 \
        0440ffff 00000123 80000005 c90e1792"));
    // 58 bytes; Ethernet wants 60, and some devices append timestamps and more.
    for trailer in [0, 2, 19, 29] {
        let mut frame = bytes.clone();
        frame.resize(bytes.len() + trailer, 0x5a);
        let frame = Frame::parse([&frame, &[]], Start::Ethernet).unwrap();
        assert_eq!((frame.payload_len(), frame.trailer()[0].len()), (0, trailer));
        assert_eq!(frame.icrc(), [0xc9, 0x0e, 0x17, 0x92]);
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    }
}

/// Case 35.
#[test]
fn a_packet_cut_by_the_capture_is_not_a_bad_packet() {
    let mut text = String::from(
        "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 0400ffff 00000123 80000005",
    );
    text.push_str(&"5a".repeat(200));
    let bytes = sealed(&text);
    let cut = &bytes[..96];
    assert!(matches!(
        Frame::parse([cut, &[]], Start::Ip),
        Err(ParseError::Truncated { layer: Layer::Payload, needed: 216, available: 68 })
    ));
    let frame = Frame::parse_captured([cut, &[]], Start::Ip).unwrap();
    assert_eq!(frame.opcode(), Opcode::RC_SEND_ONLY);
    assert_eq!((frame.payload_len(), frame.payload()[0].len()), (200, 56));
    assert_eq!(frame.missing(), bytes.len() - 96);
    assert_eq!(frame.verify_icrc(), IcrcVerdict::NotCheckable(NotCheckable::Truncated));
}

#[test]
fn an_icrc_that_hardware_fills_in_later_is_not_a_wrong_one() {
    let mut bytes = sealed(SEND_2);
    let end = bytes.len();
    bytes[end - 4..].fill(0);
    assert_eq!(parse(&bytes).verify_icrc(), IcrcVerdict::NotCheckable(NotCheckable::NotFilled));
}

/// Case 20: UC and UD packets with AckReq decode, and have no answer all the same.
#[test]
fn ack_req_makes_no_answer_where_there_is_none() {
    for (opcode, deth) in [("24", ""), ("64", "80010000 00000001")] {
        let bytes = sealed(&format!(
            "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
             {opcode}00ffff 00000123 80000005 {deth}"
        ));
        let frame = parse(&bytes);
        assert!(frame.bth().ack_req);
        assert_eq!(frame.opcode().info().answer(), Answer::None);
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    }
}

/// Case 21: the upper bit is membership and no part of the key.
#[test]
fn p_keys_match_by_their_low_fifteen_bits() {
    let matches = |a, b| PKey(a).matches(PKey(b));
    assert!(matches(0x2a00, 0xaa00) && matches(0xaa00, 0x2a00) && matches(0xaa00, 0xaa00));
    // Two limited members.
    assert!(!matches(0x2a00, 0x2a00));
    // Zero is no key, whatever the other.
    for other in [0x0000, 0x8000, 0x2a00, 0xaa00, 0xffff, 0x7fff] {
        assert!(!matches(0x8000, other) && !matches(0x0000, other), "{other:#06x}");
    }
}

/// Case 40: a READ takes as many PSNs as its answer has packets; case 66: every message one.
#[test]
fn a_message_takes_at_least_one_psn() {
    let mtu = PathMtu::from_bytes(1024).unwrap();
    assert_eq!([0, 1, 1024, 1025, 3000].map(|len| mtu.packets(len)), [1, 1, 1, 2, 3]);
    // Three READs of 3000 bytes, as captured.
    let mut psn = Psn::new(0x62_2c76);
    for expected in [0x62_2c79, 0x62_2c7c] {
        psn = psn.add(mtu.packets(3000));
        assert_eq!(psn.get(), expected);
    }
}

/// Case 42: a refused atomic is answered by an Acknowledge; an ATOMIC Acknowledge promises eight
/// bytes more.
#[test]
fn a_nak_to_an_atomic_is_an_acknowledge() {
    let len = |opcode: Opcode| usize::from(opcode.info().headers_len);
    assert_eq!((len(Opcode(0x11)), len(Opcode(0x12))), (4, 12));
    let nak = sealed(
        "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
        1100ffff 00000123 00000005 62000001",
    );
    let aeth = parse(&nak).aeth().unwrap();
    assert_eq!(aeth.syndrome.kind(), AethKind::Nak(NakCode::RemoteAccessError));
    // The same eight bytes short, under the wrong opcode.
    let mut wrong = nak.clone();
    wrong[28] = 0x12;
    let error = Frame::parse([&wrong, &[]], Start::Ip).unwrap_err();
    assert_eq!(error, ParseError::Length { layer: Layer::Udp, field: 28, expected: 36 });
    assert_eq!(Opcode(0x13).info().answer(), Answer::AtomicAcknowledge);
}

/// Case 43: a table, and no power of two; 0 is the longest wait. In units of 10 µs, from the
/// specification's table 45.
#[test]
fn rnr_timers_are_a_table() {
    let table: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    for (code, units) in (0..32).zip(table) {
        let AethKind::RnrNak(timer) = Syndrome(0x20 | code).kind() else { panic!("{code}") };
        assert_eq!(timer.wait_ns(), units * 10_000, "{code}");
    }
    // 0x39 is 61.44 ms.
    let AethKind::RnrNak(timer) = Syndrome(0x39).kind() else { panic!() };
    assert_eq!(timer.wait_ns(), 61_440_000);
    assert_eq!(Syndrome::rnr_nak(timer), Syndrome(0x39));
}

/// Case 47.
#[test]
fn credits_are_a_table() {
    let count = |syndrome| match Syndrome(syndrome).kind() {
        AethKind::Ack(credits) => credits.count(),
        kind => panic!("{kind:?}"),
    };
    let table: [u16; 31] = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
    ];
    for (code, credits) in (0..31).zip(table) {
        assert_eq!(count(code), Some(credits), "{code}");
    }
    assert_eq!((count(0x05), count(0x06), count(0x1f)), (Some(6), Some(8), None));
    assert_eq!(Credits::of_receives(7).count(), Some(6), "never more than there are");
    let aeth = Aeth::parse(&[0x1f, 0, 0, 1]).unwrap();
    assert_eq!((aeth.syndrome, aeth.msn.get()), (Syndrome::ACK, 1));
}

/// Cases 49 and 50: lengths and keys that a responder refuses are no decoding errors.
#[test]
fn what_a_responder_refuses_still_decodes() {
    // WRITE only of nothing, with a junk R_Key.
    let write = sealed(
        "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
        0a00ffff 00000123 80000005 0000000000000000 deadbeef 00000000",
    );
    assert_eq!(
        (parse(&write).reth().unwrap().rkey.0, parse(&write).payload_len()),
        (0xdead_beef, 0)
    );
    // SEND last of nothing; SEND middle of 1000 bytes.
    for (opcode, len) in [("02", 0), ("01", 1000)] {
        let bytes = sealed(&format!(
            "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
             {opcode}00ffff 00000123 80000005 {}",
            "5a".repeat(len)
        ));
        assert_eq!(parse(&bytes).payload_len(), len);
        assert_eq!(parse(&bytes).verify_icrc(), IcrcVerdict::Valid);
    }
}

/// Case 67.
#[test]
fn the_q_key_of_queue_pair_1() {
    assert_eq!((QKey::GSI.0, Qpn::GSI.get()), (0x8001_0000, 1));
}

/// From the rules: FLUSH and ATOMIC WRITE are answered by a READ response of nothing, and FETH
/// stands before RETH.
#[test]
fn flush_and_atomic_write() {
    for opcode in [0x1c, 0x5c, 0xbc, 0x1d, 0x5d, 0xbd] {
        assert_eq!(Opcode(opcode).info().answer(), Answer::ReadResponse, "{opcode:#04x}");
    }
    let flush = sealed(
        "45020000 12344000 40110000 c0000201 c0000202 c00112b7 00000000 \
        1c00ffff 00000123 80000005 00000011 0000000000001000 00001234 00000040",
    );
    let frame = parse(&flush);
    let feth = frame.feth().unwrap();
    assert_eq!((feth.selectivity(), feth.placement_type()), (1, 1));
    assert_eq!(frame.reth().unwrap().va, 0x1000);
    assert_eq!(frame.ext(HeaderKind::Feth), Some(&[0, 0, 0, 0x11][..]));
    let answer = sealed(
        "45020000 12344000 40110000 c0000202 c0000201 c00112b7 00000000 \
        1000ffff 00000123 00000005 1f000001",
    );
    assert_eq!(parse(&answer).opcode(), Opcode::RC_RDMA_READ_RESPONSE_ONLY);
    assert_eq!((parse(&answer).payload_len(), parse(&answer).aeth().unwrap().msn.get()), (0, 1));
}
