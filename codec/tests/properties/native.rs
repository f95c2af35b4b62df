//! Native InfiniBand, RoCE v1 and PAUSE frames: built, parsed and built again, cut, split and
//! damaged.

use super::arbitrary;
use proptest::prelude::*;
use roce_codec::ib::{
    Bth, ExtHeaders, Lid, LinkNextHeader, Lrh, Opcode, Psn, Qpn, VCRC_LEN, VcrcVerdict,
};
use roce_codec::icrc::{IcrcVerdict, NotCheckable};
use roce_codec::net::{
    EtherType, Ethernet, Gid, Grh, MacAddr, MacControl, Pause, PauseQuanta, Pfc,
};
use roce_codec::{
    Crc, EmitError, Layer, NativeBuilder, NativeFrame, NativeStart, ParseError, Route, SmallTable,
};

const STARTS: [NativeStart; 3] = [NativeStart::Lrh, NativeStart::Ethernet, NativeStart::Grh];

pub(crate) fn lrh() -> impl Strategy<Value = Lrh> {
    (0..16_u8, 0..16_u8, 0..16_u8, 0..4_u8, 0..4_u8, 0..32_u8, 0..0x800_u16, any::<[u16; 2]>())
        .prop_map(|(vl, lver, sl, resv2, lnh, resv5, pkt_len, [dlid, slid])| Lrh {
            vl,
            lver,
            sl,
            resv2,
            lnh: LinkNextHeader::from_bits(lnh),
            dlid: Lid(dlid),
            resv5,
            pkt_len,
            slid: Lid(slid),
        })
}

