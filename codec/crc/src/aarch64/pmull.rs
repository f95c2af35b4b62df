//! The kernel for PMULL: 16 bytes a register, four registers a step; from where less than a step is left, the CRC32
//! instructions.
//!
//! [`crate::fold`] says what the constants are and why this is the CRC. All memory that this architecture's kernels
//! access by pointer they access in [`load`] and [`store`].

use core::arch::aarch64::{
    poly64x2_t, uint64x2_t, vdupq_n_u64, veorq_u64, vgetq_lane_p64, vld1q_u8, vld1q_u64,
    vmull_high_p64, vmull_p64, vorrq_u64, vreinterpretq_p64_u64, vreinterpretq_u8_u64,
    vreinterpretq_u64_p128, vreinterpretq_u64_u8, vsetq_lane_u64, vst1q_u8,
};

use super::crc32x;
use crate::fold::{Pair, across};

/// Below so many bytes the CRC32 instructions alone are as fast.
pub(super) const WORTH_IT: usize = 128;

/// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
/// OR-ed with `ones`.
#[target_feature(enable = "neon,aes,crc")]
pub(super) fn run<const COPY: bool, const MASK: bool>(
    state: u32,
    dst: &mut [u8],
    src: &[u8],
    ones: &[u8; 64],
) -> u32 {
    let (groups, rest) = src.as_chunks::<64>();
    let (groups_to, rest_to) = dst.as_chunks_mut::<64>();
    let Some((first, groups)) = groups.split_first() else {
        return crc32x::run::<COPY, MASK>(state, dst, src, ones);
    };
    let mut groups_to = groups_to.iter_mut();
    let mut lanes = group::<COPY>(first, groups_to.next());
    if MASK {
        for (lane, ones) in lanes.iter_mut().zip(ones.as_chunks().0) {
            *lane = vorrq_u64(*lane, load(ones));
        }
    }
    lanes[0] = veorq_u64(lanes[0], vsetq_lane_u64::<0>(u64::from(state), vdupq_n_u64(0)));
    let step = load_pair(&const { across(512) });
    for from in groups {
        let next = group::<COPY>(from, groups_to.next());
        for (lane, next) in lanes.iter_mut().zip(next) {
            *lane = multiply_add(*lane, step, next);
        }
    }

    // All to the last lane. A register of zero fed that block is the register after all so far.
    let [a, b, c, d] = lanes;
    let d = multiply_add(a, load_pair(&const { across(384) }), d);
    let d = multiply_add(b, load_pair(&const { across(256) }), d);
    let d = multiply_add(c, load_pair(&const { across(128) }), d);
    let mut last = [0; 16];
    store(&mut last, d);
    crc32x::run::<COPY, false>(crc32x::step(0, &last), rest_to, rest, ones)
}

#[inline]
#[target_feature(enable = "neon")]
fn group<const COPY: bool>(from: &[u8; 64], to: Option<&mut [u8; 64]>) -> [uint64x2_t; 4] {
    let (from, _) = from.as_chunks::<16>();
    let lanes = [load(&from[0]), load(&from[1]), load(&from[2]), load(&from[3])];
    if COPY && let Some(to) = to {
        let (to, _) = to.as_chunks_mut::<16>();
        for (to, lane) in to.iter_mut().zip(lanes) {
            store(to, lane);
        }
    }
    lanes
}

/// Both words by their multipliers, and `sum`.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_add(block: uint64x2_t, pair: poly64x2_t, sum: uint64x2_t) -> uint64x2_t {
    let block = vreinterpretq_p64_u64(block);
    let low = vmull_p64(vgetq_lane_p64::<0>(block), vgetq_lane_p64::<0>(pair));
    let high = vmull_high_p64(block, pair);
    veorq_u64(veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high)), sum)
}

/// The block in memory, its first byte in the lowest.
#[inline]
#[target_feature(enable = "neon")]
fn load(from: &[u8; 16]) -> uint64x2_t {
    // SAFETY: `from` is valid for reads of 16 bytes, and the instruction asks no alignment.
    vreinterpretq_u64_u8(unsafe { vld1q_u8(from.as_ptr()) })
}

#[inline]
#[target_feature(enable = "neon")]
fn store(to: &mut [u8; 16], value: uint64x2_t) {
    let value = vreinterpretq_u8_u64(value);
    // SAFETY: `to` is valid for writes of 16 bytes, and the instruction asks no alignment.
    unsafe { vst1q_u8(to.as_mut_ptr(), value) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load_pair(from: &Pair) -> poly64x2_t {
    // SAFETY: `from` is two u64, valid for reads and aligned.
    vreinterpretq_p64_u64(unsafe { vld1q_u64(from.as_ptr()) })
}
