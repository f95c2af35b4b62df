//! The perftest service against a client of our own, over a wire in memory: all eight tests, with
//! TCP as function calls.

#![cfg(feature = "std")]

mod support;

use std::net::IpAddr;
use std::time::Instant as WallClock;

use dpu_app::service::memory::SharedRegion;
use dpu_app::service::perftest::{KeyMessage, Options, Session, SessionError, Test};
use dpu_app::service::{Context, Gid, Progress, Queues, Reply, RouteError, session_of};
use roce_codec::ib::{PathMtu, Qpn};
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::{
    Access, Addr, Config, Engine, Event, HeapStorage, Instant, Limits, QpError, SeededEntropy,
};
use support::host::Host;
use support::{Client, Run, SERVER, Tcp, message};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const REGION_LEN: u32 = 1 << 17;
const OPTIONS: Options =
    Options { region_len: REGION_LEN, size: None, iterations: None, access: Access::NONE };
const LIMITS: Limits = Limits {
    qps: 8,
    replays_per_qp: 16,
    mrs: 64,
    cqs: 2,
    cqes: 8192,
    send_wqes: 2048,
    recv_wqes: 8 * 512,
    ahs: 4,
    events: 1024,
    ..Limits::SMALL
};
const VERSION: [u8; 16] = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const KEY: &[u8; 108] = b"0000:0001:000011:d2ec0c:00000208:00007f56c97cf000:\
    00:00:00:00:00:00:00:00:00:00:ff:ff:c0:00:02:02:00000000:\0";

/// The server's side: one session.
struct Server<'s, P> {
    engine: Engine<'s>,
    port: P,
    host: Host,
    queues: Queues,
    session: Session,
    started: WallClock,
    progress: Progress,
    failed: Option<SessionError>,
}

impl<'s, P: Port> Server<'s, P> {
    fn new(storage: &'s mut HeapStorage, port: P, test: Test) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let random = SeededEntropy::new(3);
        Self {
            engine,
            port,
            host: Host::new(SERVER, random),
            queues,
            session: Session::new(9, test, OPTIONS),
            started: WallClock::now(),
            progress: Progress::Continues,
            failed: None,
        }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Session, &mut Context<'_, 's, Host>) -> T) -> T {
        let mut context = Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: PathMtu::Mtu4096,
            now: Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap()),
        };
        act(&mut self.session, &mut context)
    }

    fn message(&mut self, message: &[u8]) -> Result<Vec<u8>, SessionError> {
        assert_eq!(message.len(), self.session.exchange().next_len());
        let mut reply = Reply::new();
        self.progress =
            self.with(|session, context| session.handle_message(message, &mut reply, context))?;
        Ok(reply.to_vec())
    }

    /// Ends the session; nothing may be left of it.
    fn close(mut self) {
        let next = Session::new(0, Test::WriteBw, OPTIONS);
        let session = core::mem::replace(&mut self.session, next);
        self.with(|_, context| session.close(context));
        assert_eq!((self.host.regions, self.host.routes), (0, 0), "something is left");
    }

    fn memory(&self, region: &SharedRegion, offset: u32, len: u32) -> Vec<u8> {
        let mut out = vec![0; usize::try_from(len).unwrap()];
        let start = region.exposed.region.addr;
        let at = Addr { offset: start.offset + u64::from(offset), ..start };
        self.host.memory.read(at, &mut out).unwrap();
        out
    }
}

impl<P: Port> Tcp for Server<'_, P> {
    fn exchange(&mut self, message: &[u8], len: usize) -> Vec<u8> {
        let reply = self.message(message).unwrap();
        assert_eq!(reply.len(), len);
        reply
    }

    fn send(&mut self, message: &[u8]) {
        self.exchange(message, 0);
    }

    fn pump(&mut self) {
        let now = Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap());
        let hop = OneNeighbour(MACS[0]);
        let _ = turn(&mut self.engine, &mut self.port, &self.host.memory, &hop, now);
        let mut result = Ok(());
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                assert_eq!(session_of(wc.wr_id), 9);
                result = result.and(self.with(|s, context| s.handle_completion(&wc, context)));
            }
        }
        while let Some(event) = self.engine.poll_event() {
            assert!(!matches!(event, Event::CqOverrun(_)));
            result = result.and(self.with(|s, context| s.handle_event(&event, context)));
        }
        if self.session.poll_timeout().is_some_and(|due| due <= now) {
            result = result.and(self.with(Session::handle_timeout));
        }
        self.failed = self.failed.or(result.err());
    }
}

