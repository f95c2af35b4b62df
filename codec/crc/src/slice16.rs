//! The portable kernel: sixteen bytes a step through sixteen tables, 16 KiB.

use crate::partial;
use crate::table::byte_table;

/// `TABLES[k][b]`: what byte `b` becomes in the register once it and `k` more bytes are shifted out.
static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let first = byte_table();
    let mut tables = [first; 16];
    let mut k = 1;
    while k < 16 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[k - 1][byte];
            tables[k][byte] = (before >> 8) ^ first[before.to_le_bytes()[0] as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
/// OR-ed with `ones`.
pub(crate) fn run<const COPY: bool, const MASK: bool>(
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
        let mut block = *from;
        if COPY && let Some(to) = blocks_to.next() {
            *to = block;
        }
        if MASK && let Some(ones) = ones.next() {
            block = (u128::from_le_bytes(block) | u128::from_le_bytes(*ones)).to_le_bytes();
        }
        register = step(register, &block);
    }
    if COPY {
        partial::copy(tail_to, tail);
    }
    if MASK && let Some(ones) = ones.next() {
        let masked = (partial::load(tail) | u128::from_le_bytes(*ones)).to_le_bytes();
        update_tail(register, &masked[..tail.len()])
    } else {
        update_tail(register, tail)
    }
}

/// Feeds less than 16 bytes.
#[inline]
fn update_tail(mut register: u32, mut tail: &[u8]) -> u32 {
    if let Some((eight, rest)) = tail.split_first_chunk::<8>() {
        register = step(register, eight);
        tail = rest;
    }
    if let Some((four, rest)) = tail.split_first_chunk::<4>() {
        register = step(register, four);
        tail = rest;
    }
    for byte in tail {
        register = step(register, &[*byte]);
    }
    register
}

/// Feeds `N` bytes at once. The register shifts out under the first four; none of their contributions
/// depends on another's.
#[inline]
fn step<const N: usize>(register: u32, block: &[u8; N]) -> u32 {
    let mut next = if N < 4 { register >> (8 * N) } else { 0 };
    let under = register.to_le_bytes();
    for (i, byte) in block.iter().enumerate() {
        let byte = if i < 4 { byte ^ under[i] } else { *byte };
        next ^= TABLES[N - 1 - i][usize::from(byte)];
    }
    next
}
