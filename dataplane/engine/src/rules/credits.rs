//! End-to-end credits (IBTA 9.7.7.2): how far the peer has receives.

use roce_codec::ib::{Credits, Msn, Psn};

/// The newest message that the peer has a receive for, should it need one: as many beyond its
/// MSN as it states credits. `None` if it states none.
#[must_use]
pub fn limit(msn: Msn, credits: Credits) -> Option<Msn> {
    Some(Msn::new(msn.get().wrapping_add(u32::from(credits.count()?))))
}

/// Whether the message with this number lies beyond the limit. Messages are numbered from 1, as
/// the MSN counts them.
#[must_use]
pub const fn is_beyond(ssn: Msn, limit: Option<Msn>) -> bool {
    match limit {
        None => false,
        // Both count around 2^24, as PSNs do.
        Some(limit) => Psn::new(ssn.get()).is_after(Psn::new(limit.get())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_relative_to_the_msn() {
        let credits = |receives| Credits::of_receives(receives);
        for (msn, receives, expect) in
            [(0, 0, 0), (0, 1, 1), (7, 5, 11), (7, 6, 13), (0xff_ffff, 2, 1), (0xff_fff0, 16, 0)]
        {
            assert_eq!(limit(Msn::new(msn), credits(receives)), Some(Msn::new(expect)));
        }
        assert_eq!(limit(Msn::new(7), Credits::NONE), None);
        for (ssn, limit, beyond) in
            [(1, 0, true), (1, 1, false), (2, 1, true), (0, 0xff_ffff, true), (0xff_ffff, 2, false)]
        {
            assert_eq!(is_beyond(Msn::new(ssn), Some(Msn::new(limit))), beyond, "{ssn} {limit}");
        }
        assert!(!is_beyond(Msn::new(1 << 23), None));
    }
}
