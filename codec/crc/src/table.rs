//! The byte-wise table, 1 KiB.

use crate::poly;

/// What a byte becomes in the register once it is shifted out.
static BYTES: [u32; 256] = byte_table();

/// The table for a byte that no other follows.
pub(crate) const fn byte_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut register = 0_u32;
    while register < 256 {
        let mut shifted = register;
        let mut bit = 0;
        while bit < 8 {
            shifted = poly::times_x(shifted);
            bit += 1;
        }
        table[register as usize] = shifted;
        register += 1;
    }
    table
}

/// Feeds `bytes` one at a time.
pub(crate) const fn update(mut register: u32, bytes: &[u8]) -> u32 {
    let mut i = 0;
    while i < bytes.len() {
        let low = register.to_le_bytes()[0] ^ bytes[i];
        register = (register >> 8) ^ BYTES[low as usize];
        i += 1;
    }
    register
}
