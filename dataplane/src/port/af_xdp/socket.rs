//! One AF_XDP socket: its rings, its UMEM, its binding to a queue.

use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::config::{CopyMode, SINGLE_BUFFER_MTU};
use super::ring::{ConsumerRing, ProducerRing};
use super::umem::CHUNK;

use crate::port::error::{Capabilities, PortError};
use crate::port::interface::Interface;
use crate::sys;

/// How long a queue may stay busy after its last owner closed it: the kernel takes a UMEM down
/// in the background.
const REBIND_PATIENCE: Duration = Duration::from_secs(2);
const REBIND_PAUSE: Duration = Duration::from_millis(10);

/// The entries of a socket's rings, each a power of two; no TX ring for a socket that only
/// receives.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingSizes {
    pub(super) rx: u32,
    pub(super) tx: Option<u32>,
}

/// A bound socket.
#[derive(Debug)]
pub(super) struct XdpSocket {
    pub(super) fill: ProducerRing<u64>,
    pub(super) completion: ConsumerRing<u64>,
    pub(super) rx: ConsumerRing<libc::xdp_desc>,
    pub(super) tx: Option<ProducerRing<libc::xdp_desc>>,
    pub(super) zero_copy: bool,
    /// Whether a frame may lie in several chunks.
    pub(super) multi_buffer: bool,
    fd: OwnedFd,
}

/// What a socket is made for.
#[derive(Debug)]
pub(super) struct Binding<'a> {
    pub(super) interface: &'a Interface,
    pub(super) queue: u32,
    /// Whether the program takes frames in several buffers.
    pub(super) fragments: bool,
    pub(super) copy: CopyMode,
}

