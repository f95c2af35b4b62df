//! The whole stack on a virtual clock: worlds of engines joined by faulty wires, an oracle that
//! knows what must come of it, and hostile peers.
//!
//! | module | what |
//! |---|---|
//! | [`random`] | numbers from a seed |
//! | [`fuzz`] | the body of a fuzz target: bytes as operations on two engines |
//! | [`goodput`] | how much of a link's rate is of use at a loss, by how the responder recovers |
//! | [`hostile`] | a hostile client at a live responder, and an honest peer beside it |
//! | [`raid`] | short attacks from seeds, held to a model of what a peer may touch and cost |
//! | [`wire`] | one direction of a wire that drops, duplicates, reorders, corrupts and delays |
//! | [`plan`] | what happens in a world, drawn from a seed: hosts, connections, requests |
//! | [`oracle`] | a model of memory and completions, which shares no code with the engine |
//! | [`world`] | runs a plan and holds the engines to the oracle |
//!
//! Everything follows from one seed: [`world::run`] with the same seed does the same.
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod goodput;
pub mod hostile;
pub mod oracle;
pub mod plan;
pub mod raid;
pub mod random;
pub mod wire;
pub mod world;
