//! The extended reliable connection transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-----------------------------------------------+
//! |   Reserved    |                    XRCSRQ                     |
//! +---------------+-----------------------------------------------+
//! ```
//!
//! 4 bytes. IBTA Vol. 1, Annex A14.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HeaderKind, Srqn};
use crate::wire::{put, take, to_u24, u24};
use crate::{EmitError, Layer, ParseError};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct XrcethWire {
    resv8: u8,
    srqn: [u8; 3],
}

/// Which shared receive queue an XRC message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Xrceth {
    /// Reserved, 8 bits.
    pub resv8: u8,
    /// The receiver's XRC shared receive queue.
    pub srqn: Srqn,
}

impl Xrceth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (wire, _) = take::<XrcethWire>(bytes, Layer::Ext(HeaderKind::Xrceth))?;
        Ok(Self { resv8: wire.resv8, srqn: Srqn::new(u24(wire.srqn)) })
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        put(&XrcethWire { resv8: self.resv8, srqn: to_u24(self.srqn.get()) }, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_hand() {
        let bytes = [0x5a, 0x12, 0x34, 0x56];
        let xrceth = Xrceth::parse(&bytes).unwrap();
        assert_eq!((xrceth.resv8, xrceth.srqn.get()), (0x5a, 0x12_3456));
        let mut out = [0; 4];
        xrceth.emit(&mut out).unwrap();
        assert_eq!(out, bytes);
        for len in 0..4 {
            assert!(Xrceth::parse(&bytes[..len]).is_err());
            assert!(xrceth.emit(&mut [0; 4][..len]).is_err());
        }
    }
}
