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

use crate::fold::Pair;
use crate::poly::{P, times_x, x_to};

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
