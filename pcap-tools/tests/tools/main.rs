//! What the tools write: made-up traces and captures made of captures, read back by us, by tshark
//! and by the checker.

mod annotate;
mod diff;
mod golden;
mod mix;
mod rewrite;
mod support;
mod writer;
