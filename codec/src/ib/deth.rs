//! The datagram extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                            Q_Key                              |
//! +---------------+-----------------------------------------------+
//! |   Reserved    |                  Source QP                    |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! 8 bytes. IBTA Vol. 1, 9.3.

use zerocopy::byteorder::{BE, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HeaderKind, QKey, Qpn};
use crate::wire::{put, take, to_u24, u24};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DethWire {
    qkey: U32<BE>,
    resv8: u8,
    src_qp: [u8; 3],
}

/// Who sent a datagram and by what right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Deth {
    /// Queue key.
    pub qkey: QKey,
    /// Reserved, 8 bits.
    pub resv8: u8,
    /// The QP that sent it.
    pub src_qp: Qpn,
}

impl Deth {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<DethWire>(bytes, Layer::Ext(HeaderKind::Deth))?;
        Ok(Self {
            qkey: QKey(wire.qkey.get()),
            resv8: wire.resv8,
            src_qp: Qpn::new(u24(wire.src_qp)),
        })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire = DethWire {
            qkey: self.qkey.0.into(),
            resv8: self.resv8,
            src_qp: to_u24(self.src_qp.get()),
        };
        put(&wire, out)
    }
}
