//! What is told while serving, on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line. That nobody reads it any more is no reason to stop serving.
pub(crate) fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
