//! Real captures replayed into our responder: what of its answers equals theirs, and whether a
//! difference is noticed.

mod captures;
mod cli;
mod cut;
mod interface;
mod mutations;
mod random;
mod support;
mod taps;
mod wire;
