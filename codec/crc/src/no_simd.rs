//! Architectures without a kernel of their own.

/// There is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simd {}

impl Simd {
    pub(crate) fn all() -> impl Iterator<Item = (&'static str, Option<Self>)> {
        core::iter::empty()
    }

    pub(crate) const fn best() -> Option<Self> {
        None
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {}
    }

    pub(crate) fn run<const COPY: bool, const MASK: bool>(
        self,
        _: u32,
        _: &mut [u8],
        _: &[u8],
        _: &[u8; 64],
    ) -> u32 {
        match self {}
    }
}
