//! Histories worked out by hand.

use roce_codec::dcqcn::{Params, ReactionPoint};

use crate::{GBPS, US, at_40g};

/// Rates are whole bits a second, rounded up by increases: a sequence of a dozen may be 2 b/s off.
#[track_caller]
fn near(rate_bps: u64, exact_gbps: f64) {
    let exact_bps = exact_gbps * 1e9;
    #[allow(clippy::cast_precision_loss)]
    let rate_bps = rate_bps as f64;
    assert!((rate_bps - exact_bps).abs() <= 2.0, "{rate_bps} b/s, expected {exact_bps}");
}

#[test]
fn the_paper_at_40_gbps() {
    let params = Params::PAPER;
    let mut rp = at_40g(&params);
    let mut at = |step: &dyn Fn(&mut ReactionPoint), rate_gbps, target_gbps| {
        step(&mut rp);
        near(rp.rate_bps(), rate_gbps);
        near(rp.target_rate_bps(), target_gbps);
        rp.alpha_q31(&params, 0)
    };
    let cnp = |at_us: u64| move |rp: &mut ReactionPoint| rp.on_cnp(&params, at_us * US);
    let time = |at_us: u64| move |rp: &mut ReactionPoint| rp.on_timeout(&params, at_us * US);
    let bytes = |rp: &mut ReactionPoint| rp.on_bytes_sent(&params, 391 * US, 10_000_000);

    // alpha 1: 40·½. It stays 1: 255/256 + 1/256.
    assert_eq!(at(&cnp(0), 20.0, 40.0), 1 << 31);
    // T 1: (40 + 20)/2. K has passed too: alpha 255/256.
    assert_eq!(at(&time(55), 30.0, 40.0), (1 << 31) - (1 << 23));
    // 30·(1 − 255/512) = 30·257/512. Alpha (255/256)² + 1/256 = 65281/65536.
    assert_eq!(at(&cnp(60), 15.058_593_75, 30.0), 65_281 << 15);
    // T 1 to 4: half the gap each, from 115 µs on.
    at(&time(115), 22.529_296_875, 30.0);
    at(&time(170), 26.264_648_437_5, 30.0);
    at(&time(225), 28.132_324_218_75, 30.0);
    at(&time(280), 29.066_162_109_375, 30.0);
    // T 5 and 6: the target goes up by 0.04.
    at(&time(335), 29.553_081_054_687_5, 30.04);
    let alpha = at(&time(390), 29.816_540_527_343_75, 30.08);
    // Six times K since 60 µs: 65281/65536·(255/256)^6·2³¹ = 2,089,479,064.9.
    assert!(alpha.abs_diff(2_089_479_065) <= 4, "{alpha}");
    // BC 1 to 5, 10 MB each: max(6, BC) is past F, min(6, BC) is not.
    at(&bytes, 29.968_270_263_671_875, 30.12);
    at(&bytes, 30.064_135_131_835_94, 30.16);
    at(&bytes, 30.132_067_565_917_969, 30.2);
    at(&bytes, 30.186_033_782_958_984, 30.24);
    at(&bytes, 30.233_016_891_479_49, 30.28);
    // BC 6: both past 5, so hyper increase by 1·0.2. Then 7 with T still 6: again 1·0.2.
    at(&bytes, 30.356_508_445_739_746, 30.48);
    at(&bytes, 30.518_254_222_869_873, 30.68);
    // T 7: min is 7, so 2·0.2.
    at(&time(445), 30.799_127_111_434_936, 31.08);
}

#[test]
fn the_nic_at_100_gbps() {
    let params = Params::MLX5;
    let mut rp = ReactionPoint::new(&params, 100 * GBPS);
    // The first CNP sets alpha to 1023/1024 and starts the periods.
    rp.on_cnp(&params, 0);
    assert_eq!((rp.rate_bps(), rp.next_timeout()), (100 * GBPS, None));
    // The second, at 1.5 µs, is for the cut at 4 µs. g is 5/1024. At 1 µs alpha has fallen to
    // 1023/1024·1019/1024; at 2 µs it rises, ·1019/1024 + 5/1024; at 3 and 4 µs it falls again:
    // 0.994145393, 0.994173980, 0.989319615, 0.984488953. The cut comes after the last of them:
    // 100·(1 − 0.984488953/2) = 50.77555235018783.
    rp.on_cnp(&params, 1_500);
    assert_eq!((rp.rate_bps(), rp.next_timeout()), (100 * GBPS, Some(4 * US)));
    rp.on_timeout(&params, 4 * US);
    // Alpha is a multiple of 2⁻³¹, which is 23 b/s of 50 Gb/s.
    assert!(rp.rate_bps().abs_diff(50_775_552_350) < 100, "{}", rp.rate_bps());
    let alpha = rp.alpha_q31(&params, 4 * US);
    assert!(alpha.abs_diff(2_114_173_928) <= 4, "{alpha}"); // 0.984488953·2³¹
    // No increase came before, so the target is still 100. One fast recovery at 304 µs.
    assert_eq!((rp.target_rate_bps(), rp.next_timeout()), (100 * GBPS, Some(304 * US)));
    rp.on_timeout(&params, 304 * US);
    assert!(rp.rate_bps().abs_diff(75_387_776_175) < 50, "{}", rp.rate_bps());
    // 2,097,088 bytes later another increase, of stage BC 0 and T 1: additive, to the cap of 100.
    rp.on_bytes_sent(&params, 305 * US, 2_097_087);
    assert_eq!(rp.byte_stage(), 0);
    rp.on_bytes_sent(&params, 305 * US, 1);
    assert!(rp.rate_bps().abs_diff(87_693_888_088) < 25, "{}", rp.rate_bps());
    // A cut now clamps the target to what it cuts. Alpha has fallen for 301 periods, to
    // 0.984488953·(1019/1024)^301 = 0.2256: it takes a ninth.
    let before = rp.rate_bps();
    rp.on_cnp(&params, 305 * US);
    rp.on_timeout(&params, 308 * US);
    assert_eq!(rp.target_rate_bps(), before);
    assert!((77 * GBPS..78 * GBPS).contains(&rp.rate_bps()), "{}", rp.rate_bps());
}

/// Back at line rate there is nothing left to do, and alpha goes on falling by itself.
#[test]
fn a_flow_that_has_recovered_needs_no_timer() {
    let params = Params::PAPER;
    let mut rp = at_40g(&params);
    rp.on_cnp(&params, 0);
    let mut timeouts = 0;
    while let Some(at_ns) = rp.next_timeout() {
        rp.on_timeout(&params, at_ns);
        timeouts += 1;
    }
    // The target was 40 all along, and 20 Gb/s of gap are below a bit after 35 halvings.
    assert_eq!((timeouts, rp.rate_bps()), (35, 40 * GBPS));
    assert!(!rp.is_limited());
    // 100 ms later alpha is (255/256)^1818 = 0.00081, and a CNP does next to nothing.
    assert_eq!(rp.alpha_q31(&params, 100_000 * US), {
        // floor(100000/55) = 1818 periods
        let mut fresh = at_40g(&params);
        fresh.on_cnp(&params, 0);
        fresh.alpha_q31(&params, 1_818 * 55 * US)
    });
    rp.on_cnp(&params, 100_000 * US);
    assert!((39_983_000_000..39_984_000_000).contains(&rp.rate_bps()), "{}", rp.rate_bps());
    assert_eq!(rp.target_rate_bps(), 40 * GBPS);
}
