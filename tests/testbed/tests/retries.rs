//! How often a request ends for want of retries, held to models that share no code with the
//! engine: as often as the wire's losses and the budget make it, and never under a budget without
//! end.
//!
//! One request is under way at a time (a window of one packet), so that a request's fate is that
//! of its own attempts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use roce_codec::ib::{PathMtu, Psn};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Frame, Start};
use roce_engine::{Access, HwCounter, Rate, Recovery};
use roce_testbed::plan::{Connection, Kind, Plan, Request, Side};
use roce_testbed::random::Random;
use roce_testbed::wire::Faults;
use roce_testbed::world::{self, Outcome, Trace};

const LATENCY_NS: u64 = 10_000;
const MAX_DELAY_NS: u64 = 50_000;
/// 4.096 µs · 2⁸: three round trips with every frame as late as it may be.
const TIMEOUT: u8 = 8;
/// Requests of a connection, and connections of a world.
const REQUESTS: usize = 40;
const CONNECTIONS: usize = 200;
/// How many standard deviations an honest engine may be off: once in two million runs.
const SIGMAS: f64 = 5.0;

fn side(requests: Vec<Request>) -> Side {
    Side {
        psn: Psn::new(0x00ff_fff0),
        max_rd_atomic: 1,
        access: Access::ALL,
        requests,
        remote_len: 64,
        receives: Vec::new(),
        late: false,
        srq: false,
        windows: false,
        cuts: 0,
    }
}

/// Connections of which one side asks for the same again and again.
fn plan(seed: u64, faults: Faults, kind: Kind, retry_cnt: u8, mercy: bool) -> Plan {
    let request = Request {
        kind,
        len: if kind.is_word() { 8 } else { 64 },
        source: 0,
        remote: 0,
        operand: 4,
        signaled: true,
        solicited: false,
        poison: None,
        cuts: 0,
        inline: false,
        fence: false,
    };
    let connection = Connection {
        hosts: [0, 1],
        path_mtu: PathMtu::Mtu1024,
        timeout: TIMEOUT,
        retry_cnt,
        rnr_timer: 1,
        reuse: false,
        sides: [side(vec![request; REQUESTS]), side(Vec::new())],
    };
    Plan {
        seed,
        hosts: 2,
        ipv6: false,
        faults,
        latency_ns: LATENCY_NS,
        max_delay_ns: MAX_DELAY_NS,
        mercy,
        window: 1,
        ack_interval: 32,
        recovery: Recovery::GoBackN,
        held: 0,
        read_rate: Rate::UNLIMITED,
        chains: vec![vec![connection; CONNECTIONS]],
        datagrams: None,
    }
}

fn run(seed: u64, faults: Faults, kind: Kind, retry_cnt: u8, mercy: bool) -> Outcome {
    world::run_plan(&plan(seed, faults, kind, retry_cnt, mercy), None).unwrap()
}

/// Holds what was seen to a probability: a sum of trials that stop at a failure is off by no more
/// than one of as many that do not.
fn hold(what: &str, outcome: &Outcome, model: f64) {
    #[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
    let [failures, trials] =
        [outcome.exhausted, outcome.succeeded + outcome.exhausted].map(|count| count as f64);
    let expected = trials * model;
    let deviation = (trials * model * (1.0 - model)).sqrt();
    println!("{what:<32} {failures:>6} of {trials:>6}, expected {expected:>8.1} ± {deviation:.1}");
    assert!((failures - expected).abs() <= SIGMAS * deviation + 1.0, "{what}");
    assert_eq!(outcome.event(HwCounter::RetryExceededErr), outcome.exhausted);
}

/// Frames are lost and nothing else: an attempt fails if the request is lost or its answer, and a
/// request fails if as many attempts do as there are retries, and one.
#[test]
fn losses_alone() {
    let kinds = [Kind::Write, Kind::Read, Kind::Add, Kind::Swap, Kind::AtomicWrite, Kind::Flush];
    let mut some = 0;
    for (seed, (drop, retry_cnt)) in
        [(50, 0), (50, 1), (100, 1), (100, 2), (200, 0), (200, 1), (200, 2), (200, 4)]
            .into_iter()
            .enumerate()
    {
        let loss = f64::from(drop) / 1000.0;
        let attempt_fails = 1.0 - (1.0 - loss).powi(2);
        let model = attempt_fails.powi(i32::from(retry_cnt) + 1);
        for (number, kind) in kinds.into_iter().enumerate() {
            let faults = Faults { drop, ..Faults::NONE };
            let seed = u64::try_from(seed * 16 + number).unwrap();
            let outcome = run(seed, faults, kind, retry_cnt, false);
            some += outcome.exhausted;
            hold(&format!("{kind:?} {drop} ‰, {retry_cnt} retries"), &outcome, model);
        }
    }
    assert!(some > 1000, "only {some}");
}

/// What a wire of the model does to a frame.
struct Model {
    random: Random,
    faults: Faults,
    /// How often damage is of no consequence: to requests, and to their answers.
    harmless: [f64; 2],
    /// What happens, by time: the oldest first.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
    now: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request(u64),
    Answer(u64),
    Timeout(u64),
}

