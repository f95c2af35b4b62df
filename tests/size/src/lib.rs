//! Bare-metal start and stop for the measured cases, one a program under `bin/`.
//!
//! Each program calls a function `case` twice for each of its inputs and stops QEMU, which is
//! told to log the registers before every instruction. `../run` reads the log from the entry of
//! `case` to its return: how many instructions, how deep the stack. What a program is larger than
//! the one without a case is the case's code.
#![no_std]

use core::arch::asm;
use core::panic::PanicInfo;

pub mod flow;
pub mod packets;

/// Makes `reset`, the program's first function: feeds each input to `case` twice, and says to
/// QEMU whether what came out was right every time.
#[macro_export]
macro_rules! firmware {
    ($($input:expr => $right:expr),+ $(,)?) => {
        #[unsafe(no_mangle)]
        extern "C" fn reset() -> ! {
            $crate::start();
            let mut all_right = true;
            $(for _ in 0..2 {
                let result = case(core::hint::black_box($input));
                // All of it is looked at, or what nobody looks at would not be made.
                all_right &= $crate::check(core::hint::black_box(&result), $right);
            })+
            $crate::stop(all_right)
        }
    };
}

/// Lets the program use the floating-point registers, as its target promises.
pub fn start() {
    /// Coprocessor access control (Armv7-M, B3.2.20): full access to CP10 and CP11.
    const CPACR: *mut u32 = core::ptr::with_exposed_provenance_mut(0xe000_ed88);
    // SAFETY: the register is there on every Armv7-M with a floating-point unit.
    unsafe { CPACR.write_volatile(0xf << 20) };
}

/// What `right` says of `result`.
#[inline]
pub fn check<T>(result: &T, right: impl Fn(&T) -> bool) -> bool {
    right(result)
}

/// Ends the simulation, with exit status 0 if all is right.
pub fn stop(all_right: bool) -> ! {
    /// Semihosting: SYS_EXIT, ADP_Stopped_ApplicationExit, ADP_Stopped_RunTimeErrorUnknown.
    const EXIT: u32 = 0x18;
    const GOOD: u32 = 0x2_0026;
    const BAD: u32 = 0x2_0023;
    let reason = if all_right { GOOD } else { BAD };
    // SAFETY: a breakpoint that QEMU takes for a call; this one does not return.
    unsafe { asm!("bkpt 0xab", in("r0") EXIT, in("r1") reason) };
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    stop(false)
}
