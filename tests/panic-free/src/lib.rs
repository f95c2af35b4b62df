//! Proves that no public function of `roce-codec` can panic: each is instantiated in a library
//! whose panic handler calls a function that does not exist. If the optimizer leaves one way to
//! the handler, `cargo build --release` fails to link; the debug build always does.
//!
//! Formatting is left out: the machinery in `core::fmt` is not ours to prove.
//!
//! To find the culprit of "undefined reference to `a_panic_path_is_left`", remove functions below
//! until it links.
#![no_std]

use core::panic::PanicInfo;

mod answer;
mod cm;
mod dcqcn;
mod frame;
mod headers;
mod icrc;
mod native;
mod numbers;
mod pause;

// SAFETY: nobody defines it, so nobody calls it: a binary that would does not link.
unsafe extern "C" {
    safe fn a_panic_path_is_left() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    a_panic_path_is_left()
}

/// Exports functions under their own names, so that they are kept and their arguments are
/// anything.
macro_rules! instantiate {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "Rust" fn $name($($arg: $type),*) -> $result $body
    )*};
}
pub(crate) use instantiate;
