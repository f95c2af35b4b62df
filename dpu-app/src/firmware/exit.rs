//! The ways the program ends, and its exit status in each.

use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::panic::PanicInfo;

use crate::{log, semihosting};

/// All is well.
pub(crate) const PASSED: u8 = 0;
/// A check failed.
pub(crate) const FAILED: u8 = 1;
/// A panic.
const PANICKED: u8 = 101;
/// The processor took an exception.
const EXCEPTION: u8 = 102;

/// A line for the debugger's console. What does not fit is cut off.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    fn print(arguments: fmt::Arguments<'_>) {
        let mut line = Self { bytes: [0; 256], len: 0 };
        // It cannot fail: `write_str` never does.
        let _ = line.write_fmt(arguments);
        if let Ok(text) = CStr::from_bytes_until_nul(&line.bytes) {
            semihosting::write(text);
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte stays zero.
        let room = self.bytes.len().saturating_sub(1);
        for (to, from) in self.bytes.iter_mut().take(room).skip(self.len).zip(text.bytes()) {
            *to = from;
            self.len += 1;
        }
        Ok(())
    }
}

/// Ends the program, once all that it logged is out.
pub(crate) fn exit(status: u8) -> ! {
    defmt::flush();
    semihosting::exit(status)
}

/// Ends the program after an exception, `registers` being why, where and over what.
pub(crate) fn exception(kind: &str, registers: [(&str, u64); 3]) -> ! {
    let [(a, why), (b, at), (c, over)] = registers;
    Line::print(format_args!("dpu-firmware: {kind}: {a} {why:#x}, {b} {at:#x}, {c} {over:#x}\n"));
    semihosting::exit(EXCEPTION)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if log::is_taken() {
        Line::print(format_args!("dpu-firmware: {info}\n"));
        semihosting::exit(PANICKED)
    }
    defmt::error!("{}", defmt::Display2Format(info));
    exit(PANICKED)
}
