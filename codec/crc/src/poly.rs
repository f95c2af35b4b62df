//! Arithmetic modulo CRC-32's polynomial P at compile time: every constant the kernels use is worked out here.
//!
//! Polynomials over GF(2) are held reflected, as the CRC has its register: in a `u32`, bit `i` is the
//! coefficient of `x^(31-i)`.

/// P without its `x^32`: the IEEE 802.3 polynomial `0x04c11db7`, reflected.
pub(crate) const P: u32 = 0xedb8_8320;

/// 1, reflected.
pub(crate) const ONE: u32 = 1 << 31;

/// `a * x mod P`.
pub(crate) const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (P * (a & 1))
}

/// `a / x mod P`: the inverse of [`times_x`], which P's constant term makes possible.
pub(crate) const fn over_x(a: u32) -> u32 {
    if a & ONE == 0 { a << 1 } else { ((a ^ P) << 1) | 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_is_the_polynomial_of_802_3() {
        let degrees = [26, 23, 22, 16, 12, 11, 10, 8, 7, 5, 4, 2, 1, 0];
        assert_eq!(P, degrees.iter().fold(0, |sum, degree| sum | 1 << (31 - degree)));
    }
}
