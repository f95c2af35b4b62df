//! How a header's private wire form is taken from bytes and put into them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{EmitError, Layer, ParseError};

/// What every wire struct is: plain bytes, no padding, no alignment.
pub(crate) trait Wire: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned {}
impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned> Wire for T {}

/// Takes a `T` off the front.
#[inline]
pub(crate) fn take<T: Wire>(bytes: &[u8], layer: Layer) -> Result<(&T, &[u8]), ParseError> {
    T::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated {
        layer,
        needed: size_of::<T>(),
        available: bytes.len(),
    })
}

/// Writes `value` at the front.
#[inline]
pub(crate) fn put<T: Wire>(value: &T, out: &mut [u8]) -> Result<(), EmitError> {
    let available = out.len();
    value.write_to_prefix(out).map_err(|_| EmitError::NoRoom { needed: size_of::<T>(), available })
}

/// A 24-bit big-endian number.
#[inline]
pub(crate) fn u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

/// The bytes of a 24-bit number; bits above are dropped.
#[inline]
pub(crate) fn to_u24(value: u32) -> [u8; 3] {
    let [_, a, b, c] = value.to_be_bytes();
    [a, b, c]
}
