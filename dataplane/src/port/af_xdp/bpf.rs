//! The `bpf(2)` calls that the port needs, with the attributes of linux/bpf.h.

use std::ffi::{c_int, c_long};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::assembler::Instruction;
use crate::port::error::KernelName;
use crate::sys;

// enum bpf_cmd
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
/// Nothing breaks the verifier off so often in a row.
const LOAD_ATTEMPTS: u32 = 16;
const PROG_GET_FD_BY_ID: c_int = 13;
const OBJ_GET_INFO_BY_FD: c_int = 15;
const LINK_CREATE: c_int = 28;

// enum bpf_map_type, bpf_prog_type, bpf_attach_type
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;

/// The program takes frames that lie in more than one buffer.
const F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// How a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttachFlag {
    /// XDP_FLAGS_SKB_MODE: by the network stack, any driver.
    Generic,
    /// XDP_FLAGS_DRV_MODE: by the driver.
    Native,
}

/// A structure that one `bpf(2)` command takes: integers only, no padding, tail zero.
///
/// # Safety
///
/// It must be so, and any address in it must be given as valid as the command needs it.
unsafe trait Attribute {}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct GetFdById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

// SAFETY: integers and bytes, no padding, no address.
unsafe impl Attribute for MapCreate {}
// SAFETY: integers, no padding; `update_map` gives live addresses.
unsafe impl Attribute for MapUpdate {}
// SAFETY: integers and bytes, no padding; `load_program` gives live addresses.
unsafe impl Attribute for ProgLoad {}
// SAFETY: integers, no padding, no address.
unsafe impl Attribute for LinkCreate {}
// SAFETY: integers, no padding, no address.
unsafe impl Attribute for GetFdById {}
// SAFETY: integers, no padding; `program_name` gives a live address.
unsafe impl Attribute for GetInfo {}

fn bpf<A: Attribute>(command: c_int, attribute: &mut A) -> io::Result<c_int> {
    let attribute: *mut A = attribute;
    // SAFETY: the attribute is live and exclusive, its size is given, and what the command does
    // with addresses in it is warranted by `Attribute`.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, attribute, size_of::<A>()) };
    sys::check(c_int::try_from(result).unwrap_or(-1))
}

/// As [`bpf`], for a command that makes a descriptor.
fn bpf_fd<A: Attribute>(command: c_int, attribute: &mut A) -> io::Result<OwnedFd> {
    let fd = bpf(command, attribute)?;
    // SAFETY: the kernel has just given us this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The descriptor as the attributes hold it; descriptors are never negative.
fn number(fd: BorrowedFd<'_>) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX)
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    // An address has at most 64 bits.
    u64::try_from(of.cast::<u8>().addr()).unwrap_or(0)
}

/// Makes a map from receive queue to AF_XDP socket.
pub(super) fn create_xsk_map(queues: u32) -> io::Result<OwnedFd> {
    let mut attribute = MapCreate {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        map_flags: 0,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: *b"roce_queues\0\0\0\0\0",
    };
    bpf_fd(MAP_CREATE, &mut attribute)
}

/// Puts `socket` at `queue` in the map.
pub(super) fn update_xsk_map(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let value = number(socket);
    let mut attribute = MapUpdate {
        map_fd: number(map),
        zero: 0,
        key: address(&raw const queue),
        value: address(&raw const value),
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &mut attribute)?;
    Ok(())
}

/// Loads an XDP program, for frames in several buffers if `fragments`.
pub(super) fn load_program(
    name: [u8; 16],
    instructions: &[Instruction],
    fragments: bool,
) -> io::Result<OwnedFd> {
    let license = c"MIT OR Apache-2.0";
    let mut attribute = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        insn_cnt: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        insns: address(instructions),
        license: address(license.as_ptr()),
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: if fragments { F_XDP_HAS_FRAGS } else { 0 },
        prog_name: name,
        prog_ifindex: 0,
        expected_attach_type: ATTACH_TYPE_XDP,
    };
    persist(|| bpf_fd(PROG_LOAD, &mut attribute))
}

