//! Arithmetic modulo CRC-32's polynomial P at compile time: every constant the kernels use is worked out here.
//!
//! Polynomials over GF(2) are held reflected, as the CRC has its register: in a `u32`, bit `i` is the
//! coefficient of `x^(31-i)`.

/// P without its `x^32`: the IEEE 802.3 polynomial `0x04c11db7`, reflected.
pub(crate) const P: u32 = 0xedb8_8320;

/// 1, reflected.
const ONE: u32 = 1 << 31;

/// `a * x mod P`.
pub(crate) const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (P * (a & 1))
}

/// `a / x mod P`: the inverse of [`times_x`], which P's constant term makes possible.
const fn over_x(a: u32) -> u32 {
    if a & ONE == 0 { a << 1 } else { ((a ^ P) << 1) | 1 }
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
    fn p_is_the_polynomial_of_802_3() {
        let degrees = [26, 23, 22, 16, 12, 11, 10, 8, 7, 5, 4, 2, 1, 0];
        assert_eq!(P, degrees.iter().fold(0, |sum, degree| sum | ONE >> degree));
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
