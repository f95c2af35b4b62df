//! The table of findings.

use super::column::{I64, Label, Maybe, Shown, Text, Time, Word, signed};
use super::flow::flow_id;
use super::table::columns;
use crate::check::{Finding, Rule, Severity, Verdict};

/// A finding of a capture.
pub(super) struct FindingRow<'a> {
    pub(super) file: &'a str,
    pub(super) finding: &'a Finding,
}

columns! {
    /// The findings.
    Findings |row: &FindingRow<'_>|
    file: Label = row.file, "The capture";
    packet: I64 = signed(row.finding.packet), "The packet's number in the file, from 1";
    time: Maybe<Time> = row.finding.time_ns, "Its time";
    flow_id: Maybe<I64> = row.finding.flow.as_ref().map(flow_id), "Its flow";
    rule: Shown<Rule> = row.finding.rule, "The rule, as `roce-pcap explain` lists them";
    severity: Shown<Severity> = row.finding.rule.severity(), "error, warning, info";
    verdict: Shown<Verdict> = row.finding.verdict, "fail or unknown";
    clause: Word = row.finding.rule.clause(), "Where the specification says it";
    expected: Text = &row.finding.expected, "What the rule calls for";
    found: Text = &row.finding.found, "What the packet has";
    message: Text = &row.finding.message, "The finding in a sentence";
}