/// Runs the verifier again where it was broken off: it gives way to a signal with EAGAIN.
fn persist<T>(mut load: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut left = LOAD_ATTEMPTS;
    loop {
        left -= 1;
        match load() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && left > 0 => {}
            result => return result,
        }
    }
}

/// Attaches a program to an interface for as long as the descriptor returned is open.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    flag: AttachFlag,
) -> io::Result<OwnedFd> {
    let flags = match flag {
        AttachFlag::Generic => 1 << 1,
        AttachFlag::Native => 1 << 2,
    };
    let mut attribute = LinkCreate {
        prog_fd: number(program),
        target_ifindex: ifindex,
        attach_type: ATTACH_TYPE_XDP,
        flags,
    };
    bpf_fd(LINK_CREATE, &mut attribute)
}

/// The name of the program with this id, if it has one and we may know it.
pub(super) fn program_name(id: u32) -> Option<KernelName> {
    use std::os::fd::AsFd;

    // struct bpf_prog_info up to its name, which is at byte 64.
    let mut info = [0_u64; 10];
    let program =
        bpf_fd(PROG_GET_FD_BY_ID, &mut GetFdById { id, next_id: 0, open_flags: 0 }).ok()?;
    let mut attribute = GetInfo {
        bpf_fd: number(program.as_fd()),
        info_len: u32::try_from(size_of_val(&info)).ok()?,
        info: address(&raw mut info),
    };
    bpf(OBJ_GET_INFO_BY_FD, &mut attribute).ok()?;
    let mut name = [0; 16];
    for (to, from) in name.chunks_exact_mut(8).zip(&info[8..]) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    (name[0] != 0).then(|| KernelName::from_kernel(name))
}

/// Running a program over a packet without an interface.
#[cfg(test)]
pub(super) mod test_run {
    use super::*;

    const PROG_TEST_RUN: c_int = 10;

    #[repr(C)]
    struct TestRun {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        ctx_size_in: u32,
        ctx_size_out: u32,
        ctx_in: u64,
        ctx_out: u64,
        flags: u32,
        cpu: u32,
        batch_size: u32,
        zero: u32,
    }

    // SAFETY: integers, no padding; `run` gives live addresses.
    unsafe impl Attribute for TestRun {}

    /// The program's verdict on a frame (`enum xdp_action`), and the mean time of `repeat` runs in ns.
    pub(crate) fn run(
        program: BorrowedFd<'_>,
        frame: &[u8],
        repeat: u32,
    ) -> io::Result<(u32, u32)> {
        let mut attribute = TestRun {
            prog_fd: number(program),
            retval: 0,
            data_size_in: u32::try_from(frame.len()).expect("short"),
            data_size_out: 0,
            data_in: address(frame),
            data_out: 0,
            repeat,
            duration: 0,
            ctx_size_in: 0,
            ctx_size_out: 0,
            ctx_in: 0,
            ctx_out: 0,
            flags: 0,
            cpu: 0,
            batch_size: 0,
            zero: 0,
        };
        bpf(PROG_TEST_RUN, &mut attribute)?;
        Ok((attribute.retval, attribute.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_broken_off_is_tried_again() {
        for (failures, expected) in [(0, true), (1, true), (15, true), (16, false)] {
            let mut tried = 0;
            let result = persist(|| {
                tried += 1;
                let broken_off = Err(io::Error::from_raw_os_error(libc::EAGAIN));
                if tried > failures { Ok(()) } else { broken_off }
            });
            assert_eq!((result.is_ok(), tried), (expected, 16.min(failures + 1)));
        }
        let mut tried = 0;
        let refused: io::Result<()> = persist(|| {
            tried += 1;
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!((refused.unwrap_err().raw_os_error(), tried), (Some(libc::EPERM), 1));
    }
}
