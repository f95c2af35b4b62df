//! What a judgement leaves: findings, counts, and the report that holds both.

use std::fmt;

use super::gap::Gap;
use super::rule::{Rule, Verdict};
use crate::capture::CaptureError;
use crate::observed::FlowKey;

/// A rule broken, or one that the capture cannot tell.
///
/// A rule that cannot be told for want of knowledge (one direction only, started mid-stream) is
/// found once a flow; [`Counts`] has how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// [`Verdict::Fail`] or [`Verdict::Unknown`]; [`Verdict::Pass`] where a second tap has
    /// explained it ([`settle`](super::settle())).
    pub verdict: Verdict,
    /// The packet's number in the file, from 1.
    pub packet: u64,
    /// Its time, nanoseconds since 1970.
    pub time_ns: Option<u64>,
    /// The flow it belongs to; `None` when its headers do not tell.
    pub flow: Option<FlowKey>,
    /// What the rule calls for.
    pub expected: String,
    /// What the packet has.
    pub found: String,
    /// The finding in a sentence.
    pub message: String,
    /// What is missing, if it is a gap.
    pub gap: Option<Gap>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packet {}: {} {} ({})",
            self.packet,
            self.rule,
            self.verdict,
            self.rule.severity()
        )?;
        if let Some(flow) = self.flow {
            write!(f, ", {flow}")?;
        }
        write!(f, ": {} [expected {}, found {}]", self.message, self.expected, self.found)
    }
}

/// How often a rule came to each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Kept.
    pub pass: u64,
    /// Broken.
    pub fail: u64,
    /// Not to be told.
    pub unknown: u64,
}

/// The numbers of a whole capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Packets read.
    pub packets: u64,
    /// RoCE and InfiniBand packets, and what was sent to RoCEv2's port and cannot be read.
    pub roce_packets: u64,
    /// Right ICRCs.
    pub icrc_valid: u64,
    /// Wrong ICRCs.
    pub icrc_invalid: u64,
    /// ICRCs that cannot be checked: packets cut, or captured before the hardware filled it in.
    pub icrc_uncheckable: u64,
    /// Flows: sender, receiver and destination QP.
    pub flows: u64,
    /// Rules found broken.
    pub fail: u64,
    /// Rules found kept.
    pub pass: u64,
    /// Rules that could not be told.
    pub unknown: u64,
}

impl Summary {
    /// Adds the numbers of another capture.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.roce_packets += other.roce_packets;
        self.icrc_valid += other.icrc_valid;
        self.icrc_invalid += other.icrc_invalid;
        self.icrc_uncheckable += other.icrc_uncheckable;
        self.flows += other.flows;
        self.fail += other.fail;
        self.pass += other.pass;
        self.unknown += other.unknown;
    }
}

/// The judgement of a whole capture.
#[derive(Debug)]
pub struct Report {
    /// The numbers.
    pub summary: Summary,
    /// The findings in the order of the packets that settled them, the first
    /// [`Report::MAX_FINDINGS`] of them.
    pub findings: Vec<Finding>,
    /// Findings beyond those kept.
    pub findings_dropped: u64,
    /// Verdicts by rule, in the order of [`Rule::ALL`].
    pub rules: Vec<(Rule, Counts)>,
    /// Why the capture gave no more packets, unless it simply ended.
    pub error: Option<CaptureError>,
}

impl Report {
    /// Findings that a report keeps.
    pub const MAX_FINDINGS: usize = 100_000;

    /// Whether the capture was read to its end and broke no rule.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.error.is_none() && self.summary.fail == 0
    }

    /// The findings that say a rule is broken.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.verdict == Verdict::Fail)
    }
}
