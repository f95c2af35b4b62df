//! Every capture of the repository, and those of others beside the checkout.

use roce_pcap::capture::Reader;
use roce_pcap::replay::{Freedom, Recording, Replay, Skipped, Unknown};

use crate::support::{freedom, load, replay};

/// What must come out: requests given, answers compared, those equal in every field, those that
/// differ by each freedom, messages delivered, what proved nothing. No mismatch anywhere.
struct Row {
    name: &'static str,
    given: u64,
    compared: u64,
    equal: u64,
    freedoms: &'static [(Freedom, u64)],
    delivered: u64,
    unknown: u64,
}

const fn row(
    name: &'static str,
    (given, compared, equal): (u64, u64, u64),
    freedoms: &'static [(Freedom, u64)],
    delivered: u64,
) -> Row {
    Row { name, given, compared, equal, freedoms, delivered, unknown: 0 }
}

/// Linux states no credits; ours states how many receives are posted. Everything else is as few as
/// it can be: five READ answers of rping with memory that the application has changed meanwhile, the
/// three FLUSHes whose ICRC rxe computes wrong, and READs asked for again from within.
const TABLE: [Row; 15] = [
    row("rxe-write", (48, 16, 0), &[(Freedom::Credits, 16)], 0),
    row("rxe-read", (21, 1328, 1286), &[(Freedom::Credits, 42)], 0),
    row("rxe-send", (60, 28, 0), &[(Freedom::Credits, 28)], 28),
    row("rxe-atomic", (16, 16, 0), &[(Freedom::Credits, 16)], 0),
    row("rxe-pingpong", (60, 20, 0), &[(Freedom::Credits, 20)], 20),
    row("rxe-cm", (60, 50, 0), &[(Freedom::Credits, 50), (Freedom::OwnerStore, 4)], 50),
    row("rxe-nvme", (241, 112, 30), &[(Freedom::Credits, 82)], 63),
    row("rxe-ipv6", (32, 32, 8), &[(Freedom::Credits, 24)], 0),
    row("rxe-mtu4096", (24, 8, 0), &[(Freedom::Credits, 8)], 0),
    // With one tap on the requester's side, what a NAK asks for was lost behind it. Of an answer
    // that was not seen, or a request that was not answered, nothing can be said.
    Row {
        name: "rxe-lossy-client",
        given: 1390,
        compared: 788,
        equal: 528,
        freedoms: &[
            (Freedom::Coalescing, 121),
            (Freedom::Credits, 241),
            (Freedom::ReadRetryOpcode, 9),
        ],
        delivered: 40,
        unknown: 67,
    },
    // This tap saw what the responder got and what it answered: nothing is left open.
    row(
        "rxe-lossy-server",
        (1363, 814, 540),
        &[(Freedom::Credits, 267), (Freedom::ReadRetryOpcode, 11)],
        40,
    ),
    row("rxe-ecn-client", (160, 20, 0), &[(Freedom::Credits, 20)], 0),
    row("rxe-ecn-server", (160, 20, 0), &[(Freedom::Credits, 20)], 0),
    row("rxe-errors", (43, 65, 25), &[(Freedom::Credits, 40)], 6),
    row(
        "rxe72-flush-atomicwrite",
        (9, 7, 2),
        &[(Freedom::Credits, 4), (Freedom::SharedIcrc, 3)],
        0,
    ),
];

#[test]
fn every_answer_equals_the_captured_one_but_for_the_freedoms() {
    for Row { name, given, compared, equal, freedoms, delivered, unknown } in TABLE {
        let report = replay(&load(name));
        for stream in &report.streams {
            assert!(stream.mismatch.is_empty(), "{name}: {}", stream.mismatch[0]);
        }
        let total = report.total();
        let found = (total.given, total.compared, total.equal, total.delivered);
        assert_eq!(found, (given, compared, equal, delivered), "{name}");
        let found: Vec<_> = total.freedoms.into_iter().collect();
        assert_eq!(found, freedoms, "{name}");
        let proved_nothing = total.unknown.get(&Unknown::LostBehindTap).copied().unwrap_or(0);
        assert_eq!(proved_nothing, unknown, "{name}");
        assert_eq!(total.unknown.len(), usize::from(unknown > 0), "{name}");
        assert_eq!(total.mismatches, 0, "{name}");
    }
}

