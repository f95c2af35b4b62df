//! Where a ping lies: what a client SENDs.

use roce_codec::ib::RKey;

/// A piece of the client's memory.
///
/// ```text
///  0                8        12       16
///  |  address       |  R_Key | length |     big-endian
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advert {
    /// Virtual address.
    pub va: u64,
    /// Key.
    pub rkey: RKey,
    /// Bytes.
    pub len: u32,
}

impl Advert {
    /// Bytes of it.
    pub const LEN: usize = 16;

    /// From the bytes of a SEND.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
        Self {
            va: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            rkey: RKey(u32::from_be_bytes([i, j, k, l])),
            len: u32::from_be_bytes([m, n, o, p]),
        }
    }

    /// The bytes to SEND.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (va, rest) = bytes.split_at_mut(8);
        va.copy_from_slice(&self.va.to_be_bytes());
        let (rkey, len) = rest.split_at_mut(4);
        rkey.copy_from_slice(&self.rkey.0.to_be_bytes());
        len.copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}
