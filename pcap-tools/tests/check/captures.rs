//! Real captures: what is right in them is found right, and what is wrong is named.

use std::collections::BTreeMap;

use roce_pcap::capture::Reader;
use roce_pcap::check::{Finding, Rule, Verdict};

use crate::support::{REPORTS, failures, name, own_captures, public_captures};

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
        let failures = failures(&report.findings);
        if name != "rxe72-flush-atomicwrite" {
            assert_eq!(failures, Vec::<&Finding>::new(), "{name}");
            assert_eq!(summary.icrc_invalid, 0, "{name}");
            continue;
        }
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
            .filter(|finding| !REPORTS.contains(&finding.rule))
            .map(|finding| finding.rule)
            .collect();
        let gaps = unknown.iter().filter(|rule| **rule == Rule::RcPsnGap).count();
        match name(&path).as_str() {
            "rxe-lossy-client" | "rxe-lossy-server" => assert!(gaps > 10),
            // rxe answers marks with no notification. The client's tap sees marked ACKs alone.
            "rxe-ecn-server" => assert_eq!(unknown, [Rule::EcnCnp]),
            name => assert_eq!(unknown, [], "{name}"),
        }
    }
}

/// Every refusal of the captures that have some, and what it is put down to: the cases stand in
/// their README in this order.
#[test]
fn refusals_are_tied_to_their_causes() {
    let reports = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/captures");
        let report = roce_pcap::check(Reader::open(format!("{folder}/{name}.pcap")).unwrap());
        report.findings.into_iter().filter(|finding| REPORTS.contains(&finding.rule))
    };
    let expect = [
        // A receive comes late; it never comes, and rnr_retry is 1.
        (37, "RNR NAK", "RC_SEND_ONLY found no receive posted"),
        (46, "RNR NAK", "RC_SEND_ONLY found no receive posted"),
        (48, "RNR NAK", "RC_SEND_ONLY found no receive posted"),
        // A wrong R_Key, twice; past the region's end; without the right.
        (
            55,
            "0x62",
            "RC_RDMA_WRITE_FIRST of 3000 bytes at 0x562c13297000, R_Key 0x00005d23: the R_Key was never",
        ),
        (
            64,
            "0x62",
            "RC_RDMA_READ_REQUEST of 3000 bytes at 0x562c132a8000, R_Key 0x00005c98: the R_Key was never",
        ),
        (
            71,
            "0x62",
            "RC_RDMA_READ_REQUEST of 3000 bytes at 0x562c132c8f9c, R_Key 0x00000af4: the R_Key was never",
        ),
        (
            78,
            "0x62",
            "RC_RDMA_WRITE_FIRST of 3000 bytes at 0x562c132ca000, R_Key 0x00000bc2: the R_Key was never",
        ),
        // Longer than its receive.
        (94, "0x63", "RC_SEND_FIRST with 1024 bytes: longer than its receive"),
        // A queue pair without remote READ.
        (
            191,
            "0x61",
            "RC_RDMA_READ_REQUEST of 3000 bytes at 0x562c13341000, R_Key 0x00001259: the queue pair does not",
        ),
    ];
    let found: Vec<_> = reports("rxe-errors").collect();
    assert_eq!(found.len(), expect.len());
    for (finding, (packet, nak, message)) in found.iter().zip(expect) {
        assert_eq!(finding.packet, packet, "{finding}");
        assert!(finding.found.contains(nak) && finding.message.starts_with(message), "{finding}");
    }
    let expect = [
        (
            30,
            "0x61",
            "RC_ATOMIC_WRITE of 8 bytes at 0x557615b1a004, R_Key 0x0000056a: its address is no multiple of 8",
        ),
        (
            37,
            "0x62",
            "RC_ATOMIC_WRITE of 8 bytes at 0x557615b1a000, R_Key 0x00005336: the R_Key was never",
        ),
        (
            44,
            "0x62",
            "RC_FLUSH of 100 bytes at 0x557615b1a000, R_Key 0x000007ff: the R_Key was never",
        ),
    ];
    let found: Vec<_> = reports("rxe72-flush-atomicwrite").collect();
    assert_eq!(found.len(), expect.len());
    for (finding, (packet, nak, message)) in found.iter().zip(expect) {
        assert_eq!(finding.packet, packet, "{finding}");
        assert!(finding.found.contains(nak) && finding.message.starts_with(message), "{finding}");
    }
}
