//! Either side of perftest with `-R`, over a wire in memory: connected by MADs on queue pair 1, the
//! exchange by SENDs.

#![cfg(feature = "std")]

mod conversation;
mod silence;
#[path = "../support/mod.rs"]
mod support;

use std::net::{IpAddr, Ipv6Addr};

use dpu_app::service::Reply;
use dpu_app::service::cm::{CmService, CmServiceError, End, Gsi, SessionSlot};
use dpu_app::service::perftest::client::{
    ByCm, Client, ClientError, ClientProgress, Job, Meter, Outcome,
};
use dpu_app::service::perftest::{
    DEFAULT_PORT, ExchangeError, Form, KeyMessage, Options, SessionError, Test,
};
use roce_codec::cm::RejReason;
use roce_codec::ib::{NakCode, PathMtu, Qpn};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultPort};
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{Access, Entropy, HeapStorage, Instant, Limits, SeededEntropy};
use support::side::{CmSide, MACS, Side, host, losing, slots};
use support::{CLIENT, SERVER};

const REGION_LEN: u32 = 1 << 17;
const OPTIONS: Options =
    Options { region_len: REGION_LEN, size: None, iterations: None, access: Access::NONE };
const LIMITS: Limits = Limits {
    qps: 16,
    replays_per_qp: 16,
    mrs: 64,
    cqs: 2,
    cqes: 16384,
    send_wqes: 4096,
    recv_wqes: 8 * 512,
    events: 1024,
    ..Limits::SMALL
};
const TURN_NS: u64 = 20_000;
const TURNS: u64 = 20_000_000;
/// Queue pair 1 keeps its memory, and the way to whom it talked to last.
const LEFT: (i32, i32) = (1, 1);

fn roomy(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, test);
        if let Err(panic) = thread.expect("a thread").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

struct Count([u64; 2]);

impl Meter for Count {
    fn posted(&mut self, _: usize, _: u64, _: Instant) {
        self.0[0] += 1;
    }

    fn completed(&mut self, _: usize, _: u64, _: Instant) {
        self.0[1] += 1;
    }
}

/// A client, and a server with the services it is to have.
struct World<'s, P> {
    near: Side<'s, P>,
    far: CmSide<'s, P>,
    by_cm: ByCm<'s>,
    client: Client,
    meter: Count,
    ends: Vec<End>,
}

/// What is lent to both sides.
struct Lent {
    storage: [HeapStorage; 2],
    cm: [HeapCmStorage; 2],
    sessions: Vec<SessionSlot>,
}

impl Lent {
    fn new() -> Self {
        Self {
            storage: [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)],
            cm: [HeapCmStorage::new(64, 8, 64), HeapCmStorage::new(64, 8, 64)],
            sessions: slots(2),
        }
    }
}

impl<'s, P: Port> World<'s, P> {
    fn new(
        job: &Job,
        served: &[CmService],
        lent: &'s mut Lent,
        [near, far]: [P; 2],
        [client, server]: [IpAddr; 2],
    ) -> Self {
        let Lent { storage: [a, b], cm: [c, d], sessions } = lent;
        let mut near = Side::new(a, near, host(client), PathMtu::Mtu1024);
        let far = Side::new(b, far, host(server), PathMtu::Mtu1024);
        let mut far = CmSide::new(far, d, sessions);
        served.iter().for_each(|service| far.cm.serve(*service).unwrap());
        let gsi = Gsi::new(c.lend(), &mut near.context()).unwrap();
        let ports = (40_000, DEFAULT_PORT);
        let by_cm = ByCm::connect(server, ports, job, gsi, &mut near.context()).unwrap();
        let client = Client::new(job, client, Form::Binary);
        let (meter, ends) = (Count([0; 2]), Vec::new());
        Self { near, far, by_cm, client, meter, ends }
    }

    /// One turn of both sides.
    fn turn(&mut self, out: &mut Reply) -> Result<(), ClientError> {
        let Self { near, far, by_cm, client, meter, ends } = self;
        let now = near.now.add_ns(TURN_NS);
        let _ = near.turn(now);
        while let Some(wc) = near.poll_cq() {
            if !by_cm.handle_completion(&wc, &mut near.context())? {
                client.handle_completion(&wc, meter, &mut near.context())?;
            }
        }
        while let Some(event) = near.poll_event() {
            by_cm.handle_event(&event)?;
            client.handle_event(&event)?;
        }
        by_cm.poll(client, out, &mut near.context())?;
        client.poll(meter, &mut near.context())?;
        far.pump(now);
        ends.extend(std::iter::from_fn(|| far.cm.poll_end()));
        Ok(())
    }

