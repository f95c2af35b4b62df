//! Packets that others published, read beside the checkout and not copied. Their ICRCs are facts
//! and stand here: a changed file is noticed.

use roce_codec::ib::Opcode;
use roce_codec::icrc::{Icrc, IcrcMistake, IcrcVerdict};
use roce_codec::{Crc, Crc32, Frame, NativeFrame, NativeStart, SmallTable, Start};

/// Name and ICRC, as on the wire.
const KNOWN: [(&str, u32); 17] = [
    ("A1", 0x9625_b75a),
    ("A2", 0x82fd_002a),
    ("A5", 0x08c6_154a),
    ("B1", 0x6629_a01d),
    ("B2", 0x845d_7d1f),
    ("B3", 0x26a7_e208),
    ("B4", 0x70c1_f6f6),
    ("B5", 0x1b3d_8019),
    ("B6", 0x2253_c3a9),
    ("B7", 0x3f6d_01bb),
    ("B9", 0xe61d_8892),
    ("C1", 0x78f3_53f3),
    ("C2", 0xdafc_1bef),
    ("C4", 0x9a3d_6dbb),
    ("C6", 0x5fa5_1a5f),
    ("D1", 0xc90e_1792),
    ("D2", 0xc90e_1792),
];

struct Vector {
    name: String,
    /// What the file says.
    expected: u32,
    bytes: Vec<u8>,
}

/// The vectors; none, and says so, if the file is not there.
fn vectors() -> Vec<Vector> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/facts/vectors.md");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("passed over: no vectors beside the checkout");
        return Vec::new();
    };
    let mut vectors = Vec::new();
    let mut heading = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("**") {
            let name = rest.split(' ').next().unwrap().to_owned();
            let (_, expected) = rest.split_once("expected `").unwrap();
            heading = Some((name, u32::from_str_radix(&expected[..8], 16).unwrap()));
        } else if line.len() > 80 && line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes = (0..line.len()).step_by(2).map(byte).collect();
            let (name, expected) = heading.take().unwrap();
            vectors.push(Vector { name, expected, bytes });
        }
    }
    vectors
}

/// One vector's packet, if the file is there.
fn packet(name: &str) -> Option<Vec<u8>> {
    vectors().into_iter().find(|vector| vector.name == name).map(|vector| vector.bytes)
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame::parse([bytes, &[]], Start::Ethernet).unwrap()
}

/// The packet with another ICRC.
fn with_icrc(bytes: &[u8], icrc: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len() - frame(&bytes).trailer()[0].len();
    bytes[end - 4..end].copy_from_slice(&icrc.to_be_bytes());
    bytes
}

#[test]
fn the_file_says_what_stands_here() {
    let vectors = vectors();
    if vectors.is_empty() {
        return;
    }
    let read: Vec<(&str, u32)> =
        vectors.iter().map(|vector| (vector.name.as_str(), vector.expected)).collect();
    assert_eq!(read, KNOWN);
}

#[test]
fn every_packet_s_icrc_is_found_right() {
    for Vector { name, expected, bytes } in vectors() {
        if name == "A1" {
            continue;
        }
        let frame = frame(&bytes);
        let icrc = expected.to_be_bytes();
        assert_eq!(frame.icrc(), icrc, "{name}");
        assert_eq!(frame.computed_icrc::<Crc>(), Some(icrc), "{name}");
        assert_eq!(frame.computed_icrc::<SmallTable>(), Some(icrc), "{name}");
        assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid, "{name}");
        assert_eq!(frame.diagnose_icrc(), None, "{name}");
        // By the public steps: headers, then whatever follows.
        let mut steps: Icrc = match frame.headers().len() {
            40 => Icrc::ipv4(frame.headers().first_chunk().unwrap()),
            _ => Icrc::ipv6(frame.headers().first_chunk().unwrap()),
        };
        for piece in [frame.ext_bytes(), frame.payload()[0], &frame.pad()] {
            steps.update(piece);
        }
        assert_eq!(steps.finish(), icrc, "{name}");
    }
}

