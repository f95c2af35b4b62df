//! No kernel touches a byte outside what it was given: buffers that end, or start, where memory does.
#![cfg(unix)]

use std::{ptr, slice};

use roce_crc::{INITIAL, Kernel};

/// A multiple of every page size in use.
const PAGE: usize = 65_536;

/// Memory between two pages that nobody may touch.
struct Guarded {
    map: *mut libc::c_void,
}

impl Guarded {
    fn new() -> Self {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                3 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED);
        let middle = map.wrapping_byte_add(PAGE);
        // SAFETY: the page is the middle of the mapping just made, and nothing refers to it yet.
        let done = unsafe { libc::mprotect(middle, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(done, 0);
        Self { map }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let middle = self.map.wrapping_byte_add(PAGE).cast();
        // SAFETY: the middle page is mapped to read and write while `self` lives, is zeroed at first, and is lent
        // to nobody else while `self` is borrowed.
        unsafe { slice::from_raw_parts_mut(middle, PAGE) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and `bytes`' borrows of it have ended.
        let done = unsafe { libc::munmap(self.map, 3 * PAGE) };
        assert_eq!(done, 0);
    }
}

#[test]
fn nothing_outside_is_touched() {
    let mut from = Guarded::new();
    let mut to = Guarded::new();
    let ones = [0xff; 64];
    for (name, kernel) in Kernel::all() {
        let Some(kernel) = kernel else {
            println!("passed over: this CPU cannot run {name}");
            continue;
        };
        for len in 0..=600 {
            for at in [0, PAGE - len] {
                let src = &mut from.bytes()[at..at + len];
                src.fill(0x5a);
                let expected = !crc32fast::hash(src);
                assert_eq!(kernel.update(INITIAL, src), expected, "{name}: {len} bytes at {at}");

                let dst = &mut to.bytes()[at..at + len];
                dst.fill(0);
                assert_eq!(
                    kernel.copy_update(INITIAL, dst, src),
                    expected,
                    "{name}: {len} bytes at {at}"
                );
                assert_eq!(dst, src, "{name}: {len} bytes at {at}");

                // Only that it does not fault: the value is tested elsewhere.
                let _ = kernel.update_masked(INITIAL, src, &ones);
            }
        }
    }
}
