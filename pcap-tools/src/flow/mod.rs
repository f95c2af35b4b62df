//! Flows that are followed packet by packet: a bounded table of them, and which two make a
//! connection. What is kept of each is its user's.

pub(crate) mod pairing;
mod table;

pub(crate) use table::{Entry, FlowId, FlowTable, Paired};
