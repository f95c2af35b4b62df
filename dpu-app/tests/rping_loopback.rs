//! Either side of rping against the other, over a wire in memory: connected by MADs on queue pair 1.

#![cfg(feature = "std")]

mod support;

use std::net::IpAddr;
use std::time::{Duration, Instant as WallClock};

use dpu_app::service::cm::{
    AnySession, CmService, CmServiceError, CmServices, End, Gsi, GsiCounters,
};
use dpu_app::service::rping::{Advert, Client, ClientOptions, DEFAULT_PORT};
use dpu_app::service::{Context, Queues};
use roce_codec::cm::RejReason;
use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, RKey, Service};
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultPort, FaultRates};
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::cm::HeapCmStorage;
use roce_engine::{
    Config, Engine, HeapStorage, Instant, Limits, ModifyQp, NextHop, Path, QpInit, SeededEntropy,
    SendWr, UdAddress, WrOpcode,
};
use support::host::Host;
use support::{CLIENT, SERVER};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const LIMITS: Limits = Limits { cqs: 2, ..Limits::SMALL };
const PATIENCE: Duration = Duration::from_secs(60);

/// One of two engines, what it runs on, and its connection manager.
struct Side<'s, P> {
    engine: Engine<'s>,
    port: P,
    host: Host,
    queues: Queues,
    neighbour: MacAddr,
    now: Instant,
}

impl<'s, P: Port> Side<'s, P> {
    fn new(storage: &'s mut HeapStorage, port: P, address: IpAddr, neighbour: MacAddr) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(256).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let host = Host::new(address, SeededEntropy::new(u64::from(neighbour.0[5])));
        Self { engine, port, host, queues, neighbour, now: Instant::ZERO }
    }

    fn context(&mut self) -> Context<'_, 's, Host> {
        Context {
            engine: &mut self.engine,
            platform: &mut self.host,
            queues: self.queues,
            path_mtu: PathMtu::Mtu1024,
            now: self.now,
        }
    }

    /// One turn of the loop; says whether there was anything to do.
    fn pump(&mut self, cm: &mut CmServices<'_>, now: Instant) -> bool {
        self.now = now;
        let hop = OneNeighbour(self.neighbour);
        let turn = turn(&mut self.engine, &mut self.port, &self.host.memory, &hop, now);
        let mut any = turn.more || turn.received + turn.sent > 0;
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                any = true;
                assert!(CmServices::owns(wc.wr_id));
                cm.handle_completion(&wc, &mut self.context());
            }
        }
        while let Some(event) = self.engine.poll_event() {
            any = true;
            cm.handle_event(&event, &mut self.context());
        }
        cm.poll(&mut self.context()) || any
    }

    fn next_timer(&self, cm: &CmServices<'_>) -> Option<Instant> {
        self.engine.poll_timeout().into_iter().chain(cm.poll_timeout()).min()
    }
}

fn options(size: u32, count: u64, port: u16) -> ClientOptions {
    ClientOptions { peer: SERVER, port, src_port: 40_000, count, size, verify: true }
}

/// Runs a client; says how it ended at its own side and at the server's. Time passes only where
/// nothing else can happen. `meanwhile` is called for the client's side before the first turn.
fn run(options: &ClientOptions, drop: f64) -> [Option<End>; 2] {
    run_counted(options, drop, |_| {}).0
}

type Wire<'w> = FaultPort<LoopbackPort<'w, 32>>;

fn run_counted(
    options: &ClientOptions,
    drop: f64,
    meanwhile: impl FnOnce(&mut Side<'_, Wire<'_>>),
) -> ([Option<End>; 2], GsiCounters) {
    let wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let rates = FaultRates { drop, ..FaultRates::default() };
    let faults = FaultConfig { rx: rates, tx: rates, seed: 5 };
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let [a, b] = &mut storage;
    let mut here = Side::new(a, FaultPort::new(near, &faults), CLIENT, MACS[1]);
    let mut there = Side::new(b, far, SERVER, MACS[0]);
    let mut pools = [HeapCmStorage::new(8, 2, 8), HeapCmStorage::new(8, 2, 8)];
    let [a, b] = &mut pools;
    let mut ours = CmServices::new(Gsi::new(a.lend(), &mut here.context()).unwrap());
    let mut theirs = CmServices::new(Gsi::new(b.lend(), &mut there.context()).unwrap());
    theirs.serve(CmService::Rping { port: DEFAULT_PORT }).unwrap();

    let number = ours.number();
    let client = Client::connect(number, options, ours.gsi(), &mut here.context()).unwrap();
    ours.add(number, AnySession::RpingClient(client), &mut here.context()).unwrap();
    meanwhile(&mut here);
    let (started, mut now) = (WallClock::now(), Instant::ZERO);
    let mut ends = [None, None];
    while ends[0].is_none() || !theirs.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{ends:?}");
        let worked = here.pump(&mut ours, now) | there.pump(&mut theirs, now);
        ends[0] = ends[0].or(ours.poll_end());
        ends[1] = ends[1].or(theirs.poll_end());
        now = now.add_ns(1000);
        if !worked {
            let timers = [here.next_timer(&ours), there.next_timer(&theirs)];
            now = timers.into_iter().flatten().min().map_or(now, |due| due.max(now));
        }
    }
    ends[1] = ends[1].or(theirs.poll_end());
    // Queue pair 1 keeps its memory and the way to its peer; nothing else is left.
    assert_eq!((here.host.regions, there.host.regions), (1, 1));
    assert!(here.host.routes <= 1 && there.host.routes <= 1);
    for counters in [here.engine.counters(), there.engine.counters()] {
        assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
    }
    for cm in [&mut ours, &mut theirs] {
        let seen = cm.gsi().counters();
        assert_eq!((seen.misaddressed, seen.no_route), (0, 0));
    }
    (ends, *theirs.gsi().counters())
}

