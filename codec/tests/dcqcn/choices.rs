//! The choices in which implementations differ. Each test runs one history under every
//! alternative and expects a different result from each, computed by hand.

use roce_codec::dcqcn::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, HyperIncrease, HyperStep,
    Params, ReactionPoint, StageTest, TargetClamp,
};

use crate::{US, at_40g, mbps};

/// The paper, but alpha is 1 and stays 1 for a millisecond, so that each cut halves.
const HALVING: Params = Params { dce_tcp_rtt_us: 1_000, ..Params::PAPER };

/// Alpha ½ and g 1/16: one update makes it ½·15/16 + 1/16 = 17/32.
const HALF: Params = Params { initial_alpha_value: 512, g_per_1024: 64, ..Params::PAPER };

#[test]
fn cut_before_or_after_the_update_of_alpha() {
    for (cut_order, rate_mbps) in [
        (CutOrder::CutFirst, 30_000),   // 40000·(1 − ½/2)
        (CutOrder::AlphaFirst, 29_375), // 40000·(1 − (17/32)/2) = 40000·47/64
    ] {
        let params = Params { cut_order, ..HALF };
        let mut rp = at_40g(&params);
        rp.on_cnp(&params, 0);
        assert_eq!(mbps(&rp).0, rate_mbps, "{cut_order:?}");
        assert_eq!(rp.alpha_q31(&params, 0), (1 << 31) / 32 * 17, "either way after it");
    }
}

#[test]
fn a_cut_at_the_end_of_a_period_of_alpha() {
    // Both periods end at 4 µs. The first CNP starts them, the second asks for cut and raise.
    for (cut_order, rate_mbps) in [
        (CutOrder::CutFirst, 30_000),   // 40000·(1 − ½/2)
        (CutOrder::AlphaFirst, 29_375), // 40000·(1 − (17/32)/2)
    ] {
        let params = Params {
            cut_order,
            cut_timing: CutTiming::OnPeriod,
            alpha_update: AlphaUpdate::OnPeriod,
            first_cnp: FirstCnp::SetsAlpha,
            dce_tcp_rtt_us: 4,
            rate_reduce_monitor_period_us: 4,
            ..HALF
        };
        let mut rp = at_40g(&params);
        rp.on_cnp(&params, 0);
        rp.on_cnp(&params, US);
        rp.on_timeout(&params, 4 * US);
        assert_eq!(mbps(&rp).0, rate_mbps, "{cut_order:?}");
    }
}

#[test]
fn alpha_rises_with_the_cut_or_with_the_period() {
    // Periods of 4 µs, CNPs at 0, 1 and 2 µs, cuts at once; alpha ½, g 1/16.
    // OnCut: 1/2, 17/32 = .53125, then .53125·15/16 + 1/16 = .560546875, .588012695...:
    //   40000·.75 = 30000; ·(1 − .265625) = 22031.25; ·(1 − .2802734375) = 15856.4758...
    // OnPeriod: ½ for all three: 40000·.75³ = 16875; at 4 µs alpha rises once, to 17/32.
    let run = |alpha_update| {
        let params = Params { alpha_update, dce_tcp_rtt_us: 4, ..HALF };
        let mut rp = at_40g(&params);
        for at_ns in [0, US, 2 * US] {
            rp.on_cnp(&params, at_ns);
        }
        let alphas = [3 * US, 4 * US, 8 * US].map(|at_ns| rp.alpha_q31(&params, at_ns));
        (rp.rate_bps(), alphas.map(|alpha| f64::from(alpha) / f64::from(1_u32 << 31)))
    };
    let (rate_bps, alphas) = run(AlphaUpdate::OnCut);
    // 22031.25e6 · 0.7197265625 = 15,856,475,830.08, rounded up
    assert_eq!(rate_bps, 15_856_475_831);
    // .560546875·15/16 + 1/16 = .5880126953125; the period starts at 2 µs, so it falls at 6 µs.
    assert_eq!(alphas[..2], [0.588_012_695_312_5; 2]);
    assert!((alphas[2] - 0.588_012_695_312_5 * 0.9375).abs() < 1e-9);

    let (rate_bps, alphas) = run(AlphaUpdate::OnPeriod);
    assert_eq!(rate_bps, 16_875_000_000);
    // Raised at 4 µs, and at 8 µs 17/32·15/16 = .498046875.
    assert_eq!(alphas, [0.5, 0.53125, 0.498_046_875]);
}

