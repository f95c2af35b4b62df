//! The ICRC of a WRITE that is parsed already.
#![no_std]
#![no_main]

use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Crc, Frame};
use roce_size::packets;

roce_size::firmware! {
    &packets::parsed(&packets::WRITE_64) => |right| *right,
    &packets::parsed(&packets::WRITE_1024) => |right| *right,
}

#[inline(never)]
fn case(frame: &Option<Frame<'_>>) -> bool {
    frame.as_ref().is_some_and(|frame| frame.verify_icrc_with::<Crc>() == IcrcVerdict::Valid)
}
