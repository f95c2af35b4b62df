//! The kernel for VPCLMULQDQ without AVX-512: 32 bytes a register, four registers a step, and from where less than a
//! step is left the kernel of [`super::pclmul`].
//!
//! [`crate::fold`] says what the constants are and why this is the CRC.

use core::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_clmulepi64_epi128, _mm256_extracti128_si256, _mm256_or_si256, _mm256_xor_si256,
    _mm256_zextsi128_si256,
};

use super::memory::{load_pair, load32, store32};
use super::pclmul::{self, Lead};
use crate::fold::{Pair, across};

/// For four accumulators, and for two.
static STEP: Pair = across(1024);
static HALF: Pair = across(512);

/// Below so many bytes the narrow kernel is faster.
pub(super) const WORTH_IT: usize = 256;

/// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
/// OR-ed with `ones`.
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn run<const COPY: bool, const MASK: bool>(
    state: u32,
    dst: &mut [u8],
    src: &[u8],
    ones: &[u8; 64],
) -> u32 {
    let (groups, rest) = src.as_chunks::<128>();
    let (groups_to, rest_to) = dst.as_chunks_mut::<128>();
    let Some((first, groups)) = groups.split_first() else {
        return pclmul::run::<COPY, MASK>(state, dst, src, ones);
    };
    let mut groups_to = groups_to.iter_mut();
    let mut lanes = group::<COPY>(first, groups_to.next());
    if MASK {
        for (lane, ones) in lanes.iter_mut().zip(ones.as_chunks().0) {
            *lane = _mm256_or_si256(*lane, load32(ones));
        }
    }
    lanes[0] =
        _mm256_xor_si256(lanes[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(state.cast_signed())));
    for from in groups {
        let next = group::<COPY>(from, groups_to.next());
        for (lane, next) in lanes.iter_mut().zip(next) {
            *lane = multiply_add(*lane, &STEP, next);
        }
    }

    let [a, b, c, d] = lanes;
    let c = multiply_add(a, &HALF, c);
    let d = multiply_add(b, &HALF, d);
    let mut lanes = [
        _mm256_castsi256_si128(c),
        _mm256_extracti128_si256::<1>(c),
        _mm256_castsi256_si128(d),
        _mm256_extracti128_si256::<1>(d),
    ];
    let (half, rest) = rest.as_chunks::<64>();
    let (half_to, rest_to) = rest_to.as_chunks_mut::<64>();
    if let Some(from) = half.first() {
        lanes = pclmul::step(lanes, pclmul::group::<COPY>(from, half_to.first_mut()));
    }
    pclmul::end::<COPY, MASK>(Lead::none(), Some(lanes), rest_to, rest)
}

#[inline]
#[target_feature(enable = "avx2")]
fn group<const COPY: bool>(from: &[u8; 128], to: Option<&mut [u8; 128]>) -> [__m256i; 4] {
    let (from, _) = from.as_chunks::<32>();
    let lanes = [load32(&from[0]), load32(&from[1]), load32(&from[2]), load32(&from[3])];
    if COPY && let Some(to) = to {
        let (to, _) = to.as_chunks_mut::<32>();
        for (to, lane) in to.iter_mut().zip(lanes) {
            store32(to, lane);
        }
    }
    lanes
}

/// Each 128 bits' words by their multipliers, and `sum`.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
fn multiply_add(blocks: __m256i, pair: &Pair, sum: __m256i) -> __m256i {
    let pairs = _mm256_broadcastsi128_si256(load_pair(pair));
    let low = _mm256_clmulepi64_epi128::<0x00>(blocks, pairs);
    let high = _mm256_clmulepi64_epi128::<0x11>(blocks, pairs);
    _mm256_xor_si256(_mm256_xor_si256(low, high), sum)
}
