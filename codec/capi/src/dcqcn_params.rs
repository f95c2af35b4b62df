//! DCQCN's parameters.

use core::ffi::c_char;

use roce_codec::dcqcn::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, GSense, HyperIncrease,
    HyperStep, Params, StageTest,
};
use zerocopy::FromBytes;

use crate::pointer;
use crate::status::roce_status;

/// A set of parameters to start from.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_dcqcn_profile {
    /// The SIGCOMM 2015 paper.
    Paper = 0,
    /// What ConnectX NICs report.
    Mlx5 = 1,
}

/// The parameters of a port, under the names of mlx5 tools. Values out of range are taken as the
/// nearest within; flags and choices must be those named.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_dcqcn_params {
    /// Time between increases, 1 to 131071 us.
    pub rpg_time_reset_us: u32,
    /// Bytes sent between increases in `byte_unit`; 0 for no byte counter.
    pub rpg_byte_reset: u32,
    /// Stages of fast recovery, 0 to 31.
    pub rpg_threshold: u32,
    /// Additive increase, Mb/s, at least 1.
    pub rpg_ai_rate_mbps: u32,
    /// Hyper increase, Mb/s, at least 1.
    pub rpg_hai_rate_mbps: u32,
    /// A cut is rate times alpha (in 1/1024) over two to this power: 11 is half of alpha.
    pub rpg_gd: u32,
    /// A cut leaves at least this share of the rate, 0 to 100 %.
    pub rpg_min_dec_fac_percent: u32,
    /// The least rate, Mb/s, at least 1.
    pub rpg_min_rate_mbps: u32,
    /// The greatest rate, Mb/s; 0 is that of the port.
    pub rpg_max_rate_mbps: u32,
    /// Rate after a flow's first CNP, Mb/s; 0 is off.
    pub rate_to_set_on_first_cnp_mbps: u32,
    /// Gain of alpha in 1/1024, 1 to 1023.
    pub g_per_1024: u32,
    /// Period of alpha's updates, 1 to 131071 us.
    pub dce_tcp_rtt_us: u32,
    /// Period of the cuts, 1 to 131071 us.
    pub rate_reduce_monitor_period_us: u32,
    /// Alpha from the first CNP on, in 1/1024, 1 to 1024.
    pub initial_alpha_value: u32,
    /// Least time between two CNPs of a flow, 0 to 131071 us.
    pub min_time_between_cnps_us: u32,
    /// DSCP of a CNP, 0 to 63.
    pub cnp_dscp: u32,
    /// 802.1p priority of a CNP, 0 to 7.
    pub cnp_802p_prio: u32,
    /// 1: every cut sets the target rate.
    pub clamp_tgt_rate: u8,
    /// 1: a cut after an increase by time does.
    pub clamp_tgt_rate_after_time_inc: u8,
    /// How `DCE_TCP_G` is meant in `roce_dcqcn_set`: 0 is alpha's old weight, 1 the new one's.
    pub g_sense: u8,
    /// One of `rpg_byte_reset` is: 0 a byte, 1 64 bytes.
    pub byte_unit: u8,
    /// 0: cut, then update alpha; 1: the other way round.
    pub cut_order: u8,
    /// 0: each CNP cuts at once; 1: once at the end of a period.
    pub cut_timing: u8,
    /// 0: alpha is raised with each cut; 1: every period in which a CNP came.
    pub alpha_update: u8,
    /// 0: an increase counts itself in its stage; 1: it does not.
    pub stage_test: u8,
    /// 0: stages below the threshold are fast recovery; 1: up to it.
    pub fast_recovery: u8,
    /// 0: stages above the threshold are hyper increase; 1: from it on.
    pub hyper_increase: u8,
    /// 0: the i-th hyper increase adds i times its rate; 1: once.
    pub hyper_step: u8,
    /// 0: the first CNP cuts; 1: it sets alpha and no more.
    pub first_cnp: u8,
}

