//! The parameters by the names that tools of mlx5 NICs give them.

use core::fmt;

use super::Params;

/// A parameter that NIC tools have too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Knob {
    /// [`Params::clamp_tgt_rate`].
    ClampTgtRate,
    /// [`Params::clamp_tgt_rate_after_time_inc`].
    ClampTgtRateAfterTimeInc,
    /// [`Params::rpg_time_reset_us`].
    RpgTimeReset,
    /// [`Params::rpg_byte_reset`].
    RpgByteReset,
    /// [`Params::rpg_threshold`].
    RpgThreshold,
    /// [`Params::rpg_max_rate_mbps`].
    RpgMaxRate,
    /// [`Params::rpg_ai_rate_mbps`].
    RpgAiRate,
    /// [`Params::rpg_hai_rate_mbps`].
    RpgHaiRate,
    /// [`Params::rpg_gd`].
    RpgGd,
    /// [`Params::rpg_min_dec_fac_percent`].
    RpgMinDecFac,
    /// [`Params::rpg_min_rate_mbps`].
    RpgMinRate,
    /// [`Params::rate_to_set_on_first_cnp_mbps`].
    RateToSetOnFirstCnp,
    /// [`Params::dce_tcp_g`], in the sense of [`Params::g_sense`].
    DceTcpG,
    /// [`Params::dce_tcp_rtt_us`].
    DceTcpRtt,
    /// [`Params::rate_reduce_monitor_period_us`].
    RateReduceMonitorPeriod,
    /// [`Params::initial_alpha_value`].
    InitialAlphaValue,
    /// [`Params::min_time_between_cnps_us`].
    MinTimeBetweenCnps,
    /// [`Params::cnp_dscp`].
    CnpDscp,
    /// [`Params::cnp_802p_prio`].
    Cnp802pPrio,
}

