//! Messages, answers and losses, against an independent witness and against hand-made traffic.

mod captures;
mod crafted;
