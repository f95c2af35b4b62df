//! Nothing overflows and nothing leaves its range, whatever comes.

use proptest::prelude::*;
use roce_codec::dcqcn::{GSense, Knob, NotificationPoint, Params, ReactionPoint};

use crate::oracle::params;
use crate::{GBPS, MBPS, US, at_40g, cases};

#[test]
fn state_is_small() {
    assert!(size_of::<NotificationPoint>() <= 16);
    assert!(size_of::<ReactionPoint>() <= 88);
}

/// Parameters as a tool without checks might leave them.
fn unchecked() -> impl Strategy<Value = Params> {
    let value = prop_oneof![Just(0), Just(u32::MAX), any::<u32>(), 0_u32..2_000];
    (params(), prop::collection::vec(value, 17)).prop_map(|(choices, values)| Params {
        rpg_time_reset_us: values[0],
        rpg_byte_reset: values[1],
        rpg_threshold: values[2],
        rpg_ai_rate_mbps: values[3],
        rpg_hai_rate_mbps: values[4],
        rpg_gd: values[5],
        rpg_min_dec_fac_percent: values[6],
        rpg_min_rate_mbps: values[7],
        rpg_max_rate_mbps: values[8],
        rate_to_set_on_first_cnp_mbps: values[9],
        g_per_1024: values[10],
        g_sense: if values[10] & 1 == 0 { GSense::WeightOfOld } else { GSense::WeightOfNew },
        dce_tcp_rtt_us: values[11],
        rate_reduce_monitor_period_us: values[12],
        initial_alpha_value: values[13],
        min_time_between_cnps_us: values[14],
        cnp_dscp: values[15],
        cnp_802p_prio: values[16],
        ..choices
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn rates_and_alpha_stay_in_range(
        params in unchecked(),
        line_bps in prop_oneof![Just(0), Just(u64::MAX), Just(800 * GBPS), any::<u64>()],
        calls in prop::collection::vec((0_u8..4, any::<u64>(), 0_u32..64, any::<u32>()), 1..60),
    ) {
        let mut rp = ReactionPoint::new(&params, line_bps);
        let mut np = NotificationPoint::new();
        let most_bps = u64::from(Params::MAX_RATE_MBPS) * MBPS;
        let max_bps = rp.rate_bps();
        prop_assert!((MBPS..=most_bps).contains(&max_bps));
        let min_bps = (u64::from(params.rpg_min_rate_mbps.max(1)) * MBPS).min(max_bps);
        let mut now_ns: u64 = 0;
        for (call, time, shift, bytes) in calls {
            now_ns = now_ns.saturating_add(time >> shift);
            match call {
                0 => rp.on_cnp(&params, now_ns),
                1 => rp.on_bytes_sent(&params, now_ns, bytes),
                2 => rp.on_timeout(&params, now_ns),
                _ => {
                    let _ = np.on_packet(&params, time, bytes & 1 == 1);
                    now_ns = time; // it may go back
                }
            }
            prop_assert!((min_bps..=max_bps).contains(&rp.rate_bps()), "{}", rp.rate_bps());
            prop_assert!((rp.rate_bps()..=max_bps).contains(&rp.target_rate_bps()));
            prop_assert!(rp.alpha_q31(&params, now_ns) <= 1 << 31);
            prop_assert_eq!(rp.is_limited(), rp.rate_bps() < max_bps);
            let _ = rp.gap_ns(bytes);
        }
    }

    #[test]
    fn a_valid_set_is_taken_at_its_word(params in params()) {
        prop_assert_eq!(params.validate().is_ok(), params.rpg_max_rate_mbps == 0
            || params.rpg_min_rate_mbps <= params.rpg_max_rate_mbps);
        let mut copy = Params { g_sense: params.g_sense, ..params };
        for knob in Knob::ALL {
            prop_assert_eq!(copy.set(knob.debugfs_name(), params.knob(knob)), Ok(()));
        }
        prop_assert_eq!(copy, params);
    }

    /// The sum of gaps is the time the bytes take, however the packets are cut.
    #[test]
    fn gaps_add_up(
        line_mbps in 1_u32..=4_000_000,
        sizes in prop::collection::vec(prop_oneof![1_u32..10_000, any::<u32>()], 1..500),
    ) {
        let mut rp = ReactionPoint::new(&Params::PAPER, u64::from(line_mbps) * MBPS);
        let (mut gaps_ns, mut bytes) = (0_u128, 0_u128);
        for &size in &sizes {
            gaps_ns += u128::from(rp.gap_ns(size));
            bytes += u128::from(size.min(u32::MAX >> 1));
        }
        let exact_ns = bytes * 8_000 / u128::from(line_mbps);
        prop_assert!(gaps_ns <= exact_ns && exact_ns - gaps_ns <= 1, "{} {}", gaps_ns, exact_ns);
    }
}

#[test]
fn gaps_by_hand() {
    // 64 bytes at 800 Gb/s are 0.64 ns: rounding each would send at half or at infinite speed.
    let mut rp = ReactionPoint::new(&Params::PAPER, 800 * GBPS);
    let gaps: Vec<_> = (0..8).map(|_| rp.gap_ns(64)).collect();
    // Sums 0.64, 1.28, 1.92, 2.56, 3.20, 3.84, 4.48, 5.12
    assert_eq!(gaps, [0, 1, 0, 1, 1, 0, 1, 1]);
    let total_ns: u64 = (8..1_000_000).map(|_| rp.gap_ns(64)).sum();
    assert_eq!(total_ns, 640_000 - 5 - 1); // a millionth of a nanosecond short, each time
    // 4 KiB at 1 Mb/s: 32,768 µs.
    assert_eq!(ReactionPoint::new(&Params::PAPER, MBPS).gap_ns(4_096), 32_768_000);
}

#[test]
fn the_greatest_rate_is_the_lower_of_port_and_parameter() {
    for (rpg_max_rate_mbps, expected) in [(0, 40 * GBPS), (25_000, 25 * GBPS), (50_000, 40 * GBPS)]
    {
        let params = Params { rpg_max_rate_mbps, ..Params::PAPER };
        assert_eq!(at_40g(&params).rate_bps(), expected);
    }
}

#[test]
fn the_least_rate_holds() {
    let params = Params { rpg_min_rate_mbps: 100, ..Params::PAPER };
    let mut rp = at_40g(&params);
    let mut rates = Vec::new();
    for i in 0..20 {
        rp.on_cnp(&params, i * US);
        rates.push(rp.rate_bps());
    }
    // 40000/2^8 = 156.25, and then not 78.125.
    assert_eq!((rates[7], rates[8], rates[19]), (156_250_000, 100 * MBPS, 100 * MBPS));
}

/// Alpha falls to nothing and no further, rises to 1 and no further.
#[test]
fn alpha_has_its_ends() {
    let params = Params { rpg_min_rate_mbps: 1, ..Params::PAPER };
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 0);
    assert_eq!(rp.alpha_q31(&params, 0), 1 << 31);
    assert_eq!(rp.alpha_q31(&params, u64::MAX), 0);
    // From nothing, a hundred years on: each CNP adds a 256th of what is missing.
    let century_ns = 100 * 365 * 86_400_000_000 * US;
    rp.on_cnp(&params, century_ns);
    assert_eq!((rp.rate_bps(), rp.alpha_q31(&params, century_ns)), (40 * GBPS, 1 << 23));
    for _ in 0..10_000 {
        rp.on_cnp(&params, century_ns);
    }
    let alpha = rp.alpha_q31(&params, century_ns);
    assert!((1 << 31) - alpha < 256, "{alpha}");
}