    /// Turns until the client has its connection.
    fn connect(&mut self) -> Result<(), ClientError> {
        for _ in 0..TURNS {
            self.turn(&mut Reply::new())?;
            if self.by_cm.is_connected() {
                return Ok(());
            }
        }
        panic!("it is not connected");
    }

    /// SENDs a message as it is, and waits for what comes of it: an answer, or the server's end of the
    /// session.
    fn say(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (before, now) = (self.ends.len(), self.near.now);
        self.by_cm.send(message, &mut self.near.context()).unwrap();
        loop {
            // What ends the session may be an error here, too.
            let _ = self.turn(&mut Reply::new());
            if let Some(answer) = self.by_cm.poll_message() {
                return Some(answer.to_vec());
            }
            if self.ends.len() > before {
                return None;
            }
            assert!(self.near.now.ns_since(now) < 60_000_000_000, "neither answer nor end");
        }
    }

    /// One turn, and what the client says and is told; `out` is what it says next.
    fn step(&mut self, out: &mut Reply) -> Result<(), ClientError> {
        if self.by_cm.is_connected() && !out.is_empty() {
            self.by_cm.send(&core::mem::take(out), &mut self.near.context())?;
        }
        self.turn(out)?;
        if let Some(message) = self.by_cm.poll_message() {
            let context = &mut self.near.context();
            let progress = self.client.handle_message(&message, out, context)?;
            if progress == ClientProgress::Connects {
                self.by_cm.connect_pairs(&mut self.client, context)?;
            }
        }
        Ok(())
    }

    /// The whole of a client's life, and the server's end of it.
    fn run(&mut self) -> Result<(), ClientError> {
        let mut out = Reply::new();
        self.client.start(&mut out, &self.near.context());
        for _ in 0..TURNS {
            self.step(&mut out)?;
            if self.client.is_over() && out.is_empty() {
                self.by_cm.close(&mut self.near.context());
                return self.farewell();
            }
            if self.client.has_run() {
                let outcome = Outcome { iterations: self.meter.0[1], ..Outcome::default() };
                self.client.finish_run(outcome, &mut out, &self.near.context());
            }
        }
        panic!("{:?}: it does not end", self.client.job());
    }

    /// Turns until the server knows of its end.
    fn farewell(&mut self) -> Result<(), ClientError> {
        let mut turns = 0..TURNS;
        while self.ends.is_empty() || self.by_cm.is_disconnecting() {
            assert!(turns.next().is_some(), "the server does not end");
            self.turn(&mut Reply::new())?;
        }
        Ok(())
    }

    /// Ends the client, and looks whether anything is left.
    fn close(mut self) {
        self.client.close(&mut self.near.context());
        for side in [&self.near, &self.far.side] {
            assert_eq!((side.host.regions, side.host.routes), LEFT, "something is left");
        }
    }
}

fn service(test: Test) -> CmService {
    CmService::Perftest { port: DEFAULT_PORT, test, options: OPTIONS }
}

fn job(test: Test, size: u32) -> Job {
    let size = if test.is_atomic() { 8 } else { size };
    Job { size, iterations: Some(40), timeout: 10, ..Job::new(test) }
}

/// A whole run; what the server's session ended by, and what its memory holds.
fn check(job: &Job, addresses: [IpAddr; 2], faults: FaultConfig) {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let ports = wire.ends(MACS).map(|port| FaultPort::new(port, &faults));
    let mut lent = Lent::new();
    let mut world = World::new(job, &[service(job.test)], &mut lent, ports, addresses);
    if let Err(error) = world.run() {
        panic!("{}: {error} {:?}", job.test, world.ends);
    }
    let [end] = world.ends[..] else { panic!("{}: {:?}", job.test, world.ends) };
    assert_eq!((end.error, end.peer), (None, addresses[0]), "{}: {end}", job.test);
    assert_eq!(end.service, format!("perftest:{}", job.test));
    let total = job.iterations.unwrap() * u64::from(job.qps);
    let unseen = matches!(job.test, Test::ReadLat | Test::AtomicLat);
    assert_eq!(end.count, if unseen { 0 } else { total }, "{}", job.test);
    assert_eq!(world.meter.0[0], total);

    let ours: Vec<_> = world.client.regions().collect();
    let qps = usize::try_from(job.qps).unwrap();
    assert_eq!((ours.len(), world.far.side.host.kept.len()), (qps, qps));
    for (shared, theirs) in ours.iter().zip(&world.far.side.host.kept) {
        let size = usize::try_from(job.size).unwrap();
        let mut ours = vec![0; size];
        world.near.host.memory.read(shared.exposed.region.addr, &mut ours).unwrap();
        let theirs = &theirs[..size];
        match job.test {
            Test::AtomicBw | Test::AtomicLat => assert!(theirs.iter().any(|byte| *byte != 0)),
            Test::WriteLat => assert_eq!(theirs.last(), Some(&40)),
            // What was sent last is at another place of the client's.
            Test::SendBw => assert!(theirs.iter().any(|byte| *byte != 0)),
            _ => {
                assert!(ours.iter().any(|byte| *byte != 0), "noise");
                assert!(ours == theirs, "{}: the memory differs", job.test);
            }
        }
    }
    world.close();
}

