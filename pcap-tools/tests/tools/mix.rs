//! Made-up traffic is clean, by our checker and by tshark.

use std::collections::HashSet;

use roce_codec::ib::{Opcode, PathMtu, Service};
use roce_codec::net::Ecn;
use roce_pcap::capture::{CaptureWriter, PcapngWriter, Reader};
use roce_pcap::dissect::{Dissected, dissect};
use roce_pcap::generate::{Mix, Traffic};

use crate::support::{Temporary, tshark};

fn make(mix: &Mix) -> Vec<u8> {
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    mix.write(&mut writer).unwrap();
    writer.into_inner().unwrap()
}

/// Nothing is found in it, not even what cannot be told.
fn assert_clean(mix: &Mix) {
    let file = make(mix);
    let report = roce_pcap::check(Reader::new(file.as_slice()).unwrap());
    assert!(report.findings.is_empty(), "{mix:?}: {}", report.findings[0]);
    assert!(report.error.is_none());
    let summary = report.summary;
    assert_eq!((summary.packets, summary.roce_packets), (mix.packets, mix.packets));
    assert_eq!((summary.fail, summary.unknown), (0, 0), "{mix:?}");
    assert_eq!(summary.icrc_valid, mix.packets);
}

#[test]
fn any_size_is_exact_and_clean() {
    for packets in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 1000, 5000] {
        for seed in 0..4 {
            assert_clean(&Mix { packets, seed, ..Mix::default() });
        }
    }
}

#[test]
fn long_traces_are_clean() {
    for seed in 1..3 {
        assert_clean(&Mix { packets: 50_000, seed, ..Mix::default() });
    }
    // Queue pair numbers come again: four connections at a time, one after another.
    assert_clean(&Mix { packets: 250_000, seed: 9, flows: 4, ..Mix::default() });
}

#[test]
fn wishes_are_kept() {
    for mtu in PathMtu::ALL {
        let mix = Mix { packets: 4000, seed: 5, flows: 30, mtu: Some(mtu), payload: Some(6000) };
        assert_clean(&mix);
        let mut largest = 0;
        let mut traffic = Traffic::new(&mix);
        while let Some((_, packet)) = traffic.next_packet() {
            let frame = roce_codec::Frame::parse([packet, &[]], roce_codec::Start::Ethernet);
            largest = largest.max(frame.unwrap().payload_len());
        }
        assert_eq!(largest, usize::try_from(mtu.bytes()).unwrap());
    }
}

#[test]
fn a_seed_is_a_trace() {
    let of = |seed| make(&Mix { packets: 3000, seed, ..Mix::default() });
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// What benchmarks assume of it, and that every kind of packet comes up.
#[test]
fn it_is_a_mixture() {
    let packets = 100_000;
    let file = make(&Mix { packets, seed: 1, ..Mix::default() });
    let average = file.len() as u64 / packets;
    assert!((240..300).contains(&average), "{average} bytes a packet");
    let mut opcodes = HashSet::new();
    let (mut v6, mut tagged, mut marked, mut last) = (0, 0, 0, 0);
    let mut reader = Reader::new(file.as_slice()).unwrap();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let time = packet.timestamp_ns.unwrap();
        assert!(time > last, "time stands still at {}", packet.number);
        last = time;
        let Dissected::Roce(frame) = dissect(&packet) else { panic!("{}", packet.number) };
        opcodes.insert(frame.opcode());
        v6 += u32::from(frame.src().is_ipv6());
        tagged += u32::from(frame.ethernet().is_some_and(|ethernet| !ethernet.vlans.is_empty()));
        marked += u32::from(Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce);
    }
    assert!(v6 > 5_000 && tagged > 5_000, "{v6} {tagged}");
    assert!((50..5_000).contains(&marked), "{marked}");
    let newer = [Opcode::RC_FLUSH, Opcode::RC_ATOMIC_WRITE];
    for opcode in (0..=255).map(Opcode) {
        let served = matches!(opcode.info().service, Service::Rc | Service::Uc | Service::Ud);
        let known = opcode.name().is_some() && served || opcode == Opcode::CNP;
        assert_eq!(opcodes.contains(&opcode), known && !newer.contains(&opcode), "{opcode}");
    }
}

#[test]
fn tshark_finds_nothing_malformed() {
    let file = make(&Mix { packets: 20_000, seed: 3, ..Mix::default() });
    let file = Temporary::new(".pcapng", &file);
    let fields = ["frame.number", "_ws.malformed"];
    let Some(malformed) = tshark(&file.0, "_ws.malformed || !infiniband", &fields) else { return };
    assert!(malformed.is_empty(), "{malformed:?}");
}
