//! Packets as they come from the wire, Ethernet to ICRC; `build.rs` makes them. They lie in a
//! section of their own, so that they do not count as anybody's code.

use roce_codec::{Frame, Start};

macro_rules! packets {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {$(
        $(#[$doc])*
        #[unsafe(link_section = ".packets")]
        pub static $name: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/", $file)).len()] =
            *include_bytes!(concat!(env!("OUT_DIR"), "/", $file));
    )*};
}

packets! {
    /// RC WRITE Only, IPv4, 64 bytes of payload.
    WRITE_64 = "write_64";
    /// The same with 1024 bytes.
    WRITE_1024 = "write_1024";
    /// RC Acknowledge.
    ACK = "ack";
    /// The MAD of a CM REQ that Linux's RDMA CM sent.
    CM_REQ = "cm_req";
}

/// A packet parsed, for what is measured on parsed ones.
#[inline(never)]
pub fn parsed(packet: &'static [u8]) -> Option<Frame<'static>> {
    // Or it is parsed by the compiler, which knows the bytes.
    Frame::parse([core::hint::black_box(packet), &[]], Start::Ethernet).ok()
}
