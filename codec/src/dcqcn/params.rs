//! The parameters, and the two sets of them that people mean by "DCQCN".

use super::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, GSense, HyperIncrease,
    HyperStep, Knob, ParamError, StageTest, TargetClamp, q31,
};

/// What governs a [`NotificationPoint`] and a [`ReactionPoint`]: one for all flows of a port.
///
/// Fields bear the names of mlx5 tools and their unit. [`Params::validate`] checks the ranges that
/// [`Knob`] states; values beyond them are taken as the nearest within, so that no set of
/// parameters can make a reaction point misbehave.
///
/// [`NotificationPoint`]: super::NotificationPoint
/// [`ReactionPoint`]: super::ReactionPoint
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Params {
    /// Time between increases (the paper's T), 1 to 131,071 µs.
    pub rpg_time_reset_us: u32,
    /// Bytes sent between increases (the paper's B) in `byte_unit`, 0 for no byte counter.
    pub rpg_byte_reset: u32,
    /// Stages of fast recovery (the paper's F), 0 to 31.
    pub rpg_threshold: u32,
    /// Additive increase of the target (R_AI), Mb/s, at least 1.
    pub rpg_ai_rate_mbps: u32,
    /// Hyper increase of the target (R_HAI), Mb/s, at least 1.
    pub rpg_hai_rate_mbps: u32,
    /// A cut is `rate · alpha / 2^rpg_gd` with alpha in 1/1024: 11 is the paper's half of alpha.
    /// 0 to 15; the DOCA text allows 10 and 11.
    pub rpg_gd: u32,
    /// A cut leaves at least this share of the rate, 0 to 100 %.
    pub rpg_min_dec_fac_percent: u32,
    /// The least rate, Mb/s, at least 1.
    pub rpg_min_rate_mbps: u32,
    /// The greatest rate, Mb/s; 0 is that of the port.
    pub rpg_max_rate_mbps: u32,
    /// Rate and target after a flow's first CNP, Mb/s, instead of a cut; 0 is off.
    pub rate_to_set_on_first_cnp_mbps: u32,
    /// The effective gain g of alpha in 1/1024, 1 to 1023. Tools write it either way round, which
    /// [`Params::dce_tcp_g`] and [`Params::set_dce_tcp_g`] convert.
    pub g_per_1024: u32,
    /// How `DCE_TCP_G` is meant in [`Params::get`] and [`Params::set`].
    pub g_sense: GSense,
    /// Period of alpha's updates (the paper's K), 1 to 131,071 µs. Where alpha is raised by CNPs
    /// ([`AlphaUpdate::OnCut`]) it has to be longer than `min_time_between_cnps_us`.
    pub dce_tcp_rtt_us: u32,
    /// Period of the cuts under [`CutTiming::OnPeriod`], 1 to 131,071 µs.
    pub rate_reduce_monitor_period_us: u32,
    /// Alpha from the first CNP on, in 1/1024, 1 to 1024; NICs end at 1023.
    pub initial_alpha_value: u32,
    /// See [`TargetClamp`].
    pub clamp_tgt_rate: bool,
    /// See [`TargetClamp`].
    pub clamp_tgt_rate_after_time_inc: bool,
    /// Least time between two CNPs of a flow (the paper's N), 0 to 131,071 µs.
    pub min_time_between_cnps_us: u32,
    /// DSCP of a CNP, 0 to 63.
    pub cnp_dscp: u32,
    /// 802.1p priority of a CNP, 0 to 7.
    pub cnp_802p_prio: u32,

    /// What one of `rpg_byte_reset` is.
    pub byte_unit: ByteUnit,
    /// Cut before or after the update of alpha.
    pub cut_order: CutOrder,
    /// Cut by CNP or by period.
    pub cut_timing: CutTiming,
    /// Alpha raised by CNP or by period.
    pub alpha_update: AlphaUpdate,
    /// Whether an event counts itself in its stage.
    pub stage_test: StageTest,
    /// Which stages are fast recovery.
    pub fast_recovery: FastRecovery,
    /// Which stages are hyper increase.
    pub hyper_increase: HyperIncrease,
    /// What a hyper increase adds.
    pub hyper_step: HyperStep,
    /// What a flow's first CNP does.
    pub first_cnp: FirstCnp,
}

