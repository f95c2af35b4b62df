//! The constants of the carry-less-multiply kernels, and why they are what they are.
//!
//! A message M of `n` bits has the CRC `M * x^32 mod P`; the register it starts from is a polynomial of 32
//! bits added to M's first 32. All registers are reflected: the first bit on the wire is bit 0 and has the
//! highest power. Two readings of 128 bits occur:
//!
//! - a *block*, 16 message bytes as they lie in memory: bit `b` is the coefficient of `x^(127-b)`. Its low
//!   word is its first eight bytes.
//! - a *sum*, what becomes of all blocks at the end, congruent to `M * x^32`, below `x^96`: bit `b` is the
//!   coefficient of `x^(95-b)`.
//!
//! A carry-less product of reflected words has bit `i + j` where the words had `i` and `j`, which is one
//! less than its degree says in either reading: the product comes out times `x`. So each multiplier below is
//! for one power less than is wanted.
//!
//! **Fold.** A block with `d` bits between it and a later block is added to the later one as
//! `low * x^(d+64) + high * x^d` where `d` is counted from the end of the one to the end of the other, each
//! power reduced mod P: two products of 64 by 32 bits, in the block reading ([`across`]).
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

use crate::poly::x_to;

/// Two multipliers: for a block's low word (its first eight bytes) and its high word.
pub(crate) type Pair = [u64; 2];

/// The multipliers that add a block to one that ends `bits` later.
pub(crate) const fn across(bits: i32) -> Pair {
    [
        (x_to(bits + 63) as u64) << 32,
        (x_to(bits - 1) as u64) << 32,
    ]
}

/// The multipliers that add a block followed by `bytes` bytes to the sum.
const fn to_end(bytes: i32) -> Pair {
    [x_to(8 * bytes + 95) as u64, x_to(8 * bytes + 31) as u64]
}

/// Blocks that may stand before a tail of less than [`LANES`] blocks when all are added to the sum.
const LANES: usize = 4;

/// [`to_end`] for a tail of each length: see [`finish`].
#[repr(C, align(64))]
pub(crate) struct Finish([Pair; 16 * ROW + LANES - 1]);

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
pub(crate) fn finish(tail: usize) -> (&'static [Pair; LANES], &'static [Pair; LANES]) {
    let start = (tail % 16) * ROW + (LANES - 1 - tail / 16 % LANES);
    let row = &FINISH.0[start..start + 2 * LANES];
    let (before, own) = row.as_chunks::<LANES>().0.split_at(1);
    (&before[0], &own[0])
}

/// [`across`] for blocks that end 0 to 7 times 512 bits apart; the first is not used.
pub(crate) static ACROSS_512: [Pair; 8] = {
    let mut table = [[0; 2]; 8];
    let mut bits = 512;
    let mut i = 1;
    while i < table.len() {
        table[i] = across(bits);
        bits += 512;
        i += 1;
    }
    table
};

/// [`across`] for four accumulators of 256 bits.
pub(crate) static ACROSS_1024: Pair = across(1024);

/// [`across`] for four accumulators of 512 bits.
pub(crate) static ACROSS_2048: Pair = across(2048);

/// The two multipliers of the reduction.
pub(crate) static REDUCE: Pair = [QUOTIENT, DIVISOR];

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
        remainder = crate::poly::times_x(remainder);
        bit += 1;
    }
    quotient
};

/// See the module's page: Reduce.
const DIVISOR: u64 = ((crate::poly::P as u64) << 1) | 1;
