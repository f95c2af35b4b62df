//! The implementation for firmware: little table, no SIMD.

use crate::{Crc32, table};

/// CRC-32 with one table of 256 entries, 1 KiB of read-only data, for firmware that has no room for the
/// 16 KiB of the portable [`Crc`](crate::Crc).
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
        self.0 = table::bytes(self.0, bytes);
    }
}
