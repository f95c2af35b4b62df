//! Placeholder
pub(crate) fn run() {}
