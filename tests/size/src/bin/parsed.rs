//! What the programs that work on a parsed packet are compared with.
#![no_std]
#![no_main]

use roce_codec::Frame;
use roce_size::packets;

roce_size::firmware! {
    &packets::parsed(&packets::WRITE_64) => |there| *there,
}

#[inline(never)]
fn case(frame: &Option<Frame<'_>>) -> bool {
    core::hint::black_box(frame).is_some()
}