impl Model {
    fn at(&mut self, after: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((self.now + after, self.serial, event)));
    }

    fn strikes(&mut self, per_mille: u32) -> bool {
        self.random.below(1000) < u64::from(per_mille)
    }

    fn send(&mut self, event: Event) {
        let faults = self.faults;
        if self.strikes(faults.drop) {
            return;
        }
        if self.strikes(faults.duplicate) {
            let later = self.random.below(4 * LATENCY_NS);
            self.at(LATENCY_NS + later, event);
        }
        if self.strikes(faults.corrupt) {
            let harmless = self.harmless[usize::from(matches!(event, Event::Answer(_)))];
            #[expect(clippy::cast_precision_loss, reason = "below a million")]
            let roll = self.random.below(1_000_000) as f64 / 1e6;
            if roll >= harmless {
                return;
            }
        }
        let mut after = LATENCY_NS;
        if self.strikes(faults.reorder) {
            after += self.random.within(1, 2 * LATENCY_NS);
        }
        if self.strikes(faults.delay) {
            after += self.random.below(MAX_DELAY_NS);
        }
        self.at(after, event);
    }

    /// Runs a sender that waits for each acknowledgement, and a receiver that acknowledges what
    /// comes by the newest it has; says how often one in a request fails.
    fn failures(&mut self, requests: u64, retry_cnt: u32) -> f64 {
        let (mut failed, mut ended) = (0u32, 0u32);
        let (mut current, mut executed, mut left, mut armed) = (1, 0, retry_cnt, 0);
        let timeout = 4096 << TIMEOUT;
        self.send(Event::Request(current));
        self.at(timeout, Event::Timeout(armed));
        while u64::from(ended) < requests {
            let Reverse((at, _, event)) = self.events.pop().expect("a timer is armed");
            self.now = at;
            let mut next = false;
            match event {
                Event::Request(number) => {
                    executed = executed.max(number);
                    self.send(Event::Answer(executed));
                }
                Event::Answer(number) => next = number == current,
                Event::Timeout(number) if number == armed && left == 0 => {
                    failed += 1;
                    next = true;
                    // Another connection begins.
                    self.events.clear();
                }
                Event::Timeout(number) if number == armed => {
                    left -= 1;
                    armed += 1;
                    self.send(Event::Request(current));
                    self.at(timeout, Event::Timeout(armed));
                }
                Event::Timeout(_) => {}
            }
            if next {
                ended += 1;
                current += 1;
                left = retry_cnt;
                armed += 1;
                self.send(Event::Request(current));
                self.at(timeout, Event::Timeout(armed));
            }
        }
        f64::from(failed) / f64::from(ended)
    }
}

/// How often damage leaves a frame good: one in five is cut short, and of up to three flipped bits
/// each must hit what no check covers.
fn harmless(frame: &[u8]) -> f64 {
    let good = |frame: &[u8]| {
        Frame::parse([frame, &[]], Start::Ethernet)
            .is_ok_and(|frame| frame.verify_icrc() == IcrcVerdict::Valid)
    };
    assert!(good(frame) && !good(&frame[..frame.len() - 1]));
    let bits = frame.len() * 8;
    let uncovered = (0..bits).filter(|bit| {
        let mut flipped = frame.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        good(&flipped)
    });
    #[expect(clippy::cast_precision_loss, reason = "some hundred bits")]
    let share = uncovered.count() as f64 / bits as f64;
    0.8 * (share + share.powi(2) + share.powi(3)) / 3.0
}

/// Every fault at once, at a fifth of the frames each: two frames of a perfect wire tell what
/// damage does, the rest is the model's.
#[test]
fn all_faults_at_once() {
    let trace = Trace::default();
    world::run_plan(&plan(0, Faults::NONE, Kind::Write, 7, true), Some(&trace)).unwrap();
    let records = trace.into_inner().unwrap();
    let sent = |host: usize| {
        records.iter().find(|record| !record.received && record.host == host).unwrap()
    };
    let shares = [0, 1].map(|host| harmless(&sent(host).frame));
    assert!(shares.iter().all(|share| (0.02..0.5).contains(share)), "{shares:?}");

    for rate in [100, 200] {
        let faults =
            Faults { drop: rate, duplicate: rate, reorder: rate, corrupt: rate, delay: rate };
        for retry_cnt in [1, 2, 5] {
            let mut model = Model {
                random: Random::new(99),
                faults,
                harmless: shares,
                events: BinaryHeap::new(),
                serial: 0,
                now: 0,
            };
            // So many that its own error is small beside the tolerance.
            let predicted = model.failures(1_000_000, u32::from(retry_cnt));
            let mut sum = Outcome::default();
            for seed in 0..4 {
                let seed = seed << 8 | u64::from(rate) << 16 | u64::from(retry_cnt);
                sum.add(&run(seed, faults, Kind::Write, retry_cnt, false));
            }
            hold(&format!("all at {rate} ‰, {retry_cnt} retries"), &sum, predicted);
        }
    }
}

/// A budget without end: the wires relent before the last retry. What fails on them otherwise
/// succeeds, all of it.
#[test]
fn none_without_an_end_to_the_budget() {
    let faults = Faults { drop: 200, duplicate: 200, reorder: 200, corrupt: 200, delay: 200 };
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.takes_receive()) {
        let seed = 7000;
        let outcome = run(seed, faults, kind, 7, true);
        assert_eq!(outcome.exhausted + outcome.failed, 0, "{kind:?}");
        assert_eq!(outcome.succeeded, u64::try_from(REQUESTS * CONNECTIONS).unwrap());
        assert!(outcome.event(HwCounter::LocalAckTimeoutErr) > 1000, "the wire was too good");
    }
    assert!(run(7000, faults, Kind::Write, 2, false).exhausted > 100, "as it is, some do fail");
}
