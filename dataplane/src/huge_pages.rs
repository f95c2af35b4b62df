//! Huge pages under the engine's pools, so that a million queue pairs fit the translation caches.
//!
//! A page of 4 KiB holds a dozen queue pairs: with very many, every packet would miss the TLB for
//! each pool it touches. The kernel is asked to collect the pools' memory into pages of 2 MiB, at
//! start, once. It needs no reserved pages and no privilege, and `transparent_hugepage/enabled` may be
//! `madvise`.

use roce_engine::Storage;

/// x86-64 and AArch64 with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;
/// Linux 6.1 and later; an older kernel refuses it. The crate `libc` has it for glibc alone.
const MADV_COLLAPSE: libc::c_int = 25;

/// Asks for huge pages under each pool of a storage; says how many bytes the kernel put on them, or
/// had there.
///
/// Ask before the engine is made: this may take a second for each GiB.
#[must_use]
pub fn advise(storage: &Storage<'_>) -> usize {
    under(storage.qps)
        + under(storage.timers)
        + under(storage.pacers)
        + under(storage.ready)
        + under(storage.replays)
        + under(storage.mrs)
        + under(storage.cqes)
        + under(storage.send_wqes)
        + under(storage.recv_wqes)
}

/// Asks for huge pages under the part of a slice that they can cover; says how many bytes they do.
fn under<T>(pool: &[T]) -> usize {
    let start = pool.as_ptr().addr();
    let end = start + size_of_val(pool);
    let first = start.next_multiple_of(HUGE_PAGE);
    let len = end.saturating_sub(first) / HUGE_PAGE * HUGE_PAGE;
    if len == 0 {
        return 0;
    }
    let at: *mut libc::c_void =
        pool.as_ptr().cast_mut().cast::<u8>().wrapping_add(first - start).cast();
    // SAFETY: whole pages inside a slice that is alive; the advice changes how they are mapped, not
    // what is in them.
    let advised = unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
    // SAFETY: as above. The pages are there already, hence the second call, which moves them now.
    let collapsed = unsafe { libc::madvise(at, len, MADV_COLLAPSE) };
    if advised == 0 && collapsed == 0 { len } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_what_they_were() {
        let pool: Vec<u64> = (0..1 << 20).collect();
        let covered = under(&pool);
        assert!(covered.is_multiple_of(HUGE_PAGE) && covered <= size_of_val(&pool[..]));
        assert!(pool.iter().enumerate().all(|(at, value)| u64::try_from(at) == Ok(*value)));
    }

    #[test]
    fn small_pools_are_left_alone() {
        assert_eq!(under::<u64>(&[]), 0);
        assert_eq!(under(&[0_u8; 4096]), 0);
    }
}