/// All packets but those of the connection manager are answers or requests of a stream.
#[test]
fn nothing_is_left_out_without_a_word() {
    for Row { name, .. } in TABLE {
        let packets = load(name);
        let report = replay(&packets);
        let streams = report.streams.iter();
        let in_streams: usize =
            streams.map(|stream| stream.plan.requests + stream.plan.answers).sum();
        let skipped: u64 = report.skipped.iter().map(|(_, count)| count).sum();
        assert_eq!(in_streams + usize::try_from(skipped).unwrap(), packets.len(), "{name}");
        assert!(report.skipped.iter().all(|(why, _)| *why == Skipped::Cm), "{name}");
    }
}

/// The plan says what the captures' README tells of them.
#[test]
fn the_plan_is_what_is_known_of_the_captures() {
    let plan_of = |name| Replay::new(crate::support::record(&load(name)), None).plan();
    let read = plan_of("rxe-read");
    let mtus: Vec<_> = read.streams.iter().map(|stream| stream.mtu.bytes()).collect();
    assert_eq!(mtus, [1024, 256]);
    assert!(read.streams.iter().all(|stream| !stream.agreed && !stream.ambiguous));
    let lengths: Vec<_> = read.regions.iter().map(|(_, _, region)| region.len).collect();
    assert_eq!(lengths, [3000, 65536]);

    let errors = plan_of("rxe-errors");
    assert!(errors.streams.iter().all(|stream| stream.agreed));
    let rnr: Vec<_> = errors.streams.iter().filter_map(|stream| stream.rnr_timer).collect();
    assert_eq!(rnr.iter().map(|timer| timer.wait_ns()).collect::<Vec<_>>(), [655_360_000; 2]);
    // 16 READs over 4 agreed; the last one is a READ on a queue pair that allows none.
    let [.., many, denied] = errors.streams.as_slice() else { panic!("streams") };
    assert_eq!(many.resources, 4);
    assert!(!denied.access.contains(roce_engine::Access::REMOTE_READ));
    assert!(many.access.contains(roce_engine::Access::REMOTE_READ));
    // Keys that were refused have no region; one that was never needed has none either.
    let keys: Vec<_> = errors.regions.iter().map(|(_, rkey, _)| rkey.0).collect();
    assert_eq!(keys, [0x30d, 0x45c, 0x1134]);

    let nvme = plan_of("rxe-nvme");
    let invalidated = nvme
        .regions
        .iter()
        .filter(|(_, _, region)| region.access.contains(roce_engine::Access::REMOTE_INVALIDATE));
    assert!(invalidated.count() >= 15);
    assert!(plan_of("rxe-pingpong").streams.iter().all(|stream| !stream.ambiguous));
}

#[test]
fn captures_of_others() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/public-captures");
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("passed over: no public captures beside the checkout");
        return;
    };
    let mut compared = 0;
    let mut delivered = 0;
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let recording = Recording::read(Reader::open(&path).unwrap(), 1 << 24);
        let report = Replay::new(recording, None).run(1 << 24).unwrap();
        let total = report.total();
        assert!(report.is_clean() && total.unknown.is_empty(), "{}", path.display());
        assert_eq!(total.compared, total.equal + freedom(&report, Freedom::Credits));
        compared += total.compared;
        delivered += total.delivered;
    }
    assert_eq!((compared, delivered), (72, 67));
}

/// A made-up trace of many connections at once, among them responders that acknowledge several
/// requests at a time, state credits, and set the migration bit.
#[test]
fn a_generated_trace() {
    let file = std::env::temp_dir().join(format!("roce-replay-{}.pcapng", std::process::id()));
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
        .args(["gen", "--packets", "20000", "--seed", "11", "--output"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(made.success());
    let recording = Recording::read(Reader::open(&file).unwrap(), 1 << 28);
    let report = Replay::new(recording, None).run(1 << 28).unwrap();
    std::fs::remove_file(&file).unwrap();
    let total = report.total();
    assert_eq!(total.mismatches, 0, "{:?}", report.streams.iter().find_map(|s| s.mismatch.first()));
    assert!(total.compared > 3000 && total.delivered > 3000, "{total:?}");
    assert!(freedom(&report, Freedom::Coalescing) > 100, "{total:?}");
    assert!(freedom(&report, Freedom::MigReq) > 100, "{total:?}");
    // What is asked at the very end has no answer in the file.
    assert!(total.unknown.keys().all(|why| *why == Unknown::CaptureEnds), "{total:?}");
}
