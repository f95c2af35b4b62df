//! Loads and stores of vector registers, whole and in part: every access to memory by pointer on x86-64.
//!
//! Each takes a reference to exactly the bytes that it touches, or masks off what lies beyond the slice.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256,
    _mm256_storeu_si256, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_storeu_si512,
};

use crate::fold::Pair;

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load16(from: &[u8; 16]) -> __m128i {
    // SAFETY: `from` is valid for reads of 16 bytes, and the instruction asks no alignment.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn load_pair(from: &Pair) -> __m128i {
    // SAFETY: `from` is two u64: valid for reads of 16 bytes, and the instruction asks no alignment.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn store16(to: &mut [u8; 16], value: __m128i) {
    // SAFETY: `to` is valid for writes of 16 bytes, and the instruction asks no alignment.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx")]
pub(super) fn load32(from: &[u8; 32]) -> __m256i {
    // SAFETY: `from` is valid for reads of 32 bytes, and the instruction asks no alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx")]
pub(super) fn store32(to: &mut [u8; 32], value: __m256i) {
    // SAFETY: `to` is valid for writes of 32 bytes, and the instruction asks no alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load64(from: &[u8; 64]) -> __m512i {
    // SAFETY: `from` is valid for reads of 64 bytes, and the instruction asks no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_pairs(from: &[Pair; 4]) -> __m512i {
    // SAFETY: `from` is eight u64: valid for reads of 64 bytes, and the instruction asks no alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store64(to: &mut [u8; 64], value: __m512i) {
    // SAFETY: `to` is valid for writes of 64 bytes, and the instruction asks no alignment.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
}

/// Loads `from`, or its first 64 bytes if it is longer, with zeroes behind.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load_start(from: &[u8]) -> __m512i {
    // SAFETY: bytes whose mask bit is clear are not accessed; `first_bits` sets at most `from.len()`, from
    // the pointer on, and `from` is valid for reads of so many. The instruction asks no alignment.
    unsafe { _mm512_maskz_loadu_epi8(first_bits(from.len()), from.as_ptr().cast()) }
}

/// Stores the start of `value` to `to`: as many bytes as `to` has, at most 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn store_start(to: &mut [u8], value: __m512i) {
    let mask = first_bits(to.len());
    // SAFETY: bytes whose mask bit is clear are not accessed; `first_bits` sets at most `to.len()`, from
    // the pointer on, and `to` is valid for writes of so many. The instruction asks no alignment.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, value) }
}

/// The low `count` bits set; all 64 from 64 on.
#[inline]
pub(super) fn first_bits(count: usize) -> u64 {
    u64::MAX.checked_shr(u32::try_from(64 - count.min(64)).unwrap_or(0)).unwrap_or(0)
}
