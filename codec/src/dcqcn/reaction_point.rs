//! The reaction point: what rate a flow may send at.

use zerocopy::TryFromBytes;

use super::alpha::Alpha;
use super::climb::{Cause, Climb};
use super::{AlphaUpdate, CutOrder, CutTiming, FirstCnp, Knob, Params, q31};

/// The rate of one flow, lowered by CNPs, raised by time and by bytes sent.
///
/// 88 bytes, `Copy`; the parameters are shared and come with each call. A flow starts at line rate
/// (no slow start) and with nothing to do: before its first CNP, and once it is back at the
/// greatest rate, [`next_timeout`](Self::next_timeout) is [`None`].
///
/// # Time
/// Nanoseconds of any clock, from any origin. A call with an earlier time than the last is taken
/// to happen at the last. Increases and cuts that were due come first, in their order, whatever is
/// called; so it does not matter how late or how often [`on_timeout`](Self::on_timeout) is called,
/// but for the rate that is used meanwhile. An increase that is due at the instant of a CNP or cut
/// comes before it.
///
/// # Parameters
/// The greatest rate is taken once, by [`new`](Self::new); everything else at each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, TryFromBytes)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ReactionPoint {
    climb: Climb,
    alpha: Alpha,
    now_ns: u64,
    /// When the next increase by time is due, if the rate is limited.
    increase_at_ns: u64,
    /// When the cut is due that a CNP has asked for; else any end of a period of cuts.
    cut_at_ns: u64,
    /// Bytes sent since the last increase by bytes.
    bytes: u64,
    /// What [`ReactionPoint::gap_ns`] has cut off, in 2⁻²⁰ ns.
    gap_carry: u32,
    cut_due: bool,
    seen_cnp: bool,
}

const _: () = assert!(size_of::<ReactionPoint>() <= 88);

impl ReactionPoint {
    /// A flow that has not seen congestion, on a port of `line_rate_bps` (at most 4 Tb/s; more is
    /// taken as that).
    #[must_use]
    pub fn new(params: &Params, line_rate_bps: u64) -> Self {
        let limit_bps = u64::from(Params::MAX_RATE_MBPS) * 1_000_000;
        let line_bps = line_rate_bps.max(params.bps(Knob::RpgMinRate)).min(limit_bps);
        let max_bps = match params.bps(Knob::RpgMaxRate) {
            0 => line_bps,
            max_bps => max_bps.min(line_bps),
        };
        Self {
            climb: Climb::new(max_bps),
            alpha: Alpha::new(params, 0),
            now_ns: 0,
            increase_at_ns: 0,
            cut_at_ns: 0,
            bytes: 0,
            gap_carry: 0,
            cut_due: false,
            seen_cnp: false,
        }
    }

    /// A CNP for the flow has come.
    pub fn on_cnp(&mut self, params: &Params, now_ns: u64) {
        let now_ns = self.advance(params, now_ns);
        if !self.seen_cnp {
            self.seen_cnp = true;
            self.alpha = Alpha::new(params, now_ns);
            self.cut_at_ns = now_ns;
            let first_bps = params.bps(Knob::RateToSetOnFirstCnp);
            if first_bps != 0 {
                let rate_bps = self.bounded(params, first_bps);
                self.climb = Climb { rate_bps, target_bps: rate_bps, ..self.climb };
                self.start_over(params, now_ns);
                return;
            }
            if params.first_cnp == FirstCnp::SetsAlpha {
                return;
            }
        }
        match params.cut_timing {
            CutTiming::OnCnp => self.cut(params, now_ns),
            CutTiming::OnPeriod if self.cut_due => {}
            CutTiming::OnPeriod => {
                let period_ns = params.ns(Knob::RateReduceMonitorPeriod);
                let past_ns = now_ns.saturating_sub(self.cut_at_ns);
                let periods = past_ns.checked_div(period_ns).unwrap_or(0).saturating_add(1);
                self.cut_at_ns = self.cut_at_ns.saturating_add(periods.saturating_mul(period_ns));
                self.cut_due = true;
            }
        }
        if params.alpha_update == AlphaUpdate::OnPeriod {
            self.alpha = self.alpha.at(params, now_ns).with_raise_due();
        }
    }

    /// Bytes of the flow were sent (as the byte counter counts: of whole packets).
    #[inline]
    pub fn on_bytes_sent(&mut self, params: &Params, now_ns: u64, bytes: u32) {
        if !self.climb.is_limited() && !self.cut_due {
            self.now_ns = self.now_ns.max(now_ns);
            return;
        }
        self.advance(params, now_ns);
        let Some(reset_bytes) = params.byte_reset_bytes() else { return };
        if !self.climb.is_limited() {
            return;
        }
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
        if self.bytes >= reset_bytes {
            let events = self.bytes.checked_div(reset_bytes).unwrap_or(0);
            self.bytes = self.bytes.checked_rem(reset_bytes).unwrap_or(0);
            self.climb.increase(params, Cause::Bytes, events);
            if !self.climb.is_limited() {
                self.bytes = 0;
            }
        }
    }

    /// The time that [`next_timeout`](Self::next_timeout) named has come, or any other.
    pub fn on_timeout(&mut self, params: &Params, now_ns: u64) {
        self.advance(params, now_ns);
    }

