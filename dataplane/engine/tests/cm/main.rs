//! The connection manager: two of them on a virtual clock, one against messages made by hand,
//! one against what Linux sent.

mod pair;

mod captures;
mod connect;
mod datagrams;
mod duplicates;
mod endings;
mod hostile;
mod queue_pairs;
mod random;
mod refusals;
mod states;
mod table;
