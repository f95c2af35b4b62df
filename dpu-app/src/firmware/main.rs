//! dpu-firmware: the RoCEv2 engine on a bare AArch64 core, against itself.
//!
//! Boots on QEMU's `virt` board, runs [`dpu_app::self_test`], logs what it did through defmt, and
//! ends with the result as QEMU's exit status: see `dpu-app/README.md`.
#![no_std]
#![no_main]

#[cfg(not(all(target_os = "none", target_arch = "aarch64")))]
compile_error!("the feature `firmware` is for --target aarch64-unknown-none");

mod board;
mod boot;
mod exit;
mod lend;
mod log;
mod plant;
mod run;
mod semihosting;
mod stack;

use self::lend::Lend;
use self::plant::Plant;

/// Room for the program's arguments.
static ARGUMENTS: Lend<[u8; 256]> = Lend::new([0; 256]);

/// Where [`boot`] goes, with the machine as Rust expects it.
extern "C" fn main() -> ! {
    let counts = board::count_instructions();
    let arguments = ARGUMENTS.take().map(|room| semihosting::command_line(room));
    let plant = Plant::of(arguments.unwrap_or_default());
    let Some(parts) = run::Parts::take() else {
        defmt::panic!("the machine has been given away already");
    };
    let passed = run::run(parts, plant, counts);
    exit::exit(if passed { exit::PASSED } else { exit::FAILED })
}
