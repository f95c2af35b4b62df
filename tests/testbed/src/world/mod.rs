//! Runs a [`Plan`] and holds the engines to the oracle.

mod completions;
mod datagrams;
mod end;
mod host;
mod invariants;
mod lifecycle;
mod windows;

use std::fmt;
use std::sync::Mutex;

use roce_codec::ib::PathMtu;
use roce_engine::{Counters, DropReason, HeapStorage, HwCounter, Instant, More};

use self::datagrams::Exchange;
use self::host::{Host, LIMITS};
use self::lifecycle::Chain;
use crate::plan::Plan;
use crate::random::Random;
use crate::wire::{Struck, Wire};

/// Turns in which no end completes or acknowledges anything, at most twice as many: a world in which
/// nothing moves for so long stands still. It is no bound on time, which losses may take a lot of.
const PATIENCE_TURNS: u64 = 3_000_000;
/// Turns of a world, at most, whatever moves.
const MAX_TURNS: u64 = 20 * PATIENCE_TURNS;
/// What a frame keeps a host from sending the next.
const FRAME_NS: u64 = 100;

/// A frame that was sent or received.
#[derive(Debug, Clone)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// The host.
    pub host: usize,
    /// Whether the host received it; otherwise it sent it.
    pub received: bool,
    /// The frame, Ethernet header first.
    pub frame: Vec<u8>,
}

/// Frames in the order they passed; shared, so that it outlives a panic.
pub type Trace = Mutex<Vec<Record>>;

/// What came of a world.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What the wires did.
    pub struck: Struck,
    /// Requests that succeeded.
    pub succeeded: u64,
    /// Requests that failed as they had to, and those flushed behind them.
    pub failed: u64,
    /// Requests that failed for want of retries.
    pub exhausted: u64,
    /// Connections that were run.
    pub connections: u64,
    /// Memory windows that were bound.
    pub bound: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Packets dropped, by reason, in the order of [`DropReason::ALL`].
    pub drops: Vec<u64>,
    /// Events, in the order of [`HwCounter::ALL`].
    pub events: Vec<u64>,
}

impl Outcome {
    /// Adds another world's.
    pub fn add(&mut self, other: &Self) {
        self.struck += other.struck;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.exhausted += other.exhausted;
        self.connections += other.connections;
        self.bound += other.bound;
        self.datagrams += other.datagrams;
        let add = |sums: &mut Vec<u64>, more: &[u64]| {
            sums.resize(sums.len().max(more.len()), 0);
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        };
        add(&mut self.drops, &other.drops);
        add(&mut self.events, &other.events);
    }

    /// Packets dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let at = DropReason::ALL.iter().position(|other| *other == reason);
        at.and_then(|at| self.drops.get(at)).copied().unwrap_or(0)
    }

    /// How often an event happened.
    #[must_use]
    pub fn event(&self, counter: HwCounter) -> u64 {
        let at = HwCounter::ALL.iter().position(|other| *other == counter);
        at.and_then(|at| self.events.get(at)).copied().unwrap_or(0)
    }

    fn count(&mut self, counters: &Counters) {
        let drops = DropReason::ALL.iter().map(|reason| counters.dropped(*reason)).collect();
        let events = HwCounter::ALL.iter().map(|counter| counters.event(*counter)).collect();
        self.add(&Self { drops, events, ..Self::default() });
    }
}

/// Why a world is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that does it again.
    pub seed: u64,
    /// When it was noticed.
    pub at: Instant,
    /// What was noticed.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: at {}: {}", self.seed, self.at, self.what)
    }
}

impl std::error::Error for Failure {}

/// Runs the world of a seed.
///
/// # Errors
/// [`Failure`] if an engine did what it should not.
pub fn run(seed: u64, trace: Option<&Trace>) -> Result<Outcome, Failure> {
    run_plan(&Plan::draw(seed), trace)
}

/// Runs a plan.
///
/// # Errors
/// [`Failure`] if an engine did what it should not.
pub fn run_plan(plan: &Plan, trace: Option<&Trace>) -> Result<Outcome, Failure> {
    let storage = || HeapStorage::new(&LIMITS).with_held(plan.held, PathMtu::Mtu4096);
    let mut storages: Vec<_> = (0..plan.hosts).map(|_| storage()).collect();
    let failure = |at, what| Failure { seed: plan.seed, at, what };
    let mut world =
        World::new(plan, &mut storages, trace).map_err(|what| failure(Instant::ZERO, what))?;
    match world.run() {
        Ok(()) => Ok(world.outcome),
        Err(what) => Err(failure(world.now, what)),
    }
}

struct World<'a, 's> {
    plan: &'a Plan,
    hosts: Vec<Host<'s>>,
    /// From each host to each.
    wires: Vec<Vec<Wire>>,
    chains: Vec<Chain<'a>>,
    exchange: Exchange,
    now: Instant,
    turns: u64,
    /// How the ends stood when that was last looked at.
    described: String,
    random: Random,
    outcome: Outcome,
    trace: Option<&'a Trace>,
}

