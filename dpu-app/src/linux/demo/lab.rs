//! Two engines and the wire between them, and the time that passes for both.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer};
use roce_codec::net::{flow_label_from_qpns, source_port_from_flow_label};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_dataplane::port::fault::FaultPort;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, Entropy, HeapStorage, Instant, ModifyQp, Mr, MrAttr,
    NextHop, Path, Pd, QpInit, RtrAttr, RtsAttr, SeededEntropy, Sge, Wc,
};

use crate::linux::clock::Clock;

/// Work requests that may wait on a queue pair.
pub(super) const DEPTH: u32 = 32;
/// Receives that may be posted.
pub(super) const RECEIVES: u32 = 1024;
const PATH_MTU: PathMtu = PathMtu::Mtu1024;
/// 1 ms, so that a loss is soon made good on a real wire.
const TIMEOUT: u8 = 8;
/// Packets in flight: few enough that a gap is noticed before the wire is full.
const WINDOW: u32 = 32;
/// Simulated time that one turn takes.
const TURN_NS: u64 = 2_000;
/// Turns without a frame after which simulated time leaps to the next timer: a fault port holds
/// frames back for fewer.
const IDLE_TURNS: u32 = 32;
/// The longest that nothing may come of anything: all retries of a request take less.
const STUCK_NS: u64 = 5_000_000_000;

/// What time it is.
#[derive(Debug)]
pub(super) enum Time {
    /// As late as we say, in nanoseconds since 1970.
    Simulated(Rc<Cell<u64>>),
    /// As late as it is.
    Real(Clock),
}

impl Time {
    pub(super) fn real() -> Self {
        Self::Real(Clock::start())
    }

    fn now(&self) -> Instant {
        match self {
            Self::Simulated(now) => Instant(now.get()),
            Self::Real(clock) => clock.now(),
        }
    }
}

/// One end: an engine, its port and its memory.
#[derive(Debug)]
pub(super) struct Side<'s, P> {
    pub(super) engine: Engine<'s>,
    pub(super) port: FaultPort<P>,
    pub(super) memory: HostMemory,
    pub(super) cq: Cq,
    pub(super) random: SeededEntropy,
    hop: OneNeighbour,
    pd: Pd,
}

/// A registered region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    pub(super) mr: Mr,
    pub(super) va: u64,
    region: u32,
}

impl Buffer {
    pub(super) fn sge(&self, offset: u32, len: u32) -> Sge {
        Sge { va: self.va + u64::from(offset), len, lkey: self.mr.lkey }
    }
}

impl<'s, P: Port> Side<'s, P> {
    pub(super) fn new(
        storage: &'s mut HeapStorage,
        port: FaultPort<P>,
        hop: OneNeighbour,
        seed: u64,
    ) -> Result<Self> {
        let config = Config { max_path_mtu: PATH_MTU, window: WINDOW, ..Config::DEFAULT };
        let mut engine = Engine::new(config, storage.lend());
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(4 * RECEIVES).context("no completion queue")?;
        let random = SeededEntropy::new(seed);
        Ok(Self { engine, port, memory: HostMemory::new(), cq, random, hop, pd })
    }

    /// A region of `len` zeroes.
    pub(super) fn buffer(&mut self, len: u32) -> Result<Buffer> {
        let region = self.memory.map(usize::try_from(len)?).context("mapping a region")?;
        // Not where it lies in this process, which is another place each time.
        let va = u64::from(region + 1) << 32;
        let addr = Addr { region, offset: 0 };
        let attr =
            MrAttr { pd: self.pd, va, len: u64::from(len), access: Access::ALL, backing: addr };
        let mr = self.engine.register_mr(&attr, &mut self.random)?;
        Ok(Buffer { mr, va, region })
    }

    pub(super) fn read(&self, buffer: &Buffer, offset: u32, len: u32) -> Result<Vec<u8>> {
        let mut out = vec![0; usize::try_from(len)?];
        let at = Addr { region: buffer.region, offset: u64::from(offset) };
        self.memory.read(at, &mut out).map_err(|_| anyhow!("reading outside a region"))?;
        Ok(out)
    }

    pub(super) fn write(&self, buffer: &Buffer, offset: u32, bytes: &[u8]) -> Result<()> {
        let at = Addr { region: buffer.region, offset: u64::from(offset) };
        self.memory.write(at, [bytes, &[]]).map_err(|_| anyhow!("writing outside a region"))
    }

    /// Fills the first `len` bytes with random letters. Wireshark guesses at payloads, and calls
    /// those malformed that look like something and are not; letters look like nothing.
    pub(super) fn randomise(&mut self, buffer: &Buffer, len: u32) -> Result<()> {
        let mut bytes = Vec::new();
        for _ in 0..len {
            bytes.push(b'a' + u8::try_from(self.random.next_u64() % 26)?);
        }
        self.write(buffer, 0, &bytes)
    }

