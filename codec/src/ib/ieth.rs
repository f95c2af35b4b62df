//! The invalidate extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                   R_Key to invalidate                         |
//! +---------------------------------------------------------------+
//! ```
//!
//! 4 bytes. IBTA Vol. 1, 9.3.

use zerocopy::byteorder::{BE, U32};

use super::{HeaderKind, RKey};
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// The key that a SEND with invalidate takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ieth(pub RKey);

impl Ieth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(RKey(take::<U32<BE>>(bytes, Layer::Ext(HeaderKind::Ieth))?.0.get())))
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&U32::<BE>::new(self.0.0), out)
    }
}