pub(crate) fn grh() -> impl Strategy<Value = Grh> {
    (any::<(u8, u16, u8, u8)>(), 0..1_u32 << 20, any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
        |((traffic_class, pay_len, next_header, hop_limit), flow_label, sgid, dgid)| Grh {
            traffic_class,
            flow_label,
            pay_len,
            next_header,
            hop_limit,
            sgid: Gid(sgid),
            dgid: Gid(dgid),
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    let iba = || grh().prop_map(|grh| Grh { next_header: 0x1b, ..grh });
    let ethernet =
        (any::<[u8; 6]>(), any::<[u8; 6]>(), arbitrary::vlans()).prop_map(|(dst, src, vlans)| {
            Ethernet { dst: MacAddr(dst), src: MacAddr(src), vlans, ethertype: EtherType::ROCE_V1 }
        });
    prop_oneof![
        lrh().prop_map(Route::Local),
        (lrh(), iba()).prop_map(|(lrh, grh)| Route::Global(lrh, grh)),
        (ethernet, iba()).prop_map(|(ethernet, grh)| Route::RoceV1(ethernet, grh)),
        iba().prop_map(Route::Grh),
    ]
}

/// A packet whose lengths agree, with its payload.
fn packet() -> impl Strategy<Value = (NativeBuilder, Vec<u8>)> {
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    (route(), arbitrary::bth(), arbitrary::ext_headers(), any::<[u8; 3]>(), payload).prop_map(
        |(route, bth, ext, pad, payload)| {
            let ext = arbitrary::only(ext, bth.opcode.info().headers);
            let mut builder = NativeBuilder { route, bth, ext, pad };
            builder.set_payload_len(payload.len()).unwrap();
            // Bytes of pad that are not written do not come back.
            for at in usize::from(builder.bth.pad_count)..3 {
                builder.pad[at] = 0;
            }
            (builder, payload)
        },
    )
}

fn start_of(builder: &NativeBuilder) -> NativeStart {
    match builder.route {
        Route::Local(_) | Route::Global(..) => NativeStart::Lrh,
        Route::RoceV1(..) => NativeStart::Ethernet,
        Route::Grh(_) => NativeStart::Grh,
    }
}

fn vcrc_len(builder: &NativeBuilder) -> usize {
    if builder.route.lrh().is_some() { VCRC_LEN } else { 0 }
}

fn emit(builder: &NativeBuilder, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; builder.header_len() + payload.len() + 16];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    assert!(out[len..].iter().all(|byte| *byte == 0xa5), "wrote past the end");
    out.truncate(len);
    let pad = usize::from(builder.bth.pad_count);
    let crcs = 4 + vcrc_len(builder);
    assert_eq!(len, builder.header_len() + payload.len() + pad + crcs);
    out
}

fn check(frame: &NativeFrame<'_>, builder: &NativeBuilder, payload: &[u8]) {
    assert_eq!(frame.to_builder(), *builder);
    assert_eq!(frame.payload().concat(), payload);
    assert_eq!(frame.payload_len(), payload.len());
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    assert_eq!(frame.verify_icrc_with::<SmallTable>(), IcrcVerdict::Valid);
    let vcrc = if vcrc_len(builder) > 0 { VcrcVerdict::Valid } else { VcrcVerdict::Absent };
    assert_eq!(frame.verify_vcrc(), vcrc);
    let route = builder.route;
    assert_eq!(
        (frame.lrh(), frame.grh(), frame.ethernet()),
        (route.lrh(), route.grh(), route.ethernet())
    );
}

/// One packet of an opcode on each route.
fn plain(opcode: Opcode) -> [NativeBuilder; 4] {
    let lrh = Lrh {
        vl: 1,
        lver: 0,
        sl: 2,
        resv2: 0,
        lnh: LinkNextHeader::RawEtherType,
        dlid: Lid(3),
        resv5: 0,
        pkt_len: 0,
        slid: Lid(4),
    };
    let grh = Grh {
        traffic_class: 5,
        flow_label: 6,
        pay_len: 0,
        next_header: 0x1b,
        hop_limit: 7,
        sgid: Gid([8; 16]),
        dgid: Gid([9; 16]),
    };
    let ethernet = Ethernet {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        vlans: Default::default(),
        ethertype: EtherType::ROCE_V1,
    };
    let every = ExtHeaders {
        rdeth: Some(Default::default()),
        deth: Some(Default::default()),
        xrceth: Some(Default::default()),
        feth: Some(Default::default()),
        reth: Some(Default::default()),
        atomic_eth: Some(Default::default()),
        aeth: roce_codec::ib::Aeth::parse(&[0x1f, 0, 0, 1]).ok(),
        atomic_ack_eth: Some(Default::default()),
        imm_dt: Some(Default::default()),
        ieth: Some(Default::default()),
        cnp_reserved: Some([0x99; 16]),
    };
    let routes =
        [Route::Local(lrh), Route::Global(lrh, grh), Route::RoceV1(ethernet, grh), Route::Grh(grh)];
    routes.map(|route| {
        let bth = Bth::new(opcode, Qpn::new(0x12_3456), Psn::new(0xab_cdef));
        let ext = arbitrary::only(every, opcode.info().headers);
        let mut builder = NativeBuilder { route, bth, ext, pad: [0; 3] };
        builder.set_payload_len(5).unwrap();
        builder
    })
}

#[test]
fn every_truncation_of_every_opcode_says_what_is_missing() {
    for builder in (0..=255).map(Opcode).flat_map(plain) {
        let (opcode, start) = (builder.bth.opcode, start_of(&builder));
        let bytes = emit(&builder, b"5byte");
        let (headers, end) = (builder.header_len(), bytes.len() - vcrc_len(&builder));
        for len in 0..bytes.len() {
            let cut = [&bytes[..len], &[][..]];
            if len >= end {
                let frame = NativeFrame::parse(cut, start).unwrap();
                assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
                assert_eq!((frame.vcrc(), frame.verify_vcrc()), (None, VcrcVerdict::Absent));
                continue;
            }
            let error = NativeFrame::parse(cut, start).unwrap_err();
            let ParseError::Truncated { needed, available, .. } = error else {
                panic!("{opcode} cut to {len}: {error}");
            };
            assert!(available < needed, "{opcode} cut to {len}: {error}");
            match NativeFrame::parse_captured(cut, start) {
                Ok(frame) => {
                    assert!(len >= headers, "{opcode} cut to {len}");
                    assert_eq!(frame.missing(), end - len);
                    assert_eq!(needed - available, end - len);
                    assert_eq!(frame.payload_len(), 5);
                    assert_eq!(frame.payload()[0].len(), (len - headers).min(5));
                    let truncated = IcrcVerdict::NotCheckable(NotCheckable::Truncated);
                    assert_eq!(frame.verify_icrc(), truncated);
                    let vcrc = match vcrc_len(&builder) {
                        0 => VcrcVerdict::Absent,
                        _ => VcrcVerdict::Truncated,
                    };
                    assert_eq!(frame.verify_vcrc(), vcrc);
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

#[test]
fn a_cut_names_the_header_it_goes_through() {
    let [local, global, roce_v1, bare] = plain(Opcode::RC_ACKNOWLEDGE);
    let ext = Layer::Ext(roce_codec::ib::HeaderKind::Aeth);
    for (builder, cut, layer, needed, available) in [
        (local, 7, Layer::Lrh, 8, 7),
        (local, 19, Layer::Bth, 12, 11),
        (local, 23, ext, 4, 3),
        (global, 47, Layer::Grh, 40, 39),
        (global, 48, Layer::Bth, 12, 0),
        (roce_v1, 13, Layer::Ethernet, 2, 1),
        (roce_v1, 14, Layer::Grh, 40, 0),
        (bare, 39, Layer::Grh, 40, 39),
    ] {
        let bytes = emit(&builder, b"5byte");
        let error = NativeFrame::parse_captured([&bytes[..cut], &[]], start_of(&builder));
        let expected = ParseError::Truncated { layer, needed, available };
        assert_eq!(error.unwrap_err(), expected, "cut to {cut}");
    }
}

proptest! {
    #[test]
    fn any_packet_comes_back((builder, payload) in packet()) {
        let bytes = emit(&builder, &payload);
        check(&NativeFrame::parse([&bytes, &[]], start_of(&builder)).unwrap(), &builder, &payload);
        // Emitted from two pieces and by the other kernel it is the same.
        let (first, second) = payload.split_at(payload.len() / 3);
        let mut out = vec![0; bytes.len()];
        builder.emit::<SmallTable>([first, second], &mut out).unwrap();
        prop_assert_eq!(&out, &bytes);
        for len in 0..bytes.len() {
            let short = EmitError::NoRoom { needed: bytes.len(), available: len };
            let result = builder.emit::<SmallTable>([&payload, b""], &mut out[..len]);
            prop_assert_eq!(result, Err(short));
        }
    }

    #[test]
    fn headers_lie_in_the_first_segment_or_it_says_so(
        (builder, payload) in packet(),
        trailer in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = emit(&builder, &payload);
        let end = bytes.len();
        bytes.extend(&trailer);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            match NativeFrame::parse([head, tail], start_of(&builder)) {
                Ok(frame) => {
                    prop_assert!(cut >= builder.header_len());
                    check(&frame, &builder, &payload);
                    let behind = frame.trailer().concat();
                    prop_assert_eq!(&behind[..], &bytes[end - vcrc_len(&builder)..]);
                }
                Err(error) => {
                    prop_assert!(cut < builder.header_len());
                    prop_assert_eq!(error, ParseError::SplitHeaders);
                }
            }
        }
    }

    /// A damaged packet may parse or not; if it does, it still emits to its own bytes.
    #[test]
    fn a_damaged_packet_stays_what_it_is(
        (builder, payload) in packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = emit(&builder, &payload);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let start = start_of(&builder);
        if let Ok(frame) = NativeFrame::parse([&bytes, &[]], start) {
            let end = bytes.len() - frame.trailer()[0].len();
            let mut out = vec![0; end + VCRC_LEN];
            let len = frame.to_builder().emit::<Crc>(frame.payload(), &mut out).unwrap();
            prop_assert_eq!(len, end + if start == NativeStart::Lrh { VCRC_LEN } else { 0 });
            prop_assert_eq!(&out[..end - 4], &bytes[..end - 4]);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut: prop::sample::Index,
        plausible: bool,
    ) {
        let mut bytes = bytes;
        if plausible && bytes.len() > 60 {
            bytes[1] = bytes[1] & 0xfc | 2;
            bytes[12..14].copy_from_slice(&[0x89, 0x15]);
            (bytes[14], bytes[20]) = (0x60, 0x1b);
        }
        let (head, tail) = bytes.split_at(cut.index(bytes.len() + 1));
        for start in STARTS {
            match NativeFrame::parse_captured([head, tail], start) {
                Ok(frame) => {
                    let _ = (frame.verify_icrc(), frame.verify_vcrc(), frame.to_builder());
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
        if let Err(error) = MacControl::parse(&bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn pauses_come_back(
        dst: [u8; 6],
        src: [u8; 6],
        words: [u16; 8],
        resv8: u8,
        enabled: u8,
        tail: u8,
    ) {
        let (dst, src) = (MacAddr(dst), MacAddr(src));
        let pause = Pause { dst, src, quanta: PauseQuanta(words[0]), reserved: [tail; 42] };
        let quanta = words.map(PauseQuanta);
        let pfc = Pfc { dst, src, resv8, enabled, quanta, reserved: [tail; 26] };
        for frame in [MacControl::Pause(pause), MacControl::Pfc(pfc)] {
            let mut out = [0xa5; 62];
            prop_assert_eq!(frame.emit(&mut out), Ok(60));
            prop_assert_eq!(&out[60..], &[0xa5; 2]);
            prop_assert_eq!(MacControl::parse(&out), Ok(frame));
        }
        let on: Vec<_> = pfc.enabled().collect();
        prop_assert_eq!(on.len(), usize::try_from(enabled.count_ones()).unwrap());
        for (priority, quanta) in on {
            prop_assert_eq!(quanta.0, words[usize::from(priority)]);
        }
    }
}
