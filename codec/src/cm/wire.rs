//! How a message's private wire form is seen in bytes. Messages are read and written in place:
//! they are too long to be moved about.

use zerocopy::IntoBytes;

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
    let (len, room) = (bytes.len(), field.len());
    bytes.write_to_prefix(field).map_err(|_| CmEmitError::TooLong { len, room })?;
    if let Some(rest) = field.get_mut(len..) {
        rest.fill(0);
    }
    Ok(())
}
