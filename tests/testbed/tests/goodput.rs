//! Goodput against loss, path MTU and recovery mode: tables that are checked in, and what they are
//! held to.
//!
//! `ROCKHOPPER_UPDATE=1` writes `tests/testbed/goodput.md` anew.

use std::fmt::Write as _;
use std::path::Path;

use roce_codec::ib::PathMtu;
use roce_engine::Recovery;
use roce_testbed::goodput::{Case, Goodput, Loss, measure};

const GIGABIT: u64 = 1_000_000_000;
/// Of a million.
const LOSSES: [u32; 5] = [0, 100, 1_000, 10_000, 50_000];
const MTUS: [PathMtu; 3] = [PathMtu::Mtu256, PathMtu::Mtu1024, PathMtu::Mtu4096];

const CASE: Case = Case {
    rate: 40 * GIGABIT,
    propagation_ns: 5_000,
    loss: Loss::Random(0),
    path_mtu: PathMtu::Mtu1024,
    recovery: Recovery::GoBackN,
    message: 1 << 20,
    timeout: 5,
    frames: 40_000,
};

/// Go-back-N, and packets behind a gap held.
fn both(case: Case) -> [Goodput; 2] {
    let modes = [Recovery::GoBackN, Recovery::SelectiveAccept];
    let [back, selective] = modes.map(|recovery| measure(&Case { recovery, ..case }, 1));
    assert!(selective.fraction >= back.fraction, "{case:?}: {back:?}, {selective:?}");
    // A requester that has something to send, or to send again, sends, but for its timeouts.
    assert!(back.busy > 0.999 || back.timeouts > 0.0, "{case:?}: {back:?}");
    [back, selective]
}

fn percent(ppm: u32) -> String {
    format!("{} %", f64::from(ppm) / 10_000.0)
}

/// Losses, path MTUs, modes.
fn losses(text: &mut String) {
    *text += "# Goodput\n\n\
        Two engines and a link of 40 Gb/s, 5 µs each way, on a virtual clock; WRITEs of 1 MiB one\n\
        after the other, acknowledge timeout 131 µs. Frames are lost at random in both directions.\n\
        Of the payload that the link could carry, how much was executed: go-back-N → selective\n\
        accept. `cargo test -p roce-testbed --test goodput` compares; `ROCKHOPPER_UPDATE=1` writes\n\
        this file.\n\n\
        | loss | path MTU 256 | 1024 | 4096 |\n|---|---|---|---|\n";
    for ppm in LOSSES {
        *text += &format!("| {} |", percent(ppm));
        for path_mtu in MTUS {
            let [back, selective] = both(Case { loss: Loss::Random(ppm), path_mtu, ..CASE });
            if ppm == 0 {
                assert_eq!((back.fraction, selective.fraction), (1.0, 1.0));
            }
            write!(text, " {:.3} → {:.3} |", back.fraction, selective.fraction).unwrap();
        }
        *text += "\n";
    }
}

/// One wire packet in 256, resent ones counted, against the formula: every 256 packets, one is lost
/// and those of a round trip are sent in vain.
fn one_in_256(text: &mut String) {
    *text += "\nOne request frame in 256 on the wire is lost, those sent again included: every 256th,\n\
        no answer. Path MTU 1024, messages of 4 MiB; a frame of 1106 bytes, preamble and gap\n\
        included, is one packet. The formula is (256 − 1 − RTT·C) / 256 of 40 Gb/s, RTT·C in packets.\n\n\
        | RTT | RTT·C | formula | go-back-N | selective accept |\n|---|---|---|---|---|\n";
    let frame_ns = CASE.frame_bytes() * 8 * GIGABIT / CASE.rate;
    for propagation_ns in [2_500, 12_500, 25 * frame_ns / 2, 125 * frame_ns / 2] {
        let case = Case { propagation_ns, loss: Loss::Every(256), message: 4 << 20, ..CASE };
        let rtt = case.round_trip_frames();
        let formula = 40.0 * (255.0 - rtt) / 256.0;
        let [back, selective] = both(case).map(|goodput| 40.0 * goodput.fraction);
        assert!((back / formula - 1.0).abs() < 0.03, "{back} Gb/s, not {formula}");
        writeln!(
            text,
            "| {:.2} µs | {rtt:.1} | {formula:.1} Gb/s | {back:.1} Gb/s | {selective:.1} Gb/s |",
            f64::from(u32::try_from(2 * propagation_ns).unwrap()) / 1000.0
        )
        .unwrap();
    }
}

/// A longer link, only requests lost; how much the acknowledge timeout matters.
fn round_trip_of_122(text: &mut String) {
    *text += "\nRTT·C of 122 packets of path MTU 1024, only requests are lost. A request that is lost when it\n\
        is sent again waits for a timeout: in brackets, timeouts a thousand packets.\n\n\
        | loss | timeout 131 µs | timeout 2.1 ms |\n|---|---|---|\n";
    let propagation_ns = 122 * CASE.frame_bytes() * 8 * GIGABIT / CASE.rate / 2;
    for ppm in [1_000, 10_000, 50_000] {
        let loss = Loss::RandomRequests(ppm);
        write!(text, "| {} |", percent(ppm)).unwrap();
        for timeout in [5, 9] {
            let case = Case { propagation_ns, loss, timeout, frames: 200_000, ..CASE };
            let [back, selective] = both(case);
            write!(
                text,
                " {:.3} ({:.2}) → {:.3} ({:.2}) |",
                back.fraction, back.timeouts, selective.fraction, selective.timeouts
            )
            .unwrap();
        }
        *text += "\n";
    }
}

#[test]
fn the_tables_are_these() {
    let mut text = String::new();
    losses(&mut text);
    one_in_256(&mut text);
    round_trip_of_122(&mut text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goodput.md");
    if std::env::var_os("ROCKHOPPER_UPDATE").is_some() {
        std::fs::write(&path, &text).expect("a file in the source tree");
    }
    let checked_in = std::fs::read_to_string(&path).expect("goodput.md is checked in");
    assert!(text == checked_in, "ROCKHOPPER_UPDATE=1 writes {} anew:\n{text}", path.display());
}