/// Fills `params` with a `roce_dcqcn_profile`.
///
/// # Safety
/// `params` is NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_dcqcn_init(
    params: *mut roce_dcqcn_params,
    profile: u32,
) -> roce_status {
    let value = if profile == roce_dcqcn_profile::Paper as u32 {
        Params::PAPER
    } else if profile == roce_dcqcn_profile::Mlx5 as u32 {
        Params::MLX5
    } else {
        return roce_status::BadArgument;
    };
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::write(params, (&value).into()) };
    result.err().unwrap_or(roce_status::Ok)
}

/// Sets the parameter of that name, as mlxconfig (`RPG_AI_RATE`) or debugfs (`rp_ai_rate`) has it;
/// `ROCE_STATUS_BAD_ARGUMENT` if there is none or `value` is out of its range.
///
/// # Safety
/// `params` is NULL or valid; `name` is NULL or points to a string with its NUL.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_dcqcn_set(
    params: *mut roce_dcqcn_params,
    name: *const c_char,
    value: u32,
) -> roce_status {
    let set = || -> Result<(), roce_status> {
        let mut buffer = [0; 48];
        // SAFETY: valid up to its NUL by the caller's word.
        let name = unsafe { pointer::string(name, &mut buffer) }?;
        // SAFETY: valid by the caller's word.
        let mut changed = Params::try_from(&unsafe { pointer::read(params) }?)?;
        changed.set(name, value).map_err(|_| roce_status::BadArgument)?;
        // SAFETY: valid by the caller's word; `name` is a copy.
        unsafe { pointer::write(params, (&changed).into()) }
    };
    set().err().unwrap_or(roce_status::Ok)
}

/// `ROCE_STATUS_OK` if all parameters are in range.
///
/// # Safety
/// `params` is NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_dcqcn_check(params: *const roce_dcqcn_params) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::read(params) }.and_then(|params| {
        let params = Params::try_from(&params)?;
        params.validate().map_err(|_| roce_status::BadArgument)
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Every field once: numbers, flags, and choices with the value for 0 and that for 1.
macro_rules! fields {
    (numbers $($number:ident)*; flags $($flag:ident)*; choices $($choice:ident: $type:ident $zero:ident $one:ident;)*) => {
        impl From<&Params> for roce_dcqcn_params {
            fn from(from: &Params) -> Self {
                Self {
                    $($number: from.$number,)*
                    $($flag: from.$flag.into(),)*
                    $($choice: match from.$choice { $type::$zero => 0, $type::$one => 1 },)*
                }
            }
        }

        impl TryFrom<&roce_dcqcn_params> for Params {
            type Error = roce_status;

            fn try_from(from: &roce_dcqcn_params) -> Result<Self, roce_status> {
                Ok(Self {
                    $($number: from.$number,)*
                    $($flag: match from.$flag {
                        0 => false,
                        1 => true,
                        _ => return Err(roce_status::BadArgument),
                    },)*
                    $($choice: match from.$choice {
                        0 => $type::$zero,
                        1 => $type::$one,
                        _ => return Err(roce_status::BadArgument),
                    },)*
                })
            }
        }
    };
}

fields! {
    numbers rpg_time_reset_us rpg_byte_reset rpg_threshold rpg_ai_rate_mbps rpg_hai_rate_mbps
        rpg_gd rpg_min_dec_fac_percent rpg_min_rate_mbps rpg_max_rate_mbps
        rate_to_set_on_first_cnp_mbps g_per_1024 dce_tcp_rtt_us rate_reduce_monitor_period_us
        initial_alpha_value min_time_between_cnps_us cnp_dscp cnp_802p_prio;
    flags clamp_tgt_rate clamp_tgt_rate_after_time_inc;
    choices
        g_sense: GSense WeightOfOld WeightOfNew;
        byte_unit: ByteUnit Byte SixtyFourBytes;
        cut_order: CutOrder CutFirst AlphaFirst;
        cut_timing: CutTiming OnCnp OnPeriod;
        alpha_update: AlphaUpdate OnCut OnPeriod;
        stage_test: StageTest Counted Uncounted;
        fast_recovery: FastRecovery BelowF UpToF;
        hyper_increase: HyperIncrease AboveF FromF;
        hyper_step: HyperStep Growing Constant;
        first_cnp: FirstCnp Cuts SetsAlpha;
}
