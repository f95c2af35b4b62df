//! Running a piece of a test with fewer capabilities.

/// The kernel's `struct __user_cap_data_struct`, twice: bits 0 to 31 and 32 to 63.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
#[derive(Debug)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

const VERSION_3: u32 = 0x2008_0522;

fn set(data: &[CapabilityData; 2]) {
    let mut header = CapabilityHeader { version: VERSION_3, pid: 0 };
    // SAFETY: header and data are live and as version 3 wants them; only this thread changes.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    assert_eq!(result, 0, "capset: {}", std::io::Error::last_os_error());
}

/// Puts the capabilities back when dropped, so that a panic does not leave the thread without.
struct Restore([CapabilityData; 2]);

impl Drop for Restore {
    fn drop(&mut self) {
        set(&self.0);
    }
}

/// Runs `body` without the effective capabilities numbered `without`.
pub(crate) fn run_without<T>(without: &[u32], body: impl FnOnce() -> T) -> T {
    let mut header = CapabilityHeader { version: VERSION_3, pid: 0 };
    let mut held = [CapabilityData::default(); 2];
    // SAFETY: header and data are live and as version 3 wants them.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, held.as_mut_ptr()) };
    assert_eq!(result, 0, "capget: {}", std::io::Error::last_os_error());
    let mut fewer = held;
    for &capability in without {
        fewer[usize::from(capability >= 32)].effective &= !(1 << (capability % 32));
    }
    let _restore = Restore(held);
    set(&fewer);
    body()
}