#[test]
fn pings_come_back() {
    for (size, count) in [(16, 1), (64, 100), (1025, 20), (65536, 3)] {
        let ends = run(&options(size, count, DEFAULT_PORT), 0.0);
        for end in ends {
            let end = end.unwrap();
            assert_eq!((end.error, end.count), (None, count), "{size}: {end}");
        }
    }
}

#[test]
fn pings_come_back_over_a_lossy_wire() {
    let ends = run(&options(3000, 100, DEFAULT_PORT), 0.05);
    assert_eq!(ends[0].map(|end| (end.error, end.count)), Some((None, 100)));
    assert_eq!(ends[1].map(|end| end.count), Some(100));
}

#[test]
fn a_port_that_nobody_listens_at() {
    let [ours, theirs] = run(&options(64, 1, 9), 0.0);
    let refused = CmServiceError::Rejected(RejReason::INVALID_SERVICE_ID);
    assert_eq!(ours.unwrap().error, Some(refused));
    assert_eq!(theirs, None);
}

/// What is no MAD, of another class, or from elsewhere than a queue pair 1, is dropped and counted;
/// the client beside it is served.
#[test]
fn nonsense_at_queue_pair_1() {
    let (ends, seen) = run_counted(&options(64, 5, DEFAULT_PORT), 0.0, |side| {
        let pd = side.engine.alloc_pd();
        let init = QpInit {
            max_send_wr: 8,
            max_inline_data: 256,
            ..QpInit::new(Service::Ud, pd, side.queues.send, side.queues.recv)
        };
        let qp = side.engine.create_qp(&init, &mut SeededEntropy::new(9)).unwrap();
        for change in [
            ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKey::GSI },
            ModifyQp::RtrUd,
            ModifyQp::RtsUd { sq_psn: Psn::new(0) },
        ] {
            side.engine.modify_qp(qp, &change).unwrap();
        }
        let path = Path { src: CLIENT, dst: SERVER, next_hop: NextHop(0), ..Path::EMPTY };
        let ah = side.engine.create_ah(&path).unwrap();
        let to = UdAddress { ah, dest_qpn: Qpn::GSI, qkey: QKey::GSI };
        let mut of_cm = [0; 256];
        of_cm[..4].copy_from_slice(&[1, 7, 2, 3]);
        for bytes in [&[][..], &[1], &[0xa5; 255], &[0xa5; 256], &of_cm] {
            let wr = SendWr::new(1 << 32, WrOpcode::Send, &[]).to(to).inline(bytes).unsignaled();
            side.engine.post_send(qp, &wr).unwrap();
        }
    });
    assert_eq!(ends.map(|end| end.map(|end| (end.error, end.count))), [Some((None, 5)); 2]);
    // Too short thrice; of no known class, and of the right one but from another queue pair.
    assert_eq!((seen.malformed, seen.foreign), (3, 2));
    assert_eq!(seen.received, 5 + 3, "and REQ, RTU, DREQ");
}

/// The first SEND of `rping -c` as Linux sent it.
#[test]
fn an_advert_of_linux() {
    let bytes = [0, 0, 0x55, 0x72, 0xd8, 0xba, 0x63, 0x70, 0, 0, 0x05, 0xbb, 0, 0, 0, 64];
    let advert = Advert { va: 0x5572_d8ba_6370, rkey: RKey(0x5bb), len: 64 };
    assert_eq!(Advert::parse(&bytes), advert);
    assert_eq!(advert.emit(), bytes);
}