#[test]
fn every_test() {
    roomy(|| {
        for test in Test::ALL {
            check(&job(test, 1000), [CLIENT, SERVER], losing(0.0, 1));
        }
    });
}

#[test]
fn every_test_over_ipv6() {
    roomy(|| {
        let address = |host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host));
        for test in Test::ALL {
            check(&job(test, 3000), [address(2), address(1)], losing(0.0, 1));
        }
    });
}

#[test]
fn several_queue_pairs() {
    roomy(|| {
        for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
            check(&Job { qps: 4, ..job(test, 64) }, [CLIENT, SERVER], losing(0.0, 1));
        }
    });
}

/// Requests, answers, MADs and the exchange are lost alike.
#[test]
fn loss() {
    roomy(|| {
        for (test, seed) in Test::ALL.into_iter().zip(7..) {
            check(&job(test, 1000), [CLIENT, SERVER], losing(0.03, seed));
        }
    });
}

const VERSION: &[u8] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const BARRIER: &[u8] = &[0; 56];

/// A client's own end of a connection to a server of this test, to be spoken over.
fn speak(test: Test, with: impl FnOnce(&mut World<'_, LoopbackPort<'_, 32>>)) {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let mut lent = Lent::new();
    let job = job(test, 64);
    let mut world =
        World::new(&job, &[service(test)], &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
    world.connect().unwrap();
    with(&mut world);
    world.by_cm.close(&mut world.near.context());
    for _ in 0..TURNS {
        let _ = world.turn(&mut Reply::new());
        if !world.ends.is_empty() && !world.by_cm.is_disconnecting() {
            break;
        }
    }
    assert_eq!(world.ends.len(), 1);
    world.close();
}

fn greet<P: Port>(world: &mut World<'_, P>) {
    assert_eq!(world.say(VERSION).as_deref(), Some(VERSION));
    assert_eq!(world.say(&[0, 0, 0x10, 0]).as_deref(), Some(&[0, 0, 0x10, 0][..]));
    assert_eq!(world.say(&[0, 0, 0, 0x40]).as_deref(), Some(&[0, 0, 0, 0x40][..]));
    assert_eq!(world.say(b"5\0").as_deref(), Some(&b"3\0"[..]), "1024 here");
}

fn ended_by<P: Port>(world: &World<'_, P>, wanted: ExchangeError) {
    let wanted = CmServiceError::Perftest(SessionError::Exchange(wanted));
    assert_eq!(world.ends[0].error, Some(wanted), "{}", world.ends[0]);
}

/// Of a client of perftest 4.5, `ib_read_lat -R` over rxe.
#[rustfmt::skip]
const KEY: [u8; 56] = [
    0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0x1b, 0, 0xe4, 0x42, 0xca,
    0, 0, 0x0b, 0x47, 0x03, 0x56, 0, 0, 0, 0, 0x56, 0x03, 0xca, 0x79, 0x50, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 2,
    0, 0, 0, 0, 0, 0, 0, 1,
];

/// With `-z` what the exchange says connects queue pairs: as a real client begins it.
#[test]
fn regular_queue_pairs() {
    roomy(|| {
        speak(Test::ReadLat, |world| {
            greet(world);
            let first = world.say(&KEY).unwrap();
            let ours = KeyMessage::parse_binary(first[..].try_into().unwrap()).unwrap();
            assert_eq!((ours.gid.address(), ours.out_reads), (SERVER, 16));
            assert!(ours.qpn != Qpn::new(0) && ours.va.is_multiple_of(4096));
            // Three barriers, and one behind the run: the same again.
            for _ in 0..4 {
                assert_eq!(world.say(&KEY).as_ref(), Some(&first));
            }
        });
    });
}

#[test]
fn clients_that_make_no_sense() {
    roomy(|| {
        speak(Test::WriteBw, |world| {
            assert_eq!(world.say(b"SSH-2.0-OpenSSH_"), None);
            ended_by(world, ExchangeError::Version);
        });
        for len in [1, 15, 17, 56, 64] {
            speak(Test::WriteBw, |world| {
                assert_eq!(world.say(&VERSION.repeat(4)[..len]), None);
                ended_by(world, ExchangeError::Len { expected: 16, found: len });
            });
        }
        // A queue pair that nobody has connected.
        speak(Test::WriteBw, |world| {
            greet(world);
            assert_eq!(world.say(BARRIER).as_deref(), Some(BARRIER));
            assert_eq!(world.say(BARRIER).as_deref(), Some(BARRIER));
            assert_eq!(world.say(&KEY), None);
            ended_by(world, ExchangeError::UnknownQp);
        });
        // A key in the barrier's place.
        speak(Test::WriteBw, |world| {
            greet(world);
            assert_eq!(world.say(BARRIER).as_deref(), Some(BARRIER));
            assert_eq!(world.say(&KEY), None);
            ended_by(world, ExchangeError::Barrier);
        });
        for at in [0, 4, 8, 12] {
            speak(Test::WriteBw, |world| {
                greet(world);
                let mut key = KEY;
                key[at] = 0xff;
                assert_eq!(world.say(&key), None);
                ended_by(world, ExchangeError::Key);
            });
        }
        // More than what is due behind the end.
        speak(Test::ReadLat, |world| {
            greet(world);
            for _ in 0..5 {
                assert!(world.say(&KEY).is_some());
            }
            assert_eq!(world.say(&KEY), None);
            ended_by(world, ExchangeError::Done);
        });
    });
}

/// Whatever is said, at whatever point: the session ends in order, and nothing is left.
#[test]
fn noise() {
    roomy(|| {
        for seed in 0..150 {
            let mut random = SeededEntropy::new(seed);
            speak(Test::ALL[usize::try_from(seed % 8).unwrap()], |world| {
                let steps = random.next_u32() % 9;
                let valid: [&[u8]; 8] =
                    [VERSION, &[0, 0, 16, 0], &[0, 0, 0, 64], b"3\0", BARRIER, BARRIER, &KEY, &KEY];
                let said = valid.iter().take(usize::try_from(steps).unwrap());
                if !said.into_iter().all(|message| world.say(message).is_some()) {
                    return;
                }
                for _ in 0..20 {
                    let mut message = [0; 64];
                    message.iter_mut().for_each(|byte| *byte = random.next_u32().to_le_bytes()[0]);
                    let len =
                        [2, 4, 8, 16, 56, 64][usize::try_from(random.next_u32() % 6).unwrap()];
                    if world.say(&message[..len]).is_none() {
                        return;
                    }
                }
            });
        }
    });
}

/// It goes in the middle of its greeting.
#[test]
fn a_client_that_goes() {
    roomy(|| {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let mut lent = Lent::new();
        let job = job(Test::WriteBw, 64);
        let served = [service(Test::WriteBw)];
        let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
        world.connect().unwrap();
        greet(&mut world);
        world.by_cm.close(&mut world.near.context());
        world.farewell().unwrap();
        assert_eq!(world.ends[0].error, Some(CmServiceError::Gone));
        world.close();
    });
}

/// Nobody listens there, or for another test.
#[test]
fn servers_that_are_not_there() {
    roomy(|| {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let mut lent = Lent::new();
        let job = job(Test::WriteBw, 64);
        let mut world = World::new(&job, &[], &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
        let error = world.run().unwrap_err();
        let refused = CmServiceError::Rejected(RejReason::INVALID_SERVICE_ID);
        assert_eq!(error, ClientError::Cm(refused));
        assert!(error.to_string().contains("with -R"), "{error}");
        world.by_cm.close(&mut world.near.context());
        world.close();

        let mut wire = Box::new(LoopbackWire::<32>::new());
        let mut lent = Lent::new();
        let served = [service(Test::ReadBw)];
        let mut world = World::new(&job, &served, &mut lent, wire.ends(MACS), [CLIENT, SERVER]);
        assert!(matches!(world.run(), Err(ClientError::Failed { .. })));
        let wanted = SessionError::Refused(NakCode::InvalidRequest);
        assert_eq!(world.ends[0].error, Some(CmServiceError::Perftest(wanted)));
    });
}
