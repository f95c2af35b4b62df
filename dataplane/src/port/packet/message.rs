//! `recvmmsg` and `sendmmsg` over slots of one memory.

use std::ffi::{c_int, c_uint};
use std::mem::{MaybeUninit, size_of};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{BURST, MAX_FRAME};
use crate::sys;

/// Room that each slot keeps before the frame, for the tag the kernel took out.
pub(super) const VLAN_TAG: usize = 4;
/// One frame with that room, in whole cache lines.
pub(super) const SLOT: usize = (MAX_FRAME + VLAN_TAG).next_multiple_of(64);

/// A frame the kernel wrote into a slot, `VLAN_TAG` bytes from its start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Received {
    /// Its length on the wire without the tag, which may be more than the slot holds.
    pub(super) length: usize,
    /// The tag that the kernel took out: TPID and TCI.
    pub(super) vlan: Option<[u8; VLAN_TAG]>,
}

/// Space for one control message with a `tpacket_auxdata`, and some to spare.
type Control = [u64; 8];

/// An empty message header. Its padding, where there is some, is zero as the kernel wants it.
fn empty_message() -> libc::mmsghdr {
    let message = MaybeUninit::<libc::mmsghdr>::zeroed();
    // SAFETY: the structure is integers and pointers, for which all zeroes is a value.
    unsafe { message.assume_init() }
}

/// Receives up to one frame into each of `slots` and describes them in `received`; says how many.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    memory: &mut [u8],
    slots: &[usize],
    received: &mut [Received; BURST],
) -> usize {
    let mut control: [Control; BURST] = [[0; 8]; BURST];
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BURST];
    let mut messages: [libc::mmsghdr; BURST] = std::array::from_fn(|_| empty_message());
    let mut count: c_uint = 0;
    let parts = vectors.iter_mut().zip(&mut control).zip(&mut messages);
    for (&slot, ((vector, control), message)) in slots.iter().zip(parts) {
        let start = slot * SLOT + VLAN_TAG;
        let Some(room) = memory.get_mut(start..start + MAX_FRAME) else {
            break;
        };
        *vector = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = sys::fit(size_of::<Control>());
        count += 1;
    }
    if count == 0 {
        return 0;
    }
    // MSG_TRUNC makes the kernel tell a frame's whole length even if it cuts it.
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the first `count` messages point at a live iovec and control buffer each, the
    // iovecs at disjoint parts of `memory` (the pool lends no slot twice), which is borrowed
    // exclusively; no timeout is given.
    let result = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count,
            sys::fit(flags),
            std::ptr::null_mut(),
        )
    };
    // No frame, a signal, an interface that went down: nothing to hand out.
    let count = usize::try_from(result).unwrap_or(0).min(slots.len()).min(BURST);
    for ((received, message), control) in
        received.iter_mut().zip(&messages).zip(&control).take(count)
    {
        let control_length = sys::fit(message.msg_hdr.msg_controllen);
        let length = usize::try_from(message.msg_len).unwrap_or(usize::MAX);
        *received = Received { length, vlan: vlan_tag(control, control_length) };
    }
    count
}

/// The VLAN tag in a control message of `length` bytes, if there is one: a `struct cmsghdr`, then
/// a `struct tpacket_auxdata` (linux/if_packet.h).
fn vlan_tag(control: &Control, length: usize) -> Option<[u8; VLAN_TAG]> {
    const DATA: usize = size_of::<libc::cmsghdr>();
    let mut bytes = [0; size_of::<Control>()];
    for (to, from) in bytes.chunks_exact_mut(8).zip(control) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    let int = |at: usize| bytes.get(at..)?.first_chunk().map(|value| i32::from_ne_bytes(*value));
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|value| u32::from_ne_bytes(*value));
    let half = |at: usize| bytes.get(at..)?.first_chunk().map(|value| u16::from_ne_bytes(*value));

    // Level and type end the header, whatever the size of its length field.
    let is_auxdata = int(DATA - 8)? == libc::SOL_PACKET && int(DATA - 4)? == libc::PACKET_AUXDATA;
    let status = word(DATA)?;
    if length < DATA + 20 || !is_auxdata || status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [c0, c1] = half(DATA + 16)?.to_be_bytes();
    let [t0, t1] = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        [0x81, 0x00]
    } else {
        half(DATA + 18)?.to_be_bytes()
    };
    Some([t0, t1, c0, c1])
}

/// Sends the frames that lie at `frames` in `memory`, at most a burst; says how many the kernel
/// took, or the `errno` of the first if it took none.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    memory: &[u8],
    frames: impl Iterator<Item = Range<usize>>,
) -> Result<usize, c_int> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BURST];
    let mut messages: [libc::mmsghdr; BURST] = std::array::from_fn(|_| empty_message());
    let mut count: c_uint = 0;
    for ((range, vector), message) in frames.zip(&mut vectors).zip(&mut messages) {
        let Some(frame) = memory.get(range) else {
            break;
        };
        // The kernel does not write what it sends.
        *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the first `count` messages point at a live iovec each, the iovecs at parts of
    // `memory`, which is borrowed and only read.
    let result = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count,
            sys::fit(libc::MSG_DONTWAIT),
        )
    };
    sys::check(result)
        .map(|sent| usize::try_from(sent).unwrap_or(0))
        .map_err(|error| sys::errno(&error))
}
