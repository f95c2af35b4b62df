//! The frame memory: one mapping, a part of it registered as UMEM for each queue's socket.
//!
//! A part is `rx_chunks` chunks for receiving, then `tx_frames` pairs of adjacent chunks for
//! sending. Each socket has a UMEM of its own rather than all sharing one: nothing is passed
//! from one queue to another, so sharing would buy nothing, and separate ones need no lock in
//! the kernel's fill path and let a queue that fails to bind zero-copy fall back by itself.
//!
//! An address as the port's tokens hold it counts from the mapping's start; as the kernel's
//! descriptors hold it, from the part's.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use super::mapping::Mapping;

/// A chunk's size in bytes: a page, the largest the kernel takes everywhere.
pub(super) const CHUNK: usize = 4096;
/// Two adjacent chunks, which any frame fits in.
pub(super) const TX_FRAME: usize = 2 * CHUNK;
/// What the kernel keeps free in front of a received frame in its first chunk, at most
/// (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM: usize = 256;

/// How a part is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) rx_chunks: usize,
    pub(super) tx_frames: usize,
}

impl Layout {
    /// The length of a part in bytes.
    pub(super) fn len(self) -> usize {
        self.rx_chunks * CHUNK + self.tx_frames * TX_FRAME
    }
}

/// The frame memory of all queues of a port.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Mapping,
}

impl Umem {
    /// Zeroed memory of `length` bytes.
    pub(super) fn new(length: usize) -> io::Result<Self> {
        Ok(Self { mapping: Mapping::anonymous(length)? })
    }

    /// Where a part begins, if all of it is inside.
    pub(super) fn part(&self, range: Range<usize>) -> Option<NonNull<u8>> {
        if range.start >= range.end || range.end > self.mapping.len() {
            return None;
        }
        // SAFETY: the offset is inside the mapping.
        Some(unsafe { self.mapping.start().add(range.start) })
    }

    /// The bytes at `range`; none if it is not all inside.
    ///
    /// # Safety
    ///
    /// While the slice lives the kernel must not own the range: it must not lie in a chunk that
    /// is on a fill ring or handed to the kernel through one.
    pub(super) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        let length = range.len();
        let Some(start) = self.part(range) else { return &[] };
        // SAFETY: inside the mapping, which is initialised and lives as long as `self`; nobody
        // writes it, by the caller's promise for the kernel and by the borrow of `self` for us.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// The bytes at `range`, to write; none if it is not all inside.
    ///
    /// # Safety
    ///
    /// While the slice lives the kernel must not own the range: it must not lie in a frame that
    /// is on a TX ring and not completed, nor in a chunk as for [`Self::bytes`].
    pub(super) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let length = range.len();
        let Some(start) = self.part(range) else { return &mut [] };
        // SAFETY: inside the mapping, which is initialised and lives as long as `self`; nobody
        // else uses it, by the caller's promise for the kernel and by the borrow of `self` for us.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) }
    }
}
