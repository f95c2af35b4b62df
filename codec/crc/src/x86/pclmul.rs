//! The kernel for PCLMULQDQ: 16 bytes a register, four registers a step.
//!
//! [`crate::fold`] and [`super::finish`] say what the constants are and why this is the CRC.

use core::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_cvtsi32_si128, _mm_extract_epi32, _mm_or_si128,
    _mm_setzero_si128, _mm_xor_si128,
};

use super::finish;
use super::memory::{load_pair, load16, store16};
use crate::fold::{Pair, across};
use crate::partial;

/// For four accumulators.
static STEP: Pair = across(512);

/// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
/// OR-ed with `ones`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn run<const COPY: bool, const MASK: bool>(
    state: u32,
    dst: &mut [u8],
    src: &[u8],
    ones: &[u8; 64],
) -> u32 {
    if src.is_empty() {
        return state;
    }
    let mut lead =
        Lead { state: _mm_cvtsi32_si128(state.cast_signed()), ones: ones.as_chunks().0.iter() };
    let (groups, rest) = src.as_chunks::<64>();
    let (groups_to, rest_to) = dst.as_chunks_mut::<64>();
    let lanes = if let Some((first, groups)) = groups.split_first() {
        let mut groups_to = groups_to.iter_mut();
        let mut lanes = group::<COPY>(first, groups_to.next());
        for lane in &mut lanes {
            *lane = lead.take::<MASK>(*lane);
        }
        for from in groups {
            lanes = step(lanes, group::<COPY>(from, groups_to.next()));
        }
        Some(lanes)
    } else {
        None
    };
    end::<COPY, MASK>(lead, lanes, rest_to, rest)
}

/// What is added to the first blocks only.
pub(super) struct Lead<'a> {
    state: __m128i,
    ones: core::slice::Iter<'a, [u8; 16]>,
}

impl Lead<'_> {
    /// For blocks that are not first.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn none() -> Self {
        Self { state: _mm_setzero_si128(), ones: [].iter() }
    }

    /// Adds to `block` what is to be added to this one, the next of the blocks.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn take<const MASK: bool>(&mut self, mut block: __m128i) -> __m128i {
        if MASK && let Some(ones) = self.ones.next() {
            block = _mm_or_si128(block, load16(ones));
        }
        block = _mm_xor_si128(block, self.state);
        self.state = _mm_setzero_si128();
        block
    }

    /// [`take`](Self::take) for the last block, of less than 16 bytes: there are zeroes behind, where the mask must
    /// not reach. The state may.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn take_partial<const MASK: bool>(&mut self, tail: &[u8]) -> __m128i {
        let mut block = partial::load(tail);
        if MASK && let Some(ones) = self.ones.next() {
            block |= u128::from_le_bytes(*ones) & first_bytes(tail.len());
        }
        _mm_xor_si128(load16(&block.to_le_bytes()), self.state)
    }
}

/// Adds four blocks to the four 512 bits later.
#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) fn step(mut lanes: [__m128i; 4], next: [__m128i; 4]) -> [__m128i; 4] {
    let pair = load_pair(&STEP);
    for (lane, next) in lanes.iter_mut().zip(next) {
        *lane = multiply_add(*lane, pair, next);
    }
    lanes
}

/// The register after four blocks, or none, and what follows them, less than 64 bytes.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn end<const COPY: bool, const MASK: bool>(
    mut lead: Lead<'_>,
    lanes: Option<[__m128i; 4]>,
    dst: &mut [u8],
    src: &[u8],
) -> u32 {
    let (before, own) = finish::around(src.len());
    let mut sum = _mm_setzero_si128();
    for (lane, pair) in lanes.into_iter().flatten().zip(before) {
        sum = multiply_add(lane, load_pair(pair), sum);
    }
    let (blocks, tail) = src.as_chunks::<16>();
    let (blocks_to, tail_to) = dst.as_chunks_mut::<16>();
    let mut blocks_to = blocks_to.iter_mut();
    let mut own = own.iter();
    for (from, pair) in blocks.iter().zip(&mut own) {
        let block = lead.take::<MASK>(copy::<COPY>(from, blocks_to.next()));
        sum = multiply_add(block, load_pair(pair), sum);
    }
    if let Some(pair) = own.next()
        && !tail.is_empty()
    {
        if COPY {
            partial::copy(tail_to, tail);
        }
        // What was copied is what counts.
        let tail = if COPY { &*tail_to } else { tail };
        sum = multiply_add(lead.take_partial::<MASK>(tail), load_pair(pair), sum);
    }
    reduce(sum)
}

#[inline]
#[target_feature(enable = "sse2")]
fn copy<const COPY: bool>(from: &[u8; 16], to: Option<&mut [u8; 16]>) -> __m128i {
    let block = load16(from);
    if COPY && let Some(to) = to {
        store16(to, block);
    }
    block
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn group<const COPY: bool>(from: &[u8; 64], to: Option<&mut [u8; 64]>) -> [__m128i; 4] {
    let (from, _) = from.as_chunks::<16>();
    let lanes = [load16(&from[0]), load16(&from[1]), load16(&from[2]), load16(&from[3])];
    if COPY && let Some(to) = to {
        let (to, _) = to.as_chunks_mut::<16>();
        for (to, lane) in to.iter_mut().zip(lanes) {
            store16(to, lane);
        }
    }
    lanes
}

/// Both words by their multipliers, and `sum`.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn multiply_add(block: __m128i, pair: __m128i, sum: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(block, pair);
    let high = _mm_clmulepi64_si128::<0x11>(block, pair);
    _mm_xor_si128(_mm_xor_si128(low, high), sum)
}

/// The remainder of a sum by P: the register.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn reduce(sum: __m128i) -> u32 {
    let constants = load_pair(&finish::REDUCE);
    let quotient = _mm_clmulepi64_si128::<0x00>(sum, constants);
    let product = _mm_clmulepi64_si128::<0x10>(quotient, constants);
    _mm_extract_epi32::<2>(_mm_xor_si128(sum, product)).cast_unsigned()
}

/// The low `count` bytes set; all 16 from 16 on.
#[inline]
fn first_bytes(count: usize) -> u128 {
    u128::MAX.checked_shr(u32::try_from(8 * (16 - count.min(16))).unwrap_or(0)).unwrap_or(0)
}
