//! From the first instruction to [`main`](crate::main), and what ends the program when the
//! processor objects.
//!
//! One core, at EL1, where it goes if started at EL2. Virtual addresses are physical ones, in
//! blocks of 2 MiB: code is read-only, data cannot be executed, nothing else is there but the UART.
//! The MMU and the caches are on because without them all memory is of the Device type, where
//! unaligned accesses fault and nothing is promised of the exclusive ones that atomics are made of
//! (Arm ARM, B2: memory types, synchronization). QEMU would let both pass.
//!
//! The program runs on `SP_EL0` and exceptions on `SP_EL1`, so that a stack overflow, which runs
//! into unmapped memory, still has a stack to be reported from.

use core::arch::global_asm;

use crate::board;

global_asm!(
    ".section .text.start, \"ax\"",
    ".global start",
    "start:",
    // The board starts at EL1, or with `virtualization` at EL2, as most firmware leaves it.
    "    mrs x0, CurrentEL",
    "    cmp x0, #(1 << 2)",
    "    b.eq 1f",
    "    cmp x0, #(2 << 2)",
    "    b.ne park",
    // HCR_EL2: EL1 is AArch64, and nothing of it is trapped.
    "    mov x0, #(1 << 31)",
    "    msr hcr_el2, x0",
    // CNTHCTL_EL2, CNTVOFF_EL2: it may read the counter, which is not set back.
    "    mov x0, #3",
    "    msr cnthctl_el2, x0",
    "    msr cntvoff_el2, xzr",
    // CPTR_EL2: floating point and SIMD do not trap; the rest is what must be one.
    "    mov x0, #0x33ff",
    "    msr cptr_el2, x0",
    // MDCR_EL2.HPMN: all event counters, PMCR_EL0.N of them, are EL1's.
    "    mrs x0, pmcr_el0",
    "    ubfx x0, x0, #11, #5",
    "    msr mdcr_el2, x0",
    "    ldr x0, ={sctlr}",
    "    msr sctlr_el1, x0",
    // To EL1, on its own stack, with every interrupt masked.
    "    mov x0, #0x3c5",
    "    msr spsr_el2, x0",
    "    adr x0, 1f",
    "    msr elr_el2, x0",
    "    eret",
    "1:",
    // CPACR_EL1.FPEN: floating point and SIMD do not trap.
    "    mov x0, #(3 << 20)",
    "    msr cpacr_el1, x0",
    "    adrp x0, vectors",
    "    add x0, x0, :lo12:vectors",
    "    msr vbar_el1, x0",
    // MAIR_EL1: 0 is Device-nGnRnE, 1 is Normal, write-back.
    "    mov x0, #0xff00",
    "    msr mair_el1, x0",
    // TCR_EL1: 39 bits through TTBR0 in granules of 4 KiB, walks cached and inner shareable,
    // TTBR1 off, physical addresses of 32 bits.
    "    mov x0, #(25 | 1 << 8 | 1 << 10 | 3 << 12)",
    "    movk x0, #(1 << 7), lsl #16",
    "    msr tcr_el1, x0",
    "    adrp x0, level1",
    "    add x0, x0, :lo12:level1",
    "    msr ttbr0_el1, x0",
    "    tlbi vmalle1",
    "    ic iallu",
    "    dsb nsh",
    "    isb",
    // SCTLR_EL1: MMU, data cache, both stack alignment checks, instruction cache.
    "    ldr x0, =({sctlr} | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 12)",
    "    msr sctlr_el1, x0",
    "    isb",
    "    ldr x0, =bss_start",
    "    ldr x1, =bss_end",
    "1:  cmp x0, x1",
    "    b.hs 2f",
    "    stp xzr, xzr, [x0], #16",
    "    b 1b",
    "2:  ldr x0, =stack_bottom",
    "    ldr x1, =stack_top",
    "3:  stp xzr, xzr, [x0], #16",
    "    cmp x0, x1",
    "    b.lo 3b",
    "    msr spsel, #1",
    "    ldr x0, =exception_stack_top",
    "    mov sp, x0",
    "    msr spsel, #0",
    "    ldr x0, =stack_top",
    "    mov sp, x0",
    "    bl {main}",
    "park:",
    "    wfe",
    "    b park",
    // Sixteen entries of 128 bytes. The first four are the program's own, all others are
    // exceptions within exceptions (or from EL0, which there is none of), and there is no help.
    "    .balign 2048",
    "vectors:",
    "    .irp kind, 0, 1, 2, 3",
    "    .balign 128",
    "    mov x0, #\\kind",
    "    mrs x1, esr_el1",
    "    mrs x2, elr_el1",
    "    mrs x3, far_el1",
    "    bl {exception}",
    "    b park",
    "    .endr",
    "    .rept 12",
    "    .balign 128",
    "    b park",
    "    .endr",
    // Translation tables. Level 1 has a gibibyte an entry, level 2 two mebibytes.
    ".section .rodata.tables, \"a\"",
    "    .balign 4096",
    "level1:",
    "    .quad devices + 3",
    "    .quad memory + 3",
    "    .fill 510, 8, 0",
    "devices:",
    "    .fill {uart} >> 21, 8, 0",
    "    .quad {uart} | {block} | {device} | {no_execute}",
    "    .fill 511 - ({uart} >> 21), 8, 0",
    "memory:",
    "    .quad 0x40000000 | {block} | {normal} | {no_execute}",
    "    .quad 0x40200000 | {block} | {normal} | {read_only}",
    "    .quad 0x40400000 | {block} | {normal} | {no_execute}",
    "    .quad 0x40600000 | {block} | {normal} | {no_execute}",
    "    .fill 508, 8, 0",
    ".section .bss.exception_stack, \"aw\", @nobits",
    "    .balign 16",
    "    .space 16384",
    "exception_stack_top:",
    main = sym crate::main,
    exception = sym exception,
    uart = const board::UART,
    // What must be one in Armv8.0.
    sctlr = const 0x30d0_0800u64,
    // Valid, accessed.
    block = const 1u64 | 1 << 10,
    // Attribute 0.
    device = const 0u64,
    // Attribute 1, inner shareable.
    normal = const 1u64 << 2 | 3 << 8,
    read_only = const 1u64 << 7,
    // At EL1 and at EL0.
    no_execute = const 3u64 << 53,
);

/// Says what happened, by semihosting alone: whatever is broken, it may be the logger.
extern "C" fn exception(kind: u64, syndrome: u64, address: u64, fault: u64) -> ! {
    let kind = match kind {
        0 => "synchronous exception",
        1 => "IRQ",
        2 => "FIQ",
        _ => "SError",
    };
    crate::exit::exception(kind, [("ESR", syndrome), ("ELR", address), ("FAR", fault)])
}
