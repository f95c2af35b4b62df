//! The kernels for x86-64, and the choice among them.

mod avx2;
mod avx512;
mod finish;
mod memory;
mod pclmul;

#[cfg(feature = "std")]
use std::arch::is_x86_feature_detected as has;

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
    /// Intel since 2010, AMD since 2011.
    Pclmul,
    /// Intel since 2021 (Alder Lake), AMD since 2020 (Zen 3), where there is no AVX-512.
    Avx2,
    /// Intel servers since 2019 (Ice Lake), AMD since 2022 (Zen 4).
    Avx512,
}

impl Name {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pclmul => "pclmulqdq",
            Self::Avx2 => "avx2-vpclmulqdq",
            Self::Avx512 => "avx512-vpclmulqdq",
        }
    }
}

impl Simd {
    const WORST_FIRST: [Name; 3] = [Name::Pclmul, Name::Avx2, Name::Avx512];

    fn detect(name: Name) -> Option<Self> {
        let pclmul = all([has!("sse2"), has!("sse4.1"), has!("pclmulqdq")]);
        let wide = all([pclmul, has!("vpclmulqdq")]);
        let found = match name {
            Name::Pclmul => pclmul,
            Name::Avx2 => all([wide, has!("avx2")]),
            Name::Avx512 => all([wide, has!("avx512f"), has!("avx512bw"), has!("avx512vl")]),
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
                Some(Simd(Name::Pclmul)) => 2,
                Some(Simd(Name::Avx2)) => 3,
                Some(Simd(Name::Avx512)) => 4,
            };
            BEST.store(code, Relaxed);
            best
        }

        match BEST.load(Relaxed) {
            1 => None,
            2 => Some(Self(Name::Pclmul)),
            3 => Some(Self(Name::Avx2)),
            4 => Some(Self(Name::Avx512)),
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
            Name::Avx512 => unsafe { avx512::run::<COPY, MASK>(state, dst, src, ones) },
            // SAFETY: as above.
            Name::Avx2 if src.len() >= avx2::WORTH_IT => unsafe {
                avx2::run::<COPY, MASK>(state, dst, src, ones)
            },
            // SAFETY: as above; for `Avx2` it asked for the same and more.
            Name::Avx2 | Name::Pclmul => unsafe {
                pclmul::run::<COPY, MASK>(state, dst, src, ones)
            },
        }
    }
}

fn all<const N: usize>(has: [bool; N]) -> bool {
    !has.contains(&false)
}
