//! One of two engines in a process, what it runs on, and its connection manager.

use std::net::IpAddr;

use dpu_app::service::cm::{CmServices, Gsi, SessionSlot};
use dpu_app::service::{Context, Platform, Queues};
use roce_codec::ib::PathMtu;
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, Turn, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultRates};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Config, Engine, Event, HeapStorage, Instant, Limits, SeededEntropy, Wc};

use super::host::Host;

/// Of the two ends of a wire.
pub(crate) const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
/// Enough for any service.
pub(crate) const LIMITS: Limits = Limits { cqs: 2, ..Limits::SMALL };

/// Frames lost at a port, each way.
pub(crate) fn losing(drop: f64, seed: u64) -> FaultConfig {
    let rates = FaultRates { drop, ..FaultRates::default() };
    FaultConfig { rx: rates, tx: rates, seed }
}

/// Places for sessions.
pub(crate) fn slots(count: usize) -> Vec<SessionSlot> {
    std::iter::repeat_with(|| None).take(count).collect()
}

/// What services of an address run on.
pub(crate) fn host(address: IpAddr) -> Host {
    let seed = match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => u32::from(address.segments()[7]),
    };
    Host::new(address, SeededEntropy::new(seed.into()))
}

/// See the [module](self).
pub(crate) struct Side<'s, P, H = Host> {
    pub(crate) engine: Engine<'s>,
    pub(crate) port: P,
    pub(crate) host: H,
    pub(crate) queues: Queues,
    pub(crate) path_mtu: PathMtu,
    pub(crate) now: Instant,
    hop: OneNeighbour,
}

impl<'s, P: Port, H: Platform> Side<'s, P, H> {
    /// At a port that has one of the two MAC addresses.
    pub(crate) fn new(storage: &'s mut HeapStorage, port: P, host: H, path_mtu: PathMtu) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let hop = OneNeighbour(if port.mac() == MACS[0] { MACS[1] } else { MACS[0] });
        Self { engine, port, host, queues, path_mtu, now: Instant::ZERO, hop }
    }

    pub(crate) fn context(&mut self) -> Context<'_, 's, H> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: self.path_mtu,
            now: self.now,
        }
    }

    /// One turn of the data path.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        self.now = now;
        turn(&mut self.engine, &mut self.port, self.host.memory(), &self.hop, now)
    }

    /// What came is told before what went.
    pub(crate) fn poll_cq(&mut self) -> Option<Wc> {
        let Queues { send, recv } = self.queues;
        self.engine.poll_cq(recv).or_else(|| self.engine.poll_cq(send))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.engine.poll_event()
    }
}

/// A side with its connection manager.
pub(crate) struct CmSide<'s, P, H = Host> {
    pub(crate) side: Side<'s, P, H>,
    pub(crate) cm: CmServices<'s>,
}

impl<'s, P: Port, H: Platform> CmSide<'s, P, H> {
    pub(crate) fn new(
        mut side: Side<'s, P, H>,
        storage: &'s mut HeapCmStorage,
        sessions: &'s mut [SessionSlot],
    ) -> Self {
        let gsi = Gsi::new(storage.lend(), &mut side.context()).unwrap();
        Self { side, cm: CmServices::new(gsi, sessions) }
    }

    /// The manager, and the surroundings of a call to it.
    pub(crate) fn parts(&mut self) -> (&mut CmServices<'s>, Context<'_, 's, H>) {
        (&mut self.cm, self.side.context())
    }

    /// One turn of the data path, and all that comes of it but for what the connection manager
    /// tells; completions of nobody's here go to `others`. Says whether there was anything.
    pub(crate) fn turn(&mut self, now: Instant, mut others: impl FnMut(Wc)) -> bool {
        let turn = self.side.turn(now);
        let mut any = turn.more || turn.received + turn.sent > 0;
        while let Some(wc) = self.side.poll_cq() {
            any = true;
            if CmServices::owns(wc.wr_id) {
                self.cm.handle_completion(&wc, &mut self.side.context());
            } else {
                others(wc);
            }
        }
        while let Some(event) = self.side.poll_event() {
            any = true;
            self.cm.handle_event(&event, &mut self.side.context());
        }
        any
    }

    /// A turn of everything.
    pub(crate) fn pump(&mut self, now: Instant) -> bool {
        let worked = self.turn(now, |wc| panic!("{wc:?}"));
        self.cm.poll(&mut self.side.context()) || worked
    }

    /// When the next turn is due even if nothing comes.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let timers = [self.side.engine.poll_timeout(), self.cm.poll_timeout()];
        timers.into_iter().flatten().min()
    }
}

/// Pumps both sides until `done`. Time passes by the microsecond, and at once to the next timer, or by
/// the millisecond if there is none, where nothing else can happen.
pub(crate) fn until<P: Port, Q: Port, H: Platform>(
    here: &mut CmSide<'_, P, H>,
    there: &mut CmSide<'_, Q, H>,
    patience: std::time::Duration,
    mut done: impl FnMut(&mut CmSide<'_, P, H>, &mut CmSide<'_, Q, H>) -> bool,
) {
    let started = std::time::Instant::now();
    while !done(here, there) {
        let now = here.side.now;
        let worked = here.pump(now) | there.pump(now);
        let timers = [here.next_timer(), there.next_timer()];
        let due = timers.into_iter().flatten().min().unwrap_or(now.add_ns(1_000_000));
        here.side.now = now.add_ns(1000).max(if worked { now } else { due });
        assert!(started.elapsed() < patience, "nothing for {} s", patience.as_secs());
    }
}
