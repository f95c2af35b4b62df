//! Services of the connection manager, from either side's MADs on queue pair 1 to the last message,
//! over a wire in memory.

#![cfg(feature = "std")]

mod support;

use std::net::IpAddr;
use std::time::{Duration, Instant as WallClock};

use dpu_app::service::cm::{AnySession, CmService, CmServiceError, CmServices, End, Gsi, What};
use dpu_app::service::ucmatose::{self, Traffic};
use dpu_app::service::{Context, Queues, udaddy, wr_id};
use roce_codec::cm::{PortSpace, RdmaCmServiceId, SidrStatus};
use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Service};
use roce_codec::net::MacAddr;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::{FaultConfig, FaultPort, FaultRates};
use roce_dataplane::port::loopback::LoopbackWire;
use roce_engine::cm::{HeapCmStorage, SidrQuery};
use roce_engine::{
    Access, Addr, Backing, Config, Engine, HeapStorage, Instant, Limits, ModifyQp, MrAttr, NextHop,
    Path, QpInit, RecvWr, SeededEntropy, SendWr, Sge, UdAddress, Wc, WcOpcode, WcStatus, WrOpcode,
};
use support::host::Host;
use support::{CLIENT, SERVER};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const LIMITS: Limits = Limits { cqs: 2, ..Limits::SMALL };
/// Queue pair 1 keeps its memory, and the way to whom it talked to last.
const LEFT: (i32, i32) = (1, 1);
/// The session of work requests of our own.
const OWN: u32 = 7;
const PATIENCE: Duration = Duration::from_secs(30);

/// One of two engines with its connection manager.
struct Side<'s, P> {
    engine: Engine<'s>,
    port: P,
    host: Host,
    queues: Queues,
    neighbour: MacAddr,
    now: Instant,
    cm: Option<CmServices<'s>>,
    /// Completions of nobody's here.
    others: Vec<Wc>,
    ends: Vec<End>,
    /// What the connection manager tells, where no service is to hear it.
    notices: Option<Vec<What>>,
}

impl<'s, P: Port> Side<'s, P> {
    fn new(
        (storage, cm): (&'s mut HeapStorage, &'s mut HeapCmStorage),
        port: P,
        address: IpAddr,
        neighbour: MacAddr,
    ) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut cq = || engine.create_cq(4096).unwrap();
        let queues = Queues { send: cq(), recv: cq() };
        let host = Host::new(address, SeededEntropy::new(u64::from(neighbour.0[5])));
        let now = Instant::ZERO;
        let (others, ends, notices) = (Vec::new(), Vec::new(), None);
        let mut side =
            Self { engine, port, host, queues, neighbour, now, cm: None, others, ends, notices };
        let gsi = Gsi::new(cm.lend(), &mut side.context()).unwrap();
        side.cm = Some(CmServices::new(gsi));
        side
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

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut CmServices<'s>, &mut Context<'_, 's, Host>) -> T,
    ) -> T {
        let mut cm = self.cm.take().unwrap();
        let result = act(&mut cm, &mut self.context());
        self.cm = Some(cm);
        result
    }

    /// One turn of everything.
    fn turn(&mut self, now: Instant) {
        self.now = now;
        let hop = OneNeighbour(self.neighbour);
        let _ = turn(&mut self.engine, &mut self.port, &self.host.memory, &hop, now);
        for queue in [self.queues.recv, self.queues.send] {
            while let Some(wc) = self.engine.poll_cq(queue) {
                if CmServices::owns(wc.wr_id) {
                    self.with(|cm, context| cm.handle_completion(&wc, context));
                } else {
                    self.others.push(wc);
                }
            }
        }
        while let Some(event) = self.engine.poll_event() {
            self.with(|cm, context| cm.handle_event(&event, context));
        }
        if let Some(mut notices) = self.notices.take() {
            self.with(|cm, context| cm.gsi().poll(context));
            let gsi = self.cm.as_mut().unwrap().gsi();
            notices.extend(std::iter::from_fn(|| gsi.poll_notice()).map(|notice| notice.what));
            self.notices = Some(notices);
        } else {
            self.with(|cm, context| cm.poll(context));
        }
        while let Some(end) = self.cm.as_mut().unwrap().poll_end() {
            self.ends.push(end);
        }
    }
}

