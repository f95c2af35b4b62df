//! Where implementations of DCQCN differ. The paper leaves some of it open, simulators and NICs
//! chose differently; here each choice is a value.
//!
//! Further quirks of single simulators are not modelled: a final CNP at the end of the window
//! (htsim), one alpha shared by all flows (htsim), a target rate divided by eight when it is ten
//! times the current one and a timer halved in hyper increase (the paper's authors' ns-3 model).

/// Whether a cut uses alpha from before or after the update that comes at the same instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CutOrder {
    /// `R_C := R_C·(1 − α/2)`, then `α := (1 − g)·α + g`: the paper.
    CutFirst,
    /// The update first: the paper's authors' ns-3 model, and HPCC's.
    AlphaFirst,
}

/// When a CNP lowers the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum CutTiming {
    /// At once, for every CNP: the paper.
    OnCnp,
    /// At the end of the `rate_reduce_monitor_period` it came in, once however many came: NICs.
    /// The periods are counted from the first CNP.
    OnPeriod,
}

/// When a CNP raises alpha.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AlphaUpdate {
    /// With each cut, which also starts the period of `dce_tcp_rtt` anew: the paper.
    OnCut,
    /// Every `dce_tcp_rtt`: up if a CNP came in it, else down. NICs.
    OnPeriod,
}

/// Whether a cut remembers the rate it was made from as the target rate (`R_T := R_C`).
/// NICs say it by two flags, [`clamp_tgt_rate`] and [`clamp_tgt_rate_after_time_inc`].
///
/// [`clamp_tgt_rate`]: super::Params::clamp_tgt_rate
/// [`clamp_tgt_rate_after_time_inc`]: super::Params::clamp_tgt_rate_after_time_inc
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TargetClamp {
    /// Every cut does: the paper.
    Always,
    /// Only the first cut after an increase, by time or by bytes: NICs' default.
    AfterAnyIncrease,
    /// Only the first cut after an increase by bytes: QCN.
    AfterByteIncrease,
}

/// What one of `rpg_byte_reset` is. NVIDIA's text says bytes; 32767 of them would be an increase
/// every 3 µs at 100 Gb/s, and test equipment's 2 MB is 32767 × 64. A byte counter that is off is
/// `rpg_byte_reset` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ByteUnit {
    /// A byte.
    Byte,
    /// 64 bytes.
    SixtyFourBytes,
}

impl ByteUnit {
    /// Bytes of one.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::SixtyFourBytes => 64,
        }
    }
}

/// Whether an increase event counts itself before the stages are compared with F.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StageTest {
    /// The first event after a cut is compared as stage 1: the paper, whose analysis has the
    /// F-th event increase the target already.
    Counted,
    /// As stage 0, so that F events are fast recovery: HPCC's model of the NIC.
    Uncounted,
}

/// Which stages are fast recovery, where the target stays and the rate closes half the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FastRecovery {
    /// `max(T, BC) < F`: the paper.
    BelowF,
    /// `max(T, BC) <= F`: htsim.
    UpToF,
}

/// Which stages are hyper increase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum HyperIncrease {
    /// `min(T, BC) > F`: the paper.
    AboveF,
    /// `min(T, BC) >= F`: the paper's authors' ns-3 model.
    FromF,
}

/// How much one hyper increase adds to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum HyperStep {
    /// `i·R_HAI` in the i-th stage of hyper increase: the paper.
    Growing,
    /// `R_HAI`: HPCC's model of the NIC.
    Constant,
}

/// What the first CNP of a flow does when `rate_to_set_on_first_cnp` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FirstCnp {
    /// It sets alpha and cuts: the paper.
    Cuts,
    /// It sets alpha and starts the periods, no more: HPCC's model of the NIC.
    SetsAlpha,
}

/// Which way round a tool means `dce_tcp_g`. NVIDIA's texts contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum GSense {
    /// `α := (G/1024)·α + (1024 − G)/1024`, the DOCA text, whose default 1019 is g = 5/1024.
    WeightOfOld,
    /// `α := (1 − G/1024)·α + G/1024`, the mstflint text, whose default 64 is g = 1/16.
    WeightOfNew,
}

impl GSense {
    /// The effective g in 1/1024 that `dce_tcp_g` means; and back, for it is its own inverse.
    #[must_use]
    pub const fn convert(self, value: u32) -> u32 {
        match self {
            Self::WeightOfOld => 1024_u32.saturating_sub(value),
            Self::WeightOfNew => value,
        }
    }
}
