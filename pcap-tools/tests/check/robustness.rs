//! No packet and no file, however broken, makes the decoder or the checker panic or hang.

use roce_codec::{Frame, Start};
use roce_pcap::capture::{LinkType, Packet, Reader};
use roce_pcap::check::Checker;
use roce_pcap::decode::{Decoder, Style};

use crate::support::{Random, load, load_own, own_captures};

/// Makes the ICRC right again, so that what a packet says is believed.
fn repair(data: &mut [u8]) {
    let Ok(frame) = Frame::parse([data, &[]], Start::Ethernet) else { return };
    let Some(icrc) = frame.computed_icrc::<roce_codec::Crc>() else { return };
    let end = data.len() - frame.trailer()[0].len();
    data[end - 4..end].copy_from_slice(&icrc);
}

fn feed(checker: &mut Checker, number: u64, link: LinkType, data: &[u8]) {
    let packet = Packet {
        number,
        offset: 0,
        timestamp_ns: Some(number),
        interface: 0,
        link: Some(link),
        direction: None,
        fcs_len: 0,
        link_bps: None,
        orig_len: u32::try_from(data.len()).unwrap(),
        data,
    };
    checker.packet(&packet);
    for style in [Style::Line, Style::Tree, Style::JsonLines] {
        let mut out = Vec::new();
        Decoder::new(style, true).packet(&packet, &mut out).unwrap();
        assert!(!out.is_empty());
    }
}

/// Bits flipped in every layer of real packets, the ICRC repaired, the order shuffled.
#[test]
fn changed_packets_are_survived() {
    let mut random = Random::new(11);
    for path in own_captures() {
        let packets = load(&path);
        let mut checker = Checker::new();
        for number in 0..1500 {
            let mut data = packets[random.below(packets.len())].data.clone();
            for _ in 0..random.below(4) {
                // Mostly in the headers.
                let reach = if random.below(4) == 0 { data.len() } else { data.len().min(90) };
                let at = random.below(reach);
                data[at] ^= 1 << random.below(8);
            }
            if random.below(8) > 0 {
                repair(&mut data);
            }
            if random.below(20) == 0 {
                data.truncate(random.below(data.len()));
            }
            feed(&mut checker, number, LinkType::ETHERNET, &data);
        }
        checker.finish();
        let summary = checker.summary();
        assert_eq!(summary.packets, 1500);
        assert!(summary.fail > 0);
    }
}

/// Every opcode, every length up to the longest headers, in one flow.
#[test]
fn every_opcode_at_every_length_is_survived() {
    let template = &load_own("rxe-write")[0].data;
    let mut checker = Checker::new();
    let mut number = 0;
    for opcode in 0..=255 {
        for len in 12..80_u16 {
            let mut data = template[..42].to_vec();
            data.resize(42 + usize::from(len), opcode);
            data[16..18].copy_from_slice(&(28 + len).to_be_bytes());
            data[38..40].copy_from_slice(&(8 + len).to_be_bytes());
            data[42] = opcode;
            repair(&mut data);
            number += 1;
            feed(&mut checker, number, LinkType::ETHERNET, &data);
        }
    }
    checker.finish();
    assert_eq!(checker.summary().roce_packets, 256 * 68);
}

/// Any bytes under any link type.
#[test]
fn noise_is_survived() {
    let mut random = Random::new(12);
    let mut checker = Checker::new();
    for number in 0..20_000 {
        let data: Vec<u8> =
            (0..random.below(120)).map(|_| random.below(256).to_le_bytes()[0]).collect();
        let links = [1, 12, 101, 113, 147, 228, 229, 276];
        feed(&mut checker, number, LinkType(links[random.below(links.len())]), &data);
    }
    checker.finish();
}

/// Whole files with some bytes changed.
#[test]
fn changed_files_are_survived() {
    let mut random = Random::new(13);
    for path in own_captures() {
        let file = std::fs::read(path).unwrap();
        let file = &file[..file.len().min(60_000)];
        for _ in 0..20 {
            let mut changed = file.to_vec();
            for _ in 0..1 + random.below(6) {
                let at = random.below(changed.len());
                changed[at] = random.below(256).to_le_bytes()[0];
            }
            let Ok(reader) = Reader::new(changed.as_slice()) else { continue };
            let report = roce_pcap::check(reader);
            assert!(report.summary.packets <= 4000);
        }
    }
}

/// Thousands of flows that never pair: what is remembered of each is bounded.
#[test]
fn many_flows_are_told_apart() {
    let template = load_own("rxe-write")[0].data.clone();
    let mut checker = Checker::new();
    // From QP 16 on: 1 is for management.
    for number in 16..20_016_u32 {
        let mut data = template.clone();
        data[46..50].copy_from_slice(&number.to_be_bytes());
        repair(&mut data);
        feed(&mut checker, number.into(), LinkType::ETHERNET, &data);
    }
    assert_eq!(checker.summary().flows, 20_000);
    assert_eq!(checker.summary().fail, 0);
}
