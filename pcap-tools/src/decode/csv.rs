//! A record a packet: CSV (RFC 4180), or values between tabs as `tshark -T fields` has them.

use std::io::{self, Write};

use super::columns::Columns;
use crate::field::{Field, Row};

/// Between several values of one field.
const LIST: &str = ";";

/// The names of the columns.
pub(super) fn header(columns: &Columns, out: &mut dyn Write) -> io::Result<()> {
    let mut comma = "";
    for column in columns.iter() {
        out.write_all(comma.as_bytes())?;
        quoted(&column.name, out)?;
        comma = ",";
    }
    out.write_all(b"\r\n")
}

/// A packet as CSV.
pub(super) fn record(columns: &Columns, row: &Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    let mut comma = "";
    for column in columns.iter() {
        out.write_all(comma.as_bytes())?;
        value(column.field, row, &mut text);
        quoted(&text, out)?;
        comma = ",";
    }
    out.write_all(b"\r\n")
}

/// A packet with tabs between its values.
pub(super) fn tabs(columns: &Columns, row: &Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    let mut tab = "";
    for column in columns.iter() {
        value(column.field, row, &mut text);
        // A tab or a line end within a value would be taken for one between values.
        let plain = text.replace(['\t', '\r', '\n'], " ");
        write!(out, "{tab}{plain}")?;
        tab = "\t";
    }
    out.write_all(b"\n")
}

fn value(field: &Field, row: &Row<'_>, text: &mut String) {
    text.clear();
    let mut first = true;
    field.values(row, &mut |value| {
        if !first {
            text.push_str(LIST);
        }
        first = false;
        value.write_plain(text);
    });
}

/// A value, in quotes where RFC 4180 asks for them.
fn quoted(text: &str, out: &mut dyn Write) -> io::Result<()> {
    if text.contains([',', '"', '\r', '\n']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        for (text, expected) in
            [("plain", "plain"), ("a,b", "\"a,b\""), ("a \"b\"", "\"a \"\"b\"\"\""), ("", "")]
        {
            let mut out = Vec::new();
            quoted(text, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
