//! CRC-32 kernels for the RoCEv2 invariant CRC, plain and fused with the copy.
//!
//! The checksum is the IEEE 802.3 one, reflected, as zlib has it: polynomial `0x04c11db7`, initial register
//! and final complement all ones. The ICRC (IBTA vol. 1, 7.8.1) is this over a masked packet, stored as
//! little-endian bytes. [`Crc32`] is the incremental form, which a chip's own unit can implement too; [`Crc`]
//! is the fastest one that this crate has for the machine it runs on.
//!
//! ```
//! use roce_crc::{Crc, Crc32, crc32};
//!
//! assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
//!
//! let mut frame = [0; 9];
//! let mut crc = Crc::new();
//! crc.update(b"1234");
//! crc.copy_update(&mut frame[4..], b"56789");
//! assert_eq!(crc.finish(), 0xcbf4_3926);
//! assert_eq!(&frame[4..], b"56789");
//! ```
//!
//! # Kernels
//!
//! | name | where | a step |
//! |---|---|---|
//! | `avx512-vpclmulqdq` | x86-64 | four registers of 64 bytes |
//! | `avx2-vpclmulqdq` | x86-64 | four of 32 bytes |
//! | `pclmulqdq` | x86-64 | four of 16 bytes |
//! | `crc32x-pmull` | AArch64, little-endian | four of 16 bytes |
//! | `crc32x` | AArch64, little-endian | 8 bytes an instruction |
//! | `slice-by-16` | everywhere | 16 bytes through 16 KiB of tables |
//!
//! With the feature `std` (on by default) [`Crc`] asks the CPU once, and every call costs one relaxed load to know the
//! answer; without, it takes the best kernel that the build's target features allow. [`SmallTable`] and
//! [`NibbleTable`] are for firmware that has no room for the tables. Nothing here allocates; nothing panics.
//!
//! Unsafe code is in the directories named after architectures only: loads and stores through references of the
//! right size (`x86/memory.rs`; the end of `aarch64/pmull.rs`), and the calls into kernels that the CPU was seen to
//! support (`run` in each `mod.rs`).
#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "defmt")]
mod defmt_format;

// Operating system kernels are built without vector registers (x86_64-unknown-none): no SIMD there.
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"),
))]
mod fold;
mod kernel;
mod partial;
mod poly;
mod shift;
#[cfg_attr(all(target_arch = "x86_64", target_feature = "sse2"), path = "x86/mod.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"),
    path = "aarch64/mod.rs"
)]
#[cfg_attr(
    not(any(
        all(target_arch = "x86_64", target_feature = "sse2"),
        all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"),
    )),
    path = "no_simd.rs"
)]
mod simd;
mod slice16;
mod small;
mod table;

pub use kernel::Kernel;
pub use shift::{Shift, combine};
pub use small::{NibbleTable, SmallTable};

/// The register before any byte was fed.
pub const INITIAL: u32 = 0xffff_ffff;

/// The register behind eight bytes of `0xff`, which the ICRC puts before every packet (IBTA vol. 1, 7.8.1)
/// in place of the fields of a local route header.
pub const AFTER_ONES8: u32 = table::update(INITIAL, &[0xff; 8]);

/// An incremental CRC-32 (IEEE 802.3, reflected) that may be a chip's own unit.
///
/// The state is the bare 32-bit register, before the final complement, so that a caller who knows what the
/// first bytes are (the eight `0xff` of an ICRC: [`AFTER_ONES8`]) starts behind them at no cost.
///
/// A chip's unit is a register that is loaded, fed and read back; its driver is all that has to be written. Whoever is
/// generic over this trait (the codec's `Icrc<C>`, `Frame::verify_icrc_with::<C>()`) then uses it:
///
/// ```
/// use roce_crc::{Crc32, crc32};
///
/// /// The unit. On a chip, each function is a volatile access to its registers, which are set up once to take bytes
/// /// least significant bit first; here a simulation.
/// mod unit {
///     use std::cell::Cell;
///
///     thread_local!(static REGISTER: Cell<u32> = const { Cell::new(0) });
///
///     pub fn load(register: u32) {
///         REGISTER.set(register);
///     }
///     pub fn feed(byte: u8) {
///         let register = REGISTER.get() ^ u32::from(byte);
///         REGISTER.set((0..8).fold(register, |r, _| (r >> 1) ^ (0xedb8_8320 * (r & 1))));
///     }
///     pub fn read() -> u32 {
///         REGISTER.get()
///     }
/// }
///
/// /// A CRC under way. The unit is shared: the register is loaded for each run of bytes and taken out again.
/// #[derive(Clone)]
/// struct ChipCrc(u32);
///
/// impl Crc32 for ChipCrc {
///     fn resume(state: u32) -> Self {
///         Self(state)
///     }
///     fn state(&self) -> u32 {
///         self.0
///     }
///     fn update(&mut self, bytes: &[u8]) {
///         unit::load(self.0);
///         bytes.iter().copied().for_each(unit::feed);
///         self.0 = unit::read();
///     }
/// }
///
/// let mut frame = [0; 9];
/// let mut crc = ChipCrc::new();
/// crc.update(b"1234");
/// // Provided: a DMA engine that sums up what it moves would replace it.
/// crc.copy_update(&mut frame[4..], b"56789");
/// assert_eq!(crc.finish(), crc32(b"123456789"));
/// ```
pub trait Crc32: Clone {
    /// The state before any byte: a register of all ones.
    fn new() -> Self {
        Self::resume(INITIAL)
    }

