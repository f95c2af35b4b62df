//! Each known mistake, made outside this project: Python's `zlib.crc32` over the bytes that the
//! mistaken sender would have covered, typed here.

use std::path::Path;

use pcap_file::pcap::PcapReader;
use proptest::prelude::*;
use roce_codec::icrc::{Field, Fields, IcrcMistake as M, IcrcVerdict, diagnose};
use roce_codec::{Crc, Frame, NibbleTable, SmallTable, Start};

use crate::hex;

/// One VLAN tag; WRITE only of five bytes. DSCP, ECN, TTL, both checksums and BECN have values
/// that are neither zero nor ones.
const TAGGED: &str = "020000000002 020000000001 8100600a 0800 \
    45020044 12344000 3f11a56f c0000201 c0000202 c00112b7 0030aca2 \
    0a30ffff 41000123 80000005 0000000000001000 00001234 00000005 68656c6c6f 000000";

/// IPv6; SEND only of three bytes, the pad byte not zero.
const V6: &str = "66b12345 001c113f 20010db8000000000000000000000001 \
    20010db8000000000000000000000002 c56a12b7 001c7f22 0410ffff 00010203 80112230 616263 5a";

/// The shortest packet, which Ethernet pads.
const SHORT: &str = "4502002c 00014000 4011b6ba c0000201 c0000202 c00012b7 00180000 \
    0440ffff 00000123 80000005";

/// FLUSH.
const FLUSH: &str = "45020040 12344000 3f11a579 c0000201 c0000202 c00112b7 002c0000 \
    1c00ffff 00000123 80000007 00000001 0000000000001000 00001234 00000040";

/// The mistakes found in a packet that carries `icrc`, by every kernel.
fn found(packet: &str, icrc: &str, trailer: &str, start: Start) -> Vec<M> {
    let mut bytes = hex(packet);
    bytes.extend(hex(icrc));
    bytes.extend(hex(trailer));
    let frame = Frame::parse([&bytes, &[]], start).unwrap();
    let diagnosis = frame.diagnose_icrc();
    assert_eq!(diagnosis, frame.diagnose_icrc_with::<SmallTable>());
    assert_eq!(diagnosis, frame.diagnose_icrc_with::<NibbleTable>());
    assert_eq!(diagnosis, diagnose(&frame));
    // However the packet is cut in two.
    let headers = bytes.len() - frame.payload_len() - frame.pad().len() - 4 - trailer.len() / 2;
    for cut in headers..bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        let frame = Frame::parse([head, tail], start).unwrap();
        assert_eq!(frame.diagnose_icrc(), diagnosis, "cut at {cut}");
    }
    diagnosis.map(|diagnosis| diagnosis.mistakes().collect()).unwrap_or_default()
}

fn fields(fields: &[Field]) -> Fields {
    Fields::of(fields)
}

