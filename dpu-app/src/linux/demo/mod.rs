//! `roce-responder demo`: a requester and a responder over a wire that loses, doubles and
//! reorders; every byte is verified, and the capture of it all is judged.

mod lab;
mod operation;
mod veth;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail, ensure};
use roce_codec::net::MacAddr;
use roce_dataplane::poll::OneNeighbour;
use roce_dataplane::port::Port;
use roce_dataplane::port::af_xdp::{AfXdpConfig, AfXdpPort};
use roce_dataplane::port::capture::CapturePort;
use roce_dataplane::port::fault::{FaultConfig, FaultCounts, FaultPort, FaultRates};
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{HeapStorage, Limits};
use roce_pcap::capture::Reader;
use roce_pcap::check::check;

use self::lab::{Lab, Side, Time};
use self::operation::{OPERATIONS, Outcome};
use super::cli::{DemoArgs, DemoPort};
use super::fault_spec::FaultSpec;
use super::recorder::Recorder;

/// How often each fault strikes a frame, each way, at each end, unless told otherwise.
const FAULT_RATE: f64 = 0.01;
/// Frames that the wire in memory holds, each way.
const WIRE_FRAMES: usize = 64;
/// When simulated time begins: 2026-01-01 00:00:00 UTC, so that the same seed gives the same
/// capture.
const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Runs the demonstration.
///
/// # Errors
/// What could not be set up; or, after the table, that something was wrong.
pub(crate) fn demo(args: &DemoArgs) -> Result<()> {
    let (outcomes, faults) = match args.port {
        DemoPort::Loopback => over_loopback(args)?,
        DemoPort::AfXdp => over_veth(args)?,
    };
    print_table(&outcomes);
    println!();
    println!("faults injected: {}", describe(&faults));
    let clean = judge(&args.output)?;
    let wrong = outcomes.iter().filter(|outcome| outcome.problem.is_some()).count();
    if wrong > 0 {
        bail!("{wrong} operations went wrong (--seed {} repeats it)", args.seed);
    }
    ensure!(clean, "{}: the checker found violations", args.output.display());
    Ok(())
}

/// Two ports joined in memory, in simulated time.
fn over_loopback(args: &DemoArgs) -> Result<(Vec<Outcome>, [FaultCounts; 4])> {
    let mut wire = Box::new(LoopbackWire::<WIRE_FRAMES>::new());
    let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    let [requester, responder] = wire.ends(macs);
    let now = Rc::new(Cell::new(EPOCH_NS));
    let stamp = Rc::clone(&now);
    let recorder = Recorder::create(&args.output, "loopback", move || stamp.get())?;
    run(args, requester, responder, recorder, Time::Simulated(now))
}

/// AF_XDP on the two ends of a veth pair, in a network namespace of our own.
fn over_veth(args: &DemoArgs) -> Result<(Vec<Outcome>, [FaultCounts; 4])> {
    veth::make()?;
    let open = |interface| AfXdpPort::open(&AfXdpConfig::new(interface));
    let (requester, responder) = (open(veth::REQUESTER)?, open(veth::RESPONDER)?);
    println!("{}\n{}\n", requester.describe(), responder.describe());
    let recorder =
        Recorder::create(&args.output, veth::REQUESTER, super::clock::unix_ns as fn() -> u64)?;
    run(args, requester, responder, recorder, Time::real())
}

/// Runs all operations between two ports; the recorder is on the wire, between the faults of
/// either side.
fn run<A: Port, B: Port, C: FnMut() -> u64>(
    args: &DemoArgs,
    requester: A,
    responder: B,
    recorder: Recorder<C>,
    time: Time,
) -> Result<(Vec<Outcome>, [FaultCounts; 4])> {
    let rate = FAULT_RATE;
    let default =
        FaultRates { drop: rate, duplicate: rate, reorder: rate, ..FaultRates::default() };
    let fault = args.fault.unwrap_or(FaultSpec { rx: default, tx: default, seed: 0 });
    let faults = |seed| FaultConfig { seed, ..fault.config() };
    let hops = [OneNeighbour(responder.mac()), OneNeighbour(requester.mac())];
    let recorded = CapturePort::new(requester, recorder);
    let requester = FaultPort::new(recorded, &faults(args.seed));
    let responder = FaultPort::new(responder, &faults(!args.seed));

    let mut storage = [HeapStorage::new(&Limits::SMALL), HeapStorage::new(&Limits::SMALL)];
    let [near, far] = &mut storage;
    let mut lab = Lab {
        requester: Side::new(near, requester, hops[0], args.seed)?,
        responder: Side::new(far, responder, hops[1], args.seed.wrapping_add(1))?,
        time,
    };
    let mut outcomes = Vec::new();
    for operation in &OPERATIONS {
        outcomes.push(operation.run(&mut lab));
    }
    lab.drain();
    let Lab { requester: Side { mut port, .. }, responder, .. } = lab;
    let [a, b] = port.faults();
    let [c, d] = responder.port.faults();
    port.inner_mut().sink_mut().finish()?;
    Ok((outcomes, [a, b, c, d]))
}

fn print_table(outcomes: &[Outcome]) {
    println!(
        "{:<10} {:>8} {:>10} {:>14} {:>10}  verdict",
        "operation", "count", "bytes", "sent again", "verified"
    );
    for outcome in outcomes {
        let Outcome { name, count, bytes, retransmissions, verified, problem } = outcome;
        let verdict = problem.as_deref().unwrap_or("ok");
        println!(
            "{name:<10} {count:>8} {bytes:>10} {retransmissions:>14} {verified:>10}  {verdict}"
        );
    }
}

fn describe(faults: &[FaultCounts; 4]) -> String {
    let sum = |of: fn(&FaultCounts) -> u64| faults.iter().map(of).sum::<u64>();
    let counts = [
        ("dropped", sum(|faults| faults.drop)),
        ("duplicated", sum(|faults| faults.duplicate)),
        ("reordered", sum(|faults| faults.reorder)),
        ("corrupted", sum(|faults| faults.corrupt)),
        ("delayed", sum(|faults| faults.delay)),
    ];
    let words: Vec<_> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Has the capture checked; says whether it is clean.
fn judge(path: &Path) -> Result<bool> {
    let reader = Reader::open(path)
        .with_context(|| format!("{}: cannot read the capture again", path.display()))?;
    let report = check(reader);
    let summary = &report.summary;
    println!(
        "{}: {} packets, {} right ICRCs; rules kept {} times, broken {}, not to be told {}: {}",
        path.display(),
        summary.roce_packets,
        summary.icrc_valid,
        summary.pass,
        summary.fail,
        summary.unknown,
        if report.is_clean() { "clean" } else { "NOT CLEAN" },
    );
    for failure in report.failures().take(10) {
        println!("  {failure}");
    }
    if let Some(error) = &report.error {
        println!("  {error}");
    }
    ensure!(summary.roce_packets > 0, "{}: there is nothing in the capture", path.display());
    Ok(report.is_clean())
}
