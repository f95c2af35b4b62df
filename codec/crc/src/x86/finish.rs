//! The constants for the end of the message: the sum of all blocks, and its remainder by P.
//!
//! What a block and a sum are, and how they are read, is said in [`crate::fold`].
//!
//! **Finish.** A block followed by `m` bytes is added to the sum as `low * x^(8m+64+32) + high * x^(8m+32)`,
//! in the sum reading ([`to_end`]). `m` may be negative, as `x` has an inverse mod P: then the block's last
//! `-m` bytes, which must be zero, stand behind the end of the message. So a tail of any length needs no
//! shift into place, only zeroes behind it.
//!
//! **Reduce.** Barrett's reduction, exact for polynomials: the quotient of the sum by P is the top 64 bits of
//! `floor(sum / x^32) * floor(x^96 / P)`, and the remainder is the sum less the quotient times P, of which
//! only the 32 low coefficients need be looked at. [`QUOTIENT`] leaves out the constant term of
//! `floor(x^96 / P)`, which only reaches coefficients that the floor drops; then the product's low word is
//! the reflected quotient as it stands. [`DIVISOR`] is P, `x^32` in bit 0, so that the product is in
//! the sum reading: the remainder, and new register, is in bits 64 to 95.

use crate::fold::{Pair, x_to};
use crate::poly::{P, times_x};

/// The multipliers that add a block followed by `bytes` bytes to the sum.
const fn to_end(bytes: i32) -> Pair {
    [x_to(8 * bytes + 95) as u64, x_to(8 * bytes + 31) as u64]
}

/// Blocks that may stand before a tail of less than [`LANES`] blocks when all are added to the sum.
const LANES: usize = 4;

/// [`to_end`] for a tail of each length: see [`around`].
#[repr(C, align(64))]
pub(super) struct Finish([Pair; 16 * ROW + LANES - 1]);

/// Entries for tails that are congruent mod 16: of `r + 96`, `r + 80` down to `r - 16` bytes.
const ROW: usize = 2 * LANES;

static FINISH: Finish = {
    let mut table = [[0; 2]; 16 * ROW + LANES - 1];
    let mut remainder = 0;
    let mut i = 0;
    while remainder < 16 {
        let mut bytes = remainder + 96;
        while bytes >= -16 {
            table[i] = to_end(bytes);
            i += 1;
            bytes -= 16;
        }
        remainder += 1;
    }
    Finish(table)
};

/// [`to_end`] for the four blocks before a tail of less than 64 bytes, and for the tail's own four blocks, the last
/// of which may be partial.
///
/// Of the tail's own, those for blocks wholly behind the end mean nothing; what they multiply must be zero.
#[inline]
pub(super) fn around(tail: usize) -> (&'static [Pair; LANES], &'static [Pair; LANES]) {
    let start = (tail % 16) * ROW + (LANES - 1 - tail / 16 % LANES);
    let row = &FINISH.0[start..start + 2 * LANES];
    let (before, own) = row.as_chunks::<LANES>().0.split_at(1);
    (&before[0], &own[0])
}

/// The two multipliers of the reduction.
pub(super) static REDUCE: Pair = [QUOTIENT, DIVISOR];

/// See the module's page: Reduce.
const QUOTIENT: u64 = {
    // Long division of x^96 by P, the quotient's coefficients from x^64 down to x^1 into bits 0 to 63. The
    // remainder so far is kept in 32 bits as poly does: once x^k of the quotient is found it is x^(96-k)'s,
    // and its next coefficient is the one that times_x reduces.
    let mut quotient = 0;
    let mut remainder = x_to(31);
    let mut bit = 0;
    while bit < 64 {
        quotient |= ((remainder & 1) as u64) << bit;
        remainder = times_x(remainder);
        bit += 1;
    }
    quotient
};

/// See the module's page: Reduce.
const DIVISOR: u64 = ((P as u64) << 1) | 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// The carry-less product of two words as they stand.
    fn times(a: u64, b: u64) -> u128 {
        (0..64).filter(|bit| b >> bit & 1 != 0).fold(0, |sum, bit| sum ^ u128::from(a) << bit)
    }

    /// The remainder of a sum by P, coefficient by coefficient.
    fn remainder(mut sum: u128) -> u32 {
        for bit in 0..64 {
            if sum >> bit & 1 != 0 {
                sum ^= u128::from(DIVISOR) << bit;
            }
        }
        u32::try_from(sum >> 64).expect("a sum ends at bit 95")
    }

    fn register_after(bytes: &[u8]) -> u32 {
        crate::table::update(0, bytes)
    }

    #[test]
    fn quotient_times_p_is_x_to_the_96_but_for_a_remainder() {
        // floor(x^96 / P) has 65 coefficients; read as integers with x^0 in bit 0, and P likewise.
        let p = 0x1_04c1_1db7_u64;
        let without_x_64 = QUOTIENT.reverse_bits() << 1;
        let product =
            |constant: u64| times(without_x_64 | constant, p) ^ u128::from(p) << 64 ^ 1 << 96;
        let constant = u64::from(product(0) >> 32 != 0);
        assert_eq!(product(constant) >> 32, 0);
        assert_eq!(QUOTIENT & 1, 1, "x^64");
    }

    #[test]
    fn quotient_and_divisor_reduce() {
        for sum in [1_u128, 1 << 95, 0xdead_beef, 0x0123_4567_89ab_cdef_0246_8ace, (1 << 96) - 1] {
            let low = u64::MAX;
            let quotient = times(u64::try_from(sum & u128::from(low)).expect("masked"), QUOTIENT);
            let product =
                times(u64::try_from(quotient & u128::from(low)).expect("masked"), DIVISOR);
            let found = u32::try_from((sum ^ product) >> 64 & 0xffff_ffff).expect("masked");
            assert_eq!(found, remainder(sum), "{sum:#x}");
        }
    }

    #[test]
    fn each_entry_brings_its_block_to_the_end() {
        let block = *b"0123456789abcdef";
        let [low, high] =
            [0, 8].map(|at| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes")));
        for tail in 0..64 {
            let (before, own) = around(tail);
            for (i, pair) in before.iter().enumerate() {
                let mut message = [0; 128];
                message[..16].copy_from_slice(&block);
                let bytes = &message[..64 - 16 * i + tail];
                let sum = times(low, pair[0]) ^ times(high, pair[1]);
                assert_eq!(
                    remainder(sum),
                    register_after(bytes),
                    "block {i} before a tail of {tail}"
                );
            }
            for (i, pair) in own.iter().enumerate().take(tail.div_ceil(16)) {
                // What stands behind the end must be zero.
                let len = (tail - 16 * i).min(16);
                let kept = u128::from_le_bytes(block) & (u128::MAX >> (128 - 8 * len));
                let [low, high] =
                    [kept << 64 >> 64, kept >> 64].map(|word| u64::try_from(word).expect("a half"));
                let mut message = [0; 64];
                message[16 * i..16 * i + 16].copy_from_slice(&kept.to_le_bytes());
                let sum = times(low, pair[0]) ^ times(high, pair[1]);
                assert_eq!(
                    remainder(sum),
                    register_after(&message[..tail]),
                    "block {i} of a tail of {tail}"
                );
            }
        }
    }
}
