//! What a responder does first: a WRITE from Ethernet to its payload.
#![no_std]
#![no_main]

use roce_codec::ib::{Bth, Reth};
use roce_codec::{Frame, Start};
use roce_size::packets;

roce_size::firmware! {
    &packets::WRITE_64 => |found| found.is_some_and(|found| found.2.len() == 64),
}

#[inline(never)]
fn case(bytes: &'static [u8]) -> Option<(Bth, Reth, &'static [u8])> {
    let frame = Frame::parse([bytes, &[]], Start::Ethernet).ok()?;
    Some((frame.bth(), frame.reth()?, frame.payload()[0]))
}
