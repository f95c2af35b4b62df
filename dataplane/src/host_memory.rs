//! Regions of this process's memory, between guard pages.
//!
//! Each region is an anonymous mapping with an inaccessible page on either side, so that a byte
//! touched outside it ends the process instead of passing unseen. Accesses are checked against
//! the mapping again here, whatever the engine has checked.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use roce_codec::Crc32;
use roce_codec::icrc::Icrc;
use roce_engine::{Addr, AtomicOp, Backing, BackingFault};

/// One region.
#[derive(Debug)]
struct Region {
    /// Start of the mapping: the first guard page.
    map: *mut libc::c_void,
    map_len: usize,
    /// Start of the usable bytes, page-aligned.
    base: *mut u8,
    len: usize,
}

/// Memory that peers reach. Regions live as long as this does.
#[derive(Debug, Default)]
pub struct HostMemory {
    regions: Vec<Region>,
}

// SAFETY: the raw pointers are to mappings that only `Drop` ends; every access goes through
// methods that stay inside them.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// No region yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `len` zeroed bytes and returns the region's number, which goes into
    /// [`Addr::region`].
    ///
    /// # Errors
    /// What the kernel says of the mapping; `InvalidInput` for a length that is 0 or too large.
    pub fn map(&mut self, len: usize) -> io::Result<u32> {
        let number = u32::try_from(self.regions.len())
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.regions.push(Region::map(len)?);
        Ok(number)
    }

    /// The address of a region's first byte in this process; what is announced to peers as its
    /// virtual address.
    #[must_use]
    pub fn va(&self, region: u32) -> Option<u64> {
        let region = self.regions.get(usize::try_from(region).ok()?)?;
        u64::try_from(region.base.addr()).ok()
    }

    /// Makes a region's bytes zero again and gives its pages back to the kernel until they are
    /// touched.
    ///
    /// # Errors
    /// What the kernel says; `InvalidInput` if there is no such region.
    pub fn clear(&mut self, region: u32) -> io::Result<()> {
        let region = usize::try_from(region)
            .ok()
            .and_then(|number| self.regions.get(number))
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: whole pages of a private anonymous mapping that is ours; dropping them makes
        // them read as zeroes.
        let done = unsafe { libc::madvise(region.base.cast(), region.len, libc::MADV_DONTNEED) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Copies bytes out of a region.
    ///
    /// # Errors
    /// [`BackingFault`] if the range is not inside it.
    pub fn read(&self, addr: Addr, out: &mut [u8]) -> Result<(), BackingFault> {
        let from = self.at(addr, out.len())?;
        // SAFETY: `at` says that `out.len()` bytes from `from` lie inside a mapping; `out` is
        // ours alone and cannot overlap it, since no reference into a mapping is ever made.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// A pointer to `len` bytes inside a region.
    fn at(&self, addr: Addr, len: usize) -> Result<*mut u8, BackingFault> {
        let region = usize::try_from(addr.region)
            .ok()
            .and_then(|number| self.regions.get(number))
            .ok_or(BackingFault)?;
        let offset = usize::try_from(addr.offset).map_err(|_| BackingFault)?;
        let room = region.len.checked_sub(offset).ok_or(BackingFault)?;
        if len > room {
            return Err(BackingFault);
        }
        Ok(region.base.wrapping_add(offset))
    }
}

impl Backing for HostMemory {
    fn write(&self, addr: Addr, data: [&[u8]; 2]) -> Result<(), BackingFault> {
        let [head, tail] = data;
        let len = head.len() + tail.len();
        let to = self.at(addr, len)?;
        let Some(last) = tail.last().or(head.last()) else { return Ok(()) };
        let tail_less = tail.len().saturating_sub(1);
        let head_less = if tail.is_empty() { head.len() - 1 } else { head.len() };
        // SAFETY: `len` bytes from `to` lie inside the mapping and `head_less <= len`; the source
        // is a received frame, which is not in a region.
        unsafe { core::ptr::copy_nonoverlapping(head.as_ptr(), to, head_less) };
        let behind = to.wrapping_add(head.len());
        // SAFETY: as above; `head.len() + tail_less <= len`.
        unsafe { core::ptr::copy_nonoverlapping(tail.as_ptr(), behind, tail_less) };
        // Programs poll the last byte: it becomes visible behind the others.
        fence(Ordering::Release);
        let end = to.wrapping_add(len - 1);
        // SAFETY: the last of the `len` bytes inside the mapping; an AtomicU8 has no alignment.
        let end = unsafe { AtomicU8::from_ptr(end) };
        end.store(*last, Ordering::Release);
        Ok(())
    }

    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        let from = self.at(addr, out.len())?;
        // SAFETY: `at` says that `out.len()` bytes from `from` lie inside a mapping, which is
        // initialised memory; `out` cannot overlap it. An application may write there meanwhile: each
        // byte is taken once, so that the ICRC matches the copy, whatever it has caught.
        let region = unsafe { core::slice::from_raw_parts(from, out.len()) };
        icrc.copy_update(out, region);
        Ok(())
    }

    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault> {
        let at = self.at(addr, 8)?.cast::<u64>();
        if !at.is_aligned() {
            return Err(BackingFault);
        }
        // SAFETY: eight aligned bytes inside the mapping.
        let cell = unsafe { AtomicU64::from_ptr(at) };
        let original = match op {
            AtomicOp::FetchAdd(add) => cell.fetch_add(add, Ordering::AcqRel),
            AtomicOp::Write(value) => cell.swap(value, Ordering::AcqRel),
            AtomicOp::CompareSwap { compare, swap } => cell
                .compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire)
                .unwrap_or_else(|original| original),
        };
        Ok(original)
    }
}

