//! The immediate data extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                       Immediate data                          |
//! +---------------------------------------------------------------+
//! ```
//!
//! 4 bytes. IBTA Vol. 1, 9.3.

use zerocopy::byteorder::{BE, U32};

use super::HeaderKind;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// Four bytes that go into the receiver's completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ImmDt(pub u32);

impl ImmDt {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(take::<U32<BE>>(bytes, Layer::Ext(HeaderKind::ImmDt))?.0.get()))
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&U32::<BE>::new(self.0), out)
    }
}
