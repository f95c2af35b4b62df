//! The way up: fast recovery, additive increase, hyper increase.

use zerocopy::TryFromBytes;

use super::{FastRecovery, HyperIncrease, HyperStep, Knob, Params, StageTest, TargetClamp};

/// What an increase was caused by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Time,
    Bytes,
}

/// Current and target rate, and the events since the last cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, TryFromBytes)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Climb {
    pub(super) rate_bps: u64,
    pub(super) target_bps: u64,
    /// The rate of a flow that is not limited.
    pub(super) max_bps: u64,
    pub(super) time_stage: u16,
    pub(super) byte_stage: u16,
}

impl Climb {
    pub(super) const fn new(max_bps: u64) -> Self {
        Self { rate_bps: max_bps, target_bps: max_bps, max_bps, time_stage: 0, byte_stage: 0 }
    }

    /// Whether the rate is below the greatest.
    pub(super) const fn is_limited(&self) -> bool {
        self.rate_bps < self.max_bps
    }

    /// Goes down to `rate_bps`, and starts over.
    pub(super) fn drop_to(&mut self, rate_bps: u64, clamp: TargetClamp) {
        let clamps = match clamp {
            TargetClamp::Always => true,
            TargetClamp::AfterAnyIncrease => self.time_stage != 0 || self.byte_stage != 0,
            TargetClamp::AfterByteIncrease => self.byte_stage != 0,
        };
        let target_bps = if clamps { self.rate_bps } else { self.target_bps };
        *self = Self {
            rate_bps,
            target_bps: target_bps.max(rate_bps),
            time_stage: 0,
            byte_stage: 0,
            ..*self
        };
    }

    /// `count` increases one after the other, up to the one that reaches the greatest rate; after
    /// that there is nothing to count.
    ///
    /// The work is bounded whatever `count` is. Once the gap between target and rate no longer
    /// changes and neither does the step, the rest is one multiplication. Until then there are at
    /// most 33 events of fast recovery, 42 for the gap (it halves; rates have 42 bits), and as many
    /// again when the target meets the greatest rate. Growing hyper increases get there in
    /// √(2 · greatest rate / R_HAI) events: 90 for 800 Gb/s and 200 Mb/s, 2829 at the very most.
    pub(super) fn increase(&mut self, params: &Params, cause: Cause, count: u64) {
        let mut left = count;
        while left > 0 && self.is_limited() {
            let gap_bps = self.target_bps.saturating_sub(self.rate_bps);
            let step_bps = self.step_bps(params, cause, self.stage(cause));
            self.advance(cause, 1);
            self.target_bps = self.target_bps.saturating_add(step_bps).min(self.max_bps);
            // Rounded up, so that a rate below its target always moves.
            let new_gap_bps = self.target_bps.saturating_sub(self.rate_bps) >> 1;
            self.rate_bps = self.target_bps.saturating_sub(new_gap_bps);
            left = left.saturating_sub(1);

            if new_gap_bps == gap_bps && self.repeats(params, cause, step_bps) {
                let room_bps = self.max_bps.saturating_sub(self.target_bps);
                let events = room_bps.checked_div(step_bps).unwrap_or(left).min(left);
                let rise_bps = step_bps.saturating_mul(events);
                self.target_bps = self.target_bps.saturating_add(rise_bps);
                self.rate_bps = self.rate_bps.saturating_add(rise_bps);
                self.advance(cause, events);
                left = left.saturating_sub(events);
            }
        }
    }

    /// Whether every further event of this cause has this step. Past F an event's step is constant,
    /// or grows with each until its stage has passed the other's and is constant from there; so one
    /// repetition speaks for all.
    fn repeats(&self, params: &Params, cause: Cause, step_bps: u64) -> bool {
        let stage = self.stage(cause);
        u32::from(stage) > params.within(Knob::RpgThreshold).saturating_add(1)
            && self.step_bps(params, cause, stage) == step_bps
    }

    /// What an event adds to the target when `stage` of its cause came before.
    fn step_bps(&self, params: &Params, cause: Cause, stage: u16) -> u64 {
        let own = match params.stage_test {
            StageTest::Counted => u32::from(stage).saturating_add(1),
            StageTest::Uncounted => u32::from(stage),
        };
        // Without a byte counter time alone decides.
        let other = match cause {
            _ if params.byte_reset_bytes().is_none() => own,
            Cause::Time => u32::from(self.byte_stage),
            Cause::Bytes => u32::from(self.time_stage),
        };
        let (least, most) = (own.min(other), own.max(other));
        let f = params.within(Knob::RpgThreshold);
        let recovers = match params.fast_recovery {
            FastRecovery::BelowF => most < f,
            FastRecovery::UpToF => most <= f,
        };
        // The stage of hyper increase, from 1; 0 before it.
        let hyper = match params.hyper_increase {
            HyperIncrease::AboveF => least.saturating_sub(f),
            HyperIncrease::FromF => least.saturating_add(1).saturating_sub(f),
        };
        if recovers {
            0
        } else if hyper == 0 {
            params.bps(Knob::RpgAiRate)
        } else {
            let times = match params.hyper_step {
                HyperStep::Growing => u64::from(hyper),
                HyperStep::Constant => 1,
            };
            params.bps(Knob::RpgHaiRate).saturating_mul(times)
        }
    }

    const fn stage(&self, cause: Cause) -> u16 {
        match cause {
            Cause::Time => self.time_stage,
            Cause::Bytes => self.byte_stage,
        }
    }

    fn advance(&mut self, cause: Cause, events: u64) {
        let stage = match cause {
            Cause::Time => &mut self.time_stage,
            Cause::Bytes => &mut self.byte_stage,
        };
        *stage = stage.saturating_add(u16::try_from(events).unwrap_or(u16::MAX));
    }
}