#[test]
fn when_a_cut_sets_the_target() {
    let run = |clamp, by_bytes: bool| {
        let mut params = Params { rpg_byte_reset: 1_000, ..HALVING };
        params.set_target_clamp(clamp);
        let mut rp = at_40g(&params);
        rp.on_cnp(&params, 0);
        assert_eq!(mbps(&rp), (20_000, 40_000));
        rp.on_cnp(&params, 10 * US);
        let second = mbps(&rp);
        if by_bytes {
            rp.on_bytes_sent(&params, 11 * US, 1_000);
        } else {
            rp.on_timeout(&params, 65 * US);
        }
        let increased = mbps(&rp);
        rp.on_cnp(&params, if by_bytes { 12 * US } else { 70 * US });
        [second, increased, mbps(&rp)]
    };
    // Second CNP: no increase since the first, so only Always makes the 20000 it cuts the target.
    // Increase: (20000 + 10000)/2, or (40000 + 10000)/2. Third CNP: half of that.
    let always = [(10_000, 20_000), (15_000, 20_000), (7_500, 15_000)];
    let clamped = [(10_000, 40_000), (25_000, 40_000), (12_500, 25_000)];
    let kept = [(10_000, 40_000), (25_000, 40_000), (12_500, 40_000)];
    for (clamp, after_time) in [
        (TargetClamp::Always, always),
        (TargetClamp::AfterAnyIncrease, clamped),
        (TargetClamp::AfterByteIncrease, kept),
    ] {
        assert_eq!(run(clamp, false), after_time, "{clamp:?}");
    }
    // The same increase by bytes, and no time for one by time.
    for (clamp, after_bytes) in [
        (TargetClamp::Always, always),
        (TargetClamp::AfterAnyIncrease, clamped),
        (TargetClamp::AfterByteIncrease, clamped),
    ] {
        assert_eq!(run(clamp, true), after_bytes, "{clamp:?}");
    }
}

#[test]
fn the_byte_counter_and_its_unit() {
    // After a cut to 20000, 2000 bytes and then 62,000 more, before any time has passed.
    for (rpg_byte_reset, byte_unit, at_2000, at_64000, stage) in [
        // 2 events: (40+20)/2 = 30, 35. At the 64th, long since at line rate: the 5th is
        // additive, and 20000/2^35 is below 1 b/s.
        (1_000, ByteUnit::Byte, 35_000, 40_000, 35),
        // One each 64,000 bytes.
        (1_000, ByteUnit::SixtyFourBytes, 20_000, 30_000, 1),
        (0, ByteUnit::SixtyFourBytes, 20_000, 20_000, 0),
    ] {
        let params = Params { rpg_byte_reset, byte_unit, ..HALVING };
        let mut rp = at_40g(&params);
        rp.on_bytes_sent(&params, 0, 999); // an unlimited flow's bytes do not count
        rp.on_cnp(&params, 0);
        rp.on_bytes_sent(&params, US, 2_000);
        assert_eq!(mbps(&rp).0, at_2000, "{rpg_byte_reset} {byte_unit:?}");
        rp.on_bytes_sent(&params, US, 61_999);
        assert_ne!(mbps(&rp).0, 30_000, "one byte is missing");
        rp.on_bytes_sent(&params, US, 1);
        assert_eq!(mbps(&rp).0, at_64000, "{rpg_byte_reset} {byte_unit:?}");
        assert_eq!((rp.byte_stage(), rp.time_stage()), (stage, 0));
    }
}

#[test]
fn a_cut_forgets_the_bytes_counted() {
    let params = Params { rpg_byte_reset: 1_000, ..HALVING };
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 0);
    rp.on_bytes_sent(&params, US, 999);
    rp.on_cnp(&params, US);
    rp.on_bytes_sent(&params, US, 999);
    assert_eq!(mbps(&rp), (10_000, 20_000));
    rp.on_bytes_sent(&params, US, 1);
    assert_eq!(mbps(&rp), (15_000, 20_000));
}

