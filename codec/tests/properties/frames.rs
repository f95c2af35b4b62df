//! Whole packets: built, parsed and built again, cut, split and damaged.

use super::arbitrary;
use proptest::prelude::*;
use roce_codec::ib::{Bth, ExtHeaders, Opcode, OpcodeClass, Psn, Qpn};
use roce_codec::icrc::{IcrcVerdict, NotCheckable};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, Ipv6, MacAddr, Udp, VlanStack, VlanTag};
use roce_codec::{Crc, EmitError, Frame, FrameBuilder, Layer, ParseError, SmallTable, Start};

fn start_of(builder: &FrameBuilder) -> Start {
    if builder.ethernet.is_some() { Start::Ethernet } else { Start::Ip }
}

fn emit(builder: &FrameBuilder, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; builder.header_len() + payload.len() + 16];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    assert!(out[len..].iter().all(|byte| *byte == 0xa5), "wrote past the end");
    out.truncate(len);
    out
}

/// The values come back, and the two halves agree on every length.
fn check(builder: &FrameBuilder, payload: &[u8]) -> Vec<u8> {
    let start = start_of(builder);
    let bytes = emit(builder, payload);
    assert_eq!(
        bytes.len(),
        builder.header_len() + payload.len() + usize::from(builder.bth.pad_count) + 4
    );
    let frame = Frame::parse([&bytes, &[]], start).unwrap();
    assert_eq!(frame.to_builder(), *builder);
    assert_eq!(frame.payload(), [payload, &[]]);
    assert_eq!(frame.payload_len(), payload.len());
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    assert_eq!(frame.verify_icrc_with::<SmallTable>(), IcrcVerdict::Valid);
    assert_eq!(frame.trailer(), [&[][..], &[]]);
    assert_eq!((frame.src(), frame.dst()), (builder.ip.src(), builder.ip.dst()));
    assert_eq!(frame.traffic_class(), builder.ip.traffic_class());
    assert_eq!((frame.dest_qp(), frame.psn()), (builder.bth.dest_qp, builder.bth.psn));
    bytes
}

/// What a frame is made of here when nothing is drawn: every field with a value of its own.
fn plain(opcode: Opcode, ipv6: bool, vlans: u16) -> FrameBuilder {
    let ip = if ipv6 {
        Ip::V6(Ipv6 {
            traffic_class: 0x6a,
            flow_label: 0x5_4321,
            payload_len: 0,
            next_header: 17,
            hop_limit: 63,
            src: [0x20; 16].into(),
            dst: [0x30; 16].into(),
        })
    } else {
        Ip::V4(Ipv4 {
            dscp_ecn: 0x6a,
            total_len: 0,
            identification: 0xbeef,
            flags_fragment: Ipv4::DONT_FRAGMENT,
            ttl: 63,
            protocol: 17,
            checksum: 0,
            src: [192, 0, 2, 1].into(),
            dst: [192, 0, 2, 2].into(),
        })
    };
    let mut stack = VlanStack::EMPTY;
    for vid in 0..vlans {
        assert!(stack.push(VlanTag::new(5, 100 + vid)));
    }
    let every = ExtHeaders {
        rdeth: Some(roce_codec::ib::Rdeth { resv8: 0, eecn: roce_codec::ib::Eecn::new(0x11_2233) }),
        deth: Some(roce_codec::ib::Deth {
            qkey: roce_codec::ib::QKey(0x8001_0000),
            resv8: 0x5c,
            src_qp: Qpn::new(0x654321),
        }),
        xrceth: Some(roce_codec::ib::Xrceth {
            resv8: 0x5d,
            srqn: roce_codec::ib::Srqn::new(0x44_5566),
        }),
        feth: Some(roce_codec::ib::Feth(0x11)),
        reth: Some(roce_codec::ib::Reth {
            va: 0x0102_0304_0506_0708,
            rkey: roce_codec::ib::RKey(0x090a_0b0c),
            dma_len: 0x0d0e_0f10,
        }),
        atomic_eth: Some(roce_codec::ib::AtomicEth {
            va: 0x1112_1314_1516_1718,
            rkey: roce_codec::ib::RKey(0x191a_1b1c),
            swap_add: 0x2122_2324_2526_2728,
            compare: 0x3132_3334_3536_3738,
        }),
        aeth: Some(roce_codec::ib::Aeth {
            syndrome: roce_codec::ib::Syndrome(0x1f),
            msn: roce_codec::ib::Msn::new(0x41_4243),
        }),
        atomic_ack_eth: Some(roce_codec::ib::AtomicAckEth { original: 0x5152_5354_5556_5758 }),
        imm_dt: Some(roce_codec::ib::ImmDt(0x6162_6364)),
        ieth: Some(roce_codec::ib::Ieth(roce_codec::ib::RKey(0x7172_7374))),
        cnp_reserved: Some([0x99; 16]),
    };
    FrameBuilder {
        ethernet: (vlans < 4).then_some(Ethernet {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: stack,
            ethertype: ip.ethertype(),
        }),
        ip,
        udp: Udp { src_port: 0xc123, dst_port: 4791, length: 0, checksum: 0 },
        bth: Bth::new(opcode, Qpn::new(0x12_3456), Psn::new(0xab_cdef)),
        ext: arbitrary::only(every, opcode.info().headers),
        pad: [0; 3],
    }
}

