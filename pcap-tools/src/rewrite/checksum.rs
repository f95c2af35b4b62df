//! Checksums that follow a change (RFC 1624): a right one stays right, a wrong one stays as wrong,
//! and a packet cut by the capture needs no bytes that are not there.

/// The ones' complement sum of bytes, an odd one being the first of its word.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    words + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or_default()
}

/// The checksum of what has become `new` and was `old`; both start at an even place and have the
/// same length.
pub(super) fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let removed = u64::from(!fold(sum(old)));
    !fold(u64::from(!checksum) + removed + sum(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(bytes: &[u8]) -> u16 {
        !fold(sum(bytes))
    }

    #[test]
    fn it_is_what_a_full_sum_gives() {
        let old: Vec<u8> = (1..=41).collect();
        for at in 0..old.len() {
            let mut new = old.clone();
            new[at] ^= 0xa5;
            assert_eq!(updated(checksum(&old), &old, &new), checksum(&new), "{at}");
            let wrong = updated(checksum(&old) ^ 0x100, &old, &new);
            assert_ne!(wrong, checksum(&new), "a wrong one stays wrong");
        }
    }
}
