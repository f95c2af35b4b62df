//! A perftest client of our own: its TCP exchange, and our engine as its RDMA device.

#![allow(dead_code)] // Each test file uses its part.

pub(crate) mod host;
pub(crate) mod side;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant as WallClock};

use dpu_app::service::Gid;
use dpu_app::service::perftest::{KeyMessage, Test};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, Entropy, Event, HeapStorage, Instant, ModifyQp, Mr,
    MrAttr, NextHop, Path, Pd, QpInit, RecvWr, RtrAttr, RtsAttr, SeededEntropy, SendWr, Sge, Wc,
    WcOpcode, WcStatus, WrOpcode,
};

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

const CYCLE: u32 = 4096;
const PATIENCE: Duration = Duration::from_secs(20);

/// The way to the server's TCP port.
pub(crate) trait Tcp {
    /// Sends a message and waits for an answer of `len` bytes.
    fn exchange(&mut self, message: &[u8], len: usize) -> Vec<u8>;
    /// Sends a message that is not answered.
    fn send(&mut self, message: &[u8]);
    /// Lets a server in this process do its part.
    fn pump(&mut self) {}
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) test: Test,
    pub(crate) size: u32,
    pub(crate) iterations: u64,
    pub(crate) qps: usize,
    pub(crate) path_mtu: PathMtu,
}

impl Run {
    pub(crate) fn new(test: Test, size: u32) -> Self {
        let size = if matches!(test, Test::AtomicBw | Test::AtomicLat) { 8 } else { size };
        Self { test, size, iterations: 40, qps: 1, path_mtu: PathMtu::Mtu1024 }
    }

    /// Half of a queue pair's memory: what is sent from, or the other half, what the server
    /// reaches.
    fn half(&self) -> u32 {
        self.size.max(CYCLE)
    }
}

/// A queue pair and its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
    pub(crate) region: u32,
    pub(crate) va: u64,
    pub(crate) mr: Mr,
    pub(crate) server: KeyMessage,
}

/// The client.
pub(crate) struct Client<'s, P> {
    pub(crate) engine: Engine<'s>,
    pub(crate) port: P,
    pub(crate) memory: HostMemory,
    hop: OneNeighbour,
    random: SeededEntropy,
    pd: Pd,
    cq: Cq,
    started: WallClock,
    pub(crate) completions: Vec<Wc>,
    pub(crate) writes: u64,
}

impl<'s, P: Port> Client<'s, P> {
    pub(crate) fn new(storage: &'s mut HeapStorage, port: P, hop: OneNeighbour) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(4096).expect("a completion queue");
        Self {
            engine,
            port,
            memory: HostMemory::new(),
            hop,
            random: SeededEntropy::new(7),
            pd,
            cq,
            started: WallClock::now(),
            completions: Vec::new(),
            writes: 0,
        }
    }

    /// One turn of the data path.
    pub(crate) fn turn(&mut self, tcp: &mut impl Tcp) {
        let now = Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap());
        let _ = turn(&mut self.engine, &mut self.port, &self.memory, &self.hop, now);
        while let Some(wc) = self.engine.poll_cq(self.cq) {
            assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
            self.completions.push(wc);
        }
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::RemoteWrite { .. } => self.writes += 1,
                Event::RequestRefused { .. } | Event::RequestFailed { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
        tcp.pump();
    }

    /// Turns until `done`.
    pub(crate) fn until(
        &mut self,
        tcp: &mut impl Tcp,
        what: &str,
        mut done: impl FnMut(&Self) -> bool,
    ) {
        let end = WallClock::now() + PATIENCE;
        while !done(self) {
            self.turn(tcp);
            assert!(WallClock::now() < end, "{what}: nothing for {} s", PATIENCE.as_secs());
        }
    }

    fn create(&mut self, run: &Run, server: KeyMessage) -> Pair {
        let region = self.memory.map(usize::try_from(2 * run.half()).unwrap()).unwrap();
        let va = self.memory.va(region).unwrap();
        let attr = MrAttr {
            pd: self.pd,
            va,
            len: u64::from(2 * run.half()),
            access: Access::ALL,
            backing: Addr { region, offset: 0 },
        };
        let mr = self.engine.register_mr(&attr, &mut self.random).unwrap();
        let init = QpInit {
            max_send_wr: 256,
            max_recv_wr: 512,
            observe_writes: run.test == Test::WriteLat,
            ..QpInit::new(roce_codec::ib::Service::Rc, self.pd, self.cq, self.cq)
        };
        let qpn = self.engine.create_qp(&init, &mut self.random).unwrap();
        let psn = Psn::new(self.random.next_u32());
        Pair { qpn, psn, region, va, mr, server }
    }

