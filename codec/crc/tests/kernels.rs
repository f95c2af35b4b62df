//! Every kernel that this machine can run, against crc32fast.

use roce_crc::Kernel;

/// Calls `check` with each kernel, and says which it passed over.
fn each_kernel(check: impl Fn(Kernel)) {
    for (name, kernel) in Kernel::all() {
        match kernel {
            Some(kernel) => check(kernel),
            None => println!("skipped: this CPU cannot run {name}"),
        }
    }
}

fn expected(state: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Bytes without pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()[3]
        })
        .collect()
}

#[test]
fn every_length_at_every_alignment() {
    let bytes = noise(700);
    each_kernel(|kernel| {
        for len in 0..=600 {
            for start in 0..64 {
                let bytes = &bytes[start..start + len];
                for state in [0, 0xffff_ffff, 0xdebb_20e3] {
                    let found = kernel.update(state, bytes);
                    assert_eq!(
                        found,
                        expected(state, bytes),
                        "{kernel:?} {len} bytes at {start}"
                    );
                }
            }
        }
    });
}
