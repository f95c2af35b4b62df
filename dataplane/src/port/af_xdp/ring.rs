//! The four single-producer single-consumer rings that an AF_XDP socket shares with the kernel
//! (linux/if_xdp.h): fill and TX, which we produce, RX and completion, which we consume.
//!
//! Indices are free-running `u32`. The kernel's index is not trusted: whatever it says, no more
//! than the ring's size is ever taken for filled or for free, and entries are read and written
//! inside the mapping.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;

/// An entry: an address (fill, completion) or a descriptor (RX, TX).
///
/// # Safety
///
/// Every bit pattern must be a value, since the kernel writes them.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: an integer.
unsafe impl Entry for u64 {}
// SAFETY: three integers without padding.
unsafe impl Entry for libc::xdp_desc {}

/// What both sides of a ring have.
#[derive(Debug)]
struct Ring<T> {
    /// Owns what the pointers point into.
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// The number of entries, a power of two.
    size: u32,
    _entries: PhantomData<T>,
}

// SAFETY: the pointers point into the mapping, which the ring owns and is `Send`.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps the ring that the socket has at `page_offset`; `EPROTO` if the layout is nonsense.
    fn map(
        socket: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        let nonsense = || io::Error::from_raw_os_error(libc::EPROTO);
        let length = Self::entries_length(size)
            .and_then(|entries| offsets.desc.checked_add(entries))
            .and_then(|length| usize::try_from(length).ok())
            .ok_or_else(nonsense)?;
        let mapping = Mapping::of_socket(socket, page_offset, length)?;
        Self::new(mapping, offsets, size).ok_or_else(nonsense)
    }

    fn entries_length(size: u32) -> Option<u64> {
        u64::from(size).checked_mul(u64::try_from(size_of::<T>()).ok()?)
    }

    /// `None` unless everything lies in the mapping, aligned, and `size` is a power of two.
    fn new(mapping: Mapping, offsets: &libc::xdp_ring_offset, size: u32) -> Option<Self> {
        let entries_length = Self::entries_length(size)?;
        let place = |offset: u64, length: u64, align: usize| {
            let end = usize::try_from(offset.checked_add(length)?).ok()?;
            let start = usize::try_from(offset).ok()?;
            (end <= mapping.len() && start % align == 0).then_some(start)
        };
        let index = |offset| place(offset, 4, align_of::<AtomicU32>());
        let [producer, consumer, flags] = [offsets.producer, offsets.consumer, offsets.flags]
            .map(index)
            .map(|at| at.map(|at| pointer::<AtomicU32>(&mapping, at)));
        let entries = place(offsets.desc, entries_length, align_of::<T>())?;
        Some(Self {
            producer: producer?,
            consumer: consumer?,
            flags: flags?,
            entries: pointer(&mapping, entries),
            size: size.is_power_of_two().then_some(size)?,
            _mapping: mapping,
            _entries: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` checked that it lies in the mapping, aligned; the mapping lives as long
        // as `self`, and both sides access it atomically only.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    /// Where the entry with this index lies.
    fn entry(&self, index: u32) -> NonNull<T> {
        // The mask keeps it below 2^31, which a 32-bit usize holds as well.
        let at = usize::try_from(index & (self.size - 1)).unwrap_or(0);
        // SAFETY: the masked index is below `size`, and `new` checked that as many entries lie
        // in the mapping.
        unsafe { self.entries.add(at) }
    }
}

/// The byte at `offset` of the mapping, as a `T`; `offset` must be inside.
fn pointer<T>(mapping: &Mapping, offset: usize) -> NonNull<T> {
    debug_assert!(offset < mapping.len());
    // SAFETY: `offset` is inside the mapping: `Ring::new` checked it.
    unsafe { mapping.start().byte_add(offset) }.cast()
}

/// A ring that we fill and the kernel empties.
#[derive(Debug)]
pub(super) struct ProducerRing<T> {
    ring: Ring<T>,
    /// The next entry to write.
    next: u32,
    /// The shared index: the kernel sees the entries below it. Kept here since reading the shared
    /// one, or writing what it is already, costs the kernel's core its cache line.
    published: u32,
    /// The kernel's index as last read: reading it costs a cache line from another core.
    consumed: u32,
}

impl<T: Entry> ProducerRing<T> {
    /// Maps the ring of `size` entries that the socket has at `page_offset`.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ok(Self::over(Ring::map(socket, page_offset, offsets, size)?))
    }

    fn over(ring: Ring<T>) -> Self {
        Self { next: 0, published: 0, consumed: 0, ring }
    }

    /// Writes an entry, not visible to the kernel before [`Self::publish`]; false if it is full.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        let at = self.ring.entry(self.next);
        // SAFETY: `at` is inside the mapping and aligned; the kernel does not read an entry that
        // is not between its index and the published one.
        unsafe { at.write_volatile(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Whether `entries` more can be pushed.
    pub(super) fn has_room(&mut self, entries: u32) -> bool {
        let fits = |next: u32, consumed: u32, size| {
            next.wrapping_sub(consumed).checked_add(entries).is_some_and(|used| used <= size)
        };
        if !fits(self.next, self.consumed, self.ring.size) {
            // Acquire: what the kernel read of an entry, it has read before we overwrite it.
            self.consumed = self.ring.consumer().load(Ordering::Acquire);
        }
        // Not so either where the kernel's index is nonsense, ahead of ours or far behind.
        fits(self.next, self.consumed, self.ring.size)
    }

    /// Makes everything written visible: one ring update, none if there is nothing new.
    pub(super) fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            // Release: the entries, and the frames they name, are written before the index.
            self.ring.producer().store(self.next, Ordering::Release);
        }
    }

    /// How many entries are published that the kernel has not taken, as far as it says.
    pub(super) fn unconsumed(&self) -> u32 {
        self.published.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel sleeps on this ring and wants a system call.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills and we empty.
#[derive(Debug)]
pub(super) struct ConsumerRing<T> {
    ring: Ring<T>,
    /// The next entry to read.
    next: u32,
    /// The shared index.
    released: u32,
    /// The kernel's index as last read.
    produced: u32,
}

impl<T: Entry> ConsumerRing<T> {
    /// Maps the ring of `size` entries that the socket has at `page_offset`.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        Ok(Self::over(Ring::map(socket, page_offset, offsets, size)?))
    }

    fn over(ring: Ring<T>) -> Self {
        Self { next: 0, released: 0, produced: 0, ring }
    }

    /// Takes the next entry; the kernel may reuse its place after [`Self::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            // Acquire: the entries, and the frames they name, are read after the index.
            let produced = self.ring.producer().load(Ordering::Acquire);
            // An index that claims more than the ring holds is nonsense and believed in nothing.
            if produced.wrapping_sub(self.next) > self.ring.size {
                return None;
            }
            self.produced = produced;
            if self.next == self.produced {
                return None;
            }
        }
        let at = self.ring.entry(self.next);
        self.next = self.next.wrapping_add(1);
        // SAFETY: `at` is inside the mapping and aligned, and every bit pattern is an entry;
        // volatile, since a kernel that breaks the protocol may write it meanwhile.
        Some(unsafe { at.read_volatile() })
    }

    /// Gives the places of everything taken back to the kernel: one ring update, none if nothing
    /// was taken.
    pub(super) fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            // Release: the entries are read before the kernel may overwrite them.
            self.ring.consumer().store(self.next, Ordering::Release);
        }
    }
}

