//! Semihosting: what a debugger or QEMU does for the program (Arm, "Semihosting for AArch32 and
//! AArch64"). Where neither listens, a call is an undefined instruction.

use core::arch::asm;
use core::ffi::CStr;

/// Writes text to the debugger's console.
pub(crate) fn write(text: &CStr) {
    /// SYS_WRITE0: a string that ends in a zero byte.
    const WRITE0: u64 = 0x04;
    // SAFETY: the string is readable and ends.
    unsafe { call(WRITE0, text.as_ptr().expose_provenance()) };
}

/// The program's arguments, as many bytes of them as `room` takes with a zero byte behind; empty
/// where there are none.
pub(crate) fn command_line(room: &mut [u8]) -> &[u8] {
    /// SYS_GET_CMDLINE: a buffer and its length in, its length out.
    const GET_CMDLINE: u64 = 0x15;
    let mut block = [room.as_mut_ptr().expose_provenance(), room.len()];
    // SAFETY: `block` names a buffer that is ours alone while the call lasts.
    let failed = unsafe { call(GET_CMDLINE, block.as_mut_ptr().expose_provenance()) };
    let len = if failed == 0 { block[1] } else { 0 };
    room.get(..len).unwrap_or_default()
}

/// Ends QEMU with `status`.
pub(crate) fn exit(status: u8) -> ! {
    /// SYS_EXIT_EXTENDED: a reason and a status.
    const EXIT_EXTENDED: u64 = 0x20;
    /// ADP_Stopped_ApplicationExit.
    const APPLICATION_EXIT: u64 = 0x2_0026;
    let block = [APPLICATION_EXIT, u64::from(status)];
    loop {
        // SAFETY: two words, which the call reads.
        unsafe { call(EXIT_EXTENDED, block.as_ptr().expose_provenance()) };
    }
}

/// One call.
///
/// # Safety
/// `argument` must be what the operation takes.
unsafe fn call(operation: u64, argument: usize) -> u64 {
    let mut result = operation;
    // SAFETY: the trap that semihosting is; it changes x0, and memory that the argument names.
    unsafe { asm!("hlt #0xf000", inout("x0") result, in("x1") argument, options(nostack)) };
    result
}
