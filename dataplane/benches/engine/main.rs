//! The engine's speed, in process: request frames from memory in, answer frames to memory out, on
//! one core, every ICRC verified and generated.
//!
//! ```text
//! cargo bench -p roce-dataplane --bench engine
//! ```
//!
//! - [`rate`]: operations a second, with a working set that fits the second-level cache and with one
//!   far larger than the last-level cache; against the bar, and against [`stub`], a responder
//!   written by hand for exactly these packets.
//! - [`many`]: nanoseconds a packet with up to a million queue pairs, each packet another's.
//! - [`state`]: bytes of storage a queue pair.

mod frames;
mod host;
mod many;
mod measure;
mod rate;
mod state;
mod stub;

fn main() {
    // `cargo test --benches` runs this as well, and is not to wait for it.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    // The first free argument picks by name: `cargo bench --bench engine -- read`.
    let only = arguments.iter().find(|argument| !argument.starts_with('-')).map(String::as_str);
    rate::run(only.unwrap_or(""));
    if only.is_none_or(|only| "state".contains(only)) {
        state::run();
    }
    if only.is_none_or(|only| "many".contains(only)) {
        many::run();
    }
}