    /// Goes on from a register that [`state`](Self::state) gave, of this implementation or another.
    fn resume(state: u32) -> Self;

    /// The register as it stands, not complemented: `!self.finish()`.
    fn state(&self) -> u32;

    /// Feeds `bytes`.
    fn update(&mut self, bytes: &[u8]);

    /// Copies `src` to `dst` and feeds it, in one pass where the implementation can.
    ///
    /// They should be of one length. If they are not, only the length of the shorter is copied and fed, and
    /// what lies beyond in `dst` stays as it was. Returns the count of bytes copied.
    ///
    /// What is fed is what was copied: an implementation takes each byte of `src` once. `src` may be memory that
    /// peers are shown while a program writes it.
    fn copy_update(&mut self, dst: &mut [u8], src: &[u8]) -> usize {
        let len = dst.len().min(src.len());
        // Compiled to `memcpy`, like `copy_from_slice`, whose check of the lengths stays in at opt-level z.
        for (to, from) in dst.iter_mut().zip(src) {
            *to = *from;
        }
        self.update(dst.get(..len).unwrap_or_default());
        len
    }

    /// Feeds `bytes` as they are but for the first 64, which are fed OR-ed with `ones`, at any length of `bytes`.
    ///
    /// This is how an ICRC covers a packet whose variant fields count as all ones: in one call, without a
    /// changed copy of the headers.
    fn update_masked(&mut self, bytes: &[u8], ones: &[u8; 64]) {
        let (head, rest) = bytes.split_at(bytes.len().min(ones.len()));
        let mut masked = *ones;
        for (masked, byte) in masked.iter_mut().zip(head) {
            *masked |= byte;
        }
        self.update(masked.get(..head.len()).unwrap_or_default());
        self.update(rest);
    }

    /// The CRC of all bytes fed so far, as zlib's `crc32` gives it. More may be fed afterwards.
    fn finish(&self) -> u32 {
        !self.state()
    }
}

/// The fastest CRC-32 here for the machine it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    /// A state that the caller knows, in a constant: [`Crc32::resume`] for `const` contexts.
    #[must_use]
    pub const fn with_state(state: u32) -> Self {
        Self(state)
    }

    /// The state behind eight bytes of `0xff`, where every ICRC starts.
    #[must_use]
    pub const fn after_ones8() -> Self {
        Self(AFTER_ONES8)
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32 for Crc {
    #[inline]
    fn resume(state: u32) -> Self {
        Self(state)
    }

    #[inline]
    fn state(&self) -> u32 {
        self.0
    }

    #[inline]
    fn update(&mut self, bytes: &[u8]) {
        self.0 = Kernel::best().update(self.0, bytes);
    }

    #[inline]
    fn copy_update(&mut self, dst: &mut [u8], src: &[u8]) -> usize {
        self.0 = Kernel::best().copy_update(self.0, dst, src);
        dst.len().min(src.len())
    }

    #[inline]
    fn update_masked(&mut self, bytes: &[u8], ones: &[u8; 64]) {
        self.0 = Kernel::best().update_masked(self.0, bytes, ones);
    }
}

/// The CRC-32 of `bytes`, as zlib's `crc32` gives it.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.finish()
}