/// Rings over memory of our own, with the kernel played by the test.
#[cfg(test)]
pub(super) mod fake {
    use super::*;

    pub(super) const OFFSETS: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };

    pub(super) fn memory() -> Mapping {
        Mapping::anonymous(4096).expect("a page")
    }

    pub(in crate::port::af_xdp) fn producer<T: Entry>(size: u32) -> ProducerRing<T> {
        ProducerRing::over(Ring::new(memory(), &OFFSETS, size).expect("fits"))
    }

    pub(super) fn consumer<T: Entry>(size: u32) -> ConsumerRing<T> {
        ConsumerRing::over(Ring::new(memory(), &OFFSETS, size).expect("fits"))
    }

    /// What was pushed, published or not.
    pub(in crate::port::af_xdp) fn entries<T: Entry>(ring: &ProducerRing<T>) -> Vec<T> {
        let from = ring.ring.consumer().load(Ordering::Relaxed);
        // SAFETY: inside the page and aligned.
        let read = |n| unsafe { ring.ring.entry(n).read_volatile() };
        (from..ring.next).map(read).collect()
    }

    /// The kernel takes everything that is published.
    pub(in crate::port::af_xdp) fn consume_all<T: Entry>(ring: &ProducerRing<T>) {
        let produced = ring.ring.producer().load(Ordering::Acquire);
        ring.ring.consumer().store(produced, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{OFFSETS, memory};
    use super::*;

    const SIZE: u32 = 8;
    fn producer() -> ProducerRing<u64> {
        fake::producer(SIZE)
    }

    fn consumer() -> ConsumerRing<u64> {
        fake::consumer(SIZE)
    }

    #[test]
    fn offsets_outside_the_mapping_are_refused() {
        for offsets in [
            libc::xdp_ring_offset { producer: 4093, ..OFFSETS },
            libc::xdp_ring_offset { consumer: u64::MAX, ..OFFSETS },
            libc::xdp_ring_offset { flags: 4096, ..OFFSETS },
            libc::xdp_ring_offset { flags: 130, ..OFFSETS },
            libc::xdp_ring_offset { desc: 4096 - 63, ..OFFSETS },
            libc::xdp_ring_offset { desc: 196, ..OFFSETS },
        ] {
            assert!(Ring::<u64>::new(memory(), &offsets, SIZE).is_none());
        }
        assert!(Ring::<u64>::new(memory(), &OFFSETS, 6).is_none(), "a power of two");
        assert!(Ring::<u64>::new(memory(), &OFFSETS, 0).is_none());
        assert!(Ring::<u64>::new(memory(), &OFFSETS, 512).is_none(), "too many");
    }

    #[test]
    fn what_is_pushed_shows_when_published_and_wraps() {
        let mut ring = producer();
        for round in 0..100_u32 {
            for n in 0..SIZE {
                assert!(ring.push(u64::from(round * SIZE + n)));
            }
            assert!(!ring.push(0), "full");
            assert_eq!(ring.ring.producer().load(Ordering::Relaxed), round * SIZE);
            ring.publish();
            assert_eq!(ring.ring.producer().load(Ordering::Relaxed), (round + 1) * SIZE);
            assert_eq!(ring.unconsumed(), SIZE);
            for n in 0..SIZE {
                // SAFETY: inside the page and aligned.
                let entry = unsafe { ring.ring.entry(n).read_volatile() };
                assert_eq!(entry, u64::from(round * SIZE + n));
            }
            ring.ring.consumer().store((round + 1) * SIZE, Ordering::Relaxed);
            assert_eq!(ring.unconsumed(), 0);
        }
    }

    #[test]
    fn a_kernel_index_ahead_of_ours_frees_nothing() {
        let mut ring = producer();
        (0..SIZE).for_each(|_| assert!(ring.push(1)));
        for nonsense in [1 << 31, u32::MAX, SIZE + 1] {
            ring.ring.consumer().store(nonsense, Ordering::Relaxed);
            assert!(!ring.push(2), "{nonsense}");
        }
    }

    #[test]
    fn what_the_kernel_produces_is_taken_once_and_wraps() {
        let mut ring = consumer();
        for round in 0..100_u32 {
            assert_eq!(ring.pop(), None);
            for n in 0..SIZE {
                // SAFETY: inside the page and aligned.
                unsafe { ring.ring.entry(round * SIZE + n).write_volatile(u64::from(n) + 7) };
            }
            ring.ring.producer().store((round + 1) * SIZE, Ordering::Release);
            for n in 0..SIZE {
                assert_eq!(ring.pop(), Some(u64::from(n) + 7));
            }
            assert_eq!(ring.pop(), None);
            assert_eq!(ring.ring.consumer().load(Ordering::Relaxed), round * SIZE);
            ring.release();
            assert_eq!(ring.ring.consumer().load(Ordering::Relaxed), (round + 1) * SIZE);
        }
    }

    #[test]
    fn a_kernel_index_that_claims_too_much_is_not_believed() {
        let mut ring = consumer();
        for nonsense in [SIZE + 1, 1 << 31, u32::MAX] {
            ring.ring.producer().store(nonsense, Ordering::Relaxed);
            assert_eq!(ring.pop(), None, "{nonsense}");
        }
        ring.ring.producer().store(SIZE, Ordering::Relaxed);
        assert_eq!(std::iter::from_fn(|| ring.pop()).count(), 8);
    }

    #[test]
    fn wakeup_is_a_flag_of_the_kernel() {
        let ring = producer();
        assert!(!ring.needs_wakeup());
        ring.ring.flags().store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        assert!(ring.needs_wakeup());
    }
}
