//! The kernels for AArch64, and the choice among them.

mod crc32x;
mod pmull;

#[cfg(feature = "std")]
use std::arch::is_aarch64_feature_detected as has;

/// Without `std` there is no asking: what every CPU has that the build is for.
#[cfg(not(feature = "std"))]
macro_rules! has {
    ($feature:tt) => {
        cfg!(target_feature = $feature)
    };
}

/// A kernel that this CPU can run.
///
/// A value exists only where the CPU has all that its kernel's module enables: only [`detect`](Self::detect)
/// makes one, or who knows that it did before, and both are private.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Simd(Name);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// Optional in Armv8.0, where nearly all have it; in every Armv8.1.
    Crc32x,
    /// With the cryptographic extension: BlueField 2 and 3, Graviton; not the Raspberry Pi 4.
    Pmull,
}

impl Name {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Crc32x => "crc32x",
            Self::Pmull => "crc32x-pmull",
        }
    }
}

impl Simd {
    const WORST_FIRST: [Name; 2] = [Name::Crc32x, Name::Pmull];

    fn detect(name: Name) -> Option<Self> {
        let crc32x = has!("crc");
        let found = match name {
            Name::Crc32x => crc32x,
            Name::Pmull => all([crc32x, has!("neon"), has!("aes")]),
        };
        found.then_some(Self(name))
    }

    /// The name of each, worst first, and itself where this CPU can run it.
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Option<Self>)> {
        Self::WORST_FIRST.into_iter().map(|name| (name.as_str(), Self::detect(name)))
    }

    fn detect_best() -> Option<Self> {
        Self::WORST_FIRST.into_iter().rev().find_map(Self::detect)
    }

    /// The fastest, if there is one.
    #[cfg(not(feature = "std"))]
    #[inline]
    pub(crate) fn best() -> Option<Self> {
        Self::detect_best()
    }

    /// The fastest, if there is one: one relaxed load once the CPU was asked.
    #[cfg(feature = "std")]
    #[inline]
    pub(crate) fn best() -> Option<Self> {
        use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

        /// What `detect_best` said: 0 not asked yet, 1 none, else a name. It says the same whenever asked, so
        /// it does no harm if two threads ask.
        static BEST: AtomicU8 = AtomicU8::new(0);

        #[cold]
        fn ask() -> Option<Simd> {
            let best = Simd::detect_best();
            let code = match best {
                None => 1,
                Some(Simd(Name::Crc32x)) => 2,
                Some(Simd(Name::Pmull)) => 3,
            };
            BEST.store(code, Relaxed);
            best
        }

        match BEST.load(Relaxed) {
            1 => None,
            2 => Some(Self(Name::Crc32x)),
            3 => Some(Self(Name::Pmull)),
            _ => ask(),
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        self.0.as_str()
    }

    /// Feeds `src`. Where `COPY`, copies it to `dst`, which is as long. Where `MASK`, the first 64 bytes are fed
    /// OR-ed with `ones`.
    #[inline]
    pub(crate) fn run<const COPY: bool, const MASK: bool>(
        self,
        state: u32,
        dst: &mut [u8],
        src: &[u8],
        ones: &[u8; 64],
    ) -> u32 {
        match self.0 {
            // SAFETY: `self` exists, so the CPU has what the kernel enables: `detect` asked for all of it.
            Name::Pmull if src.len() >= pmull::WORTH_IT => unsafe {
                pmull::run::<COPY, MASK>(state, dst, src, ones)
            },
            // SAFETY: as above; for `Pmull` it asked for the same and more.
            Name::Pmull | Name::Crc32x => unsafe {
                crc32x::run::<COPY, MASK>(state, dst, src, ones)
            },
        }
    }
}

fn all<const N: usize>(has: [bool; N]) -> bool {
    !has.contains(&false)
}
