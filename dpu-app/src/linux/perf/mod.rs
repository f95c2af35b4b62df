//! `roce-perf`: the client of perftest's servers, and of ours.

mod carrier;
mod cli;
mod failure;
mod report;
mod run;
mod times;

pub use cli::PerfCli;
pub use failure::Failure;
