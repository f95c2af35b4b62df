//! The kernel for AVX-512 with VPCLMULQDQ: 64 bytes a register, four registers a step.
//!
//! [`crate::fold`] and [`super::finish`] say what the constants are and why this is the CRC.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_cvtsi32_si128, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_xor_si256, _mm512_broadcast_i32x4, _mm512_castsi512_si256,
    _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_maskz_mov_epi8, _mm512_or_si512,
    _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};

use super::finish;
use super::memory::{first_bits, load_pair, load_pairs, load_start, load64, store_start, store64};
use super::pclmul::reduce;
use crate::fold::{Pair, across};

/// For four accumulators.
static STEP: Pair = across(2048);

/// For blocks that end 0 to 7 times 512 bits apart; the first is not used.
static ACROSS: [Pair; 8] = {
    let mut table = [[0; 2]; 8];
    let mut bits = 512;
    let mut i = 1;
    while i < table.len() {
        table[i] = across(bits);
        bits += 512;
        i += 1;
    }
    table
};

/// What is added to the first block only.
struct Lead {
    state: __m512i,
    ones: __m512i,
}

/// Feeds `src` and, where `COPY`, copies it to `dst`, which then must be as long. Where `MASK`, the first
/// 64 bytes are fed OR-ed with `ones`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn run<const COPY: bool, const MASK: bool>(
    state: u32,
    dst: &mut [u8],
    src: &[u8],
    ones: &[u8; 64],
) -> u32 {
    let mut lead = Lead {
        state: _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed())),
        ones: if MASK { load64(ones) } else { _mm512_setzero_si512() },
    };
    let (blocks, tail) = src.as_chunks::<64>();
    let (blocks_to, tail_to) = dst.as_chunks_mut::<64>();

    if blocks.is_empty() {
        // An empty slice may point to no page at all. The masked accesses below would touch nothing there,
        // but a CPU finds that out in microcode: some 400 cycles.
        if tail.is_empty() {
            return state;
        }
        let block = load_start(tail);
        if COPY {
            store_start(tail_to, block);
        }
        // The mask must not reach behind the tail, where all is zero. The state may.
        lead.ones = _mm512_maskz_mov_epi8(first_bits(tail.len()), lead.ones);
        let (_, own) = around(tail.len());
        return reduce(fold_lanes(multiply(lead.take::<MASK>(block), own)));
    }

    let (groups, rest) = blocks.as_chunks::<4>();
    let (groups_to, rest_to) = blocks_to.as_chunks_mut::<4>();
    let mut sum = _mm512_setzero_si512();

    if let Some((first, groups)) = groups.split_first() {
        let mut groups_to = groups_to.iter_mut();
        let mut lanes = group::<COPY>(first, groups_to.next());
        lanes[0] = lead.take::<MASK>(lanes[0]);

        let step = broadcast(&STEP);
        for from in groups {
            let next = group::<COPY>(from, groups_to.next());
            for (lane, next) in lanes.iter_mut().zip(next) {
                *lane = multiply_add(*lane, step, next);
            }
        }
        for (i, lane) in lanes.into_iter().enumerate() {
            sum = add_across(lane, rest.len() + 3 - i, sum);
        }
    }

    let mut rest_to = rest_to.iter_mut();
    for (i, from) in rest.iter().enumerate() {
        let block = lead.take::<MASK>(copy::<COPY>(from, rest_to.next()));
        sum = add_across(block, rest.len() - 1 - i, sum);
    }

    let (before, own) = around(tail.len());
    let mut end = multiply(sum, before);
    if !tail.is_empty() {
        let block = load_start(tail);
        if COPY {
            store_start(tail_to, block);
        }
        end = multiply_add(block, own, end);
    }
    reduce(fold_lanes(end))
}

impl Lead {
    /// Adds what is to be added to the first block to `block`, and nothing the next time.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn take<const MASK: bool>(&mut self, mut block: __m512i) -> __m512i {
        if MASK {
            block = _mm512_or_si512(block, self.ones);
            self.ones = _mm512_setzero_si512();
        }
        block = _mm512_xor_si512(block, self.state);
        self.state = _mm512_setzero_si512();
        block
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn copy<const COPY: bool>(from: &[u8; 64], to: Option<&mut [u8; 64]>) -> __m512i {
    let block = load64(from);
    if COPY && let Some(to) = to {
        store64(to, block);
    }
    block
}

#[inline]
#[target_feature(enable = "avx512f")]
fn group<const COPY: bool>(from: &[[u8; 64]; 4], to: Option<&mut [[u8; 64]; 4]>) -> [__m512i; 4] {
    let lanes = [load64(&from[0]), load64(&from[1]), load64(&from[2]), load64(&from[3])];
    if COPY && let Some(to) = to {
        for (to, lane) in to.iter_mut().zip(lanes) {
            store64(to, lane);
        }
    }
    lanes
}

/// The multipliers for four blocks of 128 bits before a tail, and for the tail's own.
#[inline]
#[target_feature(enable = "avx512f")]
fn around(tail: usize) -> (__m512i, __m512i) {
    let (before, own) = finish::around(tail);
    (load_pairs(before), load_pairs(own))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(pair: &Pair) -> __m512i {
    _mm512_broadcast_i32x4(load_pair(pair))
}

/// Adds `block` to `sum`, which ends `behind` times 512 bits later.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn add_across(block: __m512i, behind: usize, sum: __m512i) -> __m512i {
    match behind {
        0 => _mm512_xor_si512(sum, block),
        _ => multiply_add(block, broadcast(&ACROSS[behind % ACROSS.len()]), sum),
    }
}

/// Each 128 bits' words by their multipliers, summed.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn multiply(blocks: __m512i, pairs: __m512i) -> __m512i {
    _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<0x00>(blocks, pairs),
        _mm512_clmulepi64_epi128::<0x11>(blocks, pairs),
    )
}

#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn multiply_add(blocks: __m512i, pairs: __m512i, sum: __m512i) -> __m512i {
    /// The truth table of `a ^ b ^ c`.
    const XOR3: i32 = 0x96;
    _mm512_ternarylogic_epi64::<XOR3>(
        _mm512_clmulepi64_epi128::<0x00>(blocks, pairs),
        _mm512_clmulepi64_epi128::<0x11>(blocks, pairs),
        sum,
    )
}

/// The sum of the four times 128 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold_lanes(sum: __m512i) -> __m128i {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}
