//! What a connection manager does first: a REQ from the MAD's header to the IP CM's.
#![no_std]
#![no_main]

use roce_codec::cm::{IpCmHeader, Mad, Message, Req};
use roce_size::packets;

roce_size::firmware! {
    &packets::CM_REQ => |found| found.is_some(),
}

#[inline(never)]
fn case(mad: &'static [u8]) -> Option<(Req<'static>, IpCmHeader)> {
    let mad = Mad::parse(mad).ok()?;
    match Message::parse(&mad).ok()? {
        Message::Req(req) => Some((req, req.ip_cm()?.0)),
        _ => None,
    }
}
