//! The portable kernel: sixteen bytes a step through sixteen tables, 16 KiB.

use crate::{partial, table};

/// `TABLES[k][b]`: what byte `b` becomes in the register once it and `k` more bytes are shifted out.
static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let first = table::byte_table();
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
///
/// Never inlined, so that a caller of [`Kernel::run`](crate::Kernel) is not swelled by what it does not use.
#[inline(never)]
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
        let bytes = *from;
        let mut block = words(&bytes);
        if COPY && let Some(to) = blocks_to.next() {
            *to = bytes;
        }
        if MASK && let Some(ones) = ones.next() {
            for (word, ones) in block.iter_mut().zip(words(ones)) {
                *word |= ones;
            }
        }
        register = step(register, block);
    }
    if COPY {
        partial::copy(tail_to, tail);
    }
    // What was copied is what counts.
    let tail = if COPY { &*tail_to } else { tail };
    if MASK && let Some(ones) = ones.next() {
        let masked = (partial::load(tail) | u128::from_le_bytes(*ones)).to_le_bytes();
        update_tail(register, masked.get(..tail.len()).unwrap_or_default())
    } else {
        update_tail(register, tail)
    }
}

#[inline]
fn words(block: &[u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

/// Feeds less than 16 bytes.
#[inline]
fn update_tail(mut register: u32, tail: &[u8]) -> u32 {
    let (words, bytes) = tail.as_chunks::<4>();
    for word in words {
        register = step(register, [u32::from_le_bytes(*word)]);
    }
    table::update(register, bytes)
}

/// Feeds `N` words at once: the register shifts out under the first, and no byte's contribution depends on another's.
#[inline]
fn step<const N: usize>(register: u32, mut words: [u32; N]) -> u32 {
    let mut next = 0;
    words[0] ^= register;
    let (tables, _) = TABLES.as_chunks::<4>();
    // The first word last: it waits for the register.
    for (word, tables) in words.into_iter().rev().zip(tables) {
        for (byte, table) in word.to_le_bytes().into_iter().zip(tables.iter().rev()) {
            next ^= table[usize::from(byte)];
        }
    }
    next
}
