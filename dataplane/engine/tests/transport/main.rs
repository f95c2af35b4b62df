//! The engine against packets made by hand, and against itself on a virtual clock.
//!
//! [`lone::Lone`] is an engine whose peer is the test: it is handed packets and must answer with
//! exactly these. [`pair::Pair`] is two engines and a wire.

mod captured;
mod host;
mod lone;
mod packet;
mod pair;

mod arrival;
mod atomic_write;
mod credits;
mod duplicates;
mod fence;
mod flush;
mod inline;
mod invalidate;
mod operations;
mod ordering;
mod pacing;
mod qp_states;
mod refusals;
mod requester;
mod responder;
mod retries;
mod selective;
mod sges;
mod srq;
mod states;
mod statuses;
mod ud;
mod unreliable;
mod windows;
