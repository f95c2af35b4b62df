//! The barest AF_XDP echo: one queue, one memory, frames turned in place and sent from where they
//! came, the kernel believed in everything. What is left is the kernel's work and a few loads.

use std::ffi::{CString, c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

const ENTRIES: u32 = 2048;
const CHUNK: usize = 4096;

/// A mapping, which keeps the socket alive as long as it is there.
struct Mapping(*mut c_void, usize);

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: all that points into it goes with it.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

/// Where a ring's parts are mapped.
struct Ring<T> {
    _mapping: Mapping,
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    entries: *mut T,
}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, offset: libc::off_t, at: &libc::xdp_ring_offset) -> Self {
        let length = ENTRIES as usize * size_of::<T>() + at.desc as usize;
        let mapping = map(length, fd.as_raw_fd(), offset);
        let base = mapping.0;
        // SAFETY: the kernel says that its parts lie at these offsets of the mapping.
        unsafe {
            Self {
                _mapping: mapping,
                producer: base.byte_add(at.producer as usize).cast(),
                consumer: base.byte_add(at.consumer as usize).cast(),
                entries: base.byte_add(at.desc as usize).cast(),
            }
        }
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: masked, it is inside the ring.
        unsafe { self.entries.add((index % ENTRIES) as usize) }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: mapped as long as the ring lives.
        unsafe { &*self.producer }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: mapped as long as the ring lives.
        unsafe { &*self.consumer }
    }
}

fn map(length: usize, fd: c_int, offset: libc::off_t) -> Mapping {
    let (protection, private) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let flags = if fd < 0 { private } else { libc::MAP_SHARED } | libc::MAP_POPULATE;
    // SAFETY: no address is asked for.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    Mapping(at, length)
}

fn owned(fd: i64) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just given us this descriptor.
    unsafe { OwnedFd::from_raw_fd(c_int::try_from(fd).expect("a descriptor")) }
}

/// `bpf(2)` with an attribute of integers.
fn bpf(command: c_int, attribute: &mut [u64]) -> i64 {
    // SAFETY: the attribute is live and as long as said.
    unsafe { libc::syscall(libc::SYS_bpf, command, attribute.as_mut_ptr(), size_of_val(attribute)) }
}

/// Two 32-bit fields that follow each other.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn number(fd: &OwnedFd) -> u32 {
    u32::try_from(fd.as_raw_fd()).expect("not negative")
}

/// The echo.
pub(crate) struct Bare {
    memory: Mapping,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    fd: OwnedFd,
    _program: [OwnedFd; 3],
}