#[test]
fn cut_on_arrival_or_at_the_end_of_the_period() {
    // CNPs at 0, 1, 2 and 4 µs, each cut a half.
    let run = |cut_timing, first_cnp| {
        let params = Params { cut_timing, first_cnp, rate_reduce_monitor_period_us: 4, ..HALVING };
        let mut rp = at_40g(&params);
        let mut rates = Vec::new();
        for (at_us, cnp) in [(0, true), (1, true), (2, true), (3, false), (4, true), (8, false)] {
            if cnp {
                rp.on_cnp(&params, at_us * US);
            } else {
                rp.on_timeout(&params, at_us * US);
            }
            rates.push(mbps(&rp).0);
        }
        rates
    };
    assert_eq!(run(CutTiming::OnCnp, FirstCnp::Cuts), [20_000, 10_000, 5_000, 5_000, 2_500, 2_500]);
    assert_eq!(
        run(CutTiming::OnCnp, FirstCnp::SetsAlpha),
        [40_000, 20_000, 10_000, 10_000, 5_000, 5_000]
    );
    // One cut at 4 µs for the first three. The CNP at 4 µs comes after it, and is for 8 µs.
    assert_eq!(
        run(CutTiming::OnPeriod, FirstCnp::Cuts),
        [40_000, 40_000, 40_000, 40_000, 20_000, 10_000]
    );
}

#[test]
fn periods_of_cuts_are_counted_from_the_first_cnp() {
    let params = Params {
        cut_timing: CutTiming::OnPeriod,
        first_cnp: FirstCnp::SetsAlpha,
        rate_reduce_monitor_period_us: 4,
        ..HALVING
    };
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 10 * US);
    assert_eq!((mbps(&rp).0, rp.next_timeout()), (40_000, None));
    rp.on_cnp(&params, 23 * US); // ends of periods: 14, 18, 22, 26
    assert_eq!(rp.next_timeout(), Some(26 * US));
    rp.on_timeout(&params, 26 * US - 1);
    assert_eq!(mbps(&rp).0, 40_000);
    rp.on_timeout(&params, 26 * US);
    assert_eq!((mbps(&rp).0, rp.next_timeout()), (20_000, Some(81 * US)));
    rp.on_cnp(&params, 26 * US);
    assert_eq!(rp.next_timeout(), Some(30 * US));
}

/// Rates after each of the first increases by time, from 10000 Mb/s below a target of 20000:
/// two halvings have clamped it there. R_AI is 1000, R_HAI 4000.
fn climb(params: &Params, increases: u64) -> Vec<u64> {
    let mut rp = at_40g(params);
    rp.on_cnp(params, 0);
    rp.on_cnp(params, 0);
    assert_eq!(mbps(&rp), (10_000, 20_000));
    let after = (1..=increases).map(|i| {
        rp.on_timeout(params, i * 55 * US);
        rp.rate_bps() / 1_000_000
    });
    after.collect()
}

const STEEP: Params = Params { rpg_ai_rate_mbps: 1_000, rpg_hai_rate_mbps: 4_000, ..HALVING };

#[test]
fn where_fast_recovery_ends() {
    // F 2. The byte counter is on and never fires, so that there is no hyper increase.
    for (stage_test, fast_recovery, rates) in [
        // Stage 1 recovers: 15000. Stage 2: target 21000, 18000. Stage 3: 22000, 20000.
        (StageTest::Counted, FastRecovery::BelowF, [15_000, 18_000, 20_000, 21_500]),
        // Stages 1, 2 recover: 15000, 17500. Stage 3: 21000, 19250. Stage 4: 22000, 20625.
        (StageTest::Counted, FastRecovery::UpToF, [15_000, 17_500, 19_250, 20_625]),
        // The same two events, as stages 0 and 1.
        (StageTest::Uncounted, FastRecovery::BelowF, [15_000, 17_500, 19_250, 20_625]),
        // Three: 18750. Then 21000, 19875.
        (StageTest::Uncounted, FastRecovery::UpToF, [15_000, 17_500, 18_750, 19_875]),
    ] {
        let params = Params { rpg_threshold: 2, stage_test, fast_recovery, ..STEEP };
        assert_eq!(climb(&params, 4), rates, "{stage_test:?} {fast_recovery:?}");
    }
}

