//! Bytes that can be told again from where they are.

/// A sequence of bytes in which neighbours, and other seeds, differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern(pub(super) u32);

impl Pattern {
    /// The byte at `offset`.
    pub(super) fn at(self, offset: u32) -> u8 {
        // Multiplied by odd numbers: each bit of the product depends on all below it.
        let mut mixed = offset.wrapping_add(self.0.wrapping_mul(0x9e37_79b1));
        mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca77);
        let [.., high] = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae3d).to_le_bytes();
        high
    }

    /// Fills `memory` from its start.
    pub(super) fn fill(self, memory: &mut [u8]) {
        for (offset, byte) in (0..).zip(memory) {
            *byte = self.at(offset);
        }
    }
}
