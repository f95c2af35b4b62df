//! The kernel for the CRC32 instructions: 8 bytes each.

use core::arch::aarch64::{__crc32b, __crc32d, __crc32h, __crc32w};

use crate::partial;

/// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
/// OR-ed with `ones`.
#[inline]
#[target_feature(enable = "crc")]
pub(super) fn run<const COPY: bool, const MASK: bool>(
    state: u32,
    dst: &mut [u8],
    src: &[u8],
    ones: &[u8; 64],
) -> u32 {
    let mut register = state;
    let (blocks, tail) = src.as_chunks::<16>();
    let (blocks_to, tail_to) = dst.as_chunks_mut::<16>();
    let mut blocks_to = blocks_to.iter_mut();
    let mut ones = ones.as_chunks::<16>().0.iter();
    for from in blocks {
        let mut block = u128::from_le_bytes(*from);
        if COPY && let Some(to) = blocks_to.next() {
            *to = block.to_le_bytes();
        }
        if MASK && let Some(ones) = ones.next() {
            block |= u128::from_le_bytes(*ones);
        }
        register = step(register, &block.to_le_bytes());
    }
    if COPY {
        partial::copy(tail_to, tail);
    }
    // What was copied is what counts.
    let tail = if COPY { &*tail_to } else { tail };
    if MASK && let Some(ones) = ones.next() {
        let masked = (partial::load(tail) | u128::from_le_bytes(*ones)).to_le_bytes();
        update_tail(register, &masked[..tail.len()])
    } else {
        update_tail(register, tail)
    }
}

#[inline]
#[target_feature(enable = "crc")]
pub(super) fn step(mut register: u32, block: &[u8; 16]) -> u32 {
    for word in block.as_chunks().0 {
        register = __crc32d(register, u64::from_le_bytes(*word));
    }
    register
}

/// Feeds less than 16 bytes.
#[inline]
#[target_feature(enable = "crc")]
fn update_tail(mut register: u32, mut tail: &[u8]) -> u32 {
    if let Some((word, rest)) = tail.split_first_chunk() {
        register = __crc32d(register, u64::from_le_bytes(*word));
        tail = rest;
    }
    if let Some((word, rest)) = tail.split_first_chunk() {
        register = __crc32w(register, u32::from_le_bytes(*word));
        tail = rest;
    }
    if let Some((word, rest)) = tail.split_first_chunk() {
        register = __crc32h(register, u16::from_le_bytes(*word));
        tail = rest;
    }
    match tail.first() {
        Some(byte) => __crc32b(register, *byte),
        None => register,
    }
}
