//! The perftest service and its client with `-R`, from the first MAD to the last.

use std::net::IpAddr;

use dpu_app::service::cm::{CmService, CmServices, End, Gsi, SessionSlot};
use dpu_app::service::perftest::client::{ByCm, Client, ClientProgress, Job, Meter, Outcome};
use dpu_app::service::perftest::{DEFAULT_PORT, Form, Test};
use dpu_app::service::{Context, Queues, Reply};
use roce_codec::ib::PathMtu;
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Config, Engine, HeapStorage, Instant, Limits, SeededEntropy};

use crate::MACS;
use crate::counting::watch;
use crate::lossy::Lossy;
use crate::perftest::{Machine, OPTIONS};
use crate::support::host::Host;
use crate::support::{CLIENT, SERVER};

const LIMITS: Limits = Limits { qps: 8, mrs: 16, cqes: 8192, recv_wqes: 2048, ..Limits::SMALL };

/// An engine and what it runs on.
struct Side<'s> {
    engine: Engine<'s>,
    port: Lossy<LoopbackPort<'s, 32>>,
    machine: Machine,
    queues: Queues,
    neighbour: MacAddr,
    now: Instant,
}

impl<'s> Side<'s> {
    fn new(
        storage: &'s mut HeapStorage,
        port: LoopbackPort<'s, 32>,
        address: IpAddr,
        neighbour: MacAddr,
    ) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let machine = Machine(Host::new(address, SeededEntropy::new(u64::from(neighbour.0[5]))));
        let now = Instant::ZERO;
        Self { engine, port: Lossy::new(port, 100), machine, queues, neighbour, now }
    }

    fn context(&mut self) -> Context<'_, 's, Machine> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.machine,
            queues: self.queues,
            path_mtu: PathMtu::Mtu1024,
            now: self.now,
        }
    }

    fn turn(&mut self) {
        self.now = self.now.add_ns(20_000);
        let hop = OneNeighbour(self.neighbour);
        let _ = turn(&mut self.engine, &mut self.port, &self.machine.0.memory, &hop, self.now);
    }
}

struct Unmeasured;

impl Meter for Unmeasured {
    fn posted(&mut self, _: usize, _: u64, _: Instant) {}

    fn completed(&mut self, _: usize, _: u64, _: Instant) {}
}

fn pump_client(near: &mut Side<'_>, by_cm: &mut ByCm<'_>, client: &mut Client, out: &mut Reply) {
    near.turn();
    for queue in [near.queues.recv, near.queues.send] {
        while let Some(wc) = near.engine.poll_cq(queue) {
            if !by_cm.handle_completion(&wc, &mut near.context()).unwrap() {
                client.handle_completion(&wc, &mut Unmeasured, &mut near.context()).unwrap();
            }
        }
    }
    while let Some(event) = near.engine.poll_event() {
        by_cm.handle_event(&event).unwrap();
        client.handle_event(&event).unwrap();
    }
    by_cm.poll(client, out, &mut near.context()).unwrap();
    client.poll(&mut Unmeasured, &mut near.context()).unwrap();
    if by_cm.is_connected() && !out.is_empty() {
        by_cm.send(out, &mut near.context()).unwrap();
        out.clear();
    }
    if let Some(message) = by_cm.poll_message() {
        let context = &mut near.context();
        if client.handle_message(&message, out, context) == Ok(ClientProgress::Connects) {
            by_cm.connect_pairs(client, context).unwrap();
        }
    }
    if client.has_run() {
        client.finish_run(Outcome::default(), out, &near.context());
    }
}

fn pump_server(far: &mut Side<'_>, server: &mut CmServices<'_>) -> Option<End> {
    far.turn();
    for queue in [far.queues.recv, far.queues.send] {
        while let Some(wc) = far.engine.poll_cq(queue) {
            server.handle_completion(&wc, &mut far.context());
        }
    }
    while let Some(event) = far.engine.poll_event() {
        server.handle_event(&event, &mut far.context());
    }
    server.poll(&mut far.context());
    server.poll_end()
}

fn run(test: Test) -> u64 {
    let wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let mut cm = [HeapCmStorage::new(8, 4, 8), HeapCmStorage::new(8, 4, 8)];
    let mut sessions: Vec<SessionSlot> = vec![None];
    let ([a, b], [c, d]) = (&mut storage, &mut cm);
    let mut near = Side::new(a, near, CLIENT, MACS[1]);
    let mut far = Side::new(b, far, SERVER, MACS[0]);
    let mut server =
        CmServices::new(Gsi::new(d.lend(), &mut far.context()).unwrap(), &mut sessions);
    server.serve(CmService::Perftest { port: DEFAULT_PORT, test, options: OPTIONS }).unwrap();
    let gsi = Gsi::new(c.lend(), &mut near.context()).unwrap();
    let size = if test.is_atomic() { 8 } else { 1500 };
    let job = Job { size, iterations: Some(300), timeout: 10, ..Job::new(test) };
    let mut client = Client::new(&job, CLIENT, Form::Binary);
    let mut out = Reply::new();
    client.start(&mut out, &near.context());

    let (by_cm, mut asked) =
        watch(|| ByCm::connect(SERVER, (40_000, DEFAULT_PORT), &job, gsi, &mut near.context()));
    let mut by_cm = by_cm.unwrap();
    let mut end = None;
    let mut closed = false;
    for _ in 0..20_000_000 {
        let ((), count) = watch(|| {
            pump_client(&mut near, &mut by_cm, &mut client, &mut out);
            end = end.or(pump_server(&mut far, &mut server));
            if !closed && client.is_over() && out.is_empty() {
                by_cm.close(&mut near.context());
                closed = true;
            }
        });
        asked += count;
        if closed && end.is_some() {
            break;
        }
    }
    let end = end.unwrap_or_else(|| panic!("{test}: it does not end"));
    assert_eq!(end.error, None, "{test}: {end}");
    assert_eq!(asked, 0, "{test}: calls of the allocator");
    near.port.lost + far.port.lost
}

#[test]
fn perftest_by_rdma_cm() {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        let lost: u64 = Test::ALL.into_iter().map(run).sum();
        assert!(lost > 0);
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}