impl<'a, 's> World<'a, 's> {
    fn new(
        plan: &'a Plan,
        storages: &'s mut [HeapStorage],
        trace: Option<&'a Trace>,
    ) -> Result<Self, String> {
        let mut hosts = Vec::new();
        for (number, storage) in storages.iter_mut().enumerate() {
            let connections = plan.chains.iter().flatten();
            let needs: usize = connections
                .flat_map(|connection| {
                    let [a, b] = &connection.sides;
                    let needs = [end::needs(a, b), end::needs(b, a)];
                    connection.hosts.into_iter().zip(needs)
                })
                .filter(|(host, _)| *host == number)
                .map(|(_, needs)| needs)
                .sum();
            let needs = needs + datagrams::needs(plan, number) + 64;
            hosts.push(Host::new(plan, number, needs, storage)?);
        }
        let exchange = Exchange::new(plan, &mut hosts)?;
        let wire = |from: usize, to: usize| {
            let seed = plan.seed.rotate_left(17) ^ u64::try_from(from * 8 + to).unwrap_or(0);
            Wire::new(plan.faults, plan.latency_ns, plan.max_delay_ns, seed)
        };
        let wires = (0..plan.hosts)
            .map(|from| (0..plan.hosts).map(|to| wire(from, to)).collect())
            .collect();
        Ok(Self {
            plan,
            hosts,
            wires,
            chains: plan.chains.iter().map(|chain| Chain::new(chain)).collect(),
            exchange,
            now: Instant::ZERO,
            turns: 0,
            described: String::new(),
            random: Random::new(!plan.seed),
            outcome: Outcome::default(),
            trace,
        })
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            // What has happened, before anything else does.
            self.complete()?;
            self.start_connections()?;
            self.post()?;
            self.post_datagrams()?;
            self.transmit()?;
            self.complete()?;
            self.check_invariants()?;
            self.end_connections()?;
            let over = self.chains.iter().all(Chain::is_over);
            let Some(next) = self.next_time() else {
                if over {
                    break;
                }
                return Err(format!("nothing will happen any more; {}", self.describe()));
            };
            self.turns += 1;
            if self.turns.is_multiple_of(PATIENCE_TURNS) {
                let described = self.describe();
                if described == self.described || self.turns > MAX_TURNS {
                    return Err(format!("it does not come to an end; {described}"));
                }
                self.described = described;
            }
            self.now = self.now.max(next);
            self.deliver();
            for host in &mut self.hosts {
                while host.engine.handle_timeout(self.now) == More::Yes {}
            }
        }
        self.exchange.check_end(self.plan, &mut self.hosts)?;
        self.outcome.datagrams += self.exchange.arrived();
        for (number, host) in self.hosts.iter().enumerate() {
            host.check_memory().map_err(|what| format!("host {number}: {what}"))?;
            self.outcome.count(host.engine.counters());
        }
        for wire in self.wires.iter().flatten() {
            self.outcome.struck += wire.struck();
        }
        Ok(())
    }

    /// When something happens next.
    fn next_time(&self) -> Option<Instant> {
        let wires = self.wires.iter().flatten().filter_map(Wire::next);
        let timers = self.hosts.iter().filter_map(|host| host.engine.poll_timeout());
        let senders = self.hosts.iter().map(|host| host.busy_until).filter(|at| *at > self.now);
        let chains = self.chains.iter().filter_map(|chain| chain.next_time(self.now));
        let datagrams = self.exchange.next_time();
        wires.chain(timers).chain(senders).chain(chains).chain(datagrams).min()
    }

    /// Sends what the engines have to send, some frames a turn.
    fn transmit(&mut self) -> Result<(), String> {
        let perfect = self.plan.mercy && self.chains.iter().any(Chain::is_desperate);
        for from in 0..self.hosts.len() {
            if self.hosts[from].busy_until > self.now {
                continue;
            }
            let budget = self.random.within(1, 32);
            for _ in 0..budget {
                let host = &mut self.hosts[from];
                let Some(transmit) = host.engine.poll_transmit(self.now) else { break };
                host.busy_until = self.now.add_ns(budget * FRAME_NS);
                let frame = host.frame(&transmit)?;
                let to = usize::from(transmit.path.next_hop.0);
                for chain in &mut self.chains {
                    chain.note_sent(from, &transmit, &self.hosts[from].engine);
                }
                self.record(from, false, &frame);
                self.wires[from][to].send(self.now, frame, perfect);
            }
        }
        Ok(())
    }

    /// Hands the frames that have arrived to the engines, a burst a host.
    fn deliver(&mut self) {
        for to in 0..self.hosts.len() {
            let mut burst = Vec::new();
            for from in 0..self.hosts.len() {
                burst.extend(std::iter::from_fn(|| self.wires[from][to].receive(self.now)));
            }
            for frame in &burst {
                self.record(to, true, frame);
            }
            if !burst.is_empty() {
                self.hosts[to].receive(self.now, &burst);
            }
        }
    }

    fn record(&self, host: usize, received: bool, frame: &[u8]) {
        if let Some(trace) = self.trace
            && let Ok(mut trace) = trace.lock()
        {
            trace.push(Record { at: self.now, host, received, frame: frame.to_vec() });
        }
    }

    fn describe(&self) -> String {
        self.chains.iter().map(Chain::describe).collect::<Vec<_>>().join("; ")
    }
}
