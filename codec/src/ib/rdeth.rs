//! The reliable datagram extended transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |   Reserved    |                  EE context                   |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! 4 bytes. IBTA Vol. 1, 9.3.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Eecn, HeaderKind};
use crate::wire::{put, take, to_u24, u24};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RdethWire {
    resv8: u8,
    eecn: [u8; 3],
}

/// Which end-to-end context a reliable datagram belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rdeth {
    /// Reserved, 8 bits.
    pub resv8: u8,
    /// The receiver's end-to-end context.
    pub eecn: Eecn,
}

impl Rdeth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<RdethWire>(bytes, Layer::Ext(HeaderKind::Rdeth))?;
        Ok(Self { resv8: wire.resv8, eecn: Eecn::new(u24(wire.eecn)) })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&RdethWire { resv8: self.resv8, eecn: to_u24(self.eecn.get()) }, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_hand() {
        let bytes = [0x5a, 0x12, 0x34, 0x56];
        let rdeth = Rdeth::parse(&bytes).unwrap();
        assert_eq!((rdeth.resv8, rdeth.eecn.get()), (0x5a, 0x12_3456));
        let mut out = [0; 4];
        rdeth.emit(&mut out).unwrap();
        assert_eq!(out, bytes);
        for len in 0..4 {
            assert!(Rdeth::parse(&bytes[..len]).is_err());
            assert!(rdeth.emit(&mut [0; 4][..len]).is_err());
        }
    }
}