    /// When [`on_timeout`](Self::on_timeout) would next change the rate; [`None`] while the flow
    /// is not limited.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        let increase_at_ns = self.climb.is_limited().then_some(self.increase_at_ns);
        match (self.cut_due, increase_at_ns) {
            (true, Some(at_ns)) => Some(at_ns.min(self.cut_at_ns)),
            (true, None) => Some(self.cut_at_ns),
            (false, at_ns) => at_ns,
        }
    }

    /// What the flow may send at, in bits a second (R_C).
    #[inline]
    #[must_use]
    pub const fn rate_bps(&self) -> u64 {
        self.climb.rate_bps
    }

    /// What the rate climbs back to, in bits a second (R_T): at least the rate.
    #[must_use]
    pub const fn target_rate_bps(&self) -> u64 {
        self.climb.target_bps
    }

    /// Whether the rate is below the greatest.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.climb.is_limited()
    }

    /// Alpha at that time, in Q1.31: 2³¹ is 1. Before the first CNP its initial value.
    #[must_use]
    pub fn alpha_q31(&self, params: &Params, now_ns: u64) -> u32 {
        if self.seen_cnp {
            self.alpha.at(params, now_ns.max(self.now_ns)).value()
        } else {
            Alpha::new(params, 0).value()
        }
    }

    /// Increases by time since the last cut (T), at most 65535.
    #[must_use]
    pub const fn time_stage(&self) -> u16 {
        self.climb.time_stage
    }

    /// Increases by bytes since the last cut (BC), at most 65535.
    #[must_use]
    pub const fn byte_stage(&self) -> u16 {
        self.climb.byte_stage
    }

    /// How long a packet of `bytes` takes at the present rate, in whole nanoseconds. What is cut
    /// off is kept in steps of 2⁻²⁰ ns and added to the next, so that at a constant rate the sum
    /// over any number of packets is short by less than a nanosecond and a millionth of one for
    /// each packet. At most 2³¹ − 1 bytes are counted.
    #[inline]
    pub fn gap_ns(&mut self, bytes: u32) -> u64 {
        let rate_bps = self.climb.rate_bps;
        let bit_ns = u64::from(bytes.min(u32::MAX >> 1)) * 8_000_000_000;
        let whole_ns = bit_ns.checked_div(rate_bps).unwrap_or(0);
        let rest = bit_ns.checked_rem(rate_bps).unwrap_or(0);
        // rest < rate < 2⁴², so the shift keeps all of it and the quotient is below 2²⁰.
        let fraction = (rest << 20).checked_div(rate_bps).unwrap_or(0) + u64::from(self.gap_carry);
        self.gap_carry = u32::try_from(fraction & 0xf_ffff).unwrap_or(0);
        whole_ns + (fraction >> 20)
    }

    /// Does what is due by `now_ns`, and returns the time with steps back taken out.
    fn advance(&mut self, params: &Params, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        if self.cut_due && self.cut_at_ns <= self.now_ns {
            let at_ns = self.cut_at_ns;
            self.increase_until(params, at_ns);
            self.cut_due = false;
            self.cut(params, at_ns);
        }
        self.increase_until(params, self.now_ns);
        self.now_ns
    }

    fn increase_until(&mut self, params: &Params, now_ns: u64) {
        if !self.climb.is_limited() || now_ns < self.increase_at_ns {
            return;
        }
        let period_ns = params.ns(Knob::RpgTimeReset);
        let late_ns = now_ns.saturating_sub(self.increase_at_ns);
        let events = late_ns.checked_div(period_ns).unwrap_or(0).saturating_add(1);
        self.climb.increase(params, Cause::Time, events);
        self.increase_at_ns = self.increase_at_ns.saturating_add(events.saturating_mul(period_ns));
    }

    /// Lowers the rate and updates alpha, in the order the parameters say.
    fn cut(&mut self, params: &Params, now_ns: u64) {
        let alpha = self.alpha.at(params, now_ns);
        let (before, after) = match params.alpha_update {
            AlphaUpdate::OnCut => (alpha, alpha.raise(params, now_ns)),
            // A period that ends at this very instant is the update.
            AlphaUpdate::OnPeriod => (self.alpha.at(params, now_ns.saturating_sub(1)), alpha),
        };
        self.alpha = after;
        let used = match params.cut_order {
            CutOrder::CutFirst => before,
            CutOrder::AlphaFirst => after,
        };
        // alpha in 1/1024 over 2^gd is alpha · 2¹⁰ / 2^gd.
        let share = (u64::from(used.value()) << 10) >> params.within(Knob::RpgGd);
        let share = u32::try_from(share).unwrap_or(q31::ONE).min(q31::ONE);
        let rate_bps = self.climb.rate_bps;
        let least_bps = rate_bps.saturating_mul(u64::from(params.within(Knob::RpgMinDecFac))) / 100;
        let cut_bps = rate_bps.saturating_sub(q31::scale(rate_bps, share));
        let cut_bps = self.bounded(params, cut_bps.max(least_bps));
        self.climb.drop_to(cut_bps, params.target_clamp());
        self.start_over(params, now_ns);
    }

    fn start_over(&mut self, params: &Params, now_ns: u64) {
        self.increase_at_ns = now_ns.saturating_add(params.ns(Knob::RpgTimeReset));
        self.bytes = 0;
    }

    fn bounded(&self, params: &Params, rate_bps: u64) -> u64 {
        rate_bps.max(params.bps(Knob::RpgMinRate)).min(self.climb.max_bps)
    }
}
