//! The memory of the captured hosts, as far as it is known: pages by host and virtual address.
//!
//! It is kept twice. One is what our responder works on; the other follows the captured requests
//! without it. What a captured READ answer or atomic shows goes into both; at the end they must hold
//! the same.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use roce_codec::Crc32;
use roce_codec::icrc::Icrc;
use roce_engine::{Addr, AtomicOp, Backing, BackingFault, Placement};

const PAGE: usize = 4096;

/// The region whose memory fails whoever touches it.
pub(super) const BROKEN: u32 = u32::MAX;

type Page = Box<[u8; PAGE]>;

/// Memory by region and address; what was never written reads as zeroes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pages: RefCell<HashMap<(u32, u64), Page>>,
    most: usize,
    full: Cell<bool>,
}

impl Memory {
    /// Room for `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { most: limit / PAGE, ..Self::default() }
    }

    /// Whether something did not fit.
    pub(super) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// Calls `each` with the page and the bytes in it for each piece of a range; a page is made if
    /// `make` says so.
    fn pieces(
        &self,
        addr: Addr,
        len: usize,
        make: bool,
        mut each: impl FnMut(usize, Option<&mut [u8]>),
    ) -> Result<(), BackingFault> {
        if addr.region == BROKEN {
            return Err(BackingFault);
        }
        let mut pages = self.pages.borrow_mut();
        let mut done = 0;
        while done < len {
            let at = addr.offset.wrapping_add(u64::try_from(done).map_err(|_| BackingFault)?);
            let (page, within) = (at / 4096, usize::try_from(at % 4096).map_err(|_| BackingFault)?);
            let take = (PAGE - within).min(len - done);
            let key = (addr.region, page);
            if make && !pages.contains_key(&key) {
                if pages.len() >= self.most {
                    self.full.set(true);
                    return Err(BackingFault);
                }
                pages.insert(key, Box::new([0; PAGE]));
            }
            let bytes = pages.get_mut(&key).and_then(|page| page.get_mut(within..within + take));
            each(done, bytes);
            done += take;
        }
        Ok(())
    }

    pub(super) fn read(&self, addr: Addr, out: &mut [u8]) -> Result<(), BackingFault> {
        let len = out.len();
        self.pieces(addr, len, false, |at, bytes| {
            let rest = out.get_mut(at..).unwrap_or_default();
            match bytes {
                Some(bytes) => {
                    for (to, from) in rest.iter_mut().zip(bytes) {
                        *to = *from;
                    }
                }
                None => rest.iter_mut().take(PAGE).for_each(|byte| *byte = 0),
            }
        })
    }

    pub(super) fn put(&self, addr: Addr, data: &[u8]) -> Result<(), BackingFault> {
        self.pieces(addr, data.len(), true, |at, bytes| {
            let rest = data.get(at..).unwrap_or_default();
            for (to, from) in bytes.into_iter().flatten().zip(rest) {
                *to = *from;
            }
        })
    }

    /// Pages that differ from another memory's, of the regions that `which` takes.
    pub(super) fn differing_pages(&self, other: &Self, which: impl Fn(u32) -> bool) -> usize {
        const ZEROES: [u8; PAGE] = [0; PAGE];
        let (ours, theirs) = (self.pages.borrow(), other.pages.borrow());
        let mut keys: Vec<_> =
            ours.keys().chain(theirs.keys()).filter(|(region, _)| which(*region)).collect();
        keys.sort_unstable();
        keys.dedup();
        let page = |pages: &HashMap<_, Page>, key| pages.get(key).map_or(ZEROES, |page| **page);
        keys.into_iter().filter(|key| page(&ours, *key) != page(&theirs, *key)).count()
    }
}

impl Backing for Memory {
    fn write(&self, addr: Addr, [head, tail]: [&[u8]; 2]) -> Result<(), BackingFault> {
        self.put(addr, head)?;
        let behind = u64::try_from(head.len()).map_err(|_| BackingFault)?;
        self.put(Addr { offset: addr.offset.wrapping_add(behind), ..addr }, tail)
    }

    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        self.read(addr, out)?;
        icrc.update(out);
        Ok(())
    }

    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault> {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes)?;
        let original = u64::from_ne_bytes(bytes);
        self.put(addr, &op.apply(original).to_ne_bytes())?;
        Ok(original)
    }

    /// What was captured is memory of any kind.
    fn flush(&self, addr: Addr, _: u64, _: Placement) -> Result<(), BackingFault> {
        if addr.region == BROKEN { Err(BackingFault) } else { Ok(()) }
    }
}

/// Which bytes of memory are known, a bit each.
#[derive(Debug, Default)]
pub(super) struct Known {
    pages: HashMap<(u32, u64), Box<[u64; PAGE / 64]>>,
}

impl Known {
    /// Whether the byte was known; it is now.
    pub(super) fn learn(&mut self, region: u32, at: u64) -> bool {
        let bits = self.pages.entry((region, at / 4096)).or_insert_with(|| Box::new([0; 64]));
        let within = usize::try_from(at % 4096).unwrap_or(0);
        let Some(word) = bits.get_mut(within / 64) else { return false };
        let bit = 1 << (within % 64);
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_pages_and_the_end_of_the_address_space() {
        let memory = Memory::new(1 << 20);
        let at = |offset| Addr { region: 1, offset };
        memory.write(at(4094), [b"ab", b"cd"]).unwrap();
        let mut out = [9; 6];
        memory.read(at(4093), &mut out).unwrap();
        assert_eq!(&out, b"\0abcd\0");
        memory.put(at(u64::MAX), b"xy").unwrap();
        let mut out = [9; 1];
        memory.read(at(0), &mut out).unwrap();
        assert_eq!(&out, b"y");
        let mut large = vec![7; 9000];
        memory.read(at(1 << 40), &mut large).unwrap();
        assert!(large.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn room_is_bounded_and_broken_memory_fails() {
        let memory = Memory::new(2 * PAGE);
        assert_eq!(memory.put(Addr { region: 0, offset: 0 }, &[1; 8192]), Ok(()));
        assert!(!memory.is_full());
        assert_eq!(memory.put(Addr { region: 0, offset: 8192 }, &[1]), Err(BackingFault));
        assert!(memory.is_full());
        let broken = Addr { region: BROKEN, offset: 0 };
        assert_eq!(memory.put(broken, &[1]), Err(BackingFault));
        assert_eq!(memory.atomic(broken, AtomicOp::FetchAdd(1)), Err(BackingFault));
    }

    #[test]
    fn a_different_byte_is_seen() {
        let (one, other) = (Memory::new(1 << 20), Memory::new(1 << 20));
        let at = |region| Addr { region, offset: 5 };
        one.put(at(0), &[0]).unwrap();
        assert_eq!(one.differing_pages(&other, |_| true), 0, "zeroes are what is not there");
        one.put(at(1), &[3]).unwrap();
        assert_eq!(one.differing_pages(&other, |_| true), 1);
        assert_eq!(one.differing_pages(&other, |region| region == 0), 0);
    }

    #[test]
    fn a_byte_is_learned_once() {
        let mut known = Known::default();
        assert!(!known.learn(0, 70));
        assert!(known.learn(0, 70));
        assert!(!known.learn(0, 71));
        assert!(!known.learn(1, 70));
    }
}
