//! Memory shared with the kernel.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapping of this process, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; `Mapping` hands out no reference
// into it, only a pointer.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed memory of our own, in huge pages where the kernel has them at hand.
    pub(super) fn anonymous(length: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Self::map(length, flags, -1, 0)?;
        // Only an optimisation: fewer TLB misses over a few MiB of frames.
        // SAFETY: the range is the mapping just made; the advice changes no contents.
        let _ =
            unsafe { libc::madvise(mapping.start.as_ptr().cast(), length, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// `length` bytes of what the socket offers at `offset`, populated.
    pub(super) fn of_socket(
        socket: BorrowedFd<'_>,
        offset: libc::off_t,
        length: usize,
    ) -> io::Result<Self> {
        Self::map(length, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    fn map(length: usize, flags: c_int, fd: c_int, offset: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Its first byte; page-aligned.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and all that points into it is gone with `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
