//! The poll loop of a client: an engine, what it runs on, and who uses it.

use anyhow::{Result, ensure};
use roce_codec::ib::PathMtu;
use roce_dataplane::poll::turn;
use roce_dataplane::port::Port;
use roce_engine::{Engine, Event, Instant, NextHop, Wc};

use super::clock::Clock;
use super::os;
use super::platform::Host;
use super::wire::Stack;
use crate::service::{Context, Queues};

/// How long a neighbour's MAC address may take to be found.
const NEIGHBOUR_NS: u64 = 5_000_000_000;
/// The longest pause.
const WAIT_NS: u64 = 1_000_000;

/// Who uses the engine.
pub(super) trait User {
    /// Takes a completion.
    fn handle_completion(&mut self, wc: &Wc, context: &mut Context<'_, '_, Host>) -> Result<()>;

    /// Takes an event.
    fn handle_event(&mut self, event: &Event, context: &mut Context<'_, '_, Host>) -> Result<()>;

    /// Does what has waited for its time; says whether there was anything.
    fn poll(&mut self, context: &mut Context<'_, '_, Host>) -> Result<bool>;

    /// When [`User::poll`] is due even if nothing has come.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// The engine and what it runs on.
pub(super) struct PollLoop<'s> {
    pub(super) engine: Engine<'s>,
    pub(super) host: Host,
    pub(super) stack: Stack,
    pub(super) queues: Queues,
    pub(super) path_mtu: PathMtu,
    pub(super) clock: Clock,
    /// Packets not sent for want of a neighbour.
    pub(super) unresolved: u64,
}

impl<'s> PollLoop<'s> {
    pub(super) fn new(
        engine: Engine<'s>,
        host: Host,
        stack: Stack,
        queues: Queues,
        path_mtu: PathMtu,
    ) -> Self {
        Self { engine, host, stack, queues, path_mtu, clock: Clock::start(), unresolved: 0 }
    }

    pub(super) fn context(&mut self) -> Context<'_, 's, Host> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: self.path_mtu,
            now: self.clock.now(),
        }
    }

    /// Turns until the next hop's MAC address is known: what is sent to nobody is lost.
    pub(super) fn wait_for_neighbour(&mut self, hop: NextHop, user: &mut impl User) -> Result<()> {
        let give_up = self.clock.now().add_ns(NEIGHBOUR_NS);
        while self.host.neighbours.get(hop).is_none() {
            ensure!(!os::stop_requested(), "stopped");
            ensure!(self.clock.now() < give_up, "it does not answer to ARP or neighbour discovery");
            self.turn(user, 0)?;
        }
        Ok(())
    }

    /// One turn, and a pause of up to a millisecond when nothing has happened for `spin_us`.
    pub(super) fn turn(&mut self, user: &mut impl User, spin_us: u64) -> Result<()> {
        let began = self.clock.now();
        loop {
            let now = self.clock.now();
            let Self { engine, stack, host, .. } = self;
            let turn = turn(engine, stack, &host.memory, &host.neighbours, now);
            self.unresolved += u64::try_from(turn.unresolved).unwrap_or(0);
            let any = self.pump(user)?;
            if any || turn.more || turn.received + turn.sent + turn.unresolved > 0 {
                return Ok(());
            }
            if now >= began.add_ns(spin_us.saturating_mul(1000)) {
                break;
            }
        }
        self.host.neighbours.poll();
        let due = self.engine.poll_timeout().into_iter().chain(user.poll_timeout()).min();
        let pause = due.map_or(WAIT_NS, |due| due.ns_since(self.clock.now())).min(WAIT_NS);
        self.stack.wait(pause);
        Ok(())
    }

    /// Passes completions, events and the time on; says whether there was any.
    fn pump(&mut self, user: &mut impl User) -> Result<bool> {
        let mut any = false;
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                any = true;
                user.handle_completion(&wc, &mut self.context())?;
            }
        }
        while let Some(event) = self.engine.poll_event() {
            any = true;
            user.handle_event(&event, &mut self.context())?;
        }
        Ok(user.poll(&mut self.context())? || any)
    }
}
