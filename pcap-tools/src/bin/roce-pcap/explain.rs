//! `roce-pcap explain`.

use std::io::{self, Write};

use roce_pcap::check::Rule;

use crate::Outcome;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The rule, such as RC-PSN-GAP; without it, all rules are listed
    rule: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let Some(id) = &args.rule else {
        for rule in Rule::ALL {
            writeln!(out, "{:18} {:8} {}", rule.id(), rule.severity().name(), rule.title())?;
        }
        return Ok(Outcome::Clean);
    };
    let Some(rule) = Rule::from_id(id) else {
        eprintln!("roce-pcap: there is no rule {id}: `roce-pcap explain` lists all of them");
        return Ok(Outcome::Unusable);
    };
    writeln!(out, "{rule}: {}", rule.title())?;
    writeln!(out, "severity {}, {}\n", rule.severity(), rule.clause())?;
    for paragraph in rule.page().split("\n\n") {
        wrap(paragraph, out)?;
        writeln!(out)?;
    }
    Ok(Outcome::Clean)
}

/// Writes a paragraph in lines of at most 80 characters.
fn wrap(paragraph: &str, out: &mut impl Write) -> io::Result<()> {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        if column > 0 && column + 1 + word.len() > 80 {
            writeln!(out)?;
            column = 0;
        }
        if column > 0 {
            write!(out, " ")?;
            column += 1;
        }
        write!(out, "{word}")?;
        column += word.len();
    }
    writeln!(out)
}
