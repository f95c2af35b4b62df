//! A hostile client at the live responder: 100,000 bent frames and more, every step of the
//! pipeline and every NAK code a thousand times, and an honest peer that must not notice.
//!
//! `ROCKHOPPER_HOSTILE=n` lays siege with n wild frames; `ROCKHOPPER_SEED=n` with another seed.

use roce_engine::{DropReason, HwCounter, Recovery};
use roce_testbed::hostile::{self, aim::Aim};

fn from_env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value:?}")))
}

#[test]
fn a_siege_changes_nothing() {
    let wild = from_env("ROCKHOPPER_HOSTILE").unwrap_or(200_000);
    let seed = from_env("ROCKHOPPER_SEED").unwrap_or(1);
    let report = hostile::run(seed, 1000, wild, Recovery::GoBackN).unwrap();
    println!(
        "{} hostile frames, {} of them wild; {} reconnects; {} rounds of the honest peer",
        report.frames, report.wild, report.reconnects, report.honest_rounds
    );
    let counters = &report.counters;
    assert!(report.wild >= 100_000);
    for aim in Aim::ALL {
        assert!(report.hits.get(aim).is_some_and(|hits| *hits >= 1000), "{aim:?}");
    }
    for reason in DropReason::ALL {
        let count = counters.dropped(*reason);
        println!("  {:<24} {count}", reason.name());
        if *reason == DropReason::QKey {
            // The besieged have connections only; datagrams have tests of their own.
            assert_eq!(count, 0);
            continue;
        }
        assert!(count >= 1000, "{}: only {count}", reason.name());
    }
    for syndrome in [0x60, 0x61, 0x62, 0x63, 0x21] {
        let count = report.syndromes.get(&syndrome).copied().unwrap_or(0);
        println!("  NAK {syndrome:#04x}                 {count}");
        assert!(count >= 1000, "NAK {syndrome:#04x}: only {count}");
    }
    assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
    assert!(report.honest_rounds * 100 > report.frames / 10, "{} rounds", report.honest_rounds);
}

/// The same where packets behind a gap are held: there is less room than the hostile client fills.
#[test]
fn a_siege_of_a_responder_that_holds_packets() {
    let seed = from_env("ROCKHOPPER_SEED").unwrap_or(2);
    let report = hostile::run(seed, 200, 40_000, Recovery::SelectiveAccept).unwrap();
    let counters = &report.counters;
    for counter in [HwCounter::RxHeld, HwCounter::RxHeldRun, HwCounter::RxHeldFreed] {
        let count = counters.event(counter);
        println!("  {:<24} {count}", counter.name());
        assert!(count >= 100, "{}: only {count}", counter.name());
    }
    for aim in Aim::ALL {
        assert!(report.hits.get(aim).is_some_and(|hits| *hits >= 200), "{aim:?}");
    }
    assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
}