    fn create_qp(&mut self) -> Result<Qpn> {
        let init = QpInit {
            max_send_wr: DEPTH,
            max_recv_wr: RECEIVES,
            ..QpInit::new(roce_codec::ib::Service::Rc, self.pd, self.cq, self.cq)
        };
        Ok(self.engine.create_qp(&init, &mut self.random)?)
    }

    /// Brings a queue pair to RTS; the PSNs are those it receives and sends from.
    fn connect(
        &mut self,
        qpn: Qpn,
        peer: Qpn,
        addresses: [IpAddr; 2],
        psns: [Psn; 2],
    ) -> Result<()> {
        let [src, dst] = addresses;
        let [rq_psn, sq_psn] = psns;
        let rd_atomic = self.engine.max_dest_rd_atomic();
        let path = Path {
            src,
            dst,
            next_hop: NextHop(0),
            src_port: source_port_from_flow_label(flow_label_from_qpns(qpn, peer)),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
        };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
        let rtr = ModifyQp::Rtr(RtrAttr {
            path,
            path_mtu: PATH_MTU,
            dest_qpn: peer,
            rq_psn,
            max_dest_rd_atomic: rd_atomic,
            min_rnr_timer: RnrTimer::new(12),
        });
        let rts = ModifyQp::Rts(RtsAttr {
            sq_psn,
            timeout: TIMEOUT,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: rd_atomic,
        });
        for change in [init, rtr, rts] {
            self.engine.modify_qp(qpn, &change)?;
        }
        Ok(())
    }

    /// One turn; says whether a frame came or went.
    fn turn(&mut self, now: Instant) -> bool {
        let turn = turn(&mut self.engine, &mut self.port, &self.memory, &self.hop, now);
        turn.received + turn.sent > 0
    }
}

/// Both ends.
#[derive(Debug)]
pub(super) struct Lab<'s, A, B> {
    pub(super) requester: Side<'s, A>,
    pub(super) responder: Side<'s, B>,
    pub(super) time: Time,
}

impl<A: Port, B: Port> Lab<'_, A, B> {
    /// A connected pair of queue pairs.
    pub(super) fn connect(&mut self) -> Result<[Qpn; 2]> {
        let near = self.requester.create_qp()?;
        let far = self.responder.create_qp()?;
        let [a, b] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)));
        let psn_near = Psn::new(self.requester.random.next_u32());
        let psn_far = Psn::new(self.responder.random.next_u32());
        self.requester.connect(near, far, [a, b], [psn_far, psn_near])?;
        self.responder.connect(far, near, [b, a], [psn_near, psn_far])?;
        Ok([near, far])
    }

    /// Lets time pass until `done` says so. It gets the completions of both ends, requester first.
    ///
    /// # Errors
    /// What `done` says, or that nothing comes any more.
    pub(super) fn run(
        &mut self,
        mut done: impl FnMut(&mut Self, &[Wc], &[Wc]) -> Result<bool>,
    ) -> Result<()> {
        let mut progress = self.time.now();
        let mut idle = 0;
        loop {
            let now = self.time.now();
            let busy = self.requester.turn(now) | self.responder.turn(now);
            let near: Vec<_> =
                core::iter::from_fn(|| self.requester.engine.poll_cq(self.requester.cq)).collect();
            let far: Vec<_> =
                core::iter::from_fn(|| self.responder.engine.poll_cq(self.responder.cq)).collect();
            if done(self, &near, &far)? {
                return Ok(());
            }
            if !near.is_empty() || !far.is_empty() {
                progress = now;
            } else if now.ns_since(progress) > STUCK_NS {
                bail!("nothing has come of it for {} s", STUCK_NS / 1_000_000_000);
            }
            idle = if busy { 0 } else { idle + 1 };
            self.pass(now, idle);
        }
    }

    /// Lets what is still under way arrive.
    pub(super) fn drain(&mut self) {
        for _ in 0..IDLE_TURNS {
            let now = self.time.now();
            let busy = self.requester.turn(now) | self.responder.turn(now);
            self.pass(now, u32::from(!busy));
        }
    }

    /// Time passes after a turn.
    fn pass(&mut self, now: Instant, idle: u32) {
        match &mut self.time {
            Time::Simulated(time) => {
                let mut next = now.add_ns(TURN_NS);
                if idle > IDLE_TURNS {
                    let timers = [
                        self.requester.engine.poll_timeout(),
                        self.responder.engine.poll_timeout(),
                    ];
                    let first = timers.into_iter().flatten().min();
                    next = next.max(first.unwrap_or(now.add_ns(STUCK_NS)));
                }
                time.set(next.0);
            }
            Time::Real(_) if idle > IDLE_TURNS => self.requester.port.wait(50_000),
            Time::Real(_) => {}
        }
    }
}
