//! The kernels that this machine can run, by name.

use core::{fmt, iter};

use crate::simd::Simd;
use crate::slice16;

/// One way to compute the CRC that this machine can run.
///
/// [`Crc`](crate::Crc) uses [`Kernel::best`]; the others are for tests and measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Option<Simd>);

/// What a kernel is given where it masks nothing.
const NO_ONES: &[u8; 64] = &[0; 64];

impl Kernel {
    /// The portable one, with tables of 16 KiB.
    pub const PORTABLE: Self = Self(None);

    /// The names of all kernels for this architecture, worst first, each with the kernel where this machine can
    /// run it (without the feature `std`: where every machine can which the build is for).
    pub fn all() -> impl Iterator<Item = (&'static str, Option<Self>)> {
        let simd = Simd::all().map(|(name, simd)| (name, simd.map(|simd| Self(Some(simd)))));
        iter::once((Self::PORTABLE.name(), Some(Self::PORTABLE))).chain(simd)
    }

    /// The fastest one that this machine can run. Without the feature `std`: that every machine can which the
    /// build is for (`-C target-feature`, `-C target-cpu`).
    #[inline]
    #[must_use]
    pub fn best() -> Self {
        Self(Simd::best())
    }

    /// Its name, as [`all`](Self::all) gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.map_or("slice-by-16", Simd::name)
    }

    /// [`Crc32::update`](crate::Crc32::update) from the register `state`; returns the register.
    #[inline]
    #[must_use]
    pub fn update(self, state: u32, bytes: &[u8]) -> u32 {
        self.run::<false, false>(state, &mut [], bytes, NO_ONES)
    }

    /// [`Crc32::copy_update`](crate::Crc32::copy_update) from the register `state`, of the shorter length of the
    /// two; returns the register.
    #[inline]
    #[must_use]
    pub fn copy_update(self, state: u32, dst: &mut [u8], src: &[u8]) -> u32 {
        let len = dst.len().min(src.len());
        let (dst, src) = (dst.get_mut(..len), src.get(..len));
        self.run::<true, false>(state, dst.unwrap_or_default(), src.unwrap_or_default(), NO_ONES)
    }

    /// [`Crc32::update_masked`](crate::Crc32::update_masked) from the register `state`; returns the register.
    #[inline]
    #[must_use]
    pub fn update_masked(self, state: u32, bytes: &[u8], ones: &[u8; 64]) -> u32 {
        self.run::<false, true>(state, &mut [], bytes, ones)
    }

    #[inline]
    fn run<const COPY: bool, const MASK: bool>(
        self,
        state: u32,
        dst: &mut [u8],
        src: &[u8],
        ones: &[u8; 64],
    ) -> u32 {
        match self.0 {
            None => slice16::run::<COPY, MASK>(state, dst, src, ones),
            Some(simd) => simd.run::<COPY, MASK>(state, dst, src, ones),
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
