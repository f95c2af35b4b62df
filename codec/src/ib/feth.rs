//! The flush extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                    Reserved                   |  SEL  |  PLT  |
//! +---------------------------------------------------------------+
//! ```
//!
//! 4 bytes. IBTA Vol. 1, 9.3.
//!
//! Stands before the RETH. PLT: bit 0 global visibility, bit 1 persistence; SEL: 0 the range,
//! 1 the whole region. IBTA Vol. 1, Annex A19.

use zerocopy::byteorder::{BE, U32};

use super::HeaderKind;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// What a FLUSH asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Feth(pub u32);

impl Feth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Placement type, 4 bits.
    #[must_use]
    pub const fn placement_type(self) -> u32 {
        self.0 & 15
    }

    /// Selectivity level, 2 bits used of 4.
    #[must_use]
    pub const fn selectivity(self) -> u32 {
        self.0 >> 4 & 3
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self(take::<U32<BE>>(bytes, Layer::Ext(HeaderKind::Feth))?.0.get()))
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&U32::<BE>::new(self.0), out)
    }
}