#[test]
fn every_opcode_over_either_ip_with_every_count_of_tags() {
    let payload: Vec<u8> = (0..=255).collect();
    for opcode in (0..=255).map(Opcode) {
        for ipv6 in [false, true] {
            for vlans in 0..=3 {
                let mut builder = plain(opcode, ipv6, vlans);
                for len in [0, 1, 2, 3, 4, 255] {
                    builder.set_payload_len(len).unwrap();
                    check(&builder, &payload[..len]);
                }
            }
        }
    }
}

#[test]
fn every_truncation_of_every_opcode_says_what_is_missing() {
    for opcode in (0..=255).map(Opcode) {
        for ipv6 in [false, true] {
            let mut builder = plain(opcode, ipv6, 1);
            builder.set_payload_len(5).unwrap();
            let bytes = emit(&builder, b"5byte");
            let headers = builder.header_len();
            for len in 0..bytes.len() {
                let cut = [&bytes[..len], &[][..]];
                let error = Frame::parse(cut, Start::Ethernet).unwrap_err();
                let ParseError::Truncated { needed, available, .. } = error else {
                    panic!("{opcode} cut to {len}: {error}");
                };
                assert!(available < needed, "{opcode} cut to {len}: {error}");
                match Frame::parse_captured(cut, Start::Ethernet) {
                    Ok(frame) => {
                        assert!(len >= headers, "{opcode} cut to {len}");
                        assert_eq!(frame.missing(), bytes.len() - len);
                        assert_eq!(frame.payload_len(), 5);
                        assert_eq!(frame.payload()[0].len(), (len - headers).min(5));
                        assert_eq!(
                            frame.verify_icrc(),
                            IcrcVerdict::NotCheckable(NotCheckable::Truncated)
                        );
                        assert_eq!(frame.computed_icrc::<Crc>(), None);
                        assert_eq!(frame.ext_headers(), builder.ext);
                    }
                    Err(again) => {
                        assert!(len < headers, "{opcode} cut to {len}: {again}");
                        assert_eq!(again, error);
                    }
                }
            }
        }
    }
}