impl Params {
    /// The greatest rate there can be, Mb/s.
    pub const MAX_RATE_MBPS: u32 = 4_000_000;
    /// The longest period, µs: NICs have 17 bits.
    pub const MAX_PERIOD_US: u32 = 131_071;
    /// The greatest `rpg_byte_reset`.
    pub const MAX_BYTE_RESET: u32 = 1_000_000_000;
    /// The greatest `rpg_threshold`.
    pub const MAX_THRESHOLD: u32 = 31;
    /// The greatest `rpg_gd`.
    pub const MAX_GD: u32 = 15;

    /// The algorithm and the defaults of the paper ("Congestion Control for Large-Scale RDMA
    /// Deployments", SIGCOMM 2015): N 50 µs, K 55 µs, T 55 µs, B 10 MB, F 5, R_AI 40 Mb/s, g 1/256.
    ///
    /// What the paper does not say: R_HAI is 200 Mb/s as in its authors' ns-3 model, that is
    /// 5·R_AI; the least rate is 1 Mb/s and the least share 50 %, as NICs have them, of which the
    /// share never binds (alpha/2 is at most one half). The period of cuts is not used.
    pub const PAPER: Self = Self {
        rpg_time_reset_us: 55,
        rpg_byte_reset: 10_000_000,
        rpg_threshold: 5,
        rpg_ai_rate_mbps: 40,
        rpg_hai_rate_mbps: 200,
        rpg_gd: 11,
        rpg_min_dec_fac_percent: 50,
        rpg_min_rate_mbps: 1,
        rpg_max_rate_mbps: 0,
        rate_to_set_on_first_cnp_mbps: 0,
        g_per_1024: 4,
        g_sense: GSense::WeightOfOld,
        dce_tcp_rtt_us: 55,
        rate_reduce_monitor_period_us: 50,
        initial_alpha_value: 1024,
        clamp_tgt_rate: true,
        clamp_tgt_rate_after_time_inc: false,
        min_time_between_cnps_us: 50,
        cnp_dscp: 48,
        cnp_802p_prio: 6,
        byte_unit: ByteUnit::Byte,
        cut_order: CutOrder::CutFirst,
        cut_timing: CutTiming::OnCnp,
        alpha_update: AlphaUpdate::OnCut,
        stage_test: StageTest::Counted,
        fast_recovery: FastRecovery::BelowF,
        hyper_increase: HyperIncrease::AboveF,
        hyper_step: HyperStep::Growing,
        first_cnp: FirstCnp::Cuts,
    };

    /// The defaults that ConnectX NICs report. The numbers are read from devices, but for
    /// `MIN_TIME_BETWEEN_CNPS`, of which 0, 2 and 4 are reported. What a NIC does with them is not
    /// published in full: periods and clamps follow NVIDIA's texts, stages, hyper increase and the
    /// first CNP HPCC's model of the NIC, and the unit of `RPG_BYTE_RESET` is a reading
    /// ([`ByteUnit`]).
    pub const MLX5: Self = Self {
        rpg_time_reset_us: 300,
        rpg_byte_reset: 32_767,
        rpg_threshold: 1,
        rpg_ai_rate_mbps: 5,
        rpg_hai_rate_mbps: 50,
        rpg_gd: 11,
        rpg_min_dec_fac_percent: 50,
        rpg_min_rate_mbps: 1,
        rpg_max_rate_mbps: 0,
        rate_to_set_on_first_cnp_mbps: 0,
        g_per_1024: 5,
        g_sense: GSense::WeightOfOld,
        dce_tcp_rtt_us: 1,
        rate_reduce_monitor_period_us: 4,
        initial_alpha_value: 1023,
        clamp_tgt_rate: false,
        clamp_tgt_rate_after_time_inc: true,
        min_time_between_cnps_us: 2,
        cnp_dscp: 48,
        cnp_802p_prio: 6,
        byte_unit: ByteUnit::SixtyFourBytes,
        cut_order: CutOrder::AlphaFirst,
        cut_timing: CutTiming::OnPeriod,
        alpha_update: AlphaUpdate::OnPeriod,
        stage_test: StageTest::Uncounted,
        fast_recovery: FastRecovery::BelowF,
        hyper_increase: HyperIncrease::AboveF,
        hyper_step: HyperStep::Constant,
        first_cnp: FirstCnp::SetsAlpha,
    };

