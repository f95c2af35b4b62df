//! Exports, judged by DuckDB.

mod support;

use std::path::Path;
use std::process::Command;

use support::{DUCKDB, judge, python};

#[test]
fn duckdb_agrees() {
    let Some(python) = python("duckdb", &[DUCKDB]) else { return };
    judge(&python, "judge.py", &[]);
}

/// The list of columns in the README is the one that the tool prints.
#[test]
fn the_columns_are_documented() {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_roce-pcap"));
    let listed = tool.args(["export", "--list-columns"]).output().unwrap().stdout;
    let listed = String::from_utf8(listed).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("EXPORT.md");
    let documented = std::fs::read_to_string(path).unwrap();
    assert!(listed.lines().count() > 100);
    assert!(documented.contains(listed.trim()), "put this into EXPORT.md:\n{listed}");
}