#[test]
fn every_mistake_is_named() {
    use Field as F;
    let unmasked = |list: &[Field]| vec![M::Unmasked(fields(list))];
    let over = |list: &[Field]| vec![M::Overmasked(fields(list))];
    let late = |list: &[Field]| vec![M::NotYetSet(fields(list))];
    let cases: Vec<(&str, Vec<M>)> = vec![
        ("43f16741", vec![]),
        ("43f16742", vec![]),
        ("00000000", vec![M::NotFilled]),
        // Case 1.
        ("6131ae1b", vec![M::PadLeftOut]),
        // Case 2.
        ("4167f143", vec![M::BigEndian]),
        // Case 6.
        ("bc0e98be", vec![M::NotInverted]),
        ("be980ebc", vec![M::NotInverted, M::BigEndian]),
        ("d8fc3d24", vec![M::OnesLeftOut]),
        ("bc24725e", vec![M::ZeroesForOnes]),
        ("eeb55ab1", vec![M::ZeroSeed]),
        ("11604fae", vec![M::ZeroSeed, M::OnesLeftOut]),
        ("6f36aba0", vec![M::NotReflected]),
        ("a0ab366f", vec![M::NotReflected, M::BigEndian]),
        ("3693e486", vec![M::OnesLeftOut, M::NotReflected, M::NotInverted]),
        // Masks.
        ("518a4f11", vec![M::NothingMasked]),
        ("a0a0490b", unmasked(&[F::TrafficClass])),
        ("0fc4e658", unmasked(&[F::HopLimit])),
        ("4df92065", unmasked(&[F::IpChecksum])),
        ("e801dc01", unmasked(&[F::UdpChecksum])),
        ("5b161c26", unmasked(&[F::FecnBecn, F::Resv6])),
        ("1361d7cc", unmasked(&[F::Resv6])),
        ("0b86acab", unmasked(&[F::FecnBecn])),
        ("e29d8f36", unmasked(&[F::TrafficClass, F::HopLimit, F::IpChecksum])),
        ("a96bbf73", over(&[F::Identification])),
        ("d9b353c3", over(&[F::Fragment])),
        ("6f2bea3b", over(&[F::SrcPort])),
        ("c8df5e08", over(&[F::Resv7])),
        ("f7671673", vec![M::MaskedWithZeroes]),
        // Case 3.
        ("5deb4c0c", late(&[F::Identification])),
        ("d7132890", late(&[F::IpLength, F::UdpLength])),
        ("09b300a4", vec![M::NothingMasked, M::NotYetSet(fields(&[F::IpChecksum]))]),
        // What is covered.
        ("e4b21a76", vec![M::EthernetIncluded]),
        ("332ac004", vec![M::EthernetIncluded, M::OnesLeftOut, M::NothingMasked]),
        ("458f4e97", vec![M::VlanIncluded]),
        ("9280f5ba", vec![M::NetworkLeftOut]),
        ("75b457d4", vec![M::StartsAtBth]),
        ("09dc7630", vec![M::StartsAtBth, M::OnesLeftOut, M::NothingMasked]),
        ("7bc6d81d", vec![M::StartsBehindBth, M::OnesLeftOut]),
        ("1db513ff", vec![M::StartsBehindBth, M::OnesLeftOut, M::ExtLeftOut]),
        ("c8af4cc4", vec![M::ExtLeftOut]),
        ("a90bba07", vec![M::PayloadLeftOut]),
        // Two at once.
        ("1bae3161", vec![M::PadLeftOut, M::BigEndian]),
        ("2ce36eb7", vec![M::NothingMasked, M::PadLeftOut]),
    ];
    for (icrc, expected) in cases {
        assert_eq!(found(TAGGED, icrc, "", Start::Ethernet), expected, "{icrc}");
    }
}

#[test]
fn and_over_ipv6() {
    use Field as F;
    for (icrc, expected) in [
        ("93b1a7db", vec![]),
        ("341d9bdb", vec![M::Unmasked(fields(&[F::TrafficClass]))]),
        ("cc7eaac0", vec![M::Unmasked(fields(&[F::FlowLabel]))]),
        ("1d3dd4a4", vec![M::Unmasked(fields(&[F::HopLimit]))]),
        ("725db2c5", vec![M::NothingMasked]),
        ("79091950", vec![M::PadAsZeroes]),
        ("e0f0916d", vec![M::Overmasked(fields(&[F::IpVersion]))]),
    ] {
        assert_eq!(found(V6, icrc, "", Start::Ip), expected, "{icrc}");
    }
}

/// Case 34, at the sender: the right place is where the IP packet ends.
#[test]
fn an_icrc_at_the_end_of_the_padded_frame() {
    let at_end = [M::AtFrameEnd];
    let with_padding = [M::AtFrameEnd, M::TrailerIncluded];
    // The field and the trailer: the ICRC two bytes too far, and six.
    assert_eq!(found(SHORT, "0000c90e", "1792", Start::Ip), at_end);
    assert_eq!(found(SHORT, "0000e8c1", "59bc", Start::Ip), with_padding);
    assert_eq!(found(SHORT, "00000000", "0000c90e1792", Start::Ip), at_end);
    assert_eq!(found(SHORT, "00000000", "000006534c0b", Start::Ip), with_padding);
    // At its place, and right: the padding is nobody's business.
    assert_eq!(found(SHORT, "c90e1792", "0000", Start::Ip), []);
    // At its place, padding covered.
    assert_eq!(found(TAGGED, "ae3d344b", "5a5a5a5a5a5a", Start::Ethernet), [M::TrailerIncluded]);
    assert_eq!(found(SHORT, "00000000", "000000000000", Start::Ip), [M::NotFilled]);
}

#[test]
fn rxe_covers_the_headers_of_a_flush_twice() {
    assert_eq!(found(FLUSH, "bf662d99", "", Start::Ip), []);
    assert_eq!(found(FLUSH, "c6281cb4", "", Start::Ip), [M::HeadersTwice]);
}

