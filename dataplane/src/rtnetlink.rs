//! rtnetlink (rtnetlink(7)): asking the kernel about links, routes and neighbours, and hearing
//! of changes.
//!
//! Messages are built and read as bytes, bounds checked; only the kernel's are believed.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys;

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEADER: usize = 16;
/// Messages and attributes start at multiples of this.
const ALIGN: usize = 4;
/// What the kernel fills at most in one go for a reader with a buffer as large.
const BUFFER: usize = 32 << 10;
/// How long the kernel may take for an answer; it takes microseconds.
const ANSWER_TIMEOUT_S: libc::time_t = 5;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// A request in the making.
#[derive(Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A request of this type with its fixed part; `flags` besides NLM_F_REQUEST and NLM_F_ACK.
    pub(crate) fn new(kind: u16, flags: c_int, fixed: &[u8]) -> Self {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&u16::try_from(flags).unwrap_or(0).to_ne_bytes());
        bytes.extend(fixed);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        Self(bytes)
    }

    /// Adds an attribute of a few bytes.
    #[must_use]
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        self
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A message of the kernel's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    /// RTM_...
    pub(crate) kind: u16,
    sequence: u32,
    /// What follows the header.
    pub(crate) body: &'a [u8],
}

/// The messages in one datagram; a length that does not fit ends them.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let body = bytes.get(HEADER..length)?;
        let kind = field16(bytes, 4)?;
        let sequence = field32(bytes, 8)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some(Message { kind, sequence, body })
    })
}

/// The attributes in a message's body behind its fixed part, or nested in another; a length that
/// does not fit ends them. Types come without the flag bits.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE_MASK: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(field16(bytes, 0)?);
        let kind = field16(bytes, 2)? & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// The 16-bit integer at `at`, in host order.
pub(crate) fn field16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|value| u16::from_ne_bytes(*value))
}

/// The 32-bit integer at `at`, in host order.
pub(crate) fn field32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|value| u32::from_ne_bytes(*value))
}

