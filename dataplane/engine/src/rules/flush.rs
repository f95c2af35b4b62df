//! What a FLUSH may ask for (IBTA Vol. 1, Annex A19).

use roce_codec::ib::Feth;

/// How a FLUSH's header is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushFault {
    /// Neither global visibility nor persistence, or a reserved bit of the placement type.
    PlacementType,
    /// Neither the range nor the region.
    Selectivity,
}

/// Whether a responder knows what is asked for. The reserved bits above are ignored.
///
/// # Errors
/// [`FlushFault`].
pub const fn check(feth: Feth) -> Result<(), FlushFault> {
    if !matches!(feth.placement_type(), 1..=3) {
        return Err(FlushFault::PlacementType);
    }
    if feth.selectivity() > 1 {
        return Err(FlushFault::Selectivity);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_placements_and_selectivities() {
        use FlushFault::{PlacementType, Selectivity};
        for (header, expect) in [
            (0x01, Ok(())),
            (0x02, Ok(())),
            (0x03, Ok(())),
            (0x11, Ok(())),
            (0x13, Ok(())),
            (0x00, Err(PlacementType)),
            (0x04, Err(PlacementType)),
            (0x05, Err(PlacementType)),
            (0x08, Err(PlacementType)),
            (0x21, Err(Selectivity)),
            (0x31, Err(Selectivity)),
            (0xffff_ff01, Ok(())),
            (0xffff_ff21, Err(Selectivity)),
            (0xffff_ff41, Ok(())),
        ] {
            assert_eq!(check(Feth(header)), expect, "{header:#x}");
        }
    }
}