#[test]
fn a_cut_names_the_header_it_goes_through() {
    // 14 Ethernet, 20 IPv4, 8 UDP, 12 BTH, then DETH (8) and ImmDt (4).
    let mut builder = plain(Opcode::UD_SEND_ONLY_IMM, false, 0);
    builder.set_payload_len(0).unwrap();
    let bytes = emit(&builder, b"");
    for (len, layer, needed, available) in [
        (11, Layer::Ethernet, 12, 11),
        (33, Layer::Ipv4, 20, 19),
        (41, Layer::Udp, 8, 7),
        (53, Layer::Bth, 12, 11),
        (54, Layer::Ext(roce_codec::ib::HeaderKind::Deth), 8, 0),
        (62, Layer::Ext(roce_codec::ib::HeaderKind::ImmDt), 4, 0),
        (65, Layer::Ext(roce_codec::ib::HeaderKind::ImmDt), 4, 3),
    ] {
        assert_eq!(
            Frame::parse_captured([&bytes[..len], &[]], Start::Ethernet).unwrap_err(),
            ParseError::Truncated { layer, needed, available },
            "cut to {len}"
        );
    }
}

#[test]
fn headers_lie_in_the_first_segment_or_it_says_so() {
    let mut builder = plain(Opcode::RC_RDMA_WRITE_ONLY_IMM, true, 2);
    builder.set_payload_len(9).unwrap();
    let bytes = emit(&builder, b"nine byte");
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        match Frame::parse([head, tail], Start::Ethernet) {
            Ok(frame) => {
                assert!(cut >= builder.header_len(), "cut at {cut}");
                assert_eq!(frame.payload().concat(), b"nine byte");
                assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
            }
            Err(error) => {
                assert!(cut < builder.header_len(), "cut at {cut}");
                assert_eq!(error, ParseError::SplitHeaders);
            }
        }
    }
}

#[test]
fn a_length_that_lies_is_no_truncation() {
    let mut builder = plain(Opcode::RC_ACKNOWLEDGE, false, 0);
    builder.set_payload_len(0).unwrap();
    let bytes = emit(&builder, b"");
    for ip_len in 0..bytes.len() + 40 {
        let mut changed = bytes.clone();
        changed.resize(bytes.len() + 20, 0);
        let total = u16::try_from(ip_len).unwrap().to_be_bytes();
        changed[16..18].copy_from_slice(&total);
        // Once with UDP's own length as it was, once agreeing.
        let error = Frame::parse([&changed, &[]], Start::Ethernet).err();
        assert_eq!(error.is_none(), ip_len == bytes.len() - 14, "{ip_len}: {error:?}");
        let udp = u16::try_from(ip_len.saturating_sub(20)).unwrap().to_be_bytes();
        changed[38..40].copy_from_slice(&udp);
        match Frame::parse_captured([&changed, &[]], Start::Ethernet) {
            Ok(frame) => {
                assert!(ip_len >= bytes.len() - 14, "{ip_len}");
                assert_eq!(frame.missing(), (ip_len + 14).saturating_sub(changed.len()));
            }
            Err(error) => {
                assert!(matches!(error, ParseError::Length { .. }), "{ip_len}: {error}");
                assert!(ip_len < bytes.len() - 14, "{ip_len}: {error}");
            }
        }
    }
}

#[test]
fn an_emitter_that_lacks_something_says_what() {
    for opcode in (0..=255).map(Opcode).filter(|opcode| opcode.info().class == OpcodeClass::Known) {
        let mut builder = plain(opcode, false, 0);
        builder.set_payload_len(0).unwrap();
        builder.ext = ExtHeaders::NONE;
        let result = builder.emit::<Crc>([b"", b""], &mut [0; 256]);
        let first = opcode.info().headers.iter().next();
        match first {
            // A CNP's reserved bytes are zeroes unless given.
            None | Some(roce_codec::ib::HeaderKind::CnpReserved) => assert!(result.is_ok()),
            Some(kind) => assert_eq!(result, Err(EmitError::MissingHeader(kind)), "{opcode}"),
        }
    }
    let builder = plain(Opcode::RC_SEND_ONLY, false, 0);
    let mut out = [0; 64];
    let error = builder.emit_with::<Crc, _>(usize::MAX, &mut out, |_, _| {}).unwrap_err();
    assert_eq!(error, EmitError::NoRoom { needed: usize::MAX, available: 64 });
}

