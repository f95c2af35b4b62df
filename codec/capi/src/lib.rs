//! The C interface of `roce-codec`: `roce.h` is made from these files by cbindgen.
//!
//! Every function takes any pointer that is NULL or valid for what it is said to point to; all
//! values are plain integers, so that no bit pattern a C program can write is undefined. Nothing
//! allocates, nothing keeps a pointer, nothing has state, and no way to a panic is left
//! (`codec/capi/test` looks for one).
#![no_std]

pub mod aeth;
pub mod answer;
pub mod build;
pub mod cm;
pub mod dcqcn;
pub mod dcqcn_params;
pub mod frame;
pub mod headers;
pub mod icrc;
pub mod mtu;
pub mod opcode;
pub mod packet;
pub mod path;
mod pointer;
pub mod psn;
pub mod status;

/// The CRC that computes ICRCs here.
#[cfg(not(feature = "small-table"))]
type Kernel = roce_codec::Crc;
#[cfg(feature = "small-table")]
type Kernel = roce_codec::SmallTable;

/// The version of this interface. Structures and values change only when it does.
pub const ROCE_ABI_VERSION: u32 = 1;

/// The `ROCE_ABI_VERSION` that the library was built with, to hold against the header's.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub extern "C" fn roce_abi_version() -> u32 {
    ROCE_ABI_VERSION
}

/// Never called: the optimizer removes it together with the last way to it.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// What `codec/capi/test` must find.
#[cfg(planted_panic)]
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_planted_panic(byte: u8) -> u8 {
    [1, 2, 3][usize::from(byte)]
}
