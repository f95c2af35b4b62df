//! Captures in memory, for tests that change them.

use std::path::{Path, PathBuf};

use roce_pcap::capture::{LinkType, Packet, Reader};
use roce_pcap::check::{Checker, Finding, Profile, Rule, Summary, Verdict};

/// A packet that owns its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    /// Nanoseconds since 1970.
    pub(crate) timestamp_ns: Option<u64>,
    /// How it starts.
    pub(crate) link: Option<LinkType>,
    /// Bytes on the wire.
    pub(crate) orig_len: u32,
    /// Bytes captured.
    pub(crate) data: Vec<u8>,
}

/// The captures in a folder, by name; none when it is not there.
pub(crate) fn captures(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pcap"))
        .collect();
    paths.sort();
    paths
}

/// The captures of the repository.
pub(crate) fn own_captures() -> Vec<PathBuf> {
    let paths = captures("../tests/captures");
    assert_eq!(paths.len(), 15);
    paths
}

/// The captures of others beside the checkout, if they are there.
pub(crate) fn public_captures() -> Vec<PathBuf> {
    let paths = captures("../../shared/public-captures");
    if paths.is_empty() {
        println!("passed over: no public captures beside the checkout");
    }
    paths
}

/// The name of a capture without its folder and extension.
pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Every packet of a capture.
pub(crate) fn load(path: &Path) -> Vec<Owned> {
    let mut reader = Reader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        packets.push(Owned {
            timestamp_ns: packet.timestamp_ns,
            link: packet.link,
            orig_len: packet.orig_len,
            data: packet.data.to_vec(),
        });
    }
    packets
}

/// Every packet of one of the repository's captures.
pub(crate) fn load_own(name: &str) -> Vec<Owned> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/captures");
    load(&folder.join(format!("{name}.pcap")))
}

/// Judges packets in the order given.
pub(crate) fn judge<'a>(packets: impl IntoIterator<Item = &'a Owned>) -> (Summary, Vec<Finding>) {
    judge_with(Profile::default(), packets)
}

/// Judges packets of devices that something is known of.
pub(crate) fn judge_with<'a>(
    profile: Profile,
    packets: impl IntoIterator<Item = &'a Owned>,
) -> (Summary, Vec<Finding>) {
    let mut checker = Checker::with_profile(profile);
    let mut findings = Vec::new();
    for (number, packet) in (1..).zip(packets) {
        let packet = Packet {
            number,
            offset: 0,
            timestamp_ns: packet.timestamp_ns,
            interface: 0,
            link: packet.link,
            direction: None,
            fcs_len: 0,
            link_bps: None,
            orig_len: packet.orig_len,
            data: &packet.data,
        };
        findings.extend_from_slice(checker.packet(&packet));
    }
    findings.extend_from_slice(checker.finish());
    (checker.summary(), findings)
}

/// What one end told the other, and no fault of either in the protocol.
pub(crate) const REPORTS: [Rule; 2] = [Rule::RcRnr, Rule::RcRefused];

/// What a checker must not say of a clean capture.
pub(crate) fn failures(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.verdict == Verdict::Fail).collect()
}

/// A small generator of pseudo-random numbers (xorshift64*): a seed replays a failure.
pub(crate) struct Random(u64);

impl Random {
    /// From any seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`, which is above 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % bound
    }
}
