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
//! What happens at the end is x86-64's `finish` and, where the CPU has the CRC as an instruction, that.

use crate::poly::{ONE, over_x, times_x};

/// Two multipliers: for a block's low word (its first eight bytes) and its high word.
pub(crate) type Pair = [u64; 2];

/// The multipliers that add a block to one that ends `bits` later.
pub(crate) const fn across(bits: i32) -> Pair {
    [(x_to(bits + 63) as u64) << 32, (x_to(bits - 1) as u64) << 32]
}

/// `x^n mod P`, for negative `n` too.
pub(crate) const fn x_to(n: i32) -> u32 {
    let mut power = ONE;
    let mut left = n;
    while left > 0 {
        power = times_x(power);
        left -= 1;
    }
    while left < 0 {
        power = over_x(power);
        left += 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poly::P;

    /// The product, by the schoolbook.
    fn times(a: u32, b: u32) -> u32 {
        let mut sum = 0;
        let mut shifted = a;
        for degree in 0..32 {
            if b & (ONE >> degree) != 0 {
                sum ^= shifted;
            }
            shifted = times_x(shifted);
        }
        sum
    }

    #[test]
    fn powers_multiply() {
        assert_eq!(x_to(32), P);
        for n in -200..200 {
            assert_eq!(times(x_to(n), x_to(-n)), ONE, "{n}");
            assert_eq!(times(x_to(n), x_to(37)), x_to(n + 37), "{n}");
        }
    }
}
