//! The reaction point once more, in floating point and by the simplest means: every timer fires,
//! every period of alpha is a step, nothing is skipped. Written from the equations; it shares the
//! parameters with the code under test and nothing else.

use roce_codec::dcqcn::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, HyperIncrease, HyperStep,
    Params, StageTest,
};

#[derive(Clone)]
pub(crate) struct Model {
    p: Params,
    max: f64,
    pub(crate) rc: f64,
    pub(crate) rt: f64,
    alpha: f64,
    now: u64,
    t: u32,
    bc: u32,
    next_increase: Option<u64>,
    next_alpha: Option<u64>,
    cnp_in_period: bool,
    /// Of the first CNP.
    origin: Option<u64>,
    cut_at: Option<u64>,
    bytes: u64,
}

impl Model {
    pub(crate) fn new(p: &Params, line_bps: f64) -> Self {
        let limit = if p.rpg_max_rate_mbps == 0 {
            f64::INFINITY
        } else {
            f64::from(p.rpg_max_rate_mbps) * 1e6
        };
        let max = line_bps.min(limit);
        Self {
            p: *p,
            max,
            rc: max,
            rt: max,
            alpha: f64::from(p.initial_alpha_value) / 1024.0,
            now: 0,
            t: 0,
            bc: 0,
            next_increase: None,
            next_alpha: None,
            cnp_in_period: false,
            origin: None,
            cut_at: None,
            bytes: 0,
        }
    }

    fn g(&self) -> f64 {
        f64::from(self.p.g_per_1024) / 1024.0
    }

    /// Whether a CNP at the instant at which a period of alpha ends cuts before that.
    fn cnp_is_before_alpha(&self) -> bool {
        self.p.cut_order == CutOrder::CutFirst
            && self.p.alpha_update == AlphaUpdate::OnPeriod
            && self.p.cut_timing == CutTiming::OnCnp
    }

    /// Alpha when all is done that ends by `now`.
    pub(crate) fn alpha(&self, now: u64) -> f64 {
        let mut after = self.clone();
        after.pass(now, true);
        after.alpha
    }

    /// Lets time pass, `through` or up to but not with what alpha does at `now`.
    fn pass(&mut self, now: u64, through: bool) {
        loop {
            let alpha_ends = if through { now } else { now.saturating_sub(1) };
            let alpha = self.next_alpha.filter(|&at| at <= alpha_ends);
            let increase = self.next_increase.filter(|&at| at <= now);
            let cut = self.cut_at.filter(|&at| at <= now);
            let Some(first) = [alpha, increase, cut].into_iter().flatten().min() else { break };
            // Of what happens at one instant increases are first, and cut and alpha as ordered;
            // where a CNP raises alpha its periods have ended by then.
            let alpha_waits = cut == Some(first)
                && self.p.cut_order == CutOrder::CutFirst
                && self.p.alpha_update == AlphaUpdate::OnPeriod;
            if increase == Some(first) {
                self.next_increase = Some(first + u64::from(self.p.rpg_time_reset_us) * 1000);
                self.increase(true);
            } else if alpha == Some(first) && !alpha_waits {
                self.next_alpha = Some(first + u64::from(self.p.dce_tcp_rtt_us) * 1000);
                self.alpha *= 1.0 - self.g();
                if self.cnp_in_period {
                    self.alpha += self.g();
                }
                self.cnp_in_period = false;
            } else {
                self.cut_at = None;
                self.cut(first);
            }
        }
        self.now = now;
    }

    pub(crate) fn tick(&mut self, now: u64) {
        self.pass(now, !self.cnp_is_before_alpha());
    }

