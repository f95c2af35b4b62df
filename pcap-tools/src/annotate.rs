//! Findings as packet comments, so that Wireshark shows them where they belong.
//!
//! ```
//! use roce_pcap::annotate::Annotations;
//! use roce_pcap::capture::{Reader, copy_with_comments};
//! use roce_pcap::check::Checker;
//!
//! # let file = {
//! #     let mut writer = roce_pcap::capture::PcapngWriter::new(Vec::new())?;
//! #     writer.write_packet(0, roce_pcap::capture::Direction::Inbound, [b"frame", b""])?;
//! #     writer.into_inner()?
//! # };
//! // Twice through the file: a finding may speak of an earlier packet.
//! let annotations = Annotations::of(Reader::new(file.as_slice())?, Checker::new());
//! let about = annotations.about();
//! let mut out = Vec::new();
//! copy_with_comments(file.as_slice(), &mut out, &about, |packet| Some(annotations.comments(packet)))
//!     .expect("memory takes everything");
//! assert!(about.starts_with("roce-pcap check: 1 packets"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::io::Read;

use crate::capture::Reader;
use crate::check::{Checker, Counts, Finding, Rule, Summary};

/// The findings of a capture by packet, and its summary.
#[derive(Debug, Default)]
pub struct Annotations {
    by_packet: BTreeMap<u64, Vec<String>>,
    kept: usize,
    dropped: u64,
    summary: Summary,
    rules: Vec<(Rule, Counts)>,
}

impl Annotations {
    /// Findings that are kept; those beyond are counted.
    pub const MAX_FINDINGS: usize = 1_000_000;

    /// Judges a capture by a checker that has seen nothing else. What keeps it from being read to
    /// its end will keep it from being copied, too, and is told there.
    pub fn of<R: Read>(mut reader: Reader<R>, mut checker: Checker) -> Self {
        let mut annotations = Self::default();
        while let Some(Ok(packet)) = reader.next_packet() {
            annotations.add(checker.packet(&packet));
        }
        annotations.add(checker.finish());
        annotations.summary = checker.summary();
        annotations.rules = checker.rules();
        annotations
    }

    fn add(&mut self, findings: &[Finding]) {
        for finding in findings {
            if self.kept < Self::MAX_FINDINGS {
                self.by_packet.entry(finding.packet).or_default().push(comment(finding));
                self.kept += 1;
            } else {
                self.dropped += 1;
            }
        }
    }

    /// The comments of a packet, by its number from 1.
    #[must_use]
    pub fn comments(&self, packet: u64) -> Vec<String> {
        self.by_packet.get(&packet).cloned().unwrap_or_default()
    }

    /// The comment on the whole: the summary, and every rule that was found broken or could not be
    /// told.
    #[must_use]
    pub fn about(&self) -> String {
        let Summary { packets, roce_packets, icrc_valid, icrc_invalid, .. } = self.summary;
        let Summary { icrc_uncheckable, fail, unknown, pass, .. } = self.summary;
        let mut text = format!(
            "roce-pcap check: {packets} packets, {roce_packets} RoCE; ICRC: {icrc_valid} valid, \
             {icrc_invalid} invalid, {icrc_uncheckable} not checkable; {fail} fail, {unknown} \
             unknown, {pass} pass"
        );
        for (rule, counts) in &self.rules {
            if counts.fail > 0 || counts.unknown > 0 {
                let Counts { fail, unknown, .. } = counts;
                text.push_str(&format!("; {rule}: {fail} fail, {unknown} unknown"));
            }
        }
        if self.dropped > 0 {
            text.push_str(&format!("; {} findings have no comment", self.dropped));
        }
        text
    }

    /// Findings that became comments.
    #[must_use]
    pub fn findings(&self) -> usize {
        self.kept
    }
}

/// A finding as the comment of its packet, which says where it is.
#[must_use]
pub fn comment(finding: &Finding) -> String {
    let Finding { rule, verdict, message, expected, found, .. } = finding;
    format!("roce-pcap {rule} {verdict}: {message} [expected {expected}, found {found}]")
}