/// Runs a whole test and verifies what it leaves at the server.
fn check(run: Run) {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [ours, theirs] = &mut storage;
    let mut client = Client::new(ours, near, OneNeighbour(MACS[1]));
    let mut server = Server::new(theirs, far, run.test);
    let pairs = client.run(&run, &mut server);
    client.until(&mut server, "the last acknowledgement", |_| true);
    assert_eq!(server.failed, None);
    assert!(server.session.exchange().may_end());
    if run.test != Test::WriteLat {
        assert_eq!(server.progress, Progress::Over);
    }

    let regions: Vec<_> = server.session.regions().collect();
    assert_eq!(regions.len(), run.qps);
    for (region, pair) in regions.iter().zip(&pairs) {
        assert_eq!(region.qpn, pair.server.qpn);
        verify(&run, &server, region);
    }
    let total = run.iterations * u64::try_from(run.qps).unwrap();
    match run.test {
        Test::WriteBw | Test::ReadBw | Test::AtomicBw => {
            assert_eq!(server.session.reported_iterations(), Some(total));
        }
        Test::SendBw | Test::SendLat | Test::WriteLat => {
            assert_eq!(server.session.messages(), total);
        }
        Test::ReadLat | Test::AtomicLat => {}
    }
    server.close();
}

/// The server's memory is as the client left it.
fn verify<P: Port>(run: &Run, server: &Server<'_, P>, region: &SharedRegion) {
    let step = run.size.next_multiple_of(64).max(64);
    let slots = u64::from((4096 / step).max(1));
    let last = run.iterations - 1;
    let mut rest = 0;
    match run.test {
        Test::WriteBw => {
            for index in run.iterations.saturating_sub(slots)..run.iterations {
                let offset = u32::try_from(index % slots).unwrap() * step;
                let found = server.memory(region, offset, run.size);
                let message = message(index, run.size);
                assert!(found == message, "message {index}");
                rest = rest.max(offset + run.size);
            }
        }
        Test::SendBw => {
            let message = message(last, run.size);
            assert!(server.memory(region, 0, run.size) == message);
            rest = run.size;
        }
        Test::AtomicBw => {
            for slot in 0..slots {
                let count = (0..run.iterations).filter(|index| index % slots == slot).count();
                let offset = u32::try_from(slot).unwrap() * step;
                let found = server.memory(region, offset, 8);
                assert_eq!(found, u64::try_from(count).unwrap().to_ne_bytes());
                rest = offset + 8;
            }
        }
        Test::WriteLat => {
            let found = server.memory(region, 0, run.size);
            let (end, others) = found.split_last().unwrap();
            assert_eq!(*end, run.iterations.to_le_bytes()[0]);
            assert!(others.iter().all(|byte| *byte == 0));
            rest = run.size;
        }
        Test::SendLat => rest = run.size,
        Test::ReadBw | Test::ReadLat => {
            let noise = server.memory(region, 0, 4096);
            assert!(noise.iter().any(|byte| *byte != 0), "nothing but zeroes is read");
            return;
        }
        Test::AtomicLat => {}
    }
    let untouched = server.memory(region, rest, REGION_LEN - rest);
    assert!(untouched.iter().all(|byte| *byte == 0), "bytes behind the messages were touched");
}

#[test]
fn every_test_at_every_size() {
    for test in Test::ALL {
        for size in [1, 3, 1023, 1024, 1025, 65_536] {
            check(Run::new(test, size));
        }
    }
}

