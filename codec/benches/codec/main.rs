//! The codec against what people use now: parsing and building against etherparse, smoltcp,
//! pnet_packet and offsets written by hand, the ICRC against crc32fast and crc-fast.
//!
//! `cargo bench -p roce-codec`. Each line is `ratio NAME ours=<ns> peer=<ns> x=<ratio>`, a packet, x above 1
//! where ours is better: medians over interleaved rounds in one process, packets in the first-level
//! cache.

mod build;
mod compare;
mod icrc;
mod packets;
mod parse;

fn main() {
    parse::run();
    build::run();
    icrc::run();
}