#[test]
fn rxe_s_captured_flushes_are_named() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures/rxe72-flush-atomicwrite.pcap");
    let mut reader = PcapReader::new(std::fs::File::open(Path::new(path)).unwrap()).unwrap();
    let mut named = Vec::new();
    let mut number = 0;
    while let Some(packet) = reader.next_packet() {
        number += 1;
        let packet = packet.unwrap();
        let frame = Frame::parse([packet.data(), &[]], Start::Ethernet).unwrap();
        if let Some(diagnosis) = frame.diagnose_icrc() {
            assert!(diagnosis.to_string().contains("as Linux rxe does with a FLUSH"));
            named.push((number, diagnosis.mistakes().collect::<Vec<_>>()));
        }
    }
    assert_eq!(named, [14, 22, 43].map(|number| (number, vec![M::HeadersTwice])));
}

#[test]
fn a_cut_packet_is_not_diagnosed() {
    let mut bytes = hex(TAGGED);
    bytes.extend(hex("4167f143"));
    for len in 0..bytes.len() {
        if let Ok(frame) = Frame::parse_captured([&bytes[..len], &[]], Start::Ethernet) {
            assert_eq!(frame.diagnose_icrc(), None, "cut to {len}");
        }
    }
}

#[test]
fn a_diagnosis_reads_as_a_sentence() {
    let said = |icrc: &str| {
        let mut bytes = hex(TAGGED);
        bytes.extend(hex(icrc));
        Frame::parse([&bytes, &[]], Start::Ethernet).unwrap().diagnose_icrc().unwrap().to_string()
    };
    assert_eq!(
        said("1bae3161"),
        "the pad bytes are left out, as Linux rxe up to 2019 does; and it is stored most \
         significant byte first"
    );
    assert_eq!(
        said("e29d8f36"),
        "it covers what may change on the way: the type of service (traffic class), the time to \
         live (hop limit) and the IP checksum"
    );
    assert_eq!(said("5deb4c0c"), "it was computed while still zero: the IP identification");
    assert_eq!(said("00000000"), "it is zero: the sender's hardware had not filled it in yet");
}

/// Every single bit that can be flipped in a packet, and every pair of neighbours: none is taken
/// for a mistake, but where the flipped bits are what the mistake is about.
#[test]
fn damage_is_no_mistake() {
    let mut whole = hex(TAGGED);
    whole.extend(hex("43f16741"));
    let link = 18;
    for (first, second) in (0..whole.len() * 8).flat_map(|bit| [(bit, None), (bit, Some(bit + 1))])
    {
        let mut bytes = whole.clone();
        for bit in [Some(first), second].into_iter().flatten() {
            let Some(byte) = bytes.get_mut(bit / 8) else { continue };
            *byte ^= 0x80 >> (bit % 8);
        }
        let Ok(frame) = Frame::parse([&bytes, &[]], Start::Ethernet) else { continue };
        let Some(diagnosis) = frame.diagnose_icrc() else { continue };
        let mistakes: Vec<M> = diagnosis.mistakes().collect();
        let pad = link + 20 + 8 + 12 + 16 + 5;
        assert_eq!(mistakes, [M::PadAsZeroes], "bit {first}");
        assert!(
            (pad..pad + 3).contains(&(first / 8)) || (pad..pad + 3).contains(&((first + 1) / 8))
        );
    }
}

/// Noise, the same at every run: chance would explain one in two million.
#[test]
fn noise_is_no_mistake() {
    let mut bytes = hex(TAGGED);
    bytes.extend([0; 4]);
    let end = bytes.len() - 4;
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..10_000 {
        noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        bytes[end..].copy_from_slice(&noise.to_be_bytes()[..4]);
        let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        assert_eq!(frame.diagnose_icrc(), None, "{:02x?}", frame.icrc());
    }
}

proptest! {
    /// A diagnosis implies a wrong ICRC, whatever the payload; it may happen by chance, so that
    /// there is none is not asked here.
    #[test]
    fn a_right_icrc_has_no_mistake(icrc: [u8; 4], payload in prop::collection::vec(any::<u8>(), 5)) {
        let mut bytes = hex(TAGGED);
        let at = bytes.len() - 8;
        bytes[at..at + 5].copy_from_slice(&payload);
        bytes.extend(icrc);
        let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        if frame.diagnose_icrc().is_some() {
            prop_assert_ne!(frame.verify_icrc(), IcrcVerdict::Valid);
        }

        let right = frame.computed_icrc::<Crc>().unwrap();
        let end = bytes.len() - 4;
        bytes[end..].copy_from_slice(&right);
        let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
        prop_assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
        prop_assert_eq!(frame.diagnose_icrc(), None);
    }
}
