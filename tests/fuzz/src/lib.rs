//! How the targets read their input.
//!
//! An input is packet bytes with the few parameters a target wants at the *end*, so that a
//! captured packet is a good seed as it stands.

use roce_codec::{NativeStart, Start};

/// The layers that packets other than RoCEv2 start with.
pub const NATIVE_STARTS: [NativeStart; 3] =
    [NativeStart::Lrh, NativeStart::Ethernet, NativeStart::Grh];

/// Takes `N` parameter bytes off the end; zeroes if the input is shorter.
#[must_use]
pub fn parameters<const N: usize>(input: &[u8]) -> (&[u8], [u8; N]) {
    match input.split_last_chunk() {
        Some((bytes, last)) => (bytes, *last),
        None => (input, [0; N]),
    }
}

/// A packet in two segments, and the layer it starts with.
#[must_use]
pub fn packet(input: &[u8]) -> ([&[u8]; 2], Start) {
    let (bytes, [start, high, low]) = parameters(input);
    let cut = usize::from(u16::from_be_bytes([high, low]));
    let (head, tail) = bytes.split_at(cut.min(bytes.len()));
    let start = if start & 1 == 0 { Start::Ethernet } else { Start::Ip };
    // Few inputs have a length in bytes 1 and 2: a cut of 0 means no cut.
    if cut == 0 { ([bytes, &[]], start) } else { ([head, tail], start) }
}
