//! Real captures: what is right in them is found right, and what is wrong is named.

use std::collections::BTreeMap;

use roce_pcap::capture::Reader;
use roce_pcap::check::{Rule, Verdict};

use crate::support::{name, own_captures, public_captures};

/// The table in `tests/captures/README.md`: packets of each file.
fn documented() -> BTreeMap<String, u64> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures/README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let mut table = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, files, packets, _, _] = cells[..] else { continue };
        let Some(first) = files.split(", ").next().filter(|first| first.starts_with("rxe")) else {
            continue;
        };
        for (file, packets) in files.split(", ").zip(packets.split(", ")) {
            // A second file is given by its last word alone.
            let file = match file.strip_prefix('-') {
                Some(last) => format!("{}-{last}", first.rsplit_once('-').unwrap().0),
                None => file.to_owned(),
            };
            table.insert(file, packets.parse().unwrap());
        }
    }
    table
}

#[test]
fn our_captures_are_clean_but_for_three_flushes() {
    let documented = documented();
    assert_eq!(documented.len(), 15);
    for path in own_captures() {
        let report = roce_pcap::check(Reader::open(&path).unwrap());
        let name = name(&path);
        let summary = report.summary;
        assert!(report.error.is_none(), "{name}");
        assert_eq!(summary.packets, documented[&name], "{name}");
        assert_eq!(summary.icrc_uncheckable, 0, "{name}");
        assert_eq!(summary.icrc_valid + summary.icrc_invalid, summary.roce_packets, "{name}");
        if name != "rxe72-flush-atomicwrite" {
            assert!(report.is_clean(), "{name}: {}", report.failures().next().unwrap());
            assert_eq!(summary.icrc_invalid, 0, "{name}");
            continue;
        }
        let failures: Vec<_> = report.failures().collect();
        let found: Vec<_> = failures
            .iter()
            .map(|finding| (finding.packet, finding.expected.as_str(), finding.found.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (14, "e66feb14", "dd758200"),
                (22, "cd139664", "b4c3c7b5"),
                (43, "6a64fc2f", "14b96b61"),
            ]
        );
        for finding in failures {
            assert_eq!(finding.rule, Rule::RoceIcrc);
            assert!(finding.message.contains("FLUSH"), "{finding}");
        }
    }
}

#[test]
fn public_captures_are_clean() {
    for path in public_captures() {
        let report = roce_pcap::check(Reader::open(&path).unwrap());
        assert!(report.is_clean(), "{}", path.display());
        assert_eq!(report.summary.icrc_valid, report.summary.roce_packets);
        assert!(report.summary.roce_packets > 0);
        assert_eq!(report.findings, [], "{}", path.display());
    }
}

/// Where nothing was lost, nothing remains unknown; where something was, the gaps show it.
#[test]
fn what_is_unknown_is_what_was_lost() {
    for path in own_captures() {
        let report = roce_pcap::check(Reader::open(&path).unwrap());
        let unknown: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Unknown)
            .map(|finding| finding.rule)
            .collect();
        let gaps = unknown.iter().filter(|rule| **rule == Rule::RcPsnGap).count();
        match name(&path).as_str() {
            "rxe-lossy-client" | "rxe-lossy-server" => assert!(gaps > 10),
            name => assert_eq!(unknown, [], "{name}"),
        }
    }
}
