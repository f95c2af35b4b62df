//! Random parameters and histories: the integers agree with [`Model`].

use proptest::prelude::*;
use roce_codec::dcqcn::{
    AlphaUpdate, ByteUnit, CutOrder, CutTiming, FastRecovery, FirstCnp, GSense, HyperIncrease,
    HyperStep, Params, ReactionPoint, StageTest,
};

use crate::cases;
use crate::model::Model;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Cnp,
    Sent(u32),
    Tick,
}

prop_compose! {
    fn numbers()(
        rpg_time_reset_us in prop_oneof![1_u32..400, Just(55)],
        rpg_byte_reset in prop_oneof![Just(0), 2_000_u32..200_000],
        rpg_threshold in 0_u32..8,
        rpg_ai_rate_mbps in 1_u32..500,
        rpg_hai_rate_mbps in 1_u32..2_000,
        rpg_gd in prop_oneof![Just(11_u32), 9_u32..13],
        rpg_min_dec_fac_percent in 0_u32..=100,
        rpg_min_rate_mbps in 1_u32..1_000,
        rpg_max_rate_mbps in prop_oneof![Just(0), 1_000_u32..900_000],
        rate_to_set_on_first_cnp_mbps in prop_oneof![3 => Just(0), 1 => 1_u32..100_000],
        g_per_1024 in prop_oneof![Just(4), 1_u32..1_024],
        dce_tcp_rtt_us in 1_u32..100,
        rate_reduce_monitor_period_us in 1_u32..60,
        initial_alpha_value in 1_u32..=1_024,
        clamps in any::<(bool, bool)>(),
    ) -> Params {
        Params {
            rpg_time_reset_us,
            rpg_byte_reset,
            rpg_threshold,
            rpg_ai_rate_mbps,
            rpg_hai_rate_mbps,
            rpg_gd,
            rpg_min_dec_fac_percent,
            rpg_min_rate_mbps,
            rpg_max_rate_mbps,
            rate_to_set_on_first_cnp_mbps,
            g_per_1024,
            g_sense: GSense::WeightOfNew,
            dce_tcp_rtt_us,
            rate_reduce_monitor_period_us,
            initial_alpha_value,
            clamp_tgt_rate: clamps.0,
            clamp_tgt_rate_after_time_inc: clamps.1,
            ..Params::PAPER
        }
    }
}

/// Any valid parameters in ranges where a float keeps up, all choices among them.
pub(crate) fn params() -> impl Strategy<Value = Params> {
    (numbers(), any::<[bool; 9]>()).prop_map(|(numbers, bits)| {
        let [unit, order, timing, alpha, test, recovery, hyper, step, first] = bits;
        Params {
            byte_unit: if unit { ByteUnit::Byte } else { ByteUnit::SixtyFourBytes },
            cut_order: if order { CutOrder::CutFirst } else { CutOrder::AlphaFirst },
            cut_timing: if timing { CutTiming::OnCnp } else { CutTiming::OnPeriod },
            alpha_update: if alpha { AlphaUpdate::OnCut } else { AlphaUpdate::OnPeriod },
            stage_test: if test { StageTest::Counted } else { StageTest::Uncounted },
            fast_recovery: if recovery { FastRecovery::BelowF } else { FastRecovery::UpToF },
            hyper_increase: if hyper { HyperIncrease::AboveF } else { HyperIncrease::FromF },
            hyper_step: if step { HyperStep::Growing } else { HyperStep::Constant },
            first_cnp: if first { FirstCnp::Cuts } else { FirstCnp::SetsAlpha },
            ..numbers
        }
    })
}

/// Events with the time since the one before, in ns; whole microseconds are frequent, so that
/// periods end and events fall on the same instant.
pub(crate) fn history(events: usize) -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        3 => Just(Event::Cnp),
        4 => (1_u32..300_000).prop_map(Event::Sent),
        2 => Just(Event::Tick),
    ];
    let gap = prop_oneof![
        2 => Just(0),
        6 => (0_u64..60).prop_map(|us| us * 1_000),
        4 => 0_u64..100_000,
        1 => 0_u64..3_000_000,
    ];
    prop::collection::vec((gap, event), 1..events)
}

proptest! {
    #![proptest_config(cases())]

    /// Rates agree within 1 part in 10⁶ and 50 b/s, alpha within 10⁻⁶, after up to 80 events with
    /// thousands of timers between them.
    #[test]
    fn agrees_with_the_equations(
        params in params(),
        line_mbps in prop_oneof![Just(800_000_u32), 1_000_u32..800_000],
        history in history(80),
    ) {
        let mut rp = ReactionPoint::new(&params, u64::from(line_mbps) * 1_000_000);
        let mut model = Model::new(&params, f64::from(line_mbps) * 1e6);
        let mut now_ns = 0;
        for (index, &(gap_ns, event)) in history.iter().enumerate() {
            now_ns += gap_ns;
            match event {
                Event::Cnp => {
                    rp.on_cnp(&params, now_ns);
                    model.cnp(now_ns);
                }
                Event::Sent(bytes) => {
                    rp.on_bytes_sent(&params, now_ns, bytes);
                    model.sent(now_ns, u64::from(bytes));
                }
                Event::Tick => {
                    rp.on_timeout(&params, now_ns);
                    model.tick(now_ns);
                }
            }
            let alpha = f64::from(rp.alpha_q31(&params, now_ns)) / f64::from(1_u32 << 31);
            let exact = model.alpha(now_ns);
            prop_assert!((alpha - exact).abs() < 1e-6, "alpha {alpha}, {exact}");
            for (ours, exact) in [(rp.rate_bps(), model.rc), (rp.target_rate_bps(), model.rt)] {
                #[allow(clippy::cast_precision_loss)]
                let off = (ours as f64 - exact).abs();
                prop_assert!(off <= exact * 1e-6 + 50.0, "event {index}: {ours}, {exact}");
            }
        }
    }
}
