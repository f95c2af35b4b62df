//! The atomic extended transport header and the one that answers it.
//!
//! ```text
//! AtomicETH                                  AtomicAckETH
//! +-------------------------------------+   +-------------------------------------+
//! |      Virtual address (8 bytes)      |   | Original remote data (8 bytes)      |
//! +-------------------------------------+   +-------------------------------------+
//! |           R_Key (4 bytes)           |
//! +-------------------------------------+
//! |    Swap or add data (8 bytes)       |
//! +-------------------------------------+
//! |      Compare data (8 bytes)         |
//! +-------------------------------------+
//! ```
//!
//! 28 and 8 bytes. IBTA Vol. 1, 9.3.

use zerocopy::byteorder::{BE, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HeaderKind, RKey};
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AtomicEthWire {
    va: U64<BE>,
    rkey: U32<BE>,
    swap_add: U64<BE>,
    compare: U64<BE>,
}

/// The operands of a COMPARE SWAP or FETCH ADD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AtomicEth {
    /// Virtual address at the responder, a multiple of 8.
    pub va: u64,
    /// The key that grants access to it.
    pub rkey: RKey,
    /// The value to swap in, or to add.
    pub swap_add: u64,
    /// The value to compare with; 0 for FETCH ADD.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes of the header.
    pub const LEN: usize = 28;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<AtomicEthWire>(bytes, Layer::Ext(HeaderKind::AtomicEth))?;
        Ok(Self {
            va: wire.va.get(),
            rkey: RKey(wire.rkey.get()),
            swap_add: wire.swap_add.get(),
            compare: wire.compare.get(),
        })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire = AtomicEthWire {
            va: self.va.into(),
            rkey: self.rkey.0.into(),
            swap_add: self.swap_add.into(),
            compare: self.compare.into(),
        };
        put(&wire, out)
    }
}

/// The answer to an atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AtomicAckEth {
    /// What the eight bytes held before.
    pub original: u64,
}

impl AtomicAckEth {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (original, _) = take::<U64<BE>>(bytes, Layer::Ext(HeaderKind::AtomicAckEth))?;
        Ok(Self { original: original.get() })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&U64::<BE>::new(self.original), out)
    }
}