/// Turns of both, on a clock that skips what nothing but a timer can end, until `done`.
fn until<P: Port, Q: Port>(
    here: &mut Side<'_, P>,
    there: &mut Side<'_, Q>,
    what: &str,
    mut done: impl FnMut(&mut Side<'_, P>, &mut Side<'_, Q>) -> bool,
) {
    let started = WallClock::now();
    while !done(here, there) {
        let now = here.now.add_ns(200_000);
        here.turn(now);
        there.turn(now);
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: {:?} {:?} {:?}",
            here.ends,
            there.ends,
            here.others
        );
    }
}

fn faults(drop: f64) -> FaultConfig {
    let rates = FaultRates { drop, ..FaultRates::default() };
    FaultConfig { rx: rates, tx: rates, seed: 5 }
}

/// A connection of `ucmatose`, with the server's idea of the traffic and the client's; how it
/// ended at either side.
fn ucmatose(theirs: Traffic, ours: Traffic, drop: f64) -> [End; 2] {
    let wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let mut cm = [HeapCmStorage::new(8, 4, 8), HeapCmStorage::new(8, 4, 8)];
    let ([a, b], [c, d]) = (&mut storage, &mut cm);
    let mut here = Side::new((a, c), FaultPort::new(near, &faults(drop)), CLIENT, MACS[1]);
    let mut there = Side::new((b, d), far, SERVER, MACS[0]);

    let service = CmService::Ucmatose { port: ucmatose::DEFAULT_PORT, traffic: theirs };
    there.with(|cm, _| cm.serve(service)).unwrap();
    here.with(|cm, context| {
        let number = cm.number();
        let ports = (1234, ucmatose::DEFAULT_PORT);
        let client =
            ucmatose::Client::connect(number, ours, SERVER, ports, cm.gsi(), context).unwrap();
        cm.add(number, AnySession::UcmatoseClient(client), context).unwrap();
    });
    until(&mut here, &mut there, "both ends", |here, there| {
        !here.ends.is_empty() && !there.ends.is_empty()
    });
    // The last MADs leave.
    let end = here.now.add_ns(100_000_000);
    until(&mut here, &mut there, "the last MADs", |here, _| here.now >= end);
    for host in [&here.host, &there.host] {
        assert_eq!((host.regions, host.routes), LEFT, "something is left");
    }
    assert_eq!([here.ends.len(), there.ends.len()], [1, 1]);
    [here.ends[0], there.ends[0]]
}

#[test]
fn ucmatose_there_and_back() {
    for (count, size) in [(10, 100), (1, 1), (7, 1024), (5, 5000), (512, 64)] {
        let traffic = Traffic { count, size };
        for end in ucmatose(traffic, traffic, 0.0) {
            assert_eq!((end.error, end.count), (None, u64::from(count)), "{traffic}: {end}");
            assert_eq!((end.service, end.peer.is_ipv4()), ("ucmatose", true));
        }
    }
}

#[test]
fn ucmatose_under_loss() {
    let traffic = Traffic { count: 200, size: 1500 };
    let [client, server] = ucmatose(traffic, traffic, 0.02);
    assert_eq!((client.error, client.count), (None, 200), "{client}");
    assert_eq!((server.error, server.count), (None, 200), "{server}");
}

/// Neither side tells the other what it does.
#[test]
fn ucmatose_by_different_measures() {
    let traffic = Traffic { count: 10, size: 100 };
    let [client, _] = ucmatose(Traffic { size: 99, ..traffic }, traffic, 0.0);
    assert_eq!(client.error, Some(CmServiceError::Protocol), "shorter messages: {client}");
    let [client, server] = ucmatose(Traffic { size: 101, ..traffic }, traffic, 0.0);
    assert!(client.error.is_some() && server.error.is_some(), "longer ones: {client} {server}");
    let [client, server] = ucmatose(Traffic { count: 9, ..traffic }, traffic, 0.0);
    assert!(client.error.is_some() || server.error.is_some(), "fewer: {client} {server}");
}

