//! The perftest service, from the first message of its exchange to the end of the session.

use std::net::IpAddr;
use std::time::Instant as WallClock;

use dpu_app::service::memory::Region;
use dpu_app::service::perftest::{Options, Session, Test};
use dpu_app::service::{Context, Platform, Progress, Queues, Reply, Route, RouteError};
use roce_codec::ib::PathMtu;
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::{Access, Config, Engine, HeapStorage, Instant, Limits, SeededEntropy};

use crate::MACS;
use crate::counting::{look_away, watch};
use crate::lossy::Lossy;
use crate::support::host::Host;
use crate::support::{Client, Run, SERVER, Tcp};

pub(crate) const OPTIONS: Options =
    Options { region_len: 1 << 17, size: None, iterations: None, access: Access::NONE };

/// A machine that maps memory when a session asks for it. That is its own affair.
pub(crate) struct Machine(pub(crate) Host);

impl Platform for Machine {
    type Memory = HostMemory;
    type Random = SeededEntropy;

    fn memory(&self) -> &HostMemory {
        self.0.memory()
    }

    fn random(&mut self) -> &mut SeededEntropy {
        self.0.random()
    }

    fn take_region(&mut self, len: u64) -> Option<Region> {
        look_away(|| self.0.take_region(len))
    }

    fn give_region(&mut self, region: Region) {
        self.0.give_region(region);
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.0.is_own(address)
    }

    fn route(&mut self, peer: IpAddr) -> Result<Route, RouteError> {
        self.0.route(peer)
    }

    fn release_route(&mut self, route: Route) {
        self.0.release_route(route);
    }
}

struct Server<'s> {
    engine: Engine<'s>,
    port: Lossy<LoopbackPort<'s, 32>>,
    machine: Machine,
    queues: Queues,
    session: Session,
    started: WallClock,
    progress: Progress,
    /// Calls of the allocator.
    asked: u64,
}

impl<'s> Server<'s> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Session, &mut Context<'_, 's, Machine>) -> T) -> T {
        let now = Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap());
        let mut context = Context {
            engine: &mut self.engine,
            platform: &mut self.machine,
            queues: self.queues,
            path_mtu: PathMtu::Mtu4096,
            now,
        };
        let (result, asked) = watch(|| act(&mut self.session, &mut context));
        self.asked += asked;
        result
    }
}

impl Tcp for Server<'_> {
    fn exchange(&mut self, message: &[u8], len: usize) -> Vec<u8> {
        let mut reply = Reply::new();
        self.progress = self
            .with(|session, context| session.handle_message(message, &mut reply, context))
            .unwrap();
        assert_eq!(reply.len(), len);
        reply.to_vec()
    }

    fn send(&mut self, message: &[u8]) {
        self.exchange(message, 0);
    }

    fn pump(&mut self) {
        let now = Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap());
        let (_, asked) = watch(|| {
            let memory = self.machine.memory();
            turn(&mut self.engine, &mut self.port, memory, &OneNeighbour(MACS[0]), now)
        });
        self.asked += asked;
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                self.with(|session, context| session.handle_completion(&wc, context)).unwrap();
            }
        }
        while let Some(event) = self.engine.poll_event() {
            self.with(|session, context| session.handle_event(&event, context)).unwrap();
        }
        if self.session.poll_timeout().is_some_and(|due| due <= now) {
            self.with(Session::handle_timeout).unwrap();
        }
    }
}

#[test]
fn perftest() {
    let mut lost = 0;
    for test in Test::ALL {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let limits = Limits { qps: 2, ..Limits::SMALL };
        let [near, far] = wire.ends(MACS);
        let mut storage = [HeapStorage::new(&limits), HeapStorage::new(&limits)];
        let [ours, theirs] = &mut storage;
        let mut client = Client::new(ours, near, OneNeighbour(MACS[1]));
        let mut engine = Engine::new(Config::DEFAULT, theirs.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let mut server = Server {
            engine,
            port: Lossy::new(far, 100),
            machine: Machine(Host::new(SERVER, SeededEntropy::new(3))),
            queues,
            session: Session::new(9, test, OPTIONS),
            started: WallClock::now(),
            progress: Progress::Continues,
            asked: 0,
        };
        let run = Run { iterations: 500, ..Run::new(test, 1500) };
        client.run(&run, &mut server);
        client.until(&mut server, "the last acknowledgement", |_| true);
        assert!(server.session.exchange().may_end(), "{test:?}");
        let next = Session::new(0, test, OPTIONS);
        let session = core::mem::replace(&mut server.session, next);
        server.with(|_, context| session.close(context));
        assert_eq!(server.asked, 0, "{test:?}: calls of the allocator");
        lost += server.port.lost;
    }
    assert!(lost > 0);
}
