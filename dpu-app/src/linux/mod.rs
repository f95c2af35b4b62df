//! What services run on under Linux: command line, ports, sockets, signals, and the poll loop.

pub mod cli;
mod clock;
mod cm_client;
mod connection;
mod demo;
mod dump;
pub mod fault_spec;
mod interface;
mod log;
mod os;
pub mod perf;
mod pingpong;
mod platform;
mod poll_loop;
mod recorder;
mod replay_target;
mod rping;
mod serve;
mod served;
mod server;
pub mod service_spec;
mod stage;
mod stats;
mod ucmatose;
mod udaddy;
mod wire;

pub use wire::PortSpec;
