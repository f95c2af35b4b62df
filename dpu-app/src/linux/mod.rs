//! What services run on under Linux: command line, ports, sockets, signals, and the poll loop.

pub mod cli;
mod clock;
mod connection;
mod os;
mod platform;
mod serve;
mod service_spec;
mod wire;

pub use serve::serve;
