//! Every kernel that this machine can run, against crc32fast.

mod noise;

use std::sync::LazyLock;

use noise::noise;
use proptest::prelude::*;
use roce_crc::{AFTER_ONES8, INITIAL, Kernel};

/// Longer than anything that a kernel does before its inner loop, and after it.
const LONGEST: usize = 600;
const ALIGNMENTS: usize = 64;

/// The kernels to test; says once which it passes over.
static KERNELS: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    let can_run = |(name, kernel): (_, Option<_>)| {
        if kernel.is_none() {
            println!("passed over: this CPU cannot run {name}");
        }
        kernel
    };
    Kernel::all().filter_map(can_run).collect()
});

/// The register that crc32fast has after `bytes`.
fn expected(state: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}

/// `bytes` with `ones` OR-ed to the first.
fn masked(bytes: &[u8], ones: &[u8; 64]) -> Vec<u8> {
    let mut masked = bytes.to_vec();
    for (byte, ones) in masked.iter_mut().zip(ones) {
        *byte |= ones;
    }
    masked
}

#[test]
fn the_best_is_the_last_that_can_run() {
    let last = Kernel::all().filter_map(|(_, kernel)| kernel).last();
    // The first asks the CPU, the others what is remembered.
    for _ in 0..3 {
        assert_eq!(Some(Kernel::best()), last);
    }
    println!("the best is {:?}", Kernel::best());
}

#[test]
fn every_length_at_every_alignment() {
    let bytes = noise(LONGEST + ALIGNMENTS);
    for len in 0..=LONGEST {
        for start in 0..ALIGNMENTS {
            let bytes = &bytes[start..start + len];
            for state in [INITIAL, AFTER_ONES8, 0] {
                let expected = expected(state, bytes);
                for kernel in KERNELS.iter() {
                    assert_eq!(
                        kernel.update(state, bytes),
                        expected,
                        "{kernel:?}: {len} bytes at {start}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_length_of_copy_writes_itself_and_nothing_else() {
    let from = noise(LONGEST + ALIGNMENTS);
    let around = noise(LONGEST + 2 * ALIGNMENTS);
    for kernel in KERNELS.iter() {
        for len in 0..=LONGEST {
            for start in (0..ALIGNMENTS).step_by(3) {
                let src = &from[start..start + len];
                let at = ALIGNMENTS - start;
                let mut dst = around.clone();
                let found = kernel.copy_update(AFTER_ONES8, &mut dst[at..at + len], src);
                assert_eq!(found, expected(AFTER_ONES8, src), "{kernel:?}: {len} bytes at {start}");
                assert!(dst[at..at + len] == *src, "{kernel:?}: {len} bytes at {start}");
                assert!(dst[..at] == around[..at], "{kernel:?}: {len} bytes at {start}: before");
                assert!(
                    dst[at + len..] == around[at + len..],
                    "{kernel:?}: {len} bytes at {start}: behind"
                );
            }
        }
    }
}

#[test]
fn copy_takes_the_shorter_length() {
    let src = noise(300);
    for kernel in KERNELS.iter() {
        for (dst_len, src_len) in [(0, 300), (300, 0), (100, 299), (299, 100), (15, 16), (64, 63)] {
            let len = dst_len.min(src_len);
            let mut dst = vec![0xa5; dst_len];
            let found = kernel.copy_update(INITIAL, &mut dst, &src[..src_len]);
            assert_eq!(found, expected(INITIAL, &src[..len]), "{kernel:?}: {src_len} to {dst_len}");
            assert!(dst[..len] == src[..len], "{kernel:?}: {src_len} to {dst_len}");
            assert!(
                dst[len..].iter().all(|byte| *byte == 0xa5),
                "{kernel:?}: {src_len} to {dst_len}"
            );
        }
    }
}

#[test]
fn every_length_masked() {
    let bytes = noise(LONGEST);
    let ones: [u8; 64] = noise(164)[100..].try_into().expect("64 bytes");
    for ones in [ones, [0xff; 64], [0; 64]] {
        for len in 0..=LONGEST {
            let expected = expected(AFTER_ONES8, &masked(&bytes[..len], &ones));
            for kernel in KERNELS.iter() {
                let found = kernel.update_masked(AFTER_ONES8, &bytes[..len], &ones);
                assert_eq!(found, expected, "{kernel:?}: {len} bytes");
            }
        }
    }
}

#[test]
fn long_buffers() {
    let bytes = noise(1 << 20);
    for len in [4096, 9000, 65_535, 65_536, (1 << 20) - 1, 1 << 20] {
        let expected = expected(INITIAL, &bytes[..len]);
        let mut dst = vec![0; len];
        for kernel in KERNELS.iter() {
            assert_eq!(kernel.update(INITIAL, &bytes[..len]), expected, "{kernel:?}: {len} bytes");
            dst.fill(0);
            assert_eq!(
                kernel.copy_update(INITIAL, &mut dst, &bytes[..len]),
                expected,
                "{kernel:?}: {len} bytes"
            );
            assert!(dst == bytes[..len], "{kernel:?}: {len} bytes");
        }
    }
}

proptest! {
    /// However a message is cut, and whatever is done with the parts.
    #[test]
    fn parts_make_the_whole(
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        state: u32,
        parts in prop::collection::vec((0..1500_usize, 0..3), 0..12),
        ones in prop::array::uniform32(any::<u8>()),
    ) {
        let ones: [u8; 64] = core::array::from_fn(|i| ones[i % 32]);
        for kernel in KERNELS.iter() {
            let mut register = state;
            let mut fed = vec![];
            let mut rest = &bytes[..];
            for (len, how) in &parts {
                let (part, behind) = rest.split_at((*len).min(rest.len()));
                rest = behind;
                match how {
                    0 => {
                        register = kernel.update(register, part);
                        fed.extend_from_slice(part);
                    }
                    1 => {
                        let mut dst = vec![0; part.len()];
                        register = kernel.copy_update(register, &mut dst, part);
                        assert_eq!(dst, part);
                        fed.extend_from_slice(part);
                    }
                    _ => {
                        register = kernel.update_masked(register, part, &ones);
                        fed.extend(masked(part, &ones));
                    }
                }
            }
            assert_eq!(register, expected(state, &fed), "{kernel:?}");
        }
    }
}
