//! The Linux system calls the ports share, each behind a safe function.

use std::ffi::c_int;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Turns the -1 of a system call into its `errno`.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// The `errno` in `error`, 0 if it has none.
pub(crate) fn errno(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(0)
}

/// A small number in the integer type that this C library has in its place: they differ.
pub(crate) fn fit<A, B: TryFrom<A> + Default>(small: A) -> B {
    B::try_from(small).unwrap_or_default()
}

/// The length of a `T` as the socket calls want it.
fn socklen_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}

/// A value the kernel may read or write as bytes: no pointer in it, every bit pattern valid.
///
/// # Safety
///
/// Both must hold of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer, every bit pattern valid.
unsafe impl Plain for c_int {}
// SAFETY: three integers, no pointer.
unsafe impl Plain for libc::sockaddr_nl {}
// SAFETY: integers and arrays of them, no pointer.
unsafe impl Plain for libc::sockaddr_ll {}
// SAFETY: integers and arrays of them, no pointer.
unsafe impl Plain for libc::sockaddr_in {}
// SAFETY: integers and arrays of them, no pointer.
unsafe impl Plain for libc::sockaddr_in6 {}
// SAFETY: integers, no pointer.
unsafe impl Plain for libc::sockaddr_xdp {}
// SAFETY: integers, no pointer.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers, no pointer.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: integers, no pointer.
unsafe impl Plain for libc::xdp_options {}
// SAFETY: integers, no pointer.
unsafe impl Plain for libc::timeval {}
// SAFETY: an array of bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}
// SAFETY: an array of integers.
unsafe impl<const N: usize> Plain for [u32; N] {}

/// An all-zero `T`.
pub(crate) fn zeroed<T: Plain>() -> T {
    let value = MaybeUninit::<T>::zeroed();
    // SAFETY: every bit pattern of a `Plain` is valid, all zeroes included.
    unsafe { value.assume_init() }
}

/// `socket(2)`, closed on exec.
pub(crate) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers only.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just given us this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `bind(2)` to a socket address of the socket's own family.
pub(crate) fn bind<A: Plain>(fd: BorrowedFd<'_>, address: &A) -> io::Result<()> {
    let address: *const A = address;
    // SAFETY: the pointer is to a live `A` and the length is its size; the kernel only reads it.
    check(unsafe { libc::bind(fd.as_raw_fd(), address.cast(), socklen_of::<A>()) })?;
    Ok(())
}

/// `setsockopt(2)` with a plain value.
pub(crate) fn set_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: a `Plain` holds no pointer for the kernel to follow.
    unsafe { set_option_pointing(fd, level, name, value) }
}

/// `setsockopt(2)` with a value that names memory of this process.
///
/// # Safety
///
/// Whatever memory `value` points at must be valid for as long, and for what, the kernel uses it
/// under this option.
pub(crate) unsafe fn set_option_pointing<T>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let value: *const T = value;
    // SAFETY: the pointer is to a live `T` and the length is its size; what `T` itself points at
    // is the caller's promise.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), socklen_of::<T>())
    })?;
    Ok(())
}

/// `getsockopt(2)`: the value and how many bytes of it the kernel wrote.
#[cfg(any(feature = "af-xdp", feature = "packet"))]
pub(crate) fn get_option<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<(T, usize)> {
    let mut value: T = zeroed();
    let mut length = socklen_of::<T>();
    let at: *mut T = &raw mut value;
    // SAFETY: `at` is valid for `length` bytes, every bit pattern of a `Plain` is valid, and the
    // kernel writes no more than `length`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, at.cast(), &raw mut length) })?;
    Ok((value, usize::try_from(length).unwrap_or(0)))
}

/// `send(2)` of all of `bytes` at once, as datagram sockets do.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: c_int) -> io::Result<()> {
    // SAFETY: the slice is live and as long as said; the kernel only reads it.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Waits until one of `fds` is readable or `timeout_ns` nanoseconds have passed.
#[cfg(any(feature = "af-xdp", feature = "packet"))]
pub(crate) fn wait_readable(fds: &mut [libc::pollfd], timeout_ns: u64) {
    const NS_PER_S: u64 = 1_000_000_000;
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout_ns / NS_PER_S).unwrap_or(libc::time_t::MAX),
        // Below 10^9, which every C long holds.
        tv_nsec: std::ffi::c_long::try_from(timeout_ns % NS_PER_S).unwrap_or(0),
    };
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or(0);
    // An error (a signal, say) means only that the wait was short, which callers allow for.
    // SAFETY: `fds` is an exclusive slice of `count` entries and `timeout` outlives the call; the
    // signal mask is absent.
    let _ = unsafe { libc::ppoll(fds.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
}

/// A `pollfd` that waits for input.
#[cfg(any(feature = "af-xdp", feature = "packet"))]
pub(crate) fn readable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}
