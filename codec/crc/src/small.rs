//! The implementations for firmware: little tables, no SIMD.

use crate::{Crc32, poly, table};

/// CRC-32 by the byte with one table of 256 entries, 1 KiB of read-only data, for firmware that has no room
/// for the 16 KiB of the portable [`Crc`](crate::Crc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallTable(u32);

impl Crc32 for SmallTable {
    fn resume(state: u32) -> Self {
        Self(state)
    }

    fn state(&self) -> u32 {
        self.0
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0 = table::update(self.0, bytes);
    }
}

/// CRC-32 by the half byte with one table of 16 entries, 64 bytes of read-only data, for where
/// even [`SmallTable`] is too much. Twice its steps a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NibbleTable(u32);

/// What a half byte becomes in the register once it is shifted out.
static NIBBLES: [u32; 16] = {
    let mut table = [0; 16];
    let mut register = 0_u32;
    while register < 16 {
        let mut shifted = register;
        let mut bit = 0;
        while bit < 4 {
            shifted = poly::times_x(shifted);
            bit += 1;
        }
        table[register as usize] = shifted;
        register += 1;
    }
    table
};

impl Crc32 for NibbleTable {
    fn resume(state: u32) -> Self {
        Self(state)
    }

    fn state(&self) -> u32 {
        self.0
    }

    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 ^= u32::from(*byte);
            for _ in 0..2 {
                let low = usize::from(self.0.to_le_bytes()[0] & 0xf);
                self.0 = (self.0 >> 4) ^ NIBBLES[low];
            }
        }
    }
}
