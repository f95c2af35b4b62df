//! The two sides, and a run from the first byte over TCP to the last.

use std::net::{IpAddr, Ipv4Addr};

use dpu_app::service::memory::Region;
use dpu_app::service::perftest::client::{
    Atomic, Client, ClientError, ClientProgress, Job, Meter, Outcome,
};
use dpu_app::service::perftest::{Form, Options, Session, SessionError, Test};
use dpu_app::service::{Context, Progress, Queues, Reply};
use roce_codec::ib::PathMtu;
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{
    Access, Addr, Config, Engine, Event, HeapStorage, Instant, Limits, SeededEntropy, Wc, WcStatus,
};

use crate::host::Host;

pub(crate) const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const REGION_LEN: u32 = 1 << 17;
pub(crate) const OPTIONS: Options =
    Options { region_len: REGION_LEN, size: None, iterations: None, access: Access::NONE };
pub(crate) const LIMITS: Limits = Limits {
    qps: 8,
    replays_per_qp: 16,
    mrs: 64,
    cqs: 2,
    cqes: 8192,
    send_wqes: 2048,
    recv_wqes: 8 * 512,
    events: 1024,
    ..Limits::SMALL
};
/// What a turn takes of the simulated time, and what it takes when there has been nothing to do for
/// a while.
pub(crate) const TURN_NS: u64 = 2_000;
pub(crate) const IDLE_TURN_NS: u64 = 100_000;

/// An engine and what it runs on.
pub(crate) struct Side<'s, P> {
    pub(crate) engine: Engine<'s>,
    pub(crate) port: P,
    pub(crate) hop: OneNeighbour,
    pub(crate) host: Host,
    pub(crate) queues: Queues,
    pub(crate) now: Instant,
    pub(crate) idle: u32,
}

impl<'s, P: Port> Side<'s, P> {
    pub(crate) fn new(
        storage: &'s mut HeapStorage,
        port: P,
        peer: MacAddr,
        address: IpAddr,
    ) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let random = SeededEntropy::new(if address == CLIENT { 3 } else { 5 });
        let host = Host::new(address, random);
        Self { engine, port, hop: OneNeighbour(peer), host, queues, now: Instant::ZERO, idle: 0 }
    }

    pub(crate) fn context(&mut self) -> Context<'_, 's, Host> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: PathMtu::Mtu4096,
            now: self.now,
        }
    }

    /// One turn of the data path; what came of it.
    pub(crate) fn turn(&mut self) -> (Vec<Wc>, Vec<Event>) {
        self.now = self.now.add_ns(if self.idle > 16 { IDLE_TURN_NS } else { TURN_NS });
        let Self { engine, port, host, hop, .. } = self;
        let turn = turn(engine, port, &host.memory, hop, self.now);
        self.idle = if turn.received + turn.sent > 0 { 0 } else { self.idle + 1 };
        let mut completions = Vec::new();
        for queue in [self.queues.recv, self.queues.send] {
            completions.extend(std::iter::from_fn(|| self.engine.poll_cq(queue)));
        }
        (completions, std::iter::from_fn(|| self.engine.poll_event()).collect())
    }

    pub(crate) fn memory(&self, region: &Region, offset: u32, len: u32) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(len).unwrap()];
        let at = Addr { offset: region.addr.offset + u64::from(offset), ..region.addr };
        self.host.memory.read(at, &mut out).unwrap();
        out
    }

    pub(crate) fn is_clean(&self) -> bool {
        (self.host.regions, self.host.routes) == (0, 0)
    }
}

/// Counts, and sees that messages are numbered as they should be.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) posted: Vec<(u64, Instant)>,
    pub(crate) completed: Vec<(u64, Instant)>,
    pub(crate) qps: Vec<[u64; 2]>,
}

impl Count {
    pub(crate) fn qp(&mut self, qp: usize) -> &mut [u64; 2] {
        if self.qps.len() <= qp {
            self.qps.resize(qp + 1, [0; 2]);
        }
        &mut self.qps[qp]
    }
}

impl Meter for Count {
    fn posted(&mut self, qp: usize, index: u64, now: Instant) {
        let [posted, _] = self.qp(qp);
        assert_eq!(index, *posted, "in order");
        *posted += 1;
        self.posted.push((index, now));
    }

