//! How a message's private wire form is seen in bytes. Messages are read and written in place:
//! they are too long to be moved about.

use super::{CmEmitError, CmError};
use crate::wire::Wire;

/// The front of `bytes` as a `T`.
#[inline]
pub(super) fn view<T: Wire>(bytes: &[u8]) -> Result<&T, CmError> {
    let available = bytes.len();
    match T::ref_from_prefix(bytes) {
        Ok((wire, _)) => Ok(wire),
        Err(_) => Err(CmError::Truncated { needed: size_of::<T>(), available }),
    }
}

/// The front of `bytes` as a `T` to be written, every field.
#[inline]
pub(super) fn view_mut<T: Wire>(bytes: &mut [u8]) -> Result<&mut T, CmEmitError> {
    let available = bytes.len();
    match T::mut_from_prefix(bytes) {
        Ok((wire, _)) => Ok(wire),
        Err(_) => Err(CmEmitError::NoRoom { needed: size_of::<T>(), available }),
    }
}

/// Copies `bytes` to the front of `field` and zeroes the rest.
#[inline]
pub(super) fn fill(field: &mut [u8], bytes: &[u8]) -> Result<(), CmEmitError> {
    let room = field.len();
    let Some((head, tail)) = field.split_at_mut_checked(bytes.len()) else {
        return Err(CmEmitError::TooLong { len: bytes.len(), room });
    };
    head.copy_from_slice(bytes);
    tail.fill(0);
    Ok(())
}
