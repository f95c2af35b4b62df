//! What a requester does first: an acknowledgement from Ethernet to its syndrome.
#![no_std]
#![no_main]

use roce_codec::ib::{AethKind, Bth, Msn};
use roce_codec::{Frame, Start};
use roce_size::packets;

roce_size::firmware! {
    &packets::ACK => |found| found.is_some_and(|found| matches!(found.1, AethKind::Ack(_))),
}

#[inline(never)]
fn case(bytes: &'static [u8]) -> Option<(Bth, AethKind, Msn)> {
    let frame = Frame::parse([bytes, &[]], Start::Ethernet).ok()?;
    let aeth = frame.aeth()?;
    Some((frame.bth(), aeth.syndrome.kind(), aeth.msn))
}
