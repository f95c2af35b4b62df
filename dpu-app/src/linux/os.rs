//! The few system calls that std has no name for.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use roce_engine::Entropy;

/// Random bits from the kernel, fetched by the page.
#[derive(Debug)]
pub(crate) struct OsEntropy {
    pool: [u8; 256],
    used: usize,
}

impl OsEntropy {
    pub(crate) const fn new() -> Self {
        Self { pool: [0; 256], used: 256 }
    }
}

impl Entropy for OsEntropy {
    fn next_u32(&mut self) -> u32 {
        loop {
            let next = self.pool.get(self.used..).and_then(|left| left.first_chunk::<4>());
            if let Some(bytes) = next {
                self.used += 4;
                return u32::from_ne_bytes(*bytes);
            }
            let len = self.pool.len();
            // SAFETY: the pool has room for `len` bytes.
            let got = unsafe { libc::getrandom(self.pool.as_mut_ptr().cast(), len, 0) };
            // Up to 256 bytes come whole once the kernel's generator is seeded (getrandom(2));
            // until then the call waits, and a signal may interrupt it.
            if usize::try_from(got) == Ok(len) {
                self.used = 0;
            }
        }
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// From here on SIGINT and SIGTERM only make [`stop_requested`] true; a second one of the same
/// kind ends the process.
pub(crate) fn catch_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: `sigaction` is plain data for which all zeroes are a value.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        let handler: extern "C" fn(c_int) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND;
        // SAFETY: the handler does nothing but store to an atomic, which any context allows.
        if unsafe { libc::sigaction(signal, &action, core::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether SIGINT or SIGTERM has come.
pub(crate) fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Whether any of these has something to read, or has ended, now.
pub(crate) fn any_readable(fds: &[BorrowedFd<'_>], polls: &mut Vec<libc::pollfd>) -> bool {
    polls.clear();
    polls.extend(fds.iter().map(|fd| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }));
    let count = libc::nfds_t::try_from(polls.len()).unwrap_or(0);
    // SAFETY: `polls` holds `count` entries.
    unsafe { libc::poll(polls.as_mut_ptr(), count, 0) > 0 }
}

/// Notices within a minute when the other end of a connection is gone without a word.
pub(crate) fn keep_alive(socket: BorrowedFd<'_>) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<c_int>()).unwrap_or(0);
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 30),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
    ] {
        let value: c_int = value;
        // SAFETY: `len` bytes are read from `value`.
        let done = unsafe {
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The IPv4 and IPv6 addresses of an interface.
pub(crate) fn addresses_of(interface: &str) -> io::Result<Vec<IpAddr>> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: the call stores a list, or nothing, in `list`.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: an element of the list, or null at its end; the list is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: every entry has a name, a NUL-terminated string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        if name.to_bytes() != interface.as_bytes() {
            continue;
        }
        // SAFETY: null, or a socket address of at least the common part.
        let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { continue };
        match c_int::from(address.sa_family) {
            libc::AF_INET => {
                let address = entry.ifa_addr.cast::<libc::sockaddr_in>();
                // SAFETY: the family says what the address is.
                let address = unsafe { address.read_unaligned() };
                let bits = u32::from_be(address.sin_addr.s_addr);
                found.push(IpAddr::V4(Ipv4Addr::from_bits(bits)));
            }
            libc::AF_INET6 => {
                let address = entry.ifa_addr.cast::<libc::sockaddr_in6>();
                // SAFETY: the family says what the address is.
                let address = unsafe { address.read_unaligned() };
                found.push(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)));
            }
            _ => {}
        }
    }
    // SAFETY: the list that getifaddrs made; nothing refers into it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Leaves the network namespace of the calling thread for a new and empty one, which is gone when
/// the process ends.
pub(crate) fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: no memory is involved; descriptors of the old namespace stay valid.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