impl XdpSocket {
    /// Makes a socket over `memory` and binds it to its queue.
    ///
    /// # Safety
    ///
    /// The kernel reads and writes `memory` from now until the socket is closed. It must stay
    /// mapped and the process must use it by the rings' protocol only.
    pub(super) unsafe fn open(
        binding: &Binding<'_>,
        memory: std::ptr::NonNull<[u8]>,
        sizes: RingSizes,
    ) -> Result<Self, PortError> {
        let interface = binding.interface;
        let os = |doing| move |error: io::Error| interface.os_error(doing, &error);
        let fd = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(|error| {
            let doing = "opening an AF_XDP socket";
            interface.privileged_error(doing, Capabilities::NET_RAW, &error)
        })?;
        // SAFETY: the caller's promise.
        unsafe { register_umem(fd.as_fd(), interface, memory)? };
        size_rings(fd.as_fd(), sizes).map_err(os("sizing AF_XDP rings"))?;
        let (offsets, length): (libc::xdp_mmap_offsets, usize) =
            sys::get_option(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
                .map_err(os("reading the AF_XDP ring layout"))?;
        if length != size_of::<libc::xdp_mmap_offsets>() {
            // Linux before 5.4 has no wake-up flags in it.
            let doing = "reading the AF_XDP ring layout";
            return Err(PortError::Os {
                interface: interface.name,
                doing,
                errno: libc::EOPNOTSUPP,
            });
        }
        let rings = os("mapping an AF_XDP ring");
        let mut socket = Self {
            fill: ProducerRing::map(fd.as_fd(), FILL_OFFSET, &offsets.fr, sizes.rx)
                .map_err(rings)?,
            completion: ConsumerRing::map(
                fd.as_fd(),
                COMPLETION_OFFSET,
                &offsets.cr,
                sizes.tx.unwrap_or(MIN_RING),
            )
            .map_err(rings)?,
            rx: ConsumerRing::map(fd.as_fd(), libc::XDP_PGOFF_RX_RING, &offsets.rx, sizes.rx)
                .map_err(rings)?,
            tx: sizes
                .tx
                .map(|size| {
                    ProducerRing::map(fd.as_fd(), libc::XDP_PGOFF_TX_RING, &offsets.tx, size)
                })
                .transpose()
                .map_err(rings)?,
            zero_copy: false,
            multi_buffer: false,
            fd,
        };
        socket.multi_buffer = bind(socket.fd(), binding)?;
        let (options, _): (libc::xdp_options, _) =
            sys::get_option(socket.fd(), libc::SOL_XDP, libc::XDP_OPTIONS)
                .map_err(os("reading the AF_XDP options"))?;
        socket.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(socket)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Wakes the driver's receive side.
    pub(super) fn wake_rx(&self) {
        // Nothing is received here; an error (a signal, an interface that is down) leaves things
        // as they are, to be tried again with the next burst.
        // SAFETY: no buffer is given.
        let _ = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Makes the kernel send from the TX ring. In copy mode it takes some 32 descriptors a call
    /// and says `EAGAIN` when there are more.
    pub(super) fn wake_tx(&self) -> io::Result<()> {
        sys::send(self.fd(), &[], libc::MSG_DONTWAIT)
    }

    /// What the kernel counted.
    pub(super) fn statistics(&self) -> Option<libc::xdp_statistics> {
        sys::get_option(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS).ok().map(|(value, _)| value)
    }
}

/// Where the rings of a UMEM lie in the socket, past 4 GiB: Linux maps these on 64-bit machines.
const FILL_OFFSET: libc::off_t = 0x1_0000_0000;
const COMPLETION_OFFSET: libc::off_t = 0x1_8000_0000;

/// The kernel wants a completion ring even of a socket that does not send.
const MIN_RING: u32 = 2;

/// Registers `memory` as the socket's UMEM.
///
/// # Safety
///
/// As for [`XdpSocket::open`].
unsafe fn register_umem(
    fd: BorrowedFd<'_>,
    interface: &Interface,
    memory: std::ptr::NonNull<[u8]>,
) -> Result<(), PortError> {
    let bytes = u64::try_from(memory.len()).unwrap_or(u64::MAX);
    let umem = libc::xdp_umem_reg {
        addr: u64::try_from(memory.cast::<u8>().addr().get()).unwrap_or(0),
        len: bytes,
        chunk_size: u32::try_from(CHUNK).unwrap_or(0),
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { sys::set_option_pointing(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem) }.map_err(
        |error| match sys::errno(&error) {
            libc::ENOBUFS | libc::ENOMEM => {
                PortError::LockedMemory { interface: interface.name, bytes }
            }
            _ => interface.os_error("registering frame memory", &error),
        },
    )
}

fn size_rings(fd: BorrowedFd<'_>, sizes: RingSizes) -> io::Result<()> {
    let size = |name, entries: u32| {
        sys::set_option(fd, libc::SOL_XDP, name, &c_int::try_from(entries).unwrap_or(c_int::MAX))
    };
    size(libc::XDP_UMEM_FILL_RING, sizes.rx)?;
    size(libc::XDP_UMEM_COMPLETION_RING, sizes.tx.unwrap_or(MIN_RING))?;
    size(libc::XDP_RX_RING, sizes.rx)?;
    sizes.tx.map_or(Ok(()), |tx| size(libc::XDP_TX_RING, tx))
}

/// Binds to the queue in the best way there is; says whether it is for several buffers a frame.
fn bind(fd: BorrowedFd<'_>, binding: &Binding<'_>) -> Result<bool, PortError> {
    let interface = binding.interface;
    let single_suffices = interface.mtu <= SINGLE_BUFFER_MTU;
    let copy_modes: &[u16] = match binding.copy {
        CopyMode::Auto => &[libc::XDP_ZEROCOPY, libc::XDP_COPY],
        CopyMode::ZeroCopy => &[libc::XDP_ZEROCOPY],
        CopyMode::Copy => &[libc::XDP_COPY],
    };
    let deadline = Instant::now() + REBIND_PATIENCE;
    let mut last = None;
    for &copy_mode in copy_modes {
        for multi_buffer in [true, false] {
            if (multi_buffer && !binding.fragments) || (!multi_buffer && !single_suffices) {
                continue;
            }
            let sg = if multi_buffer { libc::XDP_USE_SG } else { 0 };
            let flags = copy_mode | sg | libc::XDP_USE_NEED_WAKEUP;
            match bind_patiently(fd, binding, flags, deadline) {
                Ok(()) => return Ok(multi_buffer),
                Err(error) => last = Some(error),
            }
        }
    }
    Err(match last {
        Some(error) if sys::errno(&error) == libc::EBUSY => {
            PortError::QueueBusy { interface: interface.name, queue: binding.queue }
        }
        // Several buffers were tried and refused, and one does not suffice.
        Some(error)
            if !single_suffices
                && matches!(sys::errno(&error), libc::EOPNOTSUPP | libc::EINVAL) =>
        {
            mtu_too_large(interface)
        }
        Some(error) => interface.os_error("binding an AF_XDP socket", &error),
        None => mtu_too_large(interface),
    })
}

fn mtu_too_large(interface: &Interface) -> PortError {
    let (mtu, limit) = (interface.mtu, SINGLE_BUFFER_MTU);
    PortError::MtuTooLarge { interface: interface.name, mtu, limit }
}

/// `bind(2)`, again until `deadline` if the queue is busy.
fn bind_patiently(
    fd: BorrowedFd<'_>,
    binding: &Binding<'_>,
    flags: u16,
    deadline: Instant,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).unwrap_or(0),
        sxdp_flags: flags,
        sxdp_ifindex: binding.interface.index,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: 0,
    };
    loop {
        match sys::bind(fd, &address) {
            Err(error) if sys::errno(&error) == libc::EBUSY && Instant::now() < deadline => {
                std::thread::sleep(REBIND_PAUSE);
            }
            other => return other,
        }
    }
}
