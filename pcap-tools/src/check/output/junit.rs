//! JUnit XML: a suite a capture, a test case a rule.

use std::io::{self, Write};

use quick_xml::escape::escape;

use super::super::report::{Counts, Finding};
use super::super::rule::{Rule, Verdict};

/// Failures kept of a rule; the counts are of all.
const KEPT: usize = 20;

/// The verdicts of captures, until they are written. A rule that was broken is a failed test case,
/// one that could not be told a skipped one, one that was never asked is left out.
#[derive(Debug, Default)]
pub struct Junit {
    suites: Vec<Suite>,
}

#[derive(Debug)]
struct Suite {
    name: String,
    /// Why the capture could not be read to its end.
    error: Option<String>,
    rules: Vec<(Rule, Counts)>,
    /// What fails each rule, in the rules' order.
    failures: Vec<Vec<String>>,
}

impl Junit {
    /// A capture begins.
    pub fn start(&mut self, name: &str) {
        let failures = vec![Vec::new(); Rule::ALL.len()];
        let (name, error) = (name.to_owned(), None);
        self.suites.push(Suite { name, error, rules: Vec::new(), failures });
    }

    /// A finding of the capture; `file` where it has several.
    pub fn finding(&mut self, file: Option<&str>, finding: &Finding) {
        let Some(suite) = self.suites.last_mut() else { return };
        let of_rule = &mut suite.failures[finding.rule.index()];
        if finding.verdict == Verdict::Fail && of_rule.len() < KEPT {
            of_rule.push(match file {
                Some(file) => format!("{file}: {finding}"),
                None => finding.to_string(),
            });
        }
    }

    /// The capture could not be read to its end.
    pub fn error(&mut self, error: String) {
        if let Some(suite) = self.suites.last_mut() {
            suite.error = Some(error);
        }
    }

    /// The capture ends.
    pub fn end(&mut self, rules: Vec<(Rule, Counts)>) {
        if let Some(suite) = self.suites.last_mut() {
            suite.rules = rules;
        }
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(out, "<testsuites name=\"roce-pcap check\">")?;
        self.suites.iter().try_for_each(|suite| suite.write(out))?;
        writeln!(out, "</testsuites>")
    }
}

impl Suite {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let asked = || {
            self.rules.iter().filter(|(_, counts)| counts.pass + counts.fail + counts.unknown > 0)
        };
        let failures = asked().filter(|(_, counts)| counts.fail > 0).count();
        let skipped = asked().filter(|(_, counts)| counts.fail == 0 && counts.unknown > 0).count();
        let errors = usize::from(self.error.is_some());
        let tests = asked().count() + errors;
        let name = xml(&self.name);
        writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" \
             errors=\"{errors}\" skipped=\"{skipped}\">"
        )?;
        if let Some(error) = &self.error {
            writeln!(out, "    <testcase classname=\"{name}\" name=\"reading\">")?;
            writeln!(out, "      <error message=\"{}\"/>\n    </testcase>", xml(error))?;
        }
        for (rule, counts) in asked() {
            write!(out, "    <testcase classname=\"{name}\" name=\"{rule}\"")?;
            self.write_case(*rule, counts, out)?;
        }
        writeln!(out, "  </testsuite>")
    }

    fn write_case(&self, rule: Rule, counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
        let Counts { pass, fail, unknown } = *counts;
        if fail + unknown == 0 {
            return writeln!(out, "/>");
        }
        writeln!(out, ">")?;
        let message = format!("{}: {fail} fail, {unknown} unknown, {pass} pass", rule.title());
        if fail > 0 {
            let severity = rule.severity();
            let failures = xml(&self.failures[rule.index()].join("\n"));
            let message = xml(&message);
            writeln!(
                out,
                "      <failure message=\"{message}\" type=\"{severity}\">{failures}</failure>"
            )?;
        } else {
            writeln!(out, "      <skipped message=\"{}\"/>", xml(&message))?;
        }
        writeln!(out, "    </testcase>")
    }
}

/// Text as XML has it. Control characters, which XML knows no way to write, become question marks.
fn xml(text: &str) -> String {
    let known = |letter: char| match letter {
        '\t' | '\n' | '\r' => letter,
        letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => '?',
        letter => letter,
    };
    escape(text.chars().map(known).collect::<String>()).into_owned()
}
