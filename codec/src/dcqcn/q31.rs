//! Fractions from 0 to 1 in Q1.31: 2³¹ is 1. No product here needs more than 64 bits.

/// 1.
pub(super) const ONE: u32 = 1 << 31;

/// `x · y`, to the nearest 2⁻³¹; both at most 1.
#[inline]
pub(super) fn mul(x: u32, y: u32) -> u32 {
    let product = u64::from(x) * u64::from(y) + (1 << 30);
    u32::try_from(product >> 31).unwrap_or(ONE)
}

/// `base^exponent` in at most 64 steps, each to the nearest 2⁻³¹. A base below 1 reaches 0 well
/// before its power would be a denormal float, so that long silences end early.
pub(super) fn pow(base: u32, exponent: u64) -> u32 {
    let (mut square, mut left, mut power) = (base, exponent, ONE);
    while left > 0 && power > 0 {
        if left & 1 == 1 {
            power = mul(power, square);
        }
        square = mul(square, square);
        left >>= 1;
    }
    power
}

/// `⌊value · fraction⌋`, exactly, for a fraction of at most 1 and a value below 2⁶³.
#[inline]
pub(super) fn scale(value: u64, fraction: u32) -> u64 {
    let (high, low) = (value >> 32, value & u64::from(u32::MAX));
    // high · 2³² · fraction / 2³¹ is a whole number, so only the low half rounds.
    ((high * u64::from(fraction)) << 1) + ((low * u64::from(fraction)) >> 31)
}

/// `numerator / 1024`, at most 1.
#[inline]
pub(super) fn per_1024(numerator: u32) -> u32 {
    numerator.min(1024) << 21
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_hand() {
        let half = ONE / 2;
        assert_eq!(mul(half, half), ONE / 4);
        assert_eq!(mul(ONE, ONE), ONE);
        // 3 · 2⁻³¹ · ½ = 1.5 ulp, which rounds up; 1 ulp · ½ too; 1 ulp · ¼ does not.
        assert_eq!((mul(3, half), mul(1, half), mul(1, ONE / 4)), (2, 1, 0));
        assert_eq!((per_1024(1024), per_1024(512), per_1024(5000)), (ONE, half, ONE));
    }

    #[test]
    fn powers_by_hand() {
        let half = ONE / 2;
        assert_eq!((pow(half, 0), pow(half, 1), pow(half, 5)), (ONE, half, ONE / 32));
        assert_eq!(pow(ONE, u64::MAX), ONE);
        assert_eq!(pow(ONE - ONE / 1024, u64::MAX), 0);
        // (255/256)^256 · 2³¹ = 788,469,569.83 (exact fractions, rounded once). Eight squarings
        // double the error of each before, but the value falls too: a few dozen ulp.
        assert!(pow(per_1024(1020), 256).abs_diff(788_469_570) <= 32);
    }

    #[test]
    fn scaling_loses_nothing_but_the_fraction() {
        assert_eq!(scale(800_000_000_000, ONE / 2), 400_000_000_000);
        assert_eq!(scale(4_000_000_000_000, ONE), 4_000_000_000_000);
        assert_eq!(scale(u64::MAX >> 1, ONE), u64::MAX >> 1);
        for (value, fraction) in [(799_999_999_999, 12_345_679), (1 << 41, ONE - 1), (7, ONE / 3)] {
            let exact = (u128::from(value) * u128::from(fraction)) >> 31;
            assert_eq!(u128::from(scale(value, fraction)), exact);
        }
    }
}
