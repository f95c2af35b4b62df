//! The other end of the wire, played by the test.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::frames;

/// How long a frame may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long nothing must come for a test to believe that nothing does.
pub(crate) const SILENCE: Duration = Duration::from_millis(200);

/// A raw socket on an interface, or a tap's file.
#[derive(Debug)]
pub(crate) struct Peer {
    fd: OwnedFd,
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just given us this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Peer {
    /// A raw socket on the interface, in the calling thread's namespace.
    pub(crate) fn on(interface: &str) -> Self {
        let all = i32::from(u16::try_from(libc::ETH_P_ALL).expect("16 bits").to_be());
        // SAFETY: the call takes integers only.
        let fd =
            owned(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) });
        let name = std::ffi::CString::new(interface).expect("no NUL");
        // SAFETY: the name is a live C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert_ne!(index, 0, "{interface} is there");
        // SAFETY: the structure is plain integers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).expect("16 bits");
        address.sll_protocol = u16::try_from(all).expect("16 bits");
        address.sll_ifindex = i32::try_from(index).expect("an index");
        let length = libc::socklen_t::try_from(size_of_val(&address)).expect("short");
        // Frames sent by this host on the interface are not for the peer.
        let one = 1_i32;
        // SAFETY: the option is a live C int, the length its size.
        let result = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                23, // PACKET_IGNORE_OUTGOING
                (&raw const one).cast(),
                4,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let buffer = 16_i32 << 20;
        // SAFETY: the option is a live C int, the length its size.
        let result = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const buffer).cast(),
                4,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the address is live, the length its size.
        let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self { fd }
    }

    /// A new tap of this name, in the calling thread's namespace; it goes when the peer does.
    pub(crate) fn tap(interface: &str) -> Self {
        // SAFETY: the path is a live C string.
        let fd =
            owned(unsafe { libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) });
        // SAFETY: all zeroes is a value of this structure of integers and unions of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI).expect("16 bits");
        // SAFETY: the request reads and writes one live `ifreq`.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self { fd }
    }

    /// Puts a frame on the wire.
    pub(crate) fn send(&self, frame: &[u8]) {
        let length = isize::try_from(frame.len()).expect("short");
        // SAFETY: the frame is live and as long as said.
        let sent = unsafe { libc::write(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
        assert_eq!(sent, length, "{}", std::io::Error::last_os_error());
    }

    /// The next frame of whatever kind before `deadline`.
    pub(crate) fn receive_any(&self, deadline: Instant) -> Option<Vec<u8>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let milliseconds = i32::try_from(left.as_millis()).expect("short");
        // SAFETY: one live entry.
        if unsafe { libc::poll(&raw mut poll, 1, milliseconds) } != 1 {
            return None;
        }
        let mut frame = vec![0; 70_000];
        // SAFETY: the buffer is live and as long as said.
        let length =
            unsafe { libc::read(self.fd.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len()) };
        frame.truncate(usize::try_from(length).expect("a frame"));
        Some(frame)
    }

    /// The next RoCEv2 frame, if it comes within `patience`.
    pub(crate) fn receive(&self, patience: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + patience;
        loop {
            let frame = self.receive_any(deadline)?;
            if frames::is_roce(&frame) {
                return Some(frame);
            }
        }
    }
}
