//! Numbers as hexadecimal digits of a fixed count, as the exchanges of perftest and pingpong
//! have them.

/// Takes `digits` hexadecimal digits, at most 16, off the front.
pub(super) fn take(rest: &mut &[u8], digits: usize) -> Option<u64> {
    let (text, behind) = rest.split_at_checked(digits)?;
    let mut value = 0;
    for digit in text {
        value = value << 4 | u64::from(char::from(*digit).to_digit(16)?);
    }
    *rest = behind;
    Some(value)
}

/// As [`take`], with a colon behind.
pub(super) fn take_field(rest: &mut &[u8], digits: usize) -> Option<u64> {
    let value = take(rest, digits)?;
    *rest = rest.strip_prefix(b":")?;
    Some(value)
}

/// Writes the low `digits` hexadecimal digits to the front.
pub(super) fn put(rest: &mut &mut [u8], digits: usize, value: u64) {
    let Some((text, behind)) = core::mem::take(rest).split_at_mut_checked(digits) else { return };
    for (place, digit) in (0u32..).zip(text.iter_mut().rev()) {
        let nibble = u32::try_from(value >> (4 * place) & 15).unwrap_or(0);
        *digit =
            char::from_digit(nibble, 16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0);
    }
    *rest = behind;
}

/// As [`put`], with a colon behind.
pub(super) fn put_field(rest: &mut &mut [u8], digits: usize, value: u64) {
    put(rest, digits, value);
    if let Some((colon, behind)) = core::mem::take(rest).split_first_mut() {
        *colon = b':';
        *rest = behind;
    }
}