#[test]
fn a_packet_too_long_for_ip_leaves_the_builder_alone() {
    for ipv6 in [false, true] {
        let mut builder = plain(Opcode::RC_SEND_ONLY, ipv6, 0);
        builder.set_payload_len(7).unwrap();
        let before = builder;
        // IPv6's length does not count its header, IPv4's does.
        let most = 65535 - 8 - 12 - 4 - if ipv6 { 0 } else { 20 };
        let most = most - most % 4;
        for len in [most + 1, most + 2, 65535, 65536, usize::MAX] {
            assert!(matches!(builder.set_payload_len(len), Err(EmitError::TooLong(_))), "{len}");
            assert_eq!(builder, before);
        }
        builder.set_payload_len(most).unwrap();
        check(&builder, &vec![0x77; most]);
    }
}

proptest! {
    #[test]
    fn any_packet_comes_back((builder, payload) in arbitrary::packet()) {
        let bytes = check(&builder, &payload);
        // Emitted from two pieces and by the other kernel it is the same.
        let (first, second) = payload.split_at(payload.len() / 3);
        let mut out = vec![0; bytes.len()];
        builder.emit::<SmallTable>([first, second], &mut out).unwrap();
        prop_assert_eq!(&out, &bytes);
        prop_assert!(builder.emit::<Crc>([&payload, b""], &mut out[1..]).is_err());
    }

    #[test]
    fn what_follows_the_ip_packet_is_trailer(
        (builder, payload) in arbitrary::packet(),
        trailer in prop::collection::vec(any::<u8>(), 1..80),
        cut: prop::sample::Index,
    ) {
        let mut bytes = emit(&builder, &payload);
        let end = bytes.len();
        bytes.extend(&trailer);
        let cut = builder.header_len() + cut.index(bytes.len() - builder.header_len() + 1);
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        let frame = Frame::parse([head, tail], start_of(&builder)).unwrap();
        prop_assert_eq!(frame.to_builder(), builder);
        prop_assert_eq!(frame.payload().concat(), payload);
        prop_assert_eq!(&frame.icrc()[..], &bytes[end - 4..end]);
        prop_assert_eq!(frame.trailer().concat(), trailer);
        prop_assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    }

    /// A damaged packet may parse or not; if it does, it still emits to its own bytes.
    #[test]
    fn a_damaged_packet_stays_what_it_is(
        (builder, payload) in arbitrary::packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = emit(&builder, &payload);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(frame) = Frame::parse([&bytes, &[]], start_of(&builder)) {
            let end = bytes.len() - frame.trailer()[0].len();
            let mut out = vec![0; end];
            frame.to_builder().emit::<Crc>(frame.payload(), &mut out).unwrap();
            prop_assert_eq!(&out[..end - 4], &bytes[..end - 4]);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut: prop::sample::Index,
        ethertype in prop_oneof![Just(0x0800_u16), Just(0x86dd), Just(0x8100)],
    ) {
        let mut bytes = bytes;
        if let Some(field) = bytes.get_mut(12..14) {
            field.copy_from_slice(&ethertype.to_be_bytes());
        }
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        for start in [Start::Ethernet, Start::Ip] {
            match Frame::parse_captured([head, tail], start) {
                Ok(frame) => { let _ = (frame.verify_icrc(), frame.to_builder()); }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn an_ethertype_that_contradicts_the_version_is_not_ours() {
    for (ipv6, other) in [(false, EtherType::IPV6), (true, EtherType::IPV4)] {
        let mut builder = plain(Opcode::RC_SEND_ONLY, ipv6, 0);
        builder.set_payload_len(64).unwrap();
        if let Some(ethernet) = &mut builder.ethernet {
            ethernet.ethertype = other;
        }
        let bytes = emit(&builder, &[0; 64]);
        let error = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap_err();
        assert!(matches!(error, ParseError::NotRoce { .. }), "{error}");
    }
}