impl Region {
    fn map(len: usize) -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| io::Error::last_os_error())?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        if len == 0 {
            return Err(invalid());
        }
        let usable = len.checked_next_multiple_of(page).ok_or_else(invalid)?;
        let map_len = usable.checked_add(2 * page).ok_or_else(invalid)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let map =
            unsafe { libc::mmap(core::ptr::null_mut(), map_len, libc::PROT_NONE, flags, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = map.cast::<u8>().wrapping_add(page);
        let region = Self { map, map_len, base, len };
        // SAFETY: the pages between the two guards of the mapping just made.
        let done =
            unsafe { libc::mprotect(base.cast(), usable, libc::PROT_READ | libc::PROT_WRITE) };
        if done == 0 { Ok(region) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; nothing points into it once its owner is gone.
        unsafe { libc::munmap(self.map, self.map_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_codec::{Crc, SmallTable};

    #[test]
    fn accesses_stay_inside() {
        let mut memory = HostMemory::new();
        let region = memory.map(100).unwrap();
        let at = |offset| Addr { region, offset };
        assert_eq!(memory.write(at(95), [b"ab", b"cde"]), Ok(()));
        let mut out = [0; 6];
        memory.read(at(94), &mut out).unwrap();
        assert_eq!(&out, b"\0abcde");
        for (offset, len) in [(96, 5), (101, 0), (100, 1), (u64::MAX, 1), (0, 101)] {
            assert_eq!(memory.write(at(offset), [&vec![1; len], &[]]), Err(BackingFault));
        }
        assert_eq!(memory.write(at(100), [&[], &[]]), Ok(()));
        assert_eq!(memory.write(Addr { region: 1, offset: 0 }, [b"x", &[]]), Err(BackingFault));
        assert!(memory.map(0).is_err());
    }

    #[test]
    fn a_cleared_region_is_zeroes() {
        let mut memory = HostMemory::new();
        let [one, other] = [memory.map(5000).unwrap(), memory.map(5000).unwrap()];
        for region in [one, other] {
            memory.write(Addr { region, offset: 0 }, [&[7; 5000], &[]]).unwrap();
        }
        memory.clear(one).unwrap();
        let mut out = [1; 5000];
        memory.read(Addr { region: one, offset: 0 }, &mut out).unwrap();
        assert_eq!(out, [0; 5000]);
        memory.read(Addr { region: other, offset: 0 }, &mut out).unwrap();
        assert_eq!(out, [7; 5000]);
        assert!(memory.clear(2).is_err());
    }

    /// READs of memory that a program keeps writing.
    #[test]
    fn the_icrc_is_that_of_the_copy() {
        fn race<C: Crc32>() {
            let mut memory = HostMemory::new();
            let region = memory.map(4096).unwrap();
            let (va, done) = (memory.va(region).unwrap(), AtomicU8::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let base =
                        core::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(va).unwrap());
                    for round in (0..=u8::MAX).cycle() {
                        for at in 0..4096 {
                            // SAFETY: inside the region, which outlives this thread.
                            let byte = unsafe { AtomicU8::from_ptr(base.wrapping_add(at)) };
                            byte.store(round, Ordering::Relaxed);
                        }
                        if done.load(Ordering::Relaxed) > 0 {
                            break;
                        }
                    }
                });
                let start = || Icrc::<C>::ipv4(&[0; 40]);
                for round in 0..20_000 {
                    let mut out = vec![0; 64 + round % 64];
                    let mut icrc = start();
                    memory.read_crc(Addr { region, offset: 0 }, &mut out, &mut icrc).unwrap();
                    let mut expected = start();
                    expected.update(&out);
                    if icrc.finish() != expected.finish() {
                        done.store(1, Ordering::Relaxed);
                        panic!("round {round}");
                    }
                }
                done.store(1, Ordering::Relaxed);
            });
        }
        race::<Crc>();
        race::<SmallTable>();
    }

    #[test]
    fn segments_join_at_every_length() {
        let mut memory = HostMemory::new();
        let region = memory.map(64).unwrap();
        let data: Vec<u8> = (1..=32).collect();
        for len in 0..=32 {
            for cut in 0..=len {
                memory.write(Addr { region, offset: 0 }, [&[0; 33], &[]]).unwrap();
                memory.write(Addr { region, offset: 0 }, [&data[..cut], &data[cut..len]]).unwrap();
                let mut out = [0; 33];
                memory.read(Addr { region, offset: 0 }, &mut out).unwrap();
                assert_eq!(out[..len], data[..len]);
                assert!(out[len..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn atomics_return_what_was_there() {
        let mut memory = HostMemory::new();
        let region = memory.map(4096).unwrap();
        let at = Addr { region, offset: 8 };
        assert_eq!(memory.atomic(at, AtomicOp::FetchAdd(5)), Ok(0));
        assert_eq!(memory.atomic(at, AtomicOp::CompareSwap { compare: 4, swap: 9 }), Ok(5));
        assert_eq!(memory.atomic(at, AtomicOp::CompareSwap { compare: 5, swap: 9 }), Ok(5));
        assert_eq!(memory.atomic(at, AtomicOp::Write(3)), Ok(9));
        assert_eq!(memory.atomic(at, AtomicOp::FetchAdd(0)), Ok(3));
        let odd = Addr { region, offset: 12 };
        assert_eq!(memory.atomic(odd, AtomicOp::FetchAdd(0)), Err(BackingFault));
    }
}