    pub(crate) fn cnp(&mut self, now: u64) {
        self.tick(now);
        let origin = *self.origin.get_or_insert(now);
        let is_first = self.next_alpha.is_none();
        if is_first {
            self.alpha = f64::from(self.p.initial_alpha_value) / 1024.0;
            self.next_alpha = Some(now + u64::from(self.p.dce_tcp_rtt_us) * 1000);
            if self.p.rate_to_set_on_first_cnp_mbps != 0 {
                let rate = f64::from(self.p.rate_to_set_on_first_cnp_mbps) * 1e6;
                self.rc = self.bound(rate);
                self.rt = self.rc;
                (self.t, self.bc, self.bytes) = (0, 0, 0);
                self.next_increase = Some(now + u64::from(self.p.rpg_time_reset_us) * 1000);
                return;
            }
            if self.p.first_cnp == FirstCnp::SetsAlpha {
                return;
            }
        }
        match self.p.cut_timing {
            CutTiming::OnCnp => self.cut(now),
            CutTiming::OnPeriod => {
                let period = u64::from(self.p.rate_reduce_monitor_period_us) * 1000;
                let mut end = origin;
                while end <= now {
                    end += period;
                }
                self.cut_at.get_or_insert(end);
            }
        }
        self.pass(now, true);
        if self.p.alpha_update == AlphaUpdate::OnPeriod {
            self.cnp_in_period = true;
        }
    }

    pub(crate) fn sent(&mut self, now: u64, bytes: u64) {
        self.tick(now);
        let unit = if self.p.byte_unit == ByteUnit::Byte { 1 } else { 64 };
        let reset = u64::from(self.p.rpg_byte_reset) * unit;
        if reset > 0 {
            self.bytes += bytes;
            while self.bytes >= reset {
                self.bytes -= reset;
                self.increase(false);
            }
        }
    }

    fn cut(&mut self, now: u64) {
        let before = self.alpha;
        if self.p.alpha_update == AlphaUpdate::OnCut {
            self.alpha = (1.0 - self.g()) * self.alpha + self.g();
            self.next_alpha = Some(now + u64::from(self.p.dce_tcp_rtt_us) * 1000);
        }
        let alpha = if self.p.cut_order == CutOrder::CutFirst { before } else { self.alpha };
        let clamp = self.p.clamp_tgt_rate
            || self.bc > 0
            || (self.t > 0 && self.p.clamp_tgt_rate_after_time_inc);
        // At line rate the target is the rate, whether clamped or not.
        if clamp {
            self.rt = self.rc;
        }
        let factor = 1.0 - alpha * 1024.0 / f64::from(1_u32 << self.p.rpg_gd);
        let least = f64::from(self.p.rpg_min_dec_fac_percent) / 100.0;
        self.rc = self.bound(self.rc * factor.max(least));
        self.rt = self.rt.max(self.rc);
        (self.t, self.bc, self.bytes) = (0, 0, 0);
        self.next_increase = Some(now + u64::from(self.p.rpg_time_reset_us) * 1000);
    }

    fn increase(&mut self, by_time: bool) {
        let uncounted = (self.t, self.bc);
        *(if by_time { &mut self.t } else { &mut self.bc }) += 1;
        let counted = (self.t, self.bc);
        // Uncounted is about the event's own stage; the other's is what it is.
        let (t, mut bc) = match self.p.stage_test {
            StageTest::Counted => counted,
            StageTest::Uncounted => uncounted,
        };
        if self.p.rpg_byte_reset == 0 {
            bc = t;
        }
        let f = self.p.rpg_threshold;
        let (least, most) = (t.min(bc), t.max(bc));
        let recovers = match self.p.fast_recovery {
            FastRecovery::BelowF => most < f,
            FastRecovery::UpToF => most <= f,
        };
        let hyper_starts = match self.p.hyper_increase {
            HyperIncrease::AboveF => f + 1,
            HyperIncrease::FromF => f,
        };
        if recovers {
        } else if least >= hyper_starts {
            let i = match self.p.hyper_step {
                HyperStep::Growing => f64::from(least - hyper_starts + 1),
                HyperStep::Constant => 1.0,
            };
            self.rt += i * f64::from(self.p.rpg_hai_rate_mbps) * 1e6;
        } else {
            self.rt += f64::from(self.p.rpg_ai_rate_mbps) * 1e6;
        }
        self.rt = self.rt.min(self.max);
        self.rc = (self.rt + self.rc) / 2.0;
    }

    fn bound(&self, rate: f64) -> f64 {
        rate.max(f64::from(self.p.rpg_min_rate_mbps) * 1e6).min(self.max)
    }
}
