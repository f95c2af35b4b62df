//! What the checker says of a packet.

use super::value::number;
use super::{Field, Kind, Row, Shown, Value};
use crate::check::{Finding, Severity, Verdict};
use crate::dissect::Dissected;

const VERDICTS: &[&str] = &["pass", "unknown", "fail"];
const SEVERITIES: &[&str] = &["info", "warning", "error"];

/// The gravest verdict. A packet without findings has passed.
fn verdict(row: &Row<'_>) -> Option<usize> {
    if !matches!(row.dissected(), Dissected::Roce(_) | Dissected::Malformed(_)) {
        return None;
    }
    let place = |finding: &Finding| match finding.verdict {
        Verdict::Pass => 0,
        Verdict::Unknown => 1,
        Verdict::Fail => 2,
    };
    Some(row.findings()?.iter().map(place).max().unwrap_or(0))
}

pub(super) static FIELDS: &[Field] = &[
    Field::new("verdict", "Verdict", Kind::Word(VERDICTS), |row| {
        verdict(row).map(|place| Value::Word(VERDICTS, place))
    })
    .shown(Shown::Asked),
    Field::many("rule", "Rules not kept or not known", Kind::Rule, |row, with| {
        for finding in row.findings().unwrap_or_default() {
            with(Value::Text(finding.rule.id().into()));
        }
    })
    .shown(Shown::Asked),
    Field::many("severity", "Severity of what is broken", Kind::Word(SEVERITIES), |row, with| {
        for finding in row.findings().unwrap_or_default() {
            if finding.verdict == Verdict::Fail {
                let place = match finding.rule.severity() {
                    Severity::Info => 0,
                    Severity::Warning => 1,
                    Severity::Error => 2,
                };
                with(Value::Word(SEVERITIES, place));
            }
        }
    })
    .shown(Shown::Asked),
    Field::many("finding.message", "What is found", Kind::Text, |row, with| {
        for finding in row.findings().unwrap_or_default() {
            with(Value::Text(finding.message.as_str().into()));
        }
    })
    .shown(Shown::Asked),
    Field::many("finding.packet", "The packet a finding speaks of", Kind::Number, |row, with| {
        for finding in row.findings().unwrap_or_default() {
            with(number(finding.packet));
        }
    })
    .shown(Shown::Asked),
];