    /// Whether all values are in range.
    ///
    /// # Errors
    /// The first [`ParamError::OutOfRange`], or [`ParamError::MinAboveMax`].
    pub fn validate(&self) -> Result<(), ParamError> {
        for knob in Knob::ALL {
            check(knob, self.knob(knob))?;
        }
        let (min_mbps, max_mbps) = (self.rpg_min_rate_mbps, self.rpg_max_rate_mbps);
        if max_mbps != 0 && min_mbps > max_mbps {
            return Err(ParamError::MinAboveMax { min_mbps, max_mbps });
        }
        Ok(())
    }

    /// The value of the parameter with this mlxconfig or debugfs name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u32> {
        Knob::from_name(name).map(|knob| self.knob(knob))
    }

    /// Sets the parameter with this mlxconfig or debugfs name.
    ///
    /// # Errors
    /// [`ParamError::UnknownName`]; [`ParamError::OutOfRange`], and nothing is changed.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), ParamError> {
        self.set_knob(Knob::from_name(name).ok_or(ParamError::UnknownName)?, value)
    }

    /// The value of a parameter in the unit of its knob.
    #[must_use]
    pub const fn knob(&self, knob: Knob) -> u32 {
        match knob {
            Knob::ClampTgtRate => flag(self.clamp_tgt_rate),
            Knob::ClampTgtRateAfterTimeInc => flag(self.clamp_tgt_rate_after_time_inc),
            Knob::RpgTimeReset => self.rpg_time_reset_us,
            Knob::RpgByteReset => self.rpg_byte_reset,
            Knob::RpgThreshold => self.rpg_threshold,
            Knob::RpgMaxRate => self.rpg_max_rate_mbps,
            Knob::RpgAiRate => self.rpg_ai_rate_mbps,
            Knob::RpgHaiRate => self.rpg_hai_rate_mbps,
            Knob::RpgGd => self.rpg_gd,
            Knob::RpgMinDecFac => self.rpg_min_dec_fac_percent,
            Knob::RpgMinRate => self.rpg_min_rate_mbps,
            Knob::RateToSetOnFirstCnp => self.rate_to_set_on_first_cnp_mbps,
            Knob::DceTcpG => self.dce_tcp_g(self.g_sense),
            Knob::DceTcpRtt => self.dce_tcp_rtt_us,
            Knob::RateReduceMonitorPeriod => self.rate_reduce_monitor_period_us,
            Knob::InitialAlphaValue => self.initial_alpha_value,
            Knob::MinTimeBetweenCnps => self.min_time_between_cnps_us,
            Knob::CnpDscp => self.cnp_dscp,
            Knob::Cnp802pPrio => self.cnp_802p_prio,
        }
    }

    /// Sets a parameter, in the unit of its knob.
    ///
    /// # Errors
    /// [`ParamError::OutOfRange`], and nothing is changed.
    pub fn set_knob(&mut self, knob: Knob, value: u32) -> Result<(), ParamError> {
        check(knob, value)?;
        match knob {
            Knob::ClampTgtRate => self.clamp_tgt_rate = value != 0,
            Knob::ClampTgtRateAfterTimeInc => self.clamp_tgt_rate_after_time_inc = value != 0,
            Knob::RpgTimeReset => self.rpg_time_reset_us = value,
            Knob::RpgByteReset => self.rpg_byte_reset = value,
            Knob::RpgThreshold => self.rpg_threshold = value,
            Knob::RpgMaxRate => self.rpg_max_rate_mbps = value,
            Knob::RpgAiRate => self.rpg_ai_rate_mbps = value,
            Knob::RpgHaiRate => self.rpg_hai_rate_mbps = value,
            Knob::RpgGd => self.rpg_gd = value,
            Knob::RpgMinDecFac => self.rpg_min_dec_fac_percent = value,
            Knob::RpgMinRate => self.rpg_min_rate_mbps = value,
            Knob::RateToSetOnFirstCnp => self.rate_to_set_on_first_cnp_mbps = value,
            Knob::DceTcpG => self.g_per_1024 = self.g_sense.convert(value),
            Knob::DceTcpRtt => self.dce_tcp_rtt_us = value,
            Knob::RateReduceMonitorPeriod => self.rate_reduce_monitor_period_us = value,
            Knob::InitialAlphaValue => self.initial_alpha_value = value,
            Knob::MinTimeBetweenCnps => self.min_time_between_cnps_us = value,
            Knob::CnpDscp => self.cnp_dscp = value,
            Knob::Cnp802pPrio => self.cnp_802p_prio = value,
        }
        Ok(())
    }

    /// `DCE_TCP_G` as a tool of that sense would write it.
    #[must_use]
    pub const fn dce_tcp_g(&self, sense: GSense) -> u32 {
        sense.convert(self.g_per_1024)
    }

    /// Sets g from a `DCE_TCP_G` of that sense, whatever [`Params::g_sense`] is.
    ///
    /// # Errors
    /// [`ParamError::OutOfRange`], and nothing is changed.
    pub fn set_dce_tcp_g(&mut self, value: u32, sense: GSense) -> Result<(), ParamError> {
        check(Knob::DceTcpG, value)?;
        self.g_per_1024 = sense.convert(value);
        Ok(())
    }

    /// When a cut sets the target, as the two flags say it.
    #[must_use]
    pub const fn target_clamp(&self) -> TargetClamp {
        match (self.clamp_tgt_rate, self.clamp_tgt_rate_after_time_inc) {
            (true, _) => TargetClamp::Always,
            (false, true) => TargetClamp::AfterAnyIncrease,
            (false, false) => TargetClamp::AfterByteIncrease,
        }
    }

    /// Sets the two flags.
    pub const fn set_target_clamp(&mut self, clamp: TargetClamp) {
        self.clamp_tgt_rate = matches!(clamp, TargetClamp::Always);
        self.clamp_tgt_rate_after_time_inc = matches!(clamp, TargetClamp::AfterAnyIncrease);
    }

    /// Bytes between increases, [`None`] without a byte counter.
    #[must_use]
    pub fn byte_reset_bytes(&self) -> Option<u64> {
        let units = u64::from(self.within(Knob::RpgByteReset));
        (units > 0).then(|| units * self.byte_unit.bytes())
    }

    /// The value of a knob, or the nearest in range.
    pub(super) fn within(&self, knob: Knob) -> u32 {
        self.knob(knob).max(knob.min()).min(knob.max())
    }

    /// A knob in µs as ns.
    pub(super) fn ns(&self, knob: Knob) -> u64 {
        u64::from(self.within(knob)) * 1000
    }

    /// A knob in Mb/s as b/s.
    pub(super) fn bps(&self, knob: Knob) -> u64 {
        u64::from(self.within(knob)) * 1_000_000
    }

    /// The effective g, in Q1.31.
    pub(super) fn gain(&self) -> u32 {
        q31::per_1024(self.g_per_1024.clamp(1, 1023))
    }
}

const fn flag(set: bool) -> u32 {
    if set { 1 } else { 0 }
}

fn check(knob: Knob, value: u32) -> Result<(), ParamError> {
    let (min, max) = (knob.min(), knob.max());
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ParamError::OutOfRange { knob, value, min, max })
    }
}

#[cfg(test)]
mod tests;