/// A1 is native InfiniBand and listed as the CRC sees it: the virtual lane is ones already.
#[test]
fn a1_goes_straight_through_the_crc() {
    let Some(bytes) = packet("A1") else { return };
    assert_eq!(bytes.len(), 52, "LRH, BTH, RETH, 14 bytes and 2 of pad");
    assert_eq!(bytes[0] >> 4, 0xf);
    assert_eq!(roce_crc::crc32(&bytes), 0x5ab7_2596);
    let mut crc = SmallTable::new();
    crc.update(&bytes);
    assert_eq!(crc.finish().to_le_bytes(), [0x96, 0x25, 0xb7, 0x5a]);
    // Its parts by themselves, as a chip would.
    let (head, tail) = bytes.split_at(20);
    let parts = [head, tail].map(roce_crc::crc32);
    assert_eq!(roce_crc::combine(parts[0], parts[1], 32), 0x5ab7_2596);
    // And as a packet: what is masked may hold ones.
    let packet = [&bytes[..], &[0x96, 0x25, 0xb7, 0x5a]].concat();
    let frame = NativeFrame::parse([&packet, &[]], NativeStart::Lrh).unwrap();
    assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
    assert_eq!((frame.opcode(), frame.payload_len(), frame.pad().len()), (Opcode(0x0a), 14, 2));
    assert_eq!(frame.diagnose_icrc(), None);
}

/// Case 1: B5 and B6 as Linux rxe sent such packets until 2019.
#[test]
fn b5_and_b6_of_old_rxe_are_explained() {
    for (name, old) in [("B5", 0xaed2_7b0d_u32), ("B6", 0x751d_5ff2)] {
        let Some(bytes) = packet(name) else { return };
        let old_packet = with_icrc(&bytes, old);
        let frame = frame(&old_packet);
        assert!(matches!(frame.verify_icrc(), IcrcVerdict::Invalid { found, .. }
            if found == old.to_be_bytes()));
        let mistakes: Vec<_> = frame.diagnose_icrc().unwrap().mistakes().collect();
        assert_eq!(mistakes, [IcrcMistake::PadLeftOut], "{name}");
    }
}

/// Case 5: an article prints this ICRC beside a packet whose IP header is only in a picture. It
/// is not C2's, and no known mistake makes it so.
#[test]
fn c2_s_published_icrc_is_not_valid() {
    let Some(bytes) = packet("C2") else { return };
    let published = with_icrc(&bytes, 0xe42d_ad81);
    let expected = 0xdafc_1bef_u32.to_be_bytes();
    let found = 0xe42d_ad81_u32.to_be_bytes();
    assert_eq!(frame(&published).verify_icrc(), IcrcVerdict::Invalid { expected, found });
    assert_eq!(frame(&published).diagnose_icrc(), None);
}

/// Case 34: where the ICRC is. D2 is D1 behind a router that marked it.
#[test]
fn d1_is_padded_and_d2_marked() {
    let (Some(d1), Some(d2)) = (packet("D1"), packet("D2")) else { return };
    assert_eq!((d1.len(), frame(&d1).trailer()[0]), (60, &[0, 0][..]));
    assert_eq!(d1[54..58], [0xc9, 0x0e, 0x17, 0x92]);
    assert_eq!(frame(&d1).payload_len(), 0);
    assert_eq!((frame(&d2).traffic_class(), frame(&d2).trailer()[0].len()), (0x03, 0));
    assert_eq!(frame(&d1).icrc(), frame(&d2).icrc());
    // Case 12: a new destination calls for a new ICRC.
    let mut rewritten = d1.clone();
    rewritten[33] ^= 1;
    assert!(matches!(frame(&rewritten).verify_icrc(), IcrcVerdict::Invalid { .. }));
    assert_eq!(frame(&rewritten).diagnose_icrc(), None);
    let icrc = frame(&rewritten).computed_icrc::<Crc>().unwrap();
    let rewritten = with_icrc(&rewritten, u32::from_be_bytes(icrc));
    assert_eq!(frame(&rewritten).verify_icrc(), IcrcVerdict::Valid);
}

/// Case 35: B2 cut to 96 bytes.
#[test]
fn b2_cut_by_a_capture_is_not_bad() {
    let Some(bytes) = packet("B2") else { return };
    let cut = Frame::parse_captured([&bytes[..96], &[]], Start::Ethernet).unwrap();
    assert!(matches!(cut.verify_icrc(), IcrcVerdict::NotCheckable(_)));
    assert_eq!((cut.payload_len(), cut.aeth().unwrap().msn.get()), (64, 1));
}