#[test]
fn udaddy_answers_each_datagram() {
    let wire = Box::new(LoopbackWire::<32>::new());
    let [near, far] = wire.ends(MACS);
    let mut storage = [HeapStorage::new(&LIMITS), HeapStorage::new(&LIMITS)];
    let mut cm = [HeapCmStorage::new(8, 4, 8), HeapCmStorage::new(8, 4, 8)];
    let ([a, b], [c, d]) = (&mut storage, &mut cm);
    let mut here = Side::new((a, c), near, CLIENT, MACS[1]);
    let mut there = Side::new((b, d), far, SERVER, MACS[0]);
    there.with(|cm, _| cm.serve(CmService::Udaddy { port: udaddy::DEFAULT_PORT })).unwrap();

    // By hand: who serves?
    let path = Path { src: CLIENT, dst: SERVER, next_hop: NextHop(0), ..Path::EMPTY };
    let port = udaddy::DEFAULT_PORT;
    let service = RdmaCmServiceId { port_space: PortSpace::UDP, port }.into();
    here.with(|cm, context| {
        let query = SidrQuery { ip_src_port: 4321, ..SidrQuery::new(service, path) };
        cm.gsi().cm().sidr_request(context.now, &query).unwrap()
    });
    here.notices = Some(Vec::new());
    until(&mut here, &mut there, "an answer", |here, _| {
        here.notices.as_ref().is_some_and(|notices| !notices.is_empty())
    });
    let Some([What::SidrResponse { status, qpn: server, qkey }]) = here.notices.as_deref() else {
        panic!("{:?}", here.notices);
    };
    let (status, server, qkey) = (*status, *server, *qkey);
    assert_eq!((status, qkey), (SidrStatus::VALID, QKey(0x0123_4567)));

    // A datagram queue pair with four messages of different lengths, and places for the answers.
    let pd = here.engine.alloc_pd();
    let region = here.host.memory.map(1 << 16).unwrap();
    let va = here.host.memory.va(region).unwrap();
    let backing = Addr { region, offset: 0 };
    let attr = MrAttr { pd, va, len: 1 << 16, access: Access::LOCAL_WRITE, backing };
    let mr = here.engine.register_mr(&attr, &mut here.host.random).unwrap();
    let init = QpInit::new(Service::Ud, pd, here.queues.send, here.queues.recv);
    let qpn = here.engine.create_qp(&init, &mut here.host.random).unwrap();
    let init = ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey };
    for change in [init, ModifyQp::RtrUd, ModifyQp::RtsUd { sq_psn: Psn::new(9) }] {
        here.engine.modify_qp(qpn, &change).unwrap();
    }
    let ah = here.engine.create_ah(&path).unwrap();
    let to = UdAddress { ah, dest_qpn: server, qkey };
    let lens: [u32; 4] = [1024, 1, 0, 333];
    for (slot, len) in (0..).zip(lens) {
        let message: Vec<u8> = (0..len).map(|n| u8::try_from((n * 7) % 251).unwrap()).collect();
        let (out, back) = (u64::from(slot) * 2048, (1 << 15) + u64::from(slot) * 2048);
        here.host.memory.write(Addr { region, offset: out }, [&message, &[]]).unwrap();
        let sges = [Sge { va: va + back, len: 1064, lkey: mr.lkey }];
        here.engine.post_recv(qpn, &RecvWr::new(wr_id(OWN, slot), &sges)).unwrap();
        let sges = [Sge { va: va + out, len, lkey: mr.lkey }];
        let opcode = WrOpcode::SendWithImm(qpn.get());
        here.engine.post_send(qpn, &SendWr::new(wr_id(OWN, 100), opcode, &sges).to(to)).unwrap();
    }
    until(&mut here, &mut there, "answers", |here, _| here.others.len() == 8);
    let answers: Vec<_> =
        here.others.iter().filter(|wc| wc.opcode == WcOpcode::Recv).copied().collect();
    for (wc, len) in answers.iter().zip(lens) {
        assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, len + 40));
        assert_eq!((wc.src_qp, wc.imm), (Some(server), Some(server.get())));
        let mut message = vec![0; usize::try_from(len).unwrap()];
        let at = Addr { region, offset: (1 << 15) + (wc.wr_id - wr_id(OWN, 0)) * 2048 + 40 };
        here.host.memory.read(at, &mut message).unwrap();
        assert!(message.iter().zip(0u32..).all(|(byte, n)| u32::from(*byte) == (n * 7) % 251));
    }
    assert_eq!(answers.len(), 4);

    // Silence is its end.
    assert!(there.ends.is_empty());
    there.turn(here.now.add_ns(11_000_000_000));
    for tick in 0..100 {
        there.turn(here.now.add_ns(11_000_000_000 + tick * 50_000));
    }
    assert_eq!(there.ends.len(), 1);
    assert_eq!((there.ends[0].error, there.ends[0].count), (None, 4));
    assert_eq!((there.host.regions, there.host.routes), LEFT, "something is left");
}