/// mlxconfig name, debugfs name, unit, least and greatest value.
type Row = (&'static str, &'static str, &'static str, u32, u32);

impl Knob {
    /// All of them, in mlxconfig's order.
    pub const ALL: [Self; 19] = [
        Self::ClampTgtRate,
        Self::ClampTgtRateAfterTimeInc,
        Self::RpgTimeReset,
        Self::RpgByteReset,
        Self::RpgThreshold,
        Self::RpgMaxRate,
        Self::RpgAiRate,
        Self::RpgHaiRate,
        Self::RpgGd,
        Self::RpgMinDecFac,
        Self::RpgMinRate,
        Self::RateToSetOnFirstCnp,
        Self::DceTcpG,
        Self::DceTcpRtt,
        Self::RateReduceMonitorPeriod,
        Self::InitialAlphaValue,
        Self::MinTimeBetweenCnps,
        Self::CnpDscp,
        Self::Cnp802pPrio,
    ];

    const fn row(self) -> Row {
        const MBPS: u32 = Params::MAX_RATE_MBPS;
        const US: u32 = Params::MAX_PERIOD_US;
        match self {
            Self::ClampTgtRate => ("CLAMP_TGT_RATE", "rp_clamp_tgt_rate", "flag", 0, 1),
            Self::ClampTgtRateAfterTimeInc => {
                ("CLAMP_TGT_RATE_AFTER_TIME_INC", "rp_clamp_tgt_rate_ati", "flag", 0, 1)
            }
            Self::RpgTimeReset => ("RPG_TIME_RESET", "rp_time_reset", "us", 1, US),
            Self::RpgByteReset => {
                ("RPG_BYTE_RESET", "rp_byte_reset", "byte units", 0, Params::MAX_BYTE_RESET)
            }
            Self::RpgThreshold => {
                ("RPG_THRESHOLD", "rp_threshold", "stages", 0, Params::MAX_THRESHOLD)
            }
            Self::RpgMaxRate => ("RPG_MAX_RATE", "rp_max_rate", "Mb/s", 0, MBPS),
            Self::RpgAiRate => ("RPG_AI_RATE", "rp_ai_rate", "Mb/s", 1, MBPS),
            Self::RpgHaiRate => ("RPG_HAI_RATE", "rp_hai_rate", "Mb/s", 1, MBPS),
            Self::RpgGd => ("RPG_GD", "rp_gd", "log2", 0, Params::MAX_GD),
            Self::RpgMinDecFac => ("RPG_MIN_DEC_FAC", "rp_min_dec_fac", "%", 0, 100),
            Self::RpgMinRate => ("RPG_MIN_RATE", "rp_min_rate", "Mb/s", 1, MBPS),
            Self::RateToSetOnFirstCnp => {
                ("RATE_TO_SET_ON_FIRST_CNP", "rp_rate_to_set_on_first_cnp", "Mb/s", 0, MBPS)
            }
            Self::DceTcpG => ("DCE_TCP_G", "rp_dce_tcp_g", "1/1024", 1, 1023),
            Self::DceTcpRtt => ("DCE_TCP_RTT", "rp_dce_tcp_rtt", "us", 1, US),
            Self::RateReduceMonitorPeriod => {
                ("RATE_REDUCE_MONITOR_PERIOD", "rp_rate_reduce_monitor_period", "us", 1, US)
            }
            Self::InitialAlphaValue => {
                ("INITIAL_ALPHA_VALUE", "rp_initial_alpha_value", "1/1024", 1, 1024)
            }
            Self::MinTimeBetweenCnps => {
                ("MIN_TIME_BETWEEN_CNPS", "np_min_time_between_cnps", "us", 0, US)
            }
            Self::CnpDscp => ("CNP_DSCP", "np_cnp_dscp", "DSCP", 0, 63),
            Self::Cnp802pPrio => ("CNP_802P_PRIO", "np_cnp_prio", "priority", 0, 7),
        }
    }

    /// The name in mlxconfig, such as `RPG_AI_RATE`, without the port (`_P1`).
    #[must_use]
    pub const fn mlxconfig_name(self) -> &'static str {
        self.row().0
    }

    /// The name under the kernel's `cc_params`, such as `rp_ai_rate`.
    #[must_use]
    pub const fn debugfs_name(self) -> &'static str {
        self.row().1
    }

    /// What the value counts: `us`, `Mb/s`, `%`, `1/1024`, `log2` and so on.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        self.row().2
    }

    /// The least value allowed.
    #[must_use]
    pub const fn min(self) -> u32 {
        self.row().3
    }

    /// The greatest value allowed. NICs allow less for some: `RPG_BYTE_RESET` has 15 bits there,
    /// `INITIAL_ALPHA_VALUE` ends at 1023.
    #[must_use]
    pub const fn max(self) -> u32 {
        self.row().4
    }

    /// The knob of either name, in either case, with or without a port (`_P1`, `_P2`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let bare = ["_P1", "_P2", "_p1", "_p2"].iter().find_map(|port| name.strip_suffix(port));
        let bare = bare.unwrap_or(name);
        Self::ALL.into_iter().find(|knob| {
            bare.eq_ignore_ascii_case(knob.mlxconfig_name())
                || bare.eq_ignore_ascii_case(knob.debugfs_name())
        })
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mlxconfig_name())
    }
}

/// What is wrong with a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParamError {
    /// No knob has this name.
    UnknownName,
    /// The value is out of range.
    OutOfRange {
        /// Which parameter.
        knob: Knob,
        /// Its value.
        value: u32,
        /// The least allowed.
        min: u32,
        /// The greatest allowed.
        max: u32,
    },
    /// `rpg_min_rate` is above `rpg_max_rate`.
    MinAboveMax {
        /// `rpg_min_rate` in Mb/s.
        min_mbps: u32,
        /// `rpg_max_rate` in Mb/s.
        max_mbps: u32,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownName => f.write_str("no DCQCN parameter has this name"),
            Self::OutOfRange { knob, value, min, max } => {
                write!(f, "{knob} is {value}, allowed are {min} to {max} ({})", knob.unit())
            }
            Self::MinAboveMax { min_mbps, max_mbps } => {
                write!(f, "RPG_MIN_RATE is {min_mbps} Mb/s, above RPG_MAX_RATE, {max_mbps} Mb/s")
            }
        }
    }
}

impl core::error::Error for ParamError {}
