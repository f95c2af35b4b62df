//! It does not matter when or how often it is called.

use proptest::prelude::*;
use roce_codec::dcqcn::{HyperStep, Params, ReactionPoint};

use crate::oracle::{Event, history, params};
use crate::{GBPS, MBPS, US, at_40g, cases};

fn visible(rp: &ReactionPoint, params: &Params, now_ns: u64) -> impl PartialEq + std::fmt::Debug {
    (
        rp.rate_bps(),
        rp.target_rate_bps(),
        rp.alpha_q31(params, now_ns),
        (rp.time_stage(), rp.byte_stage()),
        rp.next_timeout(),
    )
}

/// Calls it at every single timeout up to `now_ns`.
fn step(rp: &mut ReactionPoint, params: &Params, now_ns: u64) -> u64 {
    let mut steps = 0;
    while let Some(at_ns) = rp.next_timeout().filter(|&at_ns| at_ns <= now_ns) {
        rp.on_timeout(params, at_ns);
        steps += 1;
    }
    steps
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn late_timeouts_are_made_up_for_exactly(
        params in params(),
        line_mbps in 1_000_u32..800_000,
        history in history(60),
        idle_ns in prop_oneof![Just(0), 0_u64..2_000_000_000],
    ) {
        let mut late = ReactionPoint::new(&params, u64::from(line_mbps) * MBPS);
        let mut prompt = late;
        let mut now_ns = 0;
        let idle = [(idle_ns, Event::Tick), (0, Event::Cnp), (idle_ns, Event::Tick)];
        for (gap_ns, event) in history.into_iter().chain(idle) {
            now_ns += gap_ns;
            step(&mut prompt, &params, now_ns);
            // And at times when nothing is due.
            prompt.on_timeout(&params, now_ns);
            match event {
                Event::Cnp => {
                    late.on_cnp(&params, now_ns);
                    prompt.on_cnp(&params, now_ns);
                }
                Event::Sent(bytes) => {
                    late.on_bytes_sent(&params, now_ns, bytes);
                    // Byte by byte would be slow; in uneven pieces.
                    for piece in [bytes / 3, bytes / 7, bytes - bytes / 3 - bytes / 7] {
                        prompt.on_bytes_sent(&params, now_ns, piece);
                    }
                }
                Event::Tick => late.on_timeout(&params, now_ns),
            }
            prop_assert_eq!(
                visible(&late, &params, now_ns),
                visible(&prompt, &params, now_ns),
                "at {} ns", now_ns
            );
        }
    }

    #[test]
    fn time_that_goes_back_stands_still(
        params in params(),
        history in history(40),
        back_ns in 0_u64..1_000_000,
    ) {
        let mut there = ReactionPoint::new(&params, 100 * GBPS);
        let mut back = there;
        let mut now_ns = 0;
        for (gap_ns, event) in history {
            now_ns += gap_ns;
            there.on_timeout(&params, now_ns);
            back.on_timeout(&params, now_ns);
            let earlier_ns = now_ns.saturating_sub(back_ns);
            match event {
                Event::Cnp => {
                    there.on_cnp(&params, now_ns);
                    back.on_cnp(&params, earlier_ns);
                }
                Event::Sent(bytes) => {
                    there.on_bytes_sent(&params, now_ns, bytes);
                    back.on_bytes_sent(&params, earlier_ns, bytes);
                }
                Event::Tick => back.on_timeout(&params, earlier_ns),
            }
            prop_assert_eq!(back, there);
            prop_assert_eq!(
                back.alpha_q31(&params, earlier_ns),
                there.alpha_q31(&params, now_ns)
            );
        }
    }
}

/// An hour of silence at the slowest climb there is: 1 Mb/s each 300 µs to 800 Gb/s takes 240 s and
/// 800,000 increases, which one call makes up for.
#[test]
fn a_long_silence_is_one_calculation() {
    let slow = Params {
        rpg_ai_rate_mbps: 1,
        rpg_hai_rate_mbps: 1,
        rpg_time_reset_us: 300,
        clamp_tgt_rate: true,
        ..Params::PAPER
    };
    let constant = Params { hyper_step: HyperStep::Constant, rpg_byte_reset: 0, ..slow };
    let growing = Params { rpg_byte_reset: 0, ..slow };
    for (params, least_steps, most_steps) in
        // Growing: the target is there after n(n + 1)/2 Mb/s, n about 1265.
        [(slow, 700_000, 800_100), (constant, 700_000, 800_100), (growing, 1_100, 1_350)]
    {
        let mut start = ReactionPoint::new(&params, 800 * GBPS);
        for _ in 0..20 {
            start.on_cnp(&params, 0);
        }
        assert_eq!(start.rate_bps(), MBPS);
        let mut stepped = start;
        let hour_ns = 3_600_000_000 * US;
        let mut calls = Vec::new();
        for part_ns in [hour_ns / 200_000, hour_ns / 50, hour_ns] {
            let mut late = start;
            late.on_timeout(&params, part_ns);
            calls.push(step(&mut stepped, &params, part_ns));
            assert_eq!(visible(&late, &params, part_ns), visible(&stepped, &params, part_ns));
        }
        let steps: u64 = calls.iter().sum();
        assert!((least_steps..most_steps).contains(&steps), "{steps}");
        assert_eq!((stepped.rate_bps(), stepped.next_timeout()), (800 * GBPS, None));
        // Silences of five centuries: 20,000 of them would not end if each took all its steps.
        for _ in 0..20_000 {
            let mut late = start;
            late.on_timeout(&params, u64::MAX);
            assert_eq!(late.next_timeout(), None);
        }
    }
}

#[test]
fn an_increase_at_the_instant_of_a_cnp_comes_first() {
    let params = Params { dce_tcp_rtt_us: 1_000, ..Params::PAPER };
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 0);
    rp.on_cnp(&params, 55 * US);
    // (40 + 20)/2 = 30, and half of it; the other way round it would be 10, and 15 afterwards.
    assert_eq!((rp.rate_bps(), rp.target_rate_bps()), (15 * GBPS, 30 * GBPS));
    assert_eq!(rp.next_timeout(), Some(110 * US));
}
