//! Bytes without pattern, the same in every run.

/// `len` bytes of Marsaglia's xorshift64.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[3]
    };
    (0..len).map(|_| byte()).collect()
}
