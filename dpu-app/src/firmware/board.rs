//! What of QEMU's `virt` board and of the core is used: a UART (Arm PL011), the generic timer, the
//! performance monitor.

use core::arch::asm;
use core::ptr;

/// Where the UART's registers are.
pub(crate) const UART: usize = 0x0900_0000;

/// Sends a byte over the UART, once it has room.
pub(crate) fn send(byte: u8) {
    const DATA: *mut u8 = ptr::without_provenance_mut(UART);
    const TRANSMIT_FULL: u32 = 1 << 5;
    wait_while(TRANSMIT_FULL);
    // SAFETY: the data register of the same.
    unsafe { DATA.write_volatile(byte) };
}

/// Waits until the UART has sent all.
pub(crate) fn drain() {
    const BUSY: u32 = 1 << 3;
    wait_while(BUSY);
}

fn wait_while(flag: u32) {
    const FLAGS: *const u32 = ptr::without_provenance(UART + 0x18);
    // SAFETY: the flag register of a PL011, which boot.rs maps; reading it changes nothing.
    while unsafe { FLAGS.read_volatile() } & flag != 0 {
        core::hint::spin_loop();
    }
}

/// Nanoseconds since the board was switched on.
pub(crate) fn nanoseconds() -> u64 {
    const NS_PER_S: u128 = 1_000_000_000;
    let (count, hertz): (u64, u64);
    // SAFETY: reads the counter, not ahead of what comes before it.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nostack)) };
    // SAFETY: reads how fast it counts.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack)) };
    let ns = u128::from(count) * NS_PER_S / u128::from(hertz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Starts [`instructions`]; says whether there is such a counter. QEMU has one only with
/// `-icount`.
pub(crate) fn count_instructions() -> bool {
    /// INST_RETIRED, the event and its bit in PMCEID0_EL0.
    const RETIRED: u64 = 0x08;
    let events: u64;
    // SAFETY: reads which events there are.
    unsafe { asm!("mrs {}, pmceid0_el0", out(reg) events, options(nomem, nostack)) };
    // SAFETY: counter 0 counts that event at every exception level.
    unsafe { asm!("msr pmevtyper0_el0, {}", in(reg) RETIRED, options(nomem, nostack)) };
    // SAFETY: lets counter 0 count.
    unsafe { asm!("msr pmcntenset_el0, {}", in(reg) 1u64, options(nomem, nostack)) };
    // SAFETY: sets all counters to 0 (bit 1), and lets those count that may (bit 0).
    unsafe { asm!("msr pmcr_el0, {}", "isb", in(reg) 0b11u64, options(nomem, nostack)) };
    events >> RETIRED & 1 != 0
}

/// Instructions executed since [`count_instructions`], modulo 2³².
pub(crate) fn instructions() -> u32 {
    let count: u64;
    // SAFETY: reads counter 0.
    unsafe { asm!("mrs {}, pmevcntr0_el0", out(reg) count, options(nomem, nostack)) };
    let [a, b, c, d, ..] = count.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
