//! Annotations of GitHub's actions: commands on standard output that show findings beside a run.

use std::fmt;
use std::io::{self, Write};

use super::super::report::Finding;
use super::super::rule::{Severity, Verdict};

impl Finding {
    /// Writes the finding as a workflow command on a line of its own. The packet's number stands
    /// for the line. What the capture cannot tell is a notice, whatever its rule's severity.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_github(&self, file: &str, out: &mut dyn Write) -> io::Result<()> {
        let command = match (self.verdict, self.rule.severity()) {
            (Verdict::Fail, Severity::Error) => "error",
            (Verdict::Fail, Severity::Warning) => "warning",
            _ => "notice",
        };
        let (rule, packet) = (self.rule, self.packet);
        write!(out, "::{command} file={},line={packet},title={rule}", Property(file))?;
        writeln!(out, "::{}", Data(&self.to_string()))
    }
}

/// A command's message: its line may not end early.
struct Data<'a>(&'a str);

impl fmt::Display for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(self.0, "%\r\n", f)
    }
}

/// A property's value: it may not end early either.
struct Property<'a>(&'a str);

impl fmt::Display for Property<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(self.0, "%\r\n:,", f)
    }
}

fn escaped(text: &str, special: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.chars().try_for_each(|letter| match letter {
        letter if special.contains(letter) => write!(f, "%{:02X}", u32::from(letter)),
        letter => write!(f, "{letter}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Rule;

    #[test]
    fn names_cannot_break_out_of_a_command() {
        let finding = Finding {
            rule: Rule::RoceIcrc,
            verdict: Verdict::Fail,
            packet: 7,
            time_ns: None,
            flow: None,
            expected: "a".into(),
            found: "b\n::error::no".into(),
            message: "100 %".into(),
            gap: None,
        };
        let mut out = Vec::new();
        finding.write_github("a,b:c%\n.pcap", &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "::error file=a%2Cb%3Ac%25%0A.pcap,line=7,title=ROCE-ICRC::packet 7: ROCE-ICRC fail \
             (error): 100 %25 [expected a, found b%0A::error::no]\n"
        );
    }
}