impl Bare {
    pub(crate) fn open(interface: &str) -> Self {
        let name = CString::new(interface).expect("no NUL");
        // SAFETY: a live C string.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        // SAFETY: integers.
        let fd = owned(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW, 0) }.into());
        let memory = map(ENTRIES as usize * CHUNK, -1, 0);
        let umem = libc::xdp_umem_reg {
            addr: memory.0 as u64,
            len: u64::from(ENTRIES) * CHUNK as u64,
            chunk_size: CHUNK as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&fd, libc::XDP_UMEM_REG, &umem);
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(&fd, ring, &ENTRIES);
        }
        // SAFETY: integers, for which all zeroes is a value.
        let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&at) as libc::socklen_t;
        // SAFETY: the structure is live and as long as said.
        let result = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_XDP,
                libc::XDP_MMAP_OFFSETS,
                (&raw mut at).cast(),
                &raw mut length,
            )
        };
        assert_eq!(result, 0);
        let bare = Self {
            memory,
            fill: Ring::map(&fd, 0x1_0000_0000, &at.fr),
            completion: Ring::map(&fd, 0x1_8000_0000, &at.cr),
            rx: Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &at.rx),
            tx: Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &at.tx),
            _program: attach(ifindex, &fd, || bind(&fd, ifindex)),
            fd,
        };
        for chunk in 0..ENTRIES {
            // SAFETY: inside the ring.
            unsafe { *bare.fill.entry(chunk) = u64::from(chunk) * CHUNK as u64 };
        }
        bare.fill.producer().store(ENTRIES, Ordering::Release);
        bare
    }

    /// Answers what has come with the first `length` bytes of it.
    pub(crate) fn turn(&mut self, length: usize) {
        let first = self.rx.consumer().load(Ordering::Relaxed);
        let received = self.rx.producer().load(Ordering::Acquire).wrapping_sub(first).min(32);
        let sent = self.tx.producer().load(Ordering::Relaxed);
        for n in 0..received {
            // SAFETY: inside the ring.
            let descriptor = unsafe { *self.rx.entry(first.wrapping_add(n)) };
            // SAFETY: inside the memory, as the kernel says, and with nobody else.
            let frame = unsafe {
                std::slice::from_raw_parts_mut(
                    self.memory.0.cast::<u8>().add(descriptor.addr as usize),
                    length,
                )
            };
            super::turn(frame);
            let answer = libc::xdp_desc { len: length as u32, ..descriptor };
            // SAFETY: inside the ring.
            unsafe { *self.tx.entry(sent.wrapping_add(n)) = answer };
        }
        if received > 0 {
            self.rx.consumer().store(first.wrapping_add(received), Ordering::Release);
            self.tx.producer().store(sent.wrapping_add(received), Ordering::Release);
        }
        while self.tx.consumer().load(Ordering::Acquire) != sent.wrapping_add(received) {
            // SAFETY: no buffer is given.
            unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            self.recycle();
        }
        self.recycle();
    }

    /// From the completion ring to the fill ring.
    fn recycle(&self) {
        let first = self.completion.consumer().load(Ordering::Relaxed);
        let done = self.completion.producer().load(Ordering::Acquire).wrapping_sub(first);
        if done == 0 {
            return;
        }
        let filled = self.fill.producer().load(Ordering::Relaxed);
        for n in 0..done {
            // SAFETY: inside the rings.
            unsafe {
                let address = *self.completion.entry(first.wrapping_add(n));
                *self.fill.entry(filled.wrapping_add(n)) = address & !(CHUNK as u64 - 1);
            }
        }
        self.completion.consumer().store(first.wrapping_add(done), Ordering::Release);
        self.fill.producer().store(filled.wrapping_add(done), Ordering::Release);
    }
}

fn set<T>(fd: &OwnedFd, name: c_int, value: &T) {
    let (value, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is live and as long as said; a memory it names stays mapped.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn bind(fd: &OwnedFd, ifindex: u32) {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // The kernel takes the memory of the queue's last owner down in the background.
    for _ in 0..200 {
        // SAFETY: the address is live and as long as said.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) } == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("bind: {}", std::io::Error::last_os_error());
}

/// A program of six instructions that redirects everything; it stays as long as the descriptors.
fn attach(ifindex: u32, socket: &OwnedFd, bind: impl FnOnce()) -> [OwnedFd; 3] {
    const XSKMAP: u32 = 17;
    const XDP: u32 = 6;
    let map = owned(bpf(0, &mut [pair(XSKMAP, 4), pair(4, 1), 0, 0]));
    let program = [
        0x0010_1261,                            // r2 = ctx->rx_queue_index
        0x1118 | u64::from(number(&map)) << 32, // r1 = the map
        0,
        0x0000_0002_0000_03b7, // r3 = XDP_PASS
        0x0000_0033_0000_0085, // call bpf_redirect_map
        0x0000_0000_0000_0095, // exit
    ];
    let license = c"MIT";
    let program = owned(bpf(
        5,
        &mut [
            pair(XDP, 6),
            program.as_ptr() as u64,
            license.as_ptr() as u64,
            0,
            0,
            0,
            0,
            0,
            pair(0, 37),
        ],
    ));
    let link = owned(bpf(28, &mut [pair(number(&program), ifindex), pair(37, 1 << 2)]));
    bind();
    let (key, value) = (0_u32, number(socket));
    let update =
        &mut [u64::from(number(&map)), (&raw const key) as u64, (&raw const value) as u64, 0];
    assert_eq!(bpf(2, update), 0, "{}", std::io::Error::last_os_error());
    [link, program, map]
}
