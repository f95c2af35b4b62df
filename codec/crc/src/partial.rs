//! Blocks of less than 16 bytes, by few loads and stores that may overlap.

/// The bytes of `from`, less than 16, in the low bytes, with zeroes above.
#[inline]
pub(crate) fn load(from: &[u8]) -> u128 {
    let len = from.len();
    if let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*first))
            | u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8))
    } else if let (Some(first), Some(last)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) {
        u128::from(
            u64::from(u32::from_le_bytes(*first))
                | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4)),
        )
    } else {
        match *from {
            [] => 0,
            [a] => u128::from(u32::from_le_bytes([a, 0, 0, 0])),
            [a, b, ..] => u128::from(
                u32::from_le_bytes([a, b, 0, 0]) | u32::from(from[len - 1]) << (8 * (len - 1)),
            ),
        }
    }
}

/// Copies `from` to `to`, which is as long, less than 16 bytes.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) {
        copy_ends(to, first, last);
    } else if let (Some(first), Some(last)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) {
        copy_ends(to, first, last);
    } else if let (Some(first), Some(last)) = (from.first_chunk::<2>(), from.last_chunk::<2>()) {
        copy_ends(to, first, last);
    } else if let (Some(to), Some(from)) = (to.first_mut(), from.first()) {
        *to = *from;
    }
}

#[inline]
fn copy_ends<const N: usize>(to: &mut [u8], first: &[u8; N], last: &[u8; N]) {
    if let Some(to) = to.first_chunk_mut() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

    #[test]
    fn every_length_loads_and_copies_itself_only() {
        for len in 0..16 {
            let mut expected = [0; 16];
            expected[..len].copy_from_slice(&BYTES[..len]);
            assert_eq!(load(&BYTES[..len]).to_le_bytes(), expected, "{len}");

            let mut copied = [0; 16];
            copy(&mut copied[..len], &BYTES[..len]);
            assert_eq!(copied, expected, "{len}");
        }
    }
}
