use core::net::IpAddr;

use roce_codec::dcqcn::{
    ByteUnit, GSense, Knob, NotificationPoint, ParamError, Params, ReactionPoint, TargetClamp,
    may_cause_cnp,
};
use roce_codec::ib::OpcodeInfo;
use roce_codec::net::Ecn;

crate::instantiate! {
    params_validate(params: &Params) -> Result<(), ParamError> { params.validate() }
    params_get(params: &Params, name: &str) -> Option<u32> { params.get(name) }
    params_set(params: &mut Params, name: &str, value: u32) -> Result<(), ParamError> {
        params.set(name, value)
    }
    params_knob(params: &Params, knob: Knob) -> u32 { params.knob(knob) }
    params_set_knob(params: &mut Params, knob: Knob, value: u32) -> Result<(), ParamError> {
        params.set_knob(knob, value)
    }
    params_dce_tcp_g(params: &Params, sense: GSense) -> u32 { params.dce_tcp_g(sense) }
    params_set_dce_tcp_g(params: &mut Params, value: u32, sense: GSense)
        -> Result<(), ParamError> { params.set_dce_tcp_g(value, sense) }
    params_target_clamp(params: &Params) -> TargetClamp { params.target_clamp() }
    params_set_target_clamp(params: &mut Params, clamp: TargetClamp) -> () {
        params.set_target_clamp(clamp)
    }
    params_byte_reset(params: &Params) -> Option<u64> { params.byte_reset_bytes() }
    byte_unit_bytes(unit: ByteUnit) -> u64 { unit.bytes() }
    g_sense_convert(sense: GSense, value: u32) -> u32 { sense.convert(value) }

    knob_from_name(name: &str) -> Option<Knob> { Knob::from_name(name) }
    knob_mlxconfig_name(knob: Knob) -> &'static str { knob.mlxconfig_name() }
    knob_debugfs_name(knob: Knob) -> &'static str { knob.debugfs_name() }
    knob_unit(knob: Knob) -> &'static str { knob.unit() }
    knob_min(knob: Knob) -> u32 { knob.min() }
    knob_max(knob: Knob) -> u32 { knob.max() }

    np_new() -> NotificationPoint { NotificationPoint::new() }
    np_on_packet(np: &mut NotificationPoint, params: &Params, now_ns: u64, ce: bool) -> bool {
        np.on_packet(params, now_ns, ce)
    }
    np_may_cause_cnp(opcode: &OpcodeInfo, ecn: Ecn, destination: IpAddr) -> bool {
        may_cause_cnp(opcode, ecn, destination)
    }

    rp_new(params: &Params, line_rate_bps: u64) -> ReactionPoint {
        ReactionPoint::new(params, line_rate_bps)
    }
    rp_on_cnp(rp: &mut ReactionPoint, params: &Params, now_ns: u64) -> () {
        rp.on_cnp(params, now_ns)
    }
    rp_on_bytes_sent(rp: &mut ReactionPoint, params: &Params, now_ns: u64, bytes: u32) -> () {
        rp.on_bytes_sent(params, now_ns, bytes)
    }
    rp_on_timeout(rp: &mut ReactionPoint, params: &Params, now_ns: u64) -> () {
        rp.on_timeout(params, now_ns)
    }
    rp_next_timeout(rp: &ReactionPoint) -> Option<u64> { rp.next_timeout() }
    rp_rate(rp: &ReactionPoint) -> u64 { rp.rate_bps() }
    rp_target_rate(rp: &ReactionPoint) -> u64 { rp.target_rate_bps() }
    rp_is_limited(rp: &ReactionPoint) -> bool { rp.is_limited() }
    rp_alpha(rp: &ReactionPoint, params: &Params, now_ns: u64) -> u32 {
        rp.alpha_q31(params, now_ns)
    }
    rp_time_stage(rp: &ReactionPoint) -> u16 { rp.time_stage() }
    rp_byte_stage(rp: &ReactionPoint) -> u16 { rp.byte_stage() }
    rp_gap(rp: &mut ReactionPoint, bytes: u32) -> u64 { rp.gap_ns(bytes) }
}
