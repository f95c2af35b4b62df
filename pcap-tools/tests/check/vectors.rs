//! Packets that others published, judged one by one. They are read beside the checkout and not
//! copied.

use roce_codec::{Frame, Start};
use roce_pcap::capture::LinkType;
use roce_pcap::check::{Rule, Verdict};

use crate::support::{Owned, judge};

/// Reads the `**NAME` blocks of the file of vectors: name and frame.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/facts/vectors.md");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("passed over: no vectors beside the checkout");
        return Vec::new();
    };
    let mut vectors = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("**") {
            rest.split(' ').next().unwrap().clone_into(&mut name);
        } else if line.len() > 80 && line.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            vectors.push((name.clone(), (0..line.len()).step_by(2).map(byte).collect()));
        }
    }
    vectors
}

#[test]
fn published_packets_are_clean() {
    let mut judged = 0;
    for (name, data) in vectors() {
        // A1 is native InfiniBand, already masked.
        if name == "A1" {
            continue;
        }
        let orig_len = data.len().try_into().unwrap();
        let packet = Owned { timestamp_ns: None, link: Some(LinkType::ETHERNET), orig_len, data };
        let (summary, findings) = judge([&packet]);
        assert_eq!((summary.roce_packets, summary.icrc_valid), (1, 1), "{name}");
        let failed: Vec<_> = findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Fail)
            .map(|finding| finding.rule)
            .collect();
        // A generator may have made a pad that is not zero: legal to read, wrong to send.
        let frame = Frame::parse([&packet.data, &[]], Start::Ethernet).unwrap();
        let expected: &[Rule] =
            if frame.pad().iter().any(|byte| *byte != 0) { &[Rule::BthPadBytes] } else { &[] };
        assert_eq!(failed, expected, "{name}: {findings:?}");
        judged += 1;
    }
    assert!(judged == 0 || judged >= 13, "{judged}");
}