    fn completed(&mut self, qp: usize, index: u64, now: Instant) {
        let [posted, completed] = self.qp(qp);
        assert!((*completed..*posted).contains(&index), "once each, none before it is posted");
        *completed = index + 1;
        self.completed.push((index, now));
    }
}

/// How a run went.
pub(crate) struct Ran<'s, P> {
    pub(crate) near: Side<'s, P>,
    pub(crate) far: Side<'s, P>,
    pub(crate) client: Client,
    pub(crate) session: Session,
    pub(crate) meter: Count,
    pub(crate) progress: Progress,
}

/// Runs a client to its end, or to its error.
pub(crate) fn run<'s, P: Port>(
    job: &Job,
    served: Test,
    storage: &'s mut [HeapStorage; 2],
    ports: [P; 2],
) -> Result<Ran<'s, P>, ClientError> {
    let [near, far] = storage;
    let [near_port, far_port] = ports;
    let mut near = Side::new(near, near_port, MACS[1], CLIENT);
    let mut far = Side::new(far, far_port, MACS[0], SERVER);
    let mut client = Client::new(job, CLIENT, Form::Text);
    let access = match job.atomic {
        Atomic::FetchAdd | Atomic::CompareSwap => Access::NONE,
        _ => Access::ALL,
    };
    let mut session = Session::new(9, served, Options { access, ..OPTIONS });
    let mut meter = Count::default();
    let mut out = Reply::new();
    let mut answers: Vec<u8> = Vec::new();
    let mut progress = Progress::Continues;
    let mut over = false;
    client.start(&mut out, &near.context());
    for _ in 0..20_000_000 / 10 {
        // TCP.
        let mut said = core::mem::take(&mut out);
        while !said.is_empty() {
            let len = session.next_len();
            let message: Vec<u8> = said.drain(..len.min(said.len())).collect();
            let mut reply = Reply::new();
            match session.handle_message(&message, &mut reply, &mut far.context()) {
                Ok(next) => progress = next,
                Err(error) => panic!("the server: {error}"),
            }
            answers.extend(&reply);
        }
        if over {
            let clean = session.exchange().may_end();
            assert!(clean, "the server is done, too");
            return Ok(Ran { near, far, client, session, meter, progress });
        }
        let len = client.next_len();
        if len > 0 && answers.len() >= len {
            let message: Vec<u8> = answers.drain(..len).collect();
            let next = client.handle_message(&message, &mut out, &mut near.context())?;
            over = next == ClientProgress::Over;
            continue;
        }
        // The data path.
        let (completions, events) = near.turn();
        for wc in &completions {
            client.handle_completion(wc, &mut meter, &mut near.context())?;
        }
        for event in &events {
            client.handle_event(event)?;
        }
        client.poll(&mut meter, &mut near.context())?;
        if client.has_run() {
            let total = meter.qps.iter().map(|[_, completed]| completed).sum();
            let outcome = Outcome { iterations: total, peak: 2.0, average: 1.5, message_rate: 0.5 };
            let next = client.finish_run(outcome, &mut out, &near.context());
            over = next == ClientProgress::Over;
        }
        let (completions, events) = far.turn();
        for wc in &completions {
            let result = session.handle_completion(wc, &mut far.context());
            settle(result, wc.status);
        }
        for event in &events {
            let _ = session.handle_event(event, &mut far.context());
        }
        if session.poll_timeout().is_some_and(|due| due <= far.now) {
            session.handle_timeout(&mut far.context()).unwrap();
        }
    }
    panic!("{job:?}: it does not end");
}

/// The server's own requests succeed, unless the client is gone by then.
pub(crate) fn settle(result: Result<(), SessionError>, status: WcStatus) {
    assert!(result.is_ok() || status != WcStatus::Success, "{result:?}");
}

pub(crate) fn job(test: Test, size: u32) -> Job {
    let size = if test.is_atomic() { 8 } else { size };
    Job { size, iterations: Some(40), timeout: 8, ..Job::new(test) }
}

pub(crate) fn plain() -> (Box<LoopbackWire<32>>, [HeapStorage; 2]) {
    (Box::new(LoopbackWire::new()), [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)])
}
