//! What a FLUSH asks for (IBTA Vol. 1, Annex A19).

use core::ops::BitOr;

use roce_codec::ib::Feth;

/// Where flushed bytes must have arrived: the placement type, one or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placement(u8);

impl Placement {
    /// Visible to everything that can read the memory.
    pub const GLOBAL_VISIBILITY: Self = Self(1);
    /// Safe from a loss of power.
    pub const PERSISTENCE: Self = Self(2);

    /// Whether all of `other` is asked for.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Placement {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is flushed: the selectivity level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selectivity {
    /// A range.
    Range {
        /// Where it begins.
        va: u64,
        /// Bytes, at most 2³¹.
        len: u32,
    },
    /// The whole region that the key belongs to.
    Region,
}

/// The header of a FLUSH.
pub(crate) fn feth(selectivity: Selectivity, placement: Placement) -> Feth {
    let level = match selectivity {
        Selectivity::Range { .. } => 0,
        Selectivity::Region => 1,
    };
    Feth(level << 4 | u32::from(placement.0))
}

/// What a header asks for, with the range of its RETH; `None` if [`rules::flush`] finds fault.
///
/// [`rules::flush`]: crate::rules::flush
pub(crate) fn asked(feth: Feth, va: u64, len: u32) -> Option<(Selectivity, Placement)> {
    if crate::rules::flush::check(feth).is_err() {
        return None;
    }
    let placement = Placement(u8::try_from(feth.placement_type()).ok()?);
    let region = feth.selectivity() == 1;
    Some((if region { Selectivity::Region } else { Selectivity::Range { va, len } }, placement))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames 14 and 22 of the capture of Linux 7.2, and the others by the annex's figure.
    #[test]
    fn headers_as_linux_sends_them() {
        let range = Selectivity::Range { va: 7, len: 3000 };
        let (global, persistent) = (Placement::GLOBAL_VISIBILITY, Placement::PERSISTENCE);
        for (header, selectivity, placement) in [
            (0x01, range, global),
            (0x11, Selectivity::Region, global),
            (0x02, range, persistent),
            (0x13, Selectivity::Region, global | persistent),
        ] {
            assert_eq!(feth(selectivity, placement), Feth(header));
            assert_eq!(asked(Feth(header), 7, 3000), Some((selectivity, placement)));
        }
        assert_eq!(asked(Feth(0x10), 7, 3000), None);
    }
}
