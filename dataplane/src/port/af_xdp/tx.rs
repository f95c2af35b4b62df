//! Which transmit frames are free, and which the kernel has.
//!
//! A frame is two adjacent chunks and is described by one descriptor or two. It is free again
//! when the completion ring has named each chunk that was described; a completion of anything
//! else is nonsense and ignored.

use super::ring::ProducerRing;
use super::umem::{CHUNK, TX_FRAME};

/// The shortest Ethernet frame there is: its header.
const ETHERNET_HEADER: usize = 14;

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    /// It is in the ring.
    Queued,
    /// The socket cannot send a frame as long, or the ring has no room, which an honest kernel
    /// does not let happen.
    Refused,
    /// There was none, or not for so many bytes.
    Nothing,
}

/// The transmit frames of a socket.
#[derive(Debug)]
pub(super) struct TxFrames {
    /// Where the first lies, in bytes from the part's start.
    base: usize,
    /// Of each frame, the chunks that the kernel has: bit 0 the first, bit 1 the second.
    with_kernel: Box<[u8]>,
    /// The last freed is the first reused, while it is in the cache.
    free: Vec<u32>,
    /// Taken off `free` and not committed, with the length asked for.
    reserved: Option<(u32, usize)>,
    /// The largest frame the socket sends.
    longest: usize,
    /// Completions that were nonsense.
    pub(super) invalid: u64,
}

impl TxFrames {
    /// `frames` frames from `base` on, of up to `longest` bytes.
    pub(super) fn new(base: usize, frames: u32, longest: usize) -> Self {
        let free: Vec<u32> = (0..frames).rev().collect();
        let with_kernel = free.iter().map(|_| 0).collect();
        Self { base, with_kernel, free, reserved: None, longest, invalid: 0 }
    }

    /// Where `len` bytes may be written, from the part's start; `None` if no frame is free.
    /// What was reserved before and not committed is used again.
    pub(super) fn reserve(&mut self, len: usize) -> Option<std::ops::Range<usize>> {
        let frame = match self.reserved {
            Some((frame, _)) => frame,
            None => self.free.pop()?,
        };
        self.reserved = Some((frame, len));
        let start = self.start(frame);
        Some(start..start + len)
    }

    /// Describes the first `len` bytes of the reserved frame in the ring.
    pub(super) fn commit(
        &mut self,
        len: usize,
        ring: &mut ProducerRing<libc::xdp_desc>,
    ) -> Committed {
        let Some((frame, reserved)) = self.reserved.take() else { return Committed::Nothing };
        let descriptors = if len > CHUNK { 2 } else { 1 };
        let asked_for = (ETHERNET_HEADER..=reserved).contains(&len);
        if !asked_for || len > self.longest || !ring.has_room(descriptors) {
            self.free.push(frame);
            return if asked_for { Committed::Refused } else { Committed::Nothing };
        }
        let first = len.min(CHUNK);
        let more = len > CHUNK;
        ring.push(self.descriptor(frame, 0, first, more));
        if more {
            ring.push(self.descriptor(frame, CHUNK, len - CHUNK, false));
        }
        if let Some(chunks) = self.with_kernel.get_mut(index(frame)) {
            *chunks = if more { 0b11 } else { 0b01 };
        }
        Committed::Queued
    }

    /// Describes `len` bytes at `offset` of a frame; `more` follow.
    fn descriptor(&self, frame: u32, offset: usize, len: usize, more: bool) -> libc::xdp_desc {
        // The frame memory is far below 2^64 bytes, a piece at most a chunk.
        libc::xdp_desc {
            addr: u64::try_from(self.start(frame) + offset).unwrap_or(u64::MAX),
            len: u32::try_from(len).unwrap_or(0),
            options: if more { libc::XDP_PKT_CONTD } else { 0 },
        }
    }

    /// The kernel is done with the chunk at `address`.
    pub(super) fn complete(&mut self, address: u64) {
        let chunk = usize::try_from(address).ok().and_then(|at| at.checked_sub(self.base));
        let Some(offset) = chunk else {
            self.invalid += 1;
            return;
        };
        let (frame, bit) = (offset / TX_FRAME, 1 << (offset / CHUNK % 2));
        let Some(chunks) = self.with_kernel.get_mut(frame).filter(|chunks| **chunks & bit != 0)
        else {
            self.invalid += 1;
            return;
        };
        *chunks &= !bit;
        if *chunks == 0 {
            // It indexes `with_kernel`, which has a u32's worth of frames at most.
            self.free.extend(u32::try_from(frame));
        }
    }