#[test]
fn every_path_mtu() {
    for test in Test::ALL {
        for path_mtu in PathMtu::ALL {
            check(Run { path_mtu, ..Run::new(test, 5000) });
        }
    }
}

#[test]
fn several_queue_pairs() {
    for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
        for qps in [2, 7] {
            check(Run { qps, ..Run::new(test, 700) });
        }
    }
}

/// Only a client that may READ, or more than its test needs, is told that it may have READs and
/// atomics outstanding.
#[test]
fn access_beyond_the_test_is_kept_for_replay() {
    for (access, out_reads) in [(Access::NONE, b"0001"), (Access::ALL, b"0010")] {
        let mut wire = Box::new(LoopbackWire::<32>::new());
        let [_, far] = wire.ends(MACS);
        let mut storage = HeapStorage::new(&LIMITS);
        let mut server = Server::new(&mut storage, far, Test::WriteBw);
        server.session = Session::new(9, Test::WriteBw, Options { access, ..OPTIONS });
        for (message, len) in
            [(&VERSION[..], 16), (&[0, 0, 16, 0], 4), (&[0, 0, 0, 64], 4), (b"3\0", 2)]
        {
            server.exchange(message, len);
        }
        let mut key = *KEY;
        key[5..9].copy_from_slice(b"0010");
        assert_eq!(server.exchange(&key, KEY.len())[5..9], *out_reads, "{access:?}");
        server.close();
    }
}

/// The byte that a latency test watches counts modulo 256.
#[test]
fn many_iterations() {
    for test in Test::ALL {
        check(Run { iterations: 700, ..Run::new(test, 8) });
    }
}

#[test]
fn a_client_of_another_address_family_is_told() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [_, far] = wire.ends(MACS);
    let mut storage = HeapStorage::new(&LIMITS);
    let mut server = Server::new(&mut storage, far, Test::WriteBw);
    for message in [&VERSION[..], &4096u32.to_be_bytes(), &64u32.to_be_bytes(), b"3\0"] {
        server.message(message).unwrap();
    }
    let peer = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 2]);
    let mut key = KeyMessage::parse(KEY).unwrap();
    key.gid = Gid::from(peer);
    let error = server.message(&key.emit()).unwrap_err();
    assert_eq!(error, SessionError::Route(RouteError::NoAddress(peer)));
    assert!(error.to_string().contains("fd00::2"), "{error}");
    server.close();
}

#[test]
fn a_cycle_buffer_above_the_region_is_refused() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [_, far] = wire.ends(MACS);
    let mut storage = HeapStorage::new(&LIMITS);
    let mut server = Server::new(&mut storage, far, Test::WriteBw);
    server.message(&VERSION).unwrap();
    let cycle = 2 * REGION_LEN;
    let error = server.message(&cycle.to_be_bytes()).unwrap_err();
    assert_eq!(error, SessionError::CycleBuffer { cycle, region: REGION_LEN });
    server.close();
}

/// The engine runs out in the middle of a client's queue pairs: what it got so far is given back.
#[test]
fn more_queue_pairs_than_there_are() {
    let mut wire = Box::new(LoopbackWire::<1>::new());
    let [_, far] = wire.ends(MACS);
    let mut storage = HeapStorage::new(&LIMITS);
    let mut server = Server::new(&mut storage, far, Test::WriteBw);
    for message in [&VERSION[..], &4096u32.to_be_bytes(), &64u32.to_be_bytes(), b"3\0"] {
        server.message(message).unwrap();
    }
    let mut key = KeyMessage::parse(KEY).unwrap();
    for qpn in 0..8 {
        key.qpn = Qpn::new(100 + qpn);
        assert_eq!(server.message(&key.emit()).unwrap().len(), KeyMessage::LEN);
    }
    key.qpn = Qpn::new(99);
    assert_eq!(server.message(&key.emit()), Err(SessionError::Qp(QpError::NoSlot)));
    assert_eq!(server.session.regions().count(), 8);
    server.close();
}