#[test]
fn where_hyper_increase_begins_and_how_it_grows() {
    use FastRecovery::{BelowF, UpToF};
    use HyperIncrease::{AboveF, FromF};
    use HyperStep::{Constant, Growing};
    use StageTest::{Counted, Uncounted};
    // F 1, no byte counter, so that time alone decides.
    for (stage_test, fast_recovery, hyper_increase, hyper_step, rates) in [
        // Stage 1 adds 1000: 21000, 15500. Stage 2 adds 1·4000: 25000, 20250. Stage 3 adds
        // 2·4000: 33000, 26625; or 4000: 29000, 24625.
        (Counted, BelowF, AboveF, Growing, [15_500, 20_250, 26_625]),
        (Counted, BelowF, AboveF, Constant, [15_500, 20_250, 24_625]),
        // Stage 1 adds 4000: 24000, 17000. Stage 2 adds 8000: 32000, 24500; or 4000: 28000,
        // 22500. Stage 3 adds 12000, to line rate: 40000, 32250; or 4000: 32000, 27250.
        (Counted, BelowF, FromF, Growing, [17_000, 24_500, 32_250]),
        (Counted, BelowF, FromF, Constant, [17_000, 22_500, 27_250]),
        // Stage 0 recovers: 15000. Stage 1 adds 1000: 21000, 18000. Stage 2 adds 4000: 25000,
        // 21500. HPCC's model of the NIC.
        (Uncounted, BelowF, AboveF, Constant, [15_000, 18_000, 21_500]),
        // Stage 1 recovers: 15000. Stage 2 adds 4000: 24000, 19500. Stage 3 adds 8000: 32000,
        // 25750.
        (Counted, UpToF, AboveF, Growing, [15_000, 19_500, 25_750]),
    ] {
        let params = Params {
            rpg_byte_reset: 0,
            rpg_threshold: 1,
            stage_test,
            fast_recovery,
            hyper_increase,
            hyper_step,
            ..STEEP
        };
        assert_eq!(
            climb(&params, 3),
            rates,
            "{stage_test:?} {fast_recovery:?} {hyper_increase:?} {hyper_step:?}"
        );
    }
}

#[test]
fn hyper_increase_needs_both_counters_where_there_are_two() {
    // F 1: stages T 1, 2, 3 without bytes are additive: 21000, 15500; 22000, 18750; 23000, 20875.
    let params = Params { rpg_threshold: 1, ..STEEP };
    assert_eq!(climb(&params, 3), [15_500, 18_750, 20_875]);
    // T 1, then BC 1 and 2: additive, additive (min is 1), and T 2: hyper by 1·4000.
    let params = Params { rpg_byte_reset: 1_000, ..params };
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 0);
    rp.on_cnp(&params, 0);
    rp.on_timeout(&params, 55 * US);
    rp.on_bytes_sent(&params, 56 * US, 2_000);
    let rates = |rp: &ReactionPoint| (rp.rate_bps() / 1_000_000, rp.target_rate_bps() / 1_000_000);
    assert_eq!(rates(&rp), (20_875, 23_000));
    rp.on_timeout(&params, 110 * US);
    assert_eq!(rates(&rp), (23_937, 27_000)); // 23937.5
}

#[test]
fn the_first_cnp() {
    // It cuts, it only sets alpha, or it sets a rate; the second one cuts in any case.
    for (first_cnp, rate, first, second) in [
        (FirstCnp::Cuts, 0, (20_000, 40_000), (10_000, 20_000)),
        (FirstCnp::SetsAlpha, 0, (40_000, 40_000), (20_000, 40_000)),
        (FirstCnp::Cuts, 8_000, (8_000, 8_000), (4_000, 8_000)),
        (FirstCnp::SetsAlpha, 8_000, (8_000, 8_000), (4_000, 8_000)),
    ] {
        let params = Params { first_cnp, rate_to_set_on_first_cnp_mbps: rate, ..HALVING };
        let mut rp = at_40g(&params);
        rp.on_cnp(&params, 7);
        assert_eq!(mbps(&rp), first);
        let timeout = (first.0 < 40_000).then_some(7 + 55 * US);
        assert_eq!(rp.next_timeout(), timeout);
        rp.on_cnp(&params, 8);
        assert_eq!(mbps(&rp), second);
    }
}

#[test]
fn gd_and_the_least_share() {
    // Alpha 1, 1/1024 steps: a cut of 1024/2^gd, kept above the share.
    for (rpg_gd, share, rate_mbps) in [
        (11, 50, 20_000),  // half
        (12, 50, 30_000),  // a quarter
        (10, 50, 20_000),  // all of it, but half is kept
        (10, 25, 10_000),  // a quarter is kept
        (7, 10, 4_000),    // eight times all of it
        (10, 0, 1),        // nothing is kept but the least rate
        (11, 100, 40_000), // no cut at all
    ] {
        let params = Params { rpg_gd, rpg_min_dec_fac_percent: share, ..HALVING };
        let mut rp = at_40g(&params);
        rp.on_cnp(&params, 0);
        assert_eq!(mbps(&rp).0, rate_mbps, "gd {rpg_gd}, {share} %");
    }
}