/// An rtnetlink socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// A socket that asks, in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        Self::bound(0)
    }

    /// A socket that hears of changes, in groups RTNLGRP_... (below 32).
    pub(crate) fn subscribed(groups: &[u32]) -> io::Result<Self> {
        Self::bound(groups.iter().fold(0, |mask, group| mask | 1 << (group - 1)))
    }

    fn bound(groups: u32) -> io::Result<Self> {
        let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        let timeout = libc::timeval { tv_sec: ANSWER_TIMEOUT_S, tv_usec: 0 };
        sys::set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
        let mut address: libc::sockaddr_nl = sys::zeroed();
        address.nl_family = u16::try_from(libc::AF_NETLINK).unwrap_or(0);
        address.nl_groups = groups;
        sys::bind(fd.as_fd(), &address)?;
        Ok(Self { fd, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Asks, and gives each message of the answer to `each`. A dump may have many.
    ///
    /// # Errors
    ///
    /// The kernel's own, such as `ENOENT` or `ENETUNREACH`; `EAGAIN` if it does not answer.
    pub(crate) fn request(
        &mut self,
        request: Request,
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        sys::send(self.fd.as_fd(), &bytes, 0)?;
        loop {
            let length = self.receive(0)?;
            let ours = messages(&self.buffer[..length]).filter(|m| m.sequence == self.sequence);
            for message in ours {
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => {
                        let error = field32(message.body, 0).unwrap_or(0).cast_signed();
                        return if error == 0 {
                            Ok(())
                        } else {
                            Err(io::Error::from_raw_os_error(error.wrapping_neg()))
                        };
                    }
                    _ => each(message),
                }
            }
        }
    }

    /// Gives each notification that has come to `each`, without waiting, a bounded number.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if some were lost: what was known before may be out of date.
    pub(crate) fn notifications(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        const DATAGRAMS: usize = 64;
        for _ in 0..DATAGRAMS {
            match self.receive(libc::MSG_DONTWAIT) {
                Ok(length) => messages(&self.buffer[..length]).for_each(&mut each),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next datagram from the kernel into the buffer; its length.
    fn receive(&mut self, flags: c_int) -> io::Result<usize> {
        loop {
            let mut from: libc::sockaddr_nl = sys::zeroed();
            let mut from_length = libc::socklen_t::try_from(size_of_val(&from)).unwrap_or(0);
            // SAFETY: buffer and address are live, exclusive and as long as said; the address
            // takes every bit pattern.
            let received = unsafe {
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    flags,
                    (&raw mut from).cast(),
                    &raw mut from_length,
                )
            };
            let Ok(length) = usize::try_from(received) else {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            };
            // Port 0 is the kernel; other processes may send here as well.
            if from.nl_pid == 0 {
                return Ok(length.min(self.buffer.len()));
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The id of the XDP program on an interface, if there is one.
#[cfg(feature = "af-xdp")]
pub(crate) fn xdp_program(ifindex: c_int) -> io::Result<Option<u32>> {
    const IFLA_XDP: u16 = 43;
    const IFLA_XDP_PROG_IDS: std::ops::RangeInclusive<u16> = 4..=7;
    // struct ifinfomsg: family and padding, type, index, flags, change mask.
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let mut id = None;
    Socket::open()?.request(Request::new(libc::RTM_GETLINK, 0, &fixed), |message| {
        let xdp = message.body.get(16..).and_then(|body| attribute(body, IFLA_XDP));
        // One for the mode in use, then one each for native, generic and offloaded.
        id = attributes(xdp.unwrap_or_default())
            .filter(|(kind, _)| IFLA_XDP_PROG_IDS.contains(kind))
            .find_map(|(_, value)| field32(value, 0).filter(|id| *id != 0));
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_answers() {
        let mut fixed = [0; 16];
        fixed[4..8].copy_from_slice(&1_i32.to_ne_bytes());
        let mut names = Vec::new();
        let mut socket = Socket::open().expect("needs no privilege");
        socket
            .request(Request::new(libc::RTM_GETLINK, 0, &fixed), |message| {
                let name = attribute(&message.body[16..], libc::IFLA_IFNAME).expect("a name");
                names.push(name.to_vec());
            })
            .expect("there is an interface 1");
        assert_eq!(names, [b"lo\0"]);
        fixed[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        let error = socket.request(Request::new(libc::RTM_GETLINK, 0, &fixed), |_| ());
        assert_eq!(error.expect_err("there is not").raw_os_error(), Some(libc::ENODEV));
        #[cfg(feature = "af-xdp")]
        assert_eq!(xdp_program(1).expect("asks"), None);
    }

    #[test]
    fn a_dump_ends() {
        let mut socket = Socket::open().expect("needs no privilege");
        let mut links = 0;
        let dump = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; 16]);
        socket.request(dump, |_| links += 1).expect("dumps");
        assert!(links >= 1);
    }

    #[test]
    fn lengths_that_do_not_fit_end_the_walk() {
        let whole = Request::new(9, 0, &[1, 2, 3]).attribute(1, b"abc").attribute(2, b"").finish(5);
        let [message] = messages(&whole).collect::<Vec<_>>()[..] else { panic!("one message") };
        assert_eq!((message.kind, message.sequence), (9, 5));
        let found: Vec<_> = attributes(&message.body[4..]).collect();
        assert_eq!(found, [(1, &b"abc"[..]), (2, &b""[..])]);
        for length in 0..whole.len() {
            assert_eq!(messages(&whole[..length]).count(), 0, "{length}");
        }
        for length in 0..=3 {
            let [l0, l1] = u16::to_ne_bytes(length);
            assert_eq!(attributes(&[l0, l1, 1, 0, 9, 9, 9, 9]).count(), 0, "{length}");
        }
        let [l0, l1] = 9_u16.to_ne_bytes();
        assert_eq!(attributes(&[l0, l1, 1, 0, 9, 9, 9, 9]).count(), 0);
        let mut endless = whole;
        endless[..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(messages(&endless).count(), 0);
    }
}
