//! SARIF 2.1.0, the format that code-scanning tools exchange (OASIS).

use std::io::{self, Write};

use serde_json::json;

use super::super::report::Finding;
use super::super::rule::{Rule, Severity, Verdict};

/// Writes findings as one SARIF log with one run, as they come. A packet's number stands for a
/// line's in its location; what the capture cannot tell is of kind `open`, what a second tap explains of kind `pass`.
#[derive(Debug, Default)]
pub struct Sarif {
    results: u64,
}

impl Sarif {
    /// Begins the log: the tool, and every rule with its page.
    ///
    /// # Errors
    /// What `out` says.
    pub fn start(out: &mut dyn Write) -> io::Result<Self> {
        let rules: Vec<_> = Rule::ALL.iter().map(|rule| rule_of(*rule)).collect();
        let driver = json!({
            "name": "roce-pcap",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        });
        write!(out, "{{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",")?;
        write!(out, "\"version\":\"2.1.0\",\"runs\":[{{\"tool\":{{\"driver\":{driver}}},")?;
        write!(out, "\"columnKind\":\"unicodeCodePoints\",\"results\":[")?;
        Ok(Self::default())
    }

    /// Writes a finding of a file.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finding(
        &mut self,
        file: &str,
        finding: &Finding,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Finding { rule, verdict, packet, flow, expected, found, message, .. } = finding;
        let fails = *verdict == Verdict::Fail;
        let kind = match verdict {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Unknown => "open",
        };
        let mut result = json!({
            "ruleId": rule.id(),
            "ruleIndex": rule.index(),
            "kind": kind,
            "level": if fails { level(rule.severity()) } else { "none" },
            "message": {"text": format!("{message} [expected {expected}, found {found}]")},
            "locations": [{
                "physicalLocation": {
                    "artifactLocation": {"uri": uri(file)},
                    "region": {"startLine": packet},
                },
                "logicalLocations": [{"name": format!("packet {packet}")}],
            }],
        });
        if let Some(flow) = flow {
            result["properties"] = json!({"flow": flow.to_string()});
        }
        let comma = if self.results > 0 { "," } else { "" };
        self.results += 1;
        write!(out, "{comma}\n{result}")
    }

    /// Ends the log. `complete` is whether every capture was read to its end.
    ///
    /// # Errors
    /// What `out` says.
    pub fn end(self, complete: bool, out: &mut dyn Write) -> io::Result<()> {
        let invocation = json!({"executionSuccessful": complete});
        writeln!(out, "],\"invocations\":[{invocation}]}}]}}")
    }
}

fn rule_of(rule: Rule) -> serde_json::Value {
    json!({
        "id": rule.id(),
        "shortDescription": {"text": rule.title()},
        "fullDescription": {"text": format!("{} ({})", rule.title(), rule.clause())},
        "help": {"text": rule.page()},
        "defaultConfiguration": {"level": level(rule.severity())},
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// A path as a URI reference: what has a meaning there is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}
