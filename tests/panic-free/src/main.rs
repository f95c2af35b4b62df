//! Proves that no public function of `roce-codec` and `roce-crc` can panic: a program that holds
//! the address of each, and whose panic handler calls a function that does not exist. If the
//! optimizer leaves one way to the handler, the program does not link.
//!
//! `tests/panic-free/run` writes the list of functions from what rustdoc says is public, builds
//! this for several targets, and names the culprits when it does not link. Formatting (`Debug`,
//! `Display`, `defmt::Format`) is left out: the machinery in `core::fmt` is not ours to prove.
#![no_std]
#![no_main]

use core::hash::Hasher;
use core::panic::PanicInfo;

include!(env!("PANIC_FREE_INSTANCES"));

// SAFETY: nobody defines it, so nobody calls it: a binary that would does not link.
#[cfg(not(feature = "culprits"))]
unsafe extern "C" {
    safe fn a_panic_path_is_left() -> !;
}

#[cfg(not(feature = "culprits"))]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    a_panic_path_is_left()
}

/// Links whatever panics, so that the calls which lead here can be looked up.
#[cfg(feature = "culprits")]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The entry: from here the linker keeps every function, for any argument.
#[unsafe(no_mangle)]
extern "C" fn instances(index: usize) -> *const () {
    instance(index)
}

/// One function that can panic, with the feature `plant`: the proof must then fail.
fn planted() -> *const () {
    #[cfg(feature = "plant")]
    {
        fn planted_panic(bytes: &[u8], index: usize) -> u8 {
            bytes[index]
        }
        planted_panic as *const ()
    }
    #[cfg(not(feature = "plant"))]
    core::ptr::null()
}

/// A hasher, for `Hash::hash`.
struct Sum(u64);

impl Hasher for Sum {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(5) ^ u64::from(*byte);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A function that makes an iterator, with all that the iterator does.
macro_rules! drain {
    ($($name:ident($($arg:ident: $type:ident),*);)*) => {$(
        #[allow(dead_code)]
        fn $name<$($type,)* I: Iterator, F: Fn($($type),*) -> I>(_: F) -> *const () {
            fn whole<$($type,)* I: Iterator, F: Fn($($type),*) -> I>(
                make: F, $($arg: $type),*
            ) -> (usize, usize, Option<I::Item>) {
                let mut items = make($($arg),*);
                let left = items.size_hint().0;
                let first = items.next();
                (left, items.count(), first)
            }
            whole::<$($type,)* I, F> as *const ()
        }
    )*};
}

drain! {
    drain0();
    drain1(a: A);
    drain2(a: A, b: B);
    drain3(a: A, b: B, c: C);
}
