//! The byte-wise table, 1 KiB, and the states every caller starts from.

/// IEEE 802.3's polynomial without its `x^32`, reflected: bit `i` is the coefficient of `x^(31-i)`.
pub(crate) const POLY: u32 = 0xedb8_8320;

/// The register before any byte was fed.
pub const INITIAL: u32 = 0xffff_ffff;

/// The register behind eight bytes of `0xff`, which the ICRC puts before every packet (IBTA vol. 1, 7.8.1)
/// in place of the fields of a local route header.
pub const AFTER_ONES8: u32 = bytes(INITIAL, &[0xff; 8]);

/// What one byte of the register becomes when it is shifted out.
static BYTES: [u32; 256] = byte_table();

const fn byte_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    let mut start = 0_u32;
    while byte < 256 {
        let mut register = start;
        let mut bit = 0;
        while bit < 8 {
            register = (register >> 1) ^ (POLY * (register & 1));
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
        start += 1;
    }
    table
}

/// Feeds `bytes` one at a time.
pub(crate) const fn bytes(mut register: u32, bytes: &[u8]) -> u32 {
    let mut i = 0;
    while i < bytes.len() {
        let low = register.to_le_bytes()[0] ^ bytes[i];
        register = (register >> 8) ^ BYTES[low as usize];
        i += 1;
    }
    register
}
