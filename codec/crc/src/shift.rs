//! What a run of bytes does to the register apart from their values: moves it on by so many powers of x.
//!
//! A CRC is linear: the register behind `a` and `b` is the one behind `a`, shifted over the length of `b`, XOR the one
//! that `b` makes of zero. So the CRC of two pieces needs only each one's CRC and the second's length, and what stood
//! before a known end can be told from the register behind it. 32 steps a multiplication, no table, for any length.

use crate::poly::{ONE, over_x, times_x};

/// The effect of a run of bytes on a CRC register, their values aside.
///
/// ```
/// use roce_crc::{Crc, Crc32, INITIAL, Shift};
///
/// let state = |start: u32, bytes: &[u8]| {
///     let mut crc = Crc::resume(start);
///     crc.update(bytes);
///     crc.state()
/// };
/// let head = state(INITIAL, b"1234");
/// let whole = state(INITIAL, b"123456789");
/// assert_eq!(whole, Shift::over(5).apply(head) ^ state(0, b"56789"));
/// assert_eq!(head, Shift::back(5).apply(whole ^ state(0, b"56789")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Shift(u32);

impl Shift {
    /// Forward over `len` bytes: what feeding as many zeroes does.
    #[must_use]
    pub const fn over(len: u64) -> Self {
        Self(product(&FORWARD, len))
    }

    /// Back over `len` bytes: undoes [`over`](Self::over).
    #[must_use]
    pub const fn back(len: u64) -> Self {
        Self(product(&BACK, len))
    }

    /// The register `state`, shifted.
    #[must_use]
    pub const fn apply(self, state: u32) -> u32 {
        times(self.0, state)
    }
}

/// The CRC of two pieces together from the CRC of each, as [`crc32`](crate::crc32) gives it, and the length of the
/// second: for a chip whose DMA engine sums up a payload before its headers are known.
///
/// ```
/// use roce_crc::{combine, crc32};
///
/// assert_eq!(combine(crc32(b"1234"), crc32(b"56789"), 5), crc32(b"123456789"));
/// ```
#[must_use]
pub const fn combine(first: u32, second: u32, second_len: u64) -> u32 {
    // The complements at the start and at the end of the second cancel what the first one's leave.
    Shift::over(second_len).apply(first) ^ second
}

/// `x^(8 * 2^k)` for each bit `k` of a length. Squaring comes round after 32 times: `x^(2^32) = x`, as P is primitive.
const FORWARD: [u32; 32] = squares(over_byte(false));
/// `x^(-8 * 2^k)`.
const BACK: [u32; 32] = squares(over_byte(true));

/// `x^8`, or `x^-8`.
const fn over_byte(back: bool) -> u32 {
    let mut power = ONE;
    let mut bit = 0;
    while bit < 8 {
        power = if back { over_x(power) } else { times_x(power) };
        bit += 1;
    }
    power
}

/// `a` to the power of 1, 2, 4, and so on.
const fn squares(a: u32) -> [u32; 32] {
    let mut squares = [a; 32];
    let mut k = 1;
    while k < 32 {
        squares[k] = times(squares[k - 1], squares[k - 1]);
        k += 1;
    }
    squares
}

/// The product of those `squares` that stand for bits of `n`.
const fn product(squares: &[u32; 32], n: u64) -> u32 {
    let mut product = ONE;
    let mut left = n;
    let mut k = 0;
    while left != 0 {
        if left & 1 != 0 {
            // The upper half of the bits means the same powers as the lower.
            product = times(product, squares[k % squares.len()]);
        }
        left >>= 1;
        k += 1;
    }
    product
}

/// `a * b mod P`, by the schoolbook.
const fn times(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    let mut shifted = a;
    let mut rest = b;
    let mut degree = 0;
    while degree < 32 {
        // Bit 31 is the coefficient of 1. Without a branch, which nothing would predict.
        sum ^= shifted & (rest >> 31).wrapping_neg();
        shifted = times_x(shifted);
        rest <<= 1;
        degree += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn over_feeds_zeroes_and_back_takes_them_away() {
        let mut fed = 0x1234_5678;
        for len in 0..300 {
            assert_eq!(Shift::over(len).apply(0x1234_5678), fed, "{len}");
            assert_eq!(Shift::back(len).apply(fed), 0x1234_5678, "{len}");
            fed = table::update(fed, &[0]);
        }
    }

    #[test]
    fn lengths_add_up() {
        for (a, b) in [(1, 1), (1500, 4096), (u64::from(u32::MAX), 7), (1 << 40, 1 << 50)] {
            let twice = Shift::over(b).apply(Shift::over(a).apply(0xdebb_20e3));
            assert_eq!(Shift::over(a + b).apply(0xdebb_20e3), twice);
            assert_eq!(Shift::back(a + b).apply(twice), 0xdebb_20e3);
        }
        // x has the order 2^32 - 1, as P is primitive.
        assert_eq!(Shift::over(u64::from(u32::MAX)), Shift::over(0));
    }

    #[test]
    fn combined_values_known_from_elsewhere() {
        // Python's zlib.crc32 of each piece and of the whole.
        assert_eq!(combine(0x9be3_e0a3, 0x131d_a070, 5), 0xcbf4_3926);
        assert_eq!(combine(0, 0xcbf4_3926, 9), 0xcbf4_3926);
        assert_eq!(combine(0xcbf4_3926, 0, 0), 0xcbf4_3926);
    }
}
