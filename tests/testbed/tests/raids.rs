//! A thousand raids by a hostile peer, each from its seed.
//!
//! `ROCKHOPPER_SEED=n` makes that one alone and leaves its frames in a pcapng file;
//! `ROCKHOPPER_RAIDS=n` makes so many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use roce_engine::HwCounter;
use roce_pcap::capture::{Direction, PcapngWriter};
use roce_testbed::raid::{self, Outcome, Trace};

const SEEDS: u64 = 1000;

fn from_env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number, not {value:?}")))
}

/// Makes a raid; what goes wrong comes back as words.
fn run(seed: u64, trace: Option<&Trace>) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| raid::run(seed, trace))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Err(format!("seed {seed}: panicked: {text}"))
    })
}

/// Makes a raid again and writes down what passed.
fn leave_capture(seed: u64) -> PathBuf {
    let trace = Trace::default();
    let _ = run(seed, Some(&trace));
    let path = std::env::temp_dir().join(format!("rockhopper-raid-{seed}.pcapng"));
    let file = std::fs::File::create(&path).expect("a file in the temporary directory");
    let mut writer = PcapngWriter::new(file).expect("a header");
    let records = trace.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (at, received, frame) in &records {
        let way = if *received { Direction::Inbound } else { Direction::Outbound };
        writer.write_packet(at.0, way, [frame, &[]]).expect("a packet");
    }
    writer.flush().expect("the end");
    path
}

#[test]
fn a_hostile_peer_gets_what_it_was_given_and_no_more() {
    if let Some(seed) = from_env("ROCKHOPPER_SEED") {
        let result = run(seed, None);
        println!("{result:#?}\nframes in {}", leave_capture(seed).display());
        result.unwrap();
        return;
    }
    let seeds = from_env("ROCKHOPPER_RAIDS").unwrap_or(SEEDS);
    let mut sum = Outcome::default();
    let mut events = vec![0; HwCounter::ALL.len()];
    for seed in 0..seeds {
        let outcome = run(seed, None).unwrap_or_else(|what| {
            let path = leave_capture(seed);
            panic!("{what}\nROCKHOPPER_SEED={seed} does it again; frames in {}", path.display())
        });
        sum.frames += outcome.frames;
        sum.sent += outcome.sent;
        sum.rounds += outcome.rounds;
        sum.bound += outcome.bound;
        sum.taken += outcome.taken;
        sum.closed += outcome.closed;
        sum.datagrams += outcome.datagrams;
        sum.ended[0] += outcome.ended[0];
        sum.ended[1] += outcome.ended[1];
        for (sum, count) in events.iter_mut().zip(&outcome.events) {
            *sum += count;
        }
    }
    println!("{seeds} raids: {sum:?}");
    let own = [sum.bound, sum.taken, sum.closed, sum.datagrams, sum.ended[0], sum.ended[1]];
    assert!(own.iter().all(|count| *count >= seeds / 4), "{sum:?}");
    assert!(sum.frames >= 150 * seeds && sum.rounds >= 3 * seeds, "{sum:?}");
    for (counter, count) in HwCounter::ALL.iter().zip(&events) {
        println!("  {:<24} {count}", counter.name());
        // A budget without end, and one that a peer which is asked so little does not use up.
        let never = [HwCounter::RnrNakRetryErr, HwCounter::RetryExceededErr].contains(counter);
        assert!(never || *count >= seeds / 100, "{}: only {count}", counter.name());
    }
}
