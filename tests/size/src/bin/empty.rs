//! What every other program is compared with: start, one call, stop.
#![no_std]
#![no_main]

use roce_size::packets;

roce_size::firmware! {
    &packets::WRITE_64 => |len| *len > 0,
}

#[inline(never)]
fn case(bytes: &[u8]) -> usize {
    bytes.len()
}