    fn start(&self, frame: u32) -> usize {
        self.base + index(frame) * TX_FRAME
    }
}

fn index(frame: u32) -> usize {
    usize::try_from(frame).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::MAX_FRAME;
    use crate::port::af_xdp::ring;

    const BASE: usize = 3 * CHUNK;

    fn frames() -> (TxFrames, ProducerRing<libc::xdp_desc>) {
        (TxFrames::new(BASE, 4, MAX_FRAME), ring::fake::producer(8))
    }

    #[test]
    fn one_descriptor_up_to_a_chunk_and_two_above() {
        let (mut frames, mut ring) = frames();
        assert_eq!(frames.reserve(MAX_FRAME), Some(BASE..BASE + MAX_FRAME));
        assert_eq!(frames.commit(4096, &mut ring), Committed::Queued);
        let range = frames.reserve(MAX_FRAME).expect("another");
        assert_eq!(range.start, BASE + TX_FRAME);
        assert_eq!(frames.commit(4097, &mut ring), Committed::Queued);
        let got = ring::fake::entries(&ring);
        let addr = u64::try_from(BASE).expect("small");
        let flat: Vec<_> = got.iter().map(|d| (d.addr - addr, d.len, d.options)).collect();
        assert_eq!(flat, [(0, 4096, 0), (8192, 4096, libc::XDP_PKT_CONTD), (12288, 1, 0)]);
    }

    #[test]
    fn a_frame_is_free_when_all_its_chunks_are_done() {
        let (mut frames, mut ring) = frames();
        let mut starts = Vec::new();
        while let Some(range) = frames.reserve(4200) {
            starts.push(u64::try_from(range.start).expect("small"));
            assert_eq!(frames.commit(4200, &mut ring), Committed::Queued);
        }
        assert_eq!(starts.len(), 4);
        frames.complete(starts[2] + 4096);
        assert_eq!(frames.reserve(64), None, "half of it is not enough");
        frames.complete(starts[2]);
        assert_eq!(frames.reserve(64).map(|range| range.start), usize::try_from(starts[2]).ok());
        assert_eq!(frames.invalid, 0);
    }

    #[test]
    fn completions_of_what_was_not_sent_free_nothing() {
        let (mut frames, mut ring) = frames();
        frames.reserve(64).expect("free");
        assert_eq!(frames.commit(64, &mut ring), Committed::Queued);
        let start = u64::try_from(BASE).expect("small");
        for (n, address) in (1..).zip([
            0,
            start - 1,
            start + 4096,
            start + 8192,
            start + 4 * 8192,
            1 << 40,
            u64::MAX,
        ]) {
            frames.complete(address);
            assert_eq!((frames.invalid, frames.free.len()), (n, 3), "{address}");
        }
        frames.complete(start);
        frames.complete(start);
        assert_eq!((frames.invalid, frames.free.len()), (8, 4), "once is enough");
    }

    #[test]
    fn reservations_cost_nothing() {
        let (mut frames, mut ring) = frames();
        for len in 0..1000 {
            assert!(frames.reserve(len).is_some());
        }
        assert_eq!(frames.commit(1000, &mut ring), Committed::Nothing, "longer than reserved");
        assert_eq!(frames.commit(64, &mut ring), Committed::Nothing, "no reservation");
        frames.reserve(64).expect("free");
        assert_eq!(frames.commit(13, &mut ring), Committed::Nothing, "no Ethernet frame");
        assert_eq!(frames.free.len(), 4);
        assert!(ring::fake::entries(&ring).is_empty());
    }

    #[test]
    fn a_socket_with_one_chunk_a_frame_refuses_longer_ones() {
        let mut frames = TxFrames::new(BASE, 4, CHUNK);
        let mut ring = ring::fake::producer(8);
        for (len, committed) in [(4097, Committed::Refused), (4096, Committed::Queued)] {
            assert!(frames.reserve(MAX_FRAME).is_some(), "whatever will be written there");
            assert_eq!(frames.commit(len, &mut ring), committed);
        }
        assert_eq!(frames.free.len(), 3);
    }
}
