//! Where a request's PSN stands.

use roce_codec::ib::Psn;

/// Where a PSN stands against the one expected (IBTA 9.7.1, figure "valid and invalid PSN
/// regions").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PsnClass {
    /// The one expected.
    Expected,
    /// One of the 2²³ before: sent before.
    Duplicate,
    /// One of the 2²³ − 1 after: something between is missing.
    Ahead,
}

/// Classifies `psn`.
#[inline]
#[must_use]
pub const fn classify(expected: Psn, psn: Psn) -> PsnClass {
    match psn.distance_from(expected) {
        0 => PsnClass::Expected,
        distance if distance < 0 => PsnClass::Duplicate,
        _ => PsnClass::Ahead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_is_split_in_two() {
        let expected = Psn::new(0x00ff_fff0);
        assert_eq!(classify(expected, expected), PsnClass::Expected);
        assert_eq!(classify(expected, expected.next()), PsnClass::Ahead);
        assert_eq!(classify(expected, expected.add(Psn::HALF - 1)), PsnClass::Ahead);
        assert_eq!(classify(expected, expected.add(Psn::HALF)), PsnClass::Duplicate);
        assert_eq!(classify(expected, expected.sub(1)), PsnClass::Duplicate);
    }
}
