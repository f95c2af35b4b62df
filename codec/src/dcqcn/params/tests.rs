use super::*;

/// Typed from dumps of three NICs: mlxconfig name, the kernel's name, default, unit.
const MLX5: [(&str, &str, u32, &str); 19] = [
    ("CLAMP_TGT_RATE", "rp_clamp_tgt_rate", 0, "flag"),
    ("CLAMP_TGT_RATE_AFTER_TIME_INC", "rp_clamp_tgt_rate_ati", 1, "flag"),
    ("RPG_TIME_RESET", "rp_time_reset", 300, "us"),
    ("RPG_BYTE_RESET", "rp_byte_reset", 32767, "byte units"),
    ("RPG_THRESHOLD", "rp_threshold", 1, "stages"),
    ("RPG_MAX_RATE", "rp_max_rate", 0, "Mb/s"),
    ("RPG_AI_RATE", "rp_ai_rate", 5, "Mb/s"),
    ("RPG_HAI_RATE", "rp_hai_rate", 50, "Mb/s"),
    ("RPG_GD", "rp_gd", 11, "log2"),
    ("RPG_MIN_DEC_FAC", "rp_min_dec_fac", 50, "%"),
    ("RPG_MIN_RATE", "rp_min_rate", 1, "Mb/s"),
    ("RATE_TO_SET_ON_FIRST_CNP", "rp_rate_to_set_on_first_cnp", 0, "Mb/s"),
    ("DCE_TCP_G", "rp_dce_tcp_g", 1019, "1/1024"),
    ("DCE_TCP_RTT", "rp_dce_tcp_rtt", 1, "us"),
    ("RATE_REDUCE_MONITOR_PERIOD", "rp_rate_reduce_monitor_period", 4, "us"),
    ("INITIAL_ALPHA_VALUE", "rp_initial_alpha_value", 1023, "1/1024"),
    ("MIN_TIME_BETWEEN_CNPS", "np_min_time_between_cnps", 2, "us"),
    ("CNP_DSCP", "np_cnp_dscp", 48, "DSCP"),
    ("CNP_802P_PRIO", "np_cnp_prio", 6, "priority"),
];

#[test]
fn the_nic_profile_reads_as_a_nic_does() {
    for ((mlxconfig, debugfs, value, unit), knob) in MLX5.into_iter().zip(Knob::ALL) {
        assert_eq!(knob.mlxconfig_name(), mlxconfig);
        assert_eq!(knob.debugfs_name(), debugfs);
        assert_eq!(knob.unit(), unit);
        for name in [mlxconfig, debugfs] {
            assert_eq!(Params::MLX5.get(name), Some(value), "{name}");
        }
        assert_eq!(Params::MLX5.get(&format!("{mlxconfig}_P1")), Some(value));
        assert_eq!(Params::MLX5.get(&mlxconfig.to_lowercase()), Some(value));
    }
}

#[test]
fn both_profiles_are_valid() {
    assert_eq!(Params::PAPER.validate(), Ok(()));
    assert_eq!(Params::MLX5.validate(), Ok(()));
}

#[test]
fn each_knob_sets_its_own_field_and_refuses_what_is_beyond() {
    for (index, knob) in Knob::ALL.into_iter().enumerate() {
        let (min, max) = (knob.min(), knob.max());
        for value in [min, max] {
            let mut params = Params::MLX5;
            assert_eq!(params.set(knob.mlxconfig_name(), value), Ok(()), "{knob}");
            for (other, (name, _, default, _)) in MLX5.into_iter().enumerate() {
                let expected = if other == index { value } else { default };
                assert_eq!(params.get(name), Some(expected), "{knob} = {value}: {name}");
            }
            assert_eq!(params.set(knob.debugfs_name(), value), Ok(()));
        }
        for value in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
            let mut params = Params::MLX5;
            let error = ParamError::OutOfRange { knob, value, min, max };
            assert_eq!(params.set(knob.mlxconfig_name(), value), Err(error));
            assert_eq!(params, Params::MLX5);
        }
    }
}

#[test]
fn errors_name_field_value_and_range() {
    let mut params = Params::MLX5;
    let error = params.set("rp_gd", 16).unwrap_err();
    assert_eq!(error.to_string(), "RPG_GD is 16, allowed are 0 to 15 (log2)");
    let error = params.set("rpg_ai", 5).unwrap_err();
    assert_eq!(error.to_string(), "no DCQCN parameter has this name");
    assert_eq!(params.get("rpg_ai"), None);

    params.rpg_threshold = 32;
    let range = ParamError::OutOfRange { knob: Knob::RpgThreshold, value: 32, min: 0, max: 31 };
    assert_eq!(params.validate(), Err(range));

    let params = Params { rpg_min_rate_mbps: 11, rpg_max_rate_mbps: 10, ..Params::PAPER };
    assert_eq!(
        params.validate().unwrap_err().to_string(),
        "RPG_MIN_RATE is 11 Mb/s, above RPG_MAX_RATE, 10 Mb/s"
    );
}

#[test]
fn g_either_way_round() {
    // DOCA: 1019 weighs the old value, so g is 5/1024. mstflint: 64 is g itself, 1/16.
    assert_eq!(Params::MLX5.dce_tcp_g(GSense::WeightOfOld), 1019);
    assert_eq!(Params::MLX5.dce_tcp_g(GSense::WeightOfNew), 5);
    let mut params = Params::PAPER;
    assert_eq!(params.set_dce_tcp_g(64, GSense::WeightOfNew), Ok(()));
    assert_eq!((params.g_per_1024, params.get("DCE_TCP_G")), (64, Some(960)));
    params.g_sense = GSense::WeightOfNew;
    assert_eq!(params.get("DCE_TCP_G"), Some(64));
    assert_eq!(params.set("DCE_TCP_G", 1019), Ok(()));
    assert_eq!(params.g_per_1024, 1019);
    // 0 and 1024 would be an alpha that never moves or never remembers.
    for value in [0, 1024] {
        assert!(params.set("DCE_TCP_G", value).is_err());
        assert!(params.set_dce_tcp_g(value, GSense::WeightOfOld).is_err());
        assert!(Params { g_per_1024: value, ..Params::PAPER }.validate().is_err());
    }
}

#[test]
fn two_flags_say_when_the_target_is_clamped() {
    use TargetClamp::{AfterAnyIncrease, AfterByteIncrease, Always};
    for (flags, clamp) in [
        ((1, 1), Always),
        ((1, 0), Always),
        ((0, 1), AfterAnyIncrease),
        ((0, 0), AfterByteIncrease),
    ] {
        let mut params = Params::PAPER;
        params.set("clamp_tgt_rate", flags.0).unwrap();
        params.set("clamp_tgt_rate_after_time_inc", flags.1).unwrap();
        assert_eq!(params.target_clamp(), clamp);
        params.set_target_clamp(clamp);
        assert_eq!(params.target_clamp(), clamp);
    }
}

#[test]
fn the_byte_counter_has_a_unit_and_may_be_off() {
    assert_eq!(Params::PAPER.byte_reset_bytes(), Some(10_000_000));
    // 32767 · 64
    assert_eq!(Params::MLX5.byte_reset_bytes(), Some(2_097_088));
    let bytes = Params { byte_unit: ByteUnit::Byte, ..Params::MLX5 };
    assert_eq!(bytes.byte_reset_bytes(), Some(32_767));
    assert_eq!(Params { rpg_byte_reset: 0, ..bytes }.byte_reset_bytes(), None);
}
