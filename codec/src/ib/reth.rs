//! The RDMA extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                    Virtual address (8 bytes)                  |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                           R_Key                               |
//! +---------------------------------------------------------------+
//! |                         DMA length                            |
//! +---------------------------------------------------------------+
//! ```
//!
//! 16 bytes. IBTA Vol. 1, 9.3.

use zerocopy::byteorder::{BE, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HeaderKind, RKey};
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RethWire {
    va: U64<BE>,
    rkey: U32<BE>,
    dma_len: U32<BE>,
}

/// Where an RDMA WRITE, READ or FLUSH goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reth {
    /// Virtual address at the responder.
    pub va: u64,
    /// The key that grants access to it.
    pub rkey: RKey,
    /// Bytes of the whole message; at most 2³¹.
    pub dma_len: u32,
}

impl Reth {
    /// Bytes of the header.
    pub const LEN: usize = 16;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<RethWire>(bytes, Layer::Ext(HeaderKind::Reth))?;
        Ok(Self { va: wire.va.get(), rkey: RKey(wire.rkey.get()), dma_len: wire.dma_len.get() })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire =
            RethWire { va: self.va.into(), rkey: self.rkey.0.into(), dma_len: self.dma_len.into() };
        put(&wire, out)
    }
}
