//! Thousands of worlds, each from its seed.
//!
//! `ROCKHOPPER_SEED=n` runs that one alone and leaves its frames in a pcapng file;
//! `ROCKHOPPER_SEEDS=n` runs so many, from `ROCKHOPPER_FIRST_SEED=n` on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use roce_engine::{DropReason, HwCounter};
use roce_pcap::capture::{Direction, PcapngWriter};
use roce_testbed::world::{self, Outcome, Trace};

/// Seeds of an ordinary run.
const SEEDS: u64 = 4000;

fn from_env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value:?}")))
}

/// Runs a seed; what goes wrong comes back as words.
fn run(seed: u64, trace: Option<&Trace>) -> Result<Outcome, String> {
    match catch_unwind(AssertUnwindSafe(|| world::run(seed, trace))) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(format!("seed {seed}: panicked: {text}"))
        }
    }
}

/// Runs a seed again and writes down what passed over its wires.
fn leave_capture(seed: u64) -> PathBuf {
    let trace = Trace::default();
    let _ = run(seed, Some(&trace));
    let path = std::env::temp_dir().join(format!("rockhopper-{seed}.pcapng"));
    let file = std::fs::File::create(&path).expect("a file in the temporary directory");
    let mut writer = PcapngWriter::new(file).expect("a header");
    let records = trace.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for record in &records {
        let way = if record.received { Direction::Inbound } else { Direction::Outbound };
        writer.write_packet(record.at.0, way, [&record.frame, &[]]).expect("a packet");
    }
    writer.flush().expect("the end");
    path
}

#[test]
fn nothing_is_lost_doubled_misordered_or_corrupted() {
    if let Some(seed) = from_env("ROCKHOPPER_SEED") {
        let result = run(seed, None);
        let path = leave_capture(seed);
        println!("{result:#?}\nframes in {}", path.display());
        result.unwrap();
        return;
    }
    let seeds = from_env("ROCKHOPPER_SEEDS").unwrap_or(SEEDS);
    let first = from_env("ROCKHOPPER_FIRST_SEED").unwrap_or(0);
    let mut sum = Outcome::default();
    for seed in first..first + seeds {
        if seed > first && (seed - first).is_multiple_of(20_000) {
            println!("{} worlds, all as they should be", seed - first);
        }
        match run(seed, None) {
            Ok(outcome) => sum.add(&outcome),
            Err(what) => {
                let path = leave_capture(seed);
                panic!(
                    "{what}\nROCKHOPPER_SEED={seed} does it again; frames in {}",
                    path.display()
                );
            }
        }
    }
    report(seeds, &sum);
    check_coverage(seeds, &sum);
}

fn report(seeds: u64, sum: &Outcome) {
    println!(
        "{seeds} seeds: {} connections, {} requests succeeded, {} failed as they had to, {} for \
         want of retries; {} windows bound, {} datagrams arrived",
        sum.connections, sum.succeeded, sum.failed, sum.exhausted, sum.bound, sum.datagrams
    );
    println!("{:?}", sum.struck);
    for reason in DropReason::ALL {
        println!("  {:<24} {}", reason.name(), sum.dropped(*reason));
    }
    for counter in HwCounter::ALL {
        println!("  {:<24} {}", counter.name(), sum.event(*counter));
    }
}

/// The worlds reach what they are for.
fn check_coverage(seeds: u64, sum: &Outcome) {
    let often = |what: &str, count: u64| {
        assert!(count >= seeds / 500, "{what}: only {count} in {seeds} seeds");
    };
    let struck = sum.struck;
    for (what, count) in [
        ("drop", struck.drop),
        ("duplicate", struck.duplicate),
        ("reorder", struck.reorder),
        ("corrupt", struck.corrupt),
        ("delay", struck.delay),
        ("failures", sum.failed),
        ("windows", sum.bound),
        ("datagrams", sum.datagrams),
    ] {
        often(what, count);
    }
    for counter in HwCounter::ALL {
        if *counter != HwCounter::RnrNakRetryErr {
            often(counter.name(), sum.event(*counter));
        }
    }
    for reason in [
        DropReason::BadIcrc,
        DropReason::Malformed,
        DropReason::UnknownQp,
        DropReason::QpState,
        DropReason::WrongService,
        DropReason::QKey,
        DropReason::Refused,
        DropReason::OutOfSequence,
        DropReason::ReceiverNotReady,
        DropReason::StaleDuplicate,
        DropReason::UnexpectedResponse,
        DropReason::RepeatedNak,
    ] {
        often(reason.name(), sum.dropped(reason));
    }
}