    fn key(&self, pair: &Pair, run: &Run) -> KeyMessage {
        KeyMessage {
            lid: 0,
            out_reads: 16,
            qpn: pair.qpn,
            psn: pair.psn,
            rkey: pair.mr.rkey,
            va: pair.va + u64::from(run.half()),
            gid: Gid::from(CLIENT),
            srqn: 0,
        }
    }

    fn connect(&mut self, pair: &Pair, path_mtu: PathMtu) {
        let path = Path {
            src: CLIENT,
            dst: pair.server.gid.address(),
            next_hop: NextHop(0),
            src_port: 0xc000,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
        };
        let rd_atomic = u8::try_from(pair.server.out_reads.min(16)).unwrap();
        let changes = [
            ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu,
                dest_qpn: pair.server.qpn,
                rq_psn: pair.server.psn,
                max_dest_rd_atomic: 1,
                min_rnr_timer: RnrTimer::new(12),
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn: pair.psn,
                timeout: 14,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: rd_atomic,
            }),
        ];
        for change in &changes {
            self.engine.modify_qp(pair.qpn, change).unwrap();
        }
    }

    /// The whole of a client's life but the end of its TCP connection; returns its queue pairs.
    pub(crate) fn run(&mut self, run: &Run, tcp: &mut impl Tcp) -> Vec<Pair> {
        let version = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(tcp.exchange(&version, 16), version);
        assert_eq!(tcp.exchange(&CYCLE.to_be_bytes(), 4), CYCLE.to_be_bytes());
        assert_eq!(tcp.exchange(&64u32.to_be_bytes(), 4), 64u32.to_be_bytes());
        let answer = tcp.exchange(&[b'0' + run.path_mtu.code(), 0], 2);
        let server_mtu = PathMtu::from_code(answer[0] - b'0').unwrap();
        let path_mtu = run.path_mtu.min(server_mtu);

        let mut pairs = Vec::new();
        for _ in 0..run.qps {
            let nobody = KeyMessage {
                lid: 0,
                out_reads: 0,
                qpn: Qpn::new(0),
                psn: Psn::new(0),
                rkey: roce_codec::ib::RKey(0),
                va: 0,
                gid: Gid::from(SERVER),
                srqn: 0,
            };
            let mut pair = self.create(run, nobody);
            pair.server = self.key_exchange(&pair, run, tcp);
            assert_eq!(pair.server.gid.address(), SERVER);
            self.connect(&pair, path_mtu);
            pairs.push(pair);
        }
        // The same again as barriers.
        let mut barriers = vec![];
        match run.test {
            Test::SendBw => {
                barriers.push(0);
                barriers.extend(0..run.qps);
                barriers.push(0);
            }
            _ if run.test.is_bandwidth() => {
                barriers.extend(0..run.qps);
                barriers.push(0);
            }
            _ => barriers.extend([0; 3]),
        }
        for index in barriers {
            assert_eq!(self.key_exchange(&pairs[index], run, tcp), pairs[index].server);
        }

        match run.test {
            Test::WriteLat => self.write_lat(run, &pairs[0], tcp),
            Test::SendLat => self.send_lat(run, &pairs[0], tcp),
            _ => self.requests(run, &pairs, tcp),
        }

        if matches!(run.test, Test::WriteBw | Test::ReadBw | Test::AtomicBw) {
            self.key_exchange(&pairs[0], run, tcp);
            let total = run.iterations * u64::try_from(run.qps).unwrap();
            for value in [u64::from(run.size), total, 0, 0, 0] {
                tcp.exchange(&value.to_be_bytes(), 8);
            }
        }
        if run.test != Test::WriteLat {
            let answer = tcp.exchange(&self.key(&pairs[0], run).emit(), KeyMessage::LEN + 5);
            assert_eq!(answer[KeyMessage::LEN..], *b"done\0");
            tcp.send(b"done\0");
        }
        pairs
    }

    fn key_exchange(&self, pair: &Pair, run: &Run, tcp: &mut impl Tcp) -> KeyMessage {
        let answer = tcp.exchange(&self.key(pair, run).emit(), KeyMessage::LEN);
        let text = answer.first_chunk().expect("a whole message");
        KeyMessage::parse(text).expect("a key message")
    }

    fn sge(&self, pair: &Pair, offset: u32, len: u32) -> Sge {
        Sge { va: pair.va + u64::from(offset), len, lkey: pair.mr.lkey }
    }

    /// The bandwidth tests, and the latency tests where the server is passive.
    fn requests(&mut self, run: &Run, pairs: &[Pair], tcp: &mut impl Tcp) {
        let step = run.size.next_multiple_of(64).max(64);
        let slots = (CYCLE / step).max(1);
        for index in 0..run.iterations {
            for pair in pairs {
                let offset = u32::try_from(index).unwrap() % slots * step;
                let va = pair.server.va + u64::from(offset);
                let rkey = pair.server.rkey;
                let sge = self.sge(pair, offset, run.size);
                let opcode = match run.test {
                    Test::WriteBw => WrOpcode::RdmaWrite { va, rkey },
                    Test::SendBw => WrOpcode::Send,
                    Test::ReadBw | Test::ReadLat => WrOpcode::RdmaRead { va, rkey },
                    Test::AtomicBw => WrOpcode::FetchAdd { va, rkey, add: 1 },
                    _ => WrOpcode::CompareSwap { va, rkey, compare: 0, swap: 0 },
                };
                if matches!(run.test, Test::WriteBw | Test::SendBw) {
                    let at = Addr { region: pair.region, offset: u64::from(offset) };
                    self.memory.write(at, [&message(index, run.size), &[]]).unwrap();
                }
                let sges = [sge];
                let wr = SendWr::new(index, opcode, &sges);
                self.engine.post_send(pair.qpn, &wr).unwrap();
            }
            // One message at a time, so that the memory it is sent from may be used again.
            let wanted = (usize::try_from(index).unwrap() + 1) * pairs.len();
            self.until(tcp, "a request", |client| client.completions.len() == wanted);
        }
    }

    /// Writes when the server has written.
    fn write_lat(&mut self, run: &Run, pair: &Pair, tcp: &mut impl Tcp) {
        let last = u64::from(run.size - 1);
        for index in 1..=run.iterations {
            let count = index.to_le_bytes()[0];
            let seen = Addr { region: pair.region, offset: u64::from(run.half()) + last };
            self.until(tcp, "the server's WRITE", |client| {
                let mut byte = [0];
                client.memory.read(seen, &mut byte).unwrap();
                byte[0] == count
            });
            let at = Addr { region: pair.region, offset: last };
            self.memory.write(at, [&[count], &[]]).unwrap();
            let sges = [self.sge(pair, 0, run.size)];
            let wr = SendWr::new(
                index,
                WrOpcode::RdmaWrite { va: pair.server.va, rkey: pair.server.rkey },
                &sges,
            );
            self.engine.post_send(pair.qpn, &wr).unwrap();
            let wanted = usize::try_from(index).unwrap();
            self.until(tcp, "a WRITE", |client| client.completions.len() == wanted);
        }
    }

    /// Sends, and waits for as long an answer.
    fn send_lat(&mut self, run: &Run, pair: &Pair, tcp: &mut impl Tcp) {
        for index in 1..=run.iterations {
            let sges = [self.sge(pair, run.half(), run.size)];
            let receive = RecvWr::new(index, &sges);
            self.engine.post_recv(pair.qpn, &receive).unwrap();
            let sge = self.sge(pair, 0, run.size);
            let (opcode, signaled) = (WrOpcode::Send, true);
            let sges = [sge];
            let wr = SendWr { signaled, ..SendWr::new(index, opcode, &sges) };
            self.engine.post_send(pair.qpn, &wr).unwrap();
            let wanted = 2 * usize::try_from(index).unwrap();
            self.until(tcp, "an answer", |client| client.completions.len() == wanted);
        }
        let answers = self.completions.iter().filter(|wc| wc.opcode == WcOpcode::Recv);
        assert!(answers.clone().all(|wc| wc.byte_len == run.size));
        assert_eq!(answers.count(), usize::try_from(run.iterations).unwrap());
    }
}

/// What the client's message `index` holds.
pub(crate) fn message(index: u64, size: u32) -> Vec<u8> {
    let mut random = SeededEntropy::new(index);
    (0..size).map(|_| random.next_u64().to_le_bytes()[0]).collect()
}
