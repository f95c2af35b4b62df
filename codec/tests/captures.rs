//! Captured packets as the oracle: real traffic parses, its ICRCs hold, and values give back the
//! same bytes.

#[path = "packets/mod.rs"]
mod packets;

use std::path::Path;

use packets::{captures, packets};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Crc, Frame, ParseError, SmallTable, Start};

/// The fault of Linux rxe that `tests/captures/README.md` names: frame number (from 1) and the
/// ICRC that the packet's contents call for.
const RXE_FLUSH_FAULT: [(usize, [u8; 4]); 3] = [
    (14, [0xe6, 0x6f, 0xeb, 0x14]),
    (22, [0xcd, 0x13, 0x96, 0x64]),
    (43, [0x6a, 0x64, 0xfc, 0x2f]),
];

/// Parses, checks and re-emits every RoCE packet; says how many there were.
fn check(path: &Path) -> usize {
    let mut roce = 0;
    for (index, bytes) in packets(path).into_iter().enumerate() {
        let at = format!("{} packet {}", path.display(), index + 1);
        let frame = match Frame::parse([&bytes, &[]], Start::Ethernet) {
            Ok(frame) => frame,
            Err(ParseError::NotRoce { .. }) => continue,
            Err(error) => panic!("{at}: {error}"),
        };
        roce += 1;
        let fault = path
            .ends_with("rxe72-flush-atomicwrite.pcap")
            .then(|| RXE_FLUSH_FAULT.iter().find(|fault| fault.0 == index + 1))
            .flatten();
        match (frame.verify_icrc(), fault) {
            (IcrcVerdict::Valid, None) => {}
            (IcrcVerdict::Invalid { expected, .. }, Some(fault)) if expected == fault.1 => {}
            (verdict, _) => panic!("{at}: {verdict:?}"),
        }
        assert_eq!(frame.verify_icrc(), frame.verify_icrc_with::<SmallTable>(), "{at}");

        let mut out = vec![0xa5; bytes.len() + 8];
        let len = frame.to_builder().emit::<Crc>(frame.payload(), &mut out).unwrap();
        assert_eq!(len + frame.trailer()[0].len(), bytes.len(), "{at}");
        let covered = if fault.is_some() { len - 4 } else { len };
        assert_eq!(out[..covered], bytes[..covered], "{at}");
        assert!(out[len..].iter().all(|byte| *byte == 0xa5), "{at}: wrote past the end");

        two_segments_read_as_one(&bytes, &frame);
        cut_packets_are_never_bad(&bytes, &frame, &at);
    }
    roce
}

fn two_segments_read_as_one(bytes: &[u8], whole: &Frame<'_>) {
    let headers = bytes.len() - whole.trailer()[0].len() - whole.payload_len() - whole.pad().len();
    for cut in [headers - 4, headers - 3, headers + whole.payload_len() / 2, bytes.len() - 1] {
        let (head, tail) = bytes.split_at(cut.min(bytes.len()));
        let frame = Frame::parse([head, tail], Start::Ethernet).unwrap();
        assert_eq!(frame.payload().concat(), whole.payload()[0]);
        assert_eq!(frame.pad(), whole.pad());
        assert_eq!(frame.icrc(), whole.icrc());
        assert_eq!(frame.verify_icrc(), whole.verify_icrc());
        assert_eq!(frame.trailer().concat(), whole.trailer()[0]);
    }
}

fn cut_packets_are_never_bad(bytes: &[u8], whole: &Frame<'_>, at: &str) {
    let end = bytes.len() - whole.trailer()[0].len();
    for len in 0..end {
        let cut = [&bytes[..len], &[][..]];
        assert!(Frame::parse(cut, Start::Ethernet).is_err(), "{at} cut to {len}");
        if let Ok(frame) = Frame::parse_captured(cut, Start::Ethernet) {
            assert_eq!(frame.missing(), end - len, "{at} cut to {len}");
            assert!(matches!(frame.verify_icrc(), IcrcVerdict::NotCheckable(_)));
        }
    }
}

#[test]
fn every_packet_of_our_captures() {
    let paths = captures("../tests/captures");
    assert_eq!(paths.len(), 15);
    let total: usize = paths.iter().map(|path| check(path)).sum();
    assert!(total > 7000, "{total} RoCE packets");
}

#[test]
fn every_packet_of_the_public_captures() {
    let paths = captures("../../shared/public-captures");
    if paths.is_empty() {
        println!("passed over: no public captures beside the checkout");
    }
    for path in paths {
        assert!(check(&path) > 0, "{}", path.display());
    }
}

/// Case 12: what a switch may change leaves the ICRC alone, what it may not does not.
#[test]
fn every_bit_is_covered_or_masked_as_the_annex_says() {
    let v4 = &packets(
        &captures("../tests/captures").into_iter().find(|p| p.ends_with("rxe-write.pcap")).unwrap(),
    );
    let v6 = &packets(
        &captures("../tests/captures").into_iter().find(|p| p.ends_with("rxe-ipv6.pcap")).unwrap(),
    );
    let roce = |bytes: &&Vec<u8>| Frame::parse([bytes.as_slice(), &[]], Start::Ethernet).is_ok();
    // Byte offsets from the IP header that count as ones.
    let masked_v4 = [1, 8, 10, 11, 26, 27, 32];
    let masked_v6 = [1, 2, 3, 7, 46, 47, 52];
    for (bytes, masked) in
        [(v4.iter().find(roce).unwrap(), masked_v4), (v6.iter().find(roce).unwrap(), masked_v6)]
    {
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let Ok(frame) = Frame::parse([&changed, &[]], Start::Ethernet) else { continue };
            let valid = frame.verify_icrc() == IcrcVerdict::Valid;
            let l3 = (at / 8).checked_sub(14);
            let traffic_class_in_byte_0 = masked == masked_v6 && l3 == Some(0) && at % 8 < 4;
            let expect = l3.is_none_or(|l3| masked.contains(&l3)) || traffic_class_in_byte_0;
            assert_eq!(valid, expect, "byte {} bit {}", at / 8, at % 8);
        }
    }
}
