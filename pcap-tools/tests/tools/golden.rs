//! Each golden trace is found to be exactly what its table says: no finding more, none less.

use std::collections::HashSet;

use roce_pcap::capture::{CaptureWriter, PcapngWriter, Reader};
use roce_pcap::check::{Rule, Verdict};
use roce_pcap::generate::{Golden, PREAMBLE};

use crate::support::{Temporary, packets, roce_pcap, tshark};

fn file(golden: &Golden, seed: u64) -> Vec<u8> {
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    golden.write(seed, &mut writer).unwrap();
    writer.into_inner().unwrap()
}

/// What was found, in the order of packets.
fn found(file: &[u8]) -> Vec<(Rule, Verdict, u64)> {
    let report = roce_pcap::check(Reader::new(file).unwrap());
    let mut found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.rule, finding.verdict, finding.packet))
        .collect();
    found.sort_by_key(|(rule, _, packet)| (*packet, *rule));
    found
}

#[test]
fn each_trace_raises_what_its_table_says() {
    let mut wrong = Vec::new();
    for golden in Golden::all() {
        let mut expected: Vec<_> = golden.findings().collect();
        expected.sort_by_key(|(rule, _, packet)| (*packet, *rule));
        for seed in 1..4 {
            let found = found(&file(golden, seed));
            if found != expected {
                let rows: Vec<_> = found
                    .iter()
                    .map(|(rule, verdict, packet)| {
                        let packet = packet.cast_signed() - PREAMBLE.cast_signed();
                        format!("{rule:?} {verdict:?} {packet}")
                    })
                    .collect();
                wrong.push(format!("{}, seed {seed}: found [{}]", golden.name, rows.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_are_unique_and_every_trace_says_something() {
    let all = Golden::all();
    let names: HashSet<_> = all.iter().map(|golden| golden.name).collect();
    assert_eq!(names.len(), all.len());
    assert!(all.len() >= 100, "{} traces", all.len());
    for golden in all {
        let count = golden.packets(1).len() as u64;
        assert!(count > PREAMBLE, "{}", golden.name);
        assert!(golden.findings().all(|(_, _, packet)| packet <= count), "{}", golden.name);
        assert_eq!(file(golden, 1), file(golden, 1), "{}", golden.name);
        assert_ne!(file(golden, 1), file(golden, 2), "{}", golden.name);
    }
}

/// Every rule that RoCEv2 can break is broken somewhere.
#[test]
fn every_rule_has_its_trace() {
    let broken: HashSet<_> =
        Golden::all().into_iter().flat_map(Golden::findings).map(|(rule, _, _)| rule).collect();
    let missing: Vec<_> = Rule::ALL.iter().filter(|rule| !broken.contains(rule)).collect();
    // Of native InfiniBand alone, and these traces are RoCEv2.
    assert_eq!(missing, [&Rule::IbVcrc]);
}

/// What we call a CNP, an ACK or a RETH is that for tshark, too.
#[test]
fn tshark_reads_what_is_not_broken_on_purpose() {
    let golden = Golden::named("psn-gap-nak").unwrap();
    let file = file(golden, 1);
    let written = Temporary::new(".pcapng", &file);
    let fields = ["infiniband.bth.psn", "infiniband.aeth.syndrome", "_ws.malformed"];
    let Some(seen) = tshark(&written.0, "infiniband", &fields) else { return };
    assert_eq!(seen.len(), packets(&file).len());
    let nak = &seen[usize::try_from(PREAMBLE).unwrap() + 2];
    assert_eq!(nak[1..], ["96", ""], "a sequence NAK is 0x60");
    assert!(seen.iter().all(|packet| packet[2].is_empty()));
}

#[test]
fn the_command_lists_and_writes_them() {
    let list = roce_pcap(&["gen", "--list"], &[]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("psn-gap-nak") && list.contains("RC-PSN-GAP unknown 48"), "{list}");
    let one = roce_pcap(&["gen", "--trace", "psn-gap-nak", "--seed", "5", "-o", "-"], &[]);
    assert_eq!(one.status.code(), Some(0));
    assert_eq!(one.stdout, file(Golden::named("psn-gap-nak").unwrap(), 5));
    let none = roce_pcap(&["gen", "--trace", "psn-gap", "-o", "-"], &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr).unwrap().contains("--list"));
    let folder = Temporary::new(".d", &[]);
    std::fs::remove_file(&folder.0).unwrap();
    let all = roce_pcap(&["gen", "--all", folder.0.to_str().unwrap()], &[]);
    assert_eq!(all.status.code(), Some(0));
    let written = std::fs::read_dir(&folder.0).unwrap().count();
    std::fs::remove_dir_all(&folder.0).unwrap();
    assert_eq!(written, Golden::all().len());
}
