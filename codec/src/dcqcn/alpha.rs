//! Alpha, the estimate of how congested the path is.
//!
//! It falls by `1 − g` each period without a CNP, for as long as the flow lives. Only a cut asks
//! for it, so no timer runs: the periods since are counted then, and their power taken.

use zerocopy::TryFromBytes;

use super::{Knob, Params, q31};

#[derive(Debug, Clone, Copy, PartialEq, Eq, TryFromBytes)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Alpha {
    /// The start of the period that `value` held in.
    since_ns: u64,
    /// Q1.31.
    value: u32,
    /// A CNP came in that period, and its end will raise alpha.
    raise_due: bool,
}

impl Alpha {
    pub(super) fn new(params: &Params, now_ns: u64) -> Self {
        let value = q31::per_1024(params.within(Knob::InitialAlphaValue));
        Self { since_ns: now_ns, value, raise_due: false }
    }

    pub(super) const fn value(&self) -> u32 {
        self.value
    }

    /// What it is after all periods that end by `now_ns`.
    pub(super) fn at(&self, params: &Params, now_ns: u64) -> Self {
        let period_ns = params.ns(Knob::DceTcpRtt);
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        let periods = elapsed_ns.checked_div(period_ns).unwrap_or(0);
        if periods == 0 {
            return *self;
        }
        let since_ns = self.since_ns.saturating_add(periods.saturating_mul(period_ns));
        let (first, quiet) = if self.raise_due {
            (self.raised(params), periods.saturating_sub(1))
        } else {
            (self.value, periods)
        };
        let keep = q31::ONE.saturating_sub(params.gain());
        Self { since_ns, value: q31::mul(first, q31::pow(keep, quiet)), raise_due: false }
    }

    /// `(1 − g)·α + g`.
    fn raised(&self, params: &Params) -> u32 {
        let gain = params.gain();
        q31::mul(self.value, q31::ONE.saturating_sub(gain)).saturating_add(gain).min(q31::ONE)
    }

    /// Raised now, with a period that starts now.
    pub(super) fn raise(&self, params: &Params, now_ns: u64) -> Self {
        Self { since_ns: now_ns, value: self.raised(params), raise_due: false }
    }

    /// To be raised at the end of the period.
    pub(super) const fn with_raise_due(self) -> Self {
        Self { raise_due: true, ..self }
    }
}
