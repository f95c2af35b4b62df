//! How much of a link's rate is of use: two engines, a link with a rate, a length and losses, on a
//! virtual clock in picoseconds.
//!
//! A requester WRITEs one message after another, so that it always has something to send; what
//! counts is payload that the responder has executed. Each direction of the link sends one frame
//! after the other, as long as each takes at the link's rate; Ethernet's preamble, check sequence
//! and gap included.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::icrc::Icrc;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc32, Start};
use roce_engine::{
    Access, Addr, AtomicOp, Backing, BackingFault, Config, Cq, Engine, HeapStorage, HwCounter,
    Instant, Limits, LinkHeader, ModifyQp, Mr, MrAttr, Path, QpInit, Recovery, RtrAttr, RtsAttr,
    Rx, SendWr, Sge, WcStatus, WrOpcode,
};

use crate::random::Random;

/// Preamble, frame check sequence and gap between frames.
const ETHERNET_BYTES: u64 = 8 + 4 + 12;
/// Picoseconds a nanosecond.
const PS: u64 = 1000;
/// Work requests posted at any time.
const DEPTH: u32 = 16;
/// Request packets in flight at most: more than any link here holds.
const WINDOW: u32 = 4096;

/// Which frames are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// So many of a million frames, in both directions.
    Random(u32),
    /// So many of a million requests; no answer is.
    RandomRequests(u32),
    /// Every so-manieth request frame on the wire, whether it was sent before or not; no answer is.
    Every(u64),
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Bits a second.
    pub rate: u64,
    /// One way, in nanoseconds.
    pub propagation_ns: u64,
    /// Losses.
    pub loss: Loss,
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// What the responder does with packets behind a gap.
    pub recovery: Recovery,
    /// Bytes of a message.
    pub message: u32,
    /// The acknowledge timeout's code.
    pub timeout: u8,
    /// Request frames that the link has room for in the time that is measured.
    pub frames: u64,
}

impl Case {
    /// Bytes of a full request packet of a message's middle on the wire.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        // Ethernet, IPv4, UDP, BTH, ICRC.
        14 + 20 + 8 + 12 + u64::from(self.path_mtu.bytes()) + 4 + ETHERNET_BYTES
    }

    /// How long it takes at the link's rate.
    fn frame_ps(&self) -> u64 {
        serialization_ps(self.frame_bytes(), self.rate)
    }

    /// Full request packets that the link sends in one round trip.
    #[must_use]
    pub fn round_trip_frames(&self) -> f64 {
        ratio(2 * self.propagation_ns * PS, self.frame_ps())
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goodput {
    /// Of the payload that the link could carry without a loss, how much was of use: 0 to 1.
    pub fraction: f64,
    /// Of the link's time for requests, how much was used: 0 to 1.
    pub busy: f64,
    /// Timeouts, a thousand packets of use.
    pub timeouts: f64,
}

fn ratio(part: u64, whole: u64) -> f64 {
    let millionths = part * 1_000_000 / whole.max(1);
    f64::from(u32::try_from(millionths).unwrap_or(u32::MAX)) / 1e6
}

fn serialization_ps(bytes: u64, rate: u64) -> u64 {
    (bytes * 8 * PS).saturating_mul(1_000_000_000) / rate
}

/// Nobody looks at these bytes.
struct NoMemory;

impl Backing for NoMemory {
    fn write(&self, _: Addr, _: [&[u8]; 2]) -> Result<(), BackingFault> {
        Ok(())
    }

    fn read_crc<C: Crc32>(
        &self,
        _: Addr,
        _: &mut [u8],
        _: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        Ok(())
    }

    fn atomic(&self, _: Addr, _: AtomicOp) -> Result<u64, BackingFault> {
        Ok(0)
    }
}

/// The link checks nothing and corrupts nothing.
#[derive(Clone)]
struct NoCrc;

impl Crc32 for NoCrc {
    fn resume(_: u32) -> Self {
        Self
    }

    fn state(&self) -> u32 {
        0
    }

    fn update(&mut self, _: &[u8]) {}
}

/// One direction of the link.
struct Direction {
    loss: Loss,
    random: Random,
    sent: u64,
    free_ps: u64,
    busy_ps: u64,
    in_flight: VecDeque<(u64, Vec<u8>)>,
}

impl Direction {
    fn new(loss: Loss, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { loss, random, sent: 0, free_ps: 0, busy_ps: 0, in_flight: VecDeque::new() }
    }

    fn send(&mut self, now_ps: u64, frame: Vec<u8>, case: &Case) {
        let bytes = u64::try_from(frame.len().max(60)).unwrap_or(0) + ETHERNET_BYTES;
        let takes_ps = serialization_ps(bytes, case.rate);
        self.free_ps = now_ps + takes_ps;
        self.busy_ps += takes_ps;
        self.sent += 1;
        let lost = match self.loss {
            Loss::Random(ppm) | Loss::RandomRequests(ppm) => {
                self.random.below(1_000_000) < u64::from(ppm)
            }
            Loss::Every(n) => self.sent.is_multiple_of(n),
        };
        if !lost {
            self.in_flight.push_back((self.free_ps + case.propagation_ns * PS, frame));
        }
    }
}

struct Side<'s> {
    engine: Engine<'s>,
    qp: Qpn,
    cq: Cq,
    mr: Mr,
    out: Direction,
    /// It had nothing to send when it was last asked.
    idle: bool,
}

impl<'s> Side<'s> {
    fn new(case: &Case, number: u8, storage: &'s mut HeapStorage, out: Direction) -> Self {
        let config = Config {
            window: WINDOW,
            recovery: case.recovery,
            held_per_qp: WINDOW,
            ..Config::DEFAULT
        };
        let mut engine = Engine::new(config, storage.lend());
        let random = &mut Random::new(u64::from(number));
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(2 * DEPTH).expect("a completion queue");
        let attr = MrAttr {
            pd,
            va: 0,
            len: 1 << 32,
            access: Access::ALL,
            backing: Addr { region: 0, offset: 0 },
        };
        let mr = engine.register_mr(&attr, random).expect("a region");
        let mut init = QpInit::new(Service::Rc, pd, cq, cq);
        init.max_send_wr = DEPTH;
        let qp = engine.create_qp(&init, random).expect("a queue pair");
        Self { engine, qp, cq, mr, out, idle: false }
    }

    fn connect(&mut self, case: &Case, number: u8, peer: Qpn) {
        let address = |number| IpAddr::V4(Ipv4Addr::new(192, 0, 2, number));
        let path = Path {
            src: address(number),
            dst: address(1 - number),
            src_port: 0xc000,
            ..Path::EMPTY
        };
        let rtr = RtrAttr {
            path,
            path_mtu: case.path_mtu,
            dest_qpn: peer,
            rq_psn: Psn::new(0),
            max_dest_rd_atomic: 1,
            min_rnr_timer: RnrTimer::new(1),
        };
        let rts = RtsAttr {
            sq_psn: Psn::new(0),
            timeout: case.timeout,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 1,
        };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
        for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
            self.engine.modify_qp(self.qp, &change).expect("a legal change");
        }
    }

    /// Sends a frame if there is one and the link is free.
    fn transmit(&mut self, now_ps: u64, case: &Case) {
        if self.out.free_ps > now_ps || self.idle {
            return;
        }
        let Some(transmit) = self.engine.poll_transmit(Instant(now_ps / PS)) else {
            self.idle = true;
            return;
        };
        let link =
            LinkHeader { dst: MacAddr([2; 6]), src: MacAddr([2; 6]), vlans: VlanStack::EMPTY };
        let mut frame = vec![0; 4400];
        let len =
            transmit.emit::<NoCrc, _>(&self.engine, &link, &NoMemory, &mut frame).expect("a frame");
        frame.truncate(len);
        self.out.send(now_ps, frame, case);
    }

    fn receive(&mut self, now_ps: u64, frame: &[u8]) {
        let rx = Rx { segments: [frame, &[]], start: Start::Ethernet, icrc_verified: true };
        self.engine.handle_burst(Instant(now_ps / PS), &[rx], &NoMemory);
        self.idle = false;
    }

    /// When this side does something by itself.
    fn next_ps(&self) -> Option<u64> {
        let timer = self.engine.poll_timeout().map(|at| at.0 * PS);
        timer.into_iter().chain((!self.idle).then_some(self.out.free_ps)).min()
    }
}

/// Measures a case.
///
/// # Panics
/// If an engine does what it should not, a request failing for want of retries included.
#[must_use]
pub fn measure(case: &Case, seed: u64) -> Goodput {
    let limits = Limits { qps: 1, send_wqes: 64, recv_wqes: 1, cqes: 64, cqs: 1, ..Limits::SMALL };
    let held = usize::try_from(2 * WINDOW).expect("fits");
    let mut storages =
        [held, held].map(|held| HeapStorage::new(&limits).with_held(held, PathMtu::Mtu4096));
    let [requests, answers] = &mut storages;
    let lossless = Loss::Random(0);
    let back = if matches!(case.loss, Loss::Random(_)) { case.loss } else { lossless };
    let mut sides = [
        Side::new(case, 0, requests, Direction::new(case.loss, seed)),
        Side::new(case, 1, answers, Direction::new(back, !seed)),
    ];
    let qps = [sides[0].qp, sides[1].qp];
    for (number, side) in (0..).zip(&mut sides) {
        side.connect(case, number, qps[usize::from(1 - number)]);
    }
    // A tenth to get going.
    let start_ps = case.frame_ps() * case.frames / 10;
    let end_ps = start_ps + case.frame_ps() * case.frames;
    let mut executed = Executed::default();
    let mut before = None;
    let mut now_ps = 0;
    loop {
        post(case, &mut sides);
        for side in &mut sides {
            side.transmit(now_ps, case);
        }
        executed.advance(&sides[1]);
        if before.is_none() && now_ps >= start_ps {
            before = Some((executed.packets, sides[0].out.busy_ps, timeouts(&sides[0])));
        }
        if now_ps >= end_ps {
            break;
        }
        now_ps = next_ps(&sides).max(now_ps);
        step(&mut sides, now_ps);
    }
    let (packets, busy_ps, timed_out) = before.expect("a start");
    let packets = executed.packets - packets;
    Goodput {
        fraction: ratio(packets, case.frames),
        busy: ratio(sides[0].out.busy_ps - busy_ps, end_ps - start_ps),
        timeouts: 1000.0 * ratio(timeouts(&sides[0]) - timed_out, packets),
    }
}

fn timeouts(side: &Side<'_>) -> u64 {
    side.engine.counters().event(HwCounter::LocalAckTimeoutErr)
}

/// Packets that the responder has executed, beyond the number space.
#[derive(Default)]
struct Executed {
    psn: Psn,
    packets: u64,
}

impl Executed {
    fn advance(&mut self, side: &Side<'_>) {
        let expected = side.engine.query_qp(side.qp).expect("a queue pair").expected_psn;
        self.packets += u64::from(expected.sub(self.psn.get()).get());
        self.psn = expected;
    }
}

/// Keeps the send queue full.
fn post(case: &Case, [requester, responder]: &mut [Side<'_>; 2]) {
    while let Some(wc) = requester.engine.poll_cq(requester.cq) {
        assert_eq!(wc.status, WcStatus::Success, "{case:?}");
    }
    let sge = [Sge { va: 0, len: case.message, lkey: requester.mr.lkey }];
    let write = WrOpcode::RdmaWrite { va: 0, rkey: responder.mr.rkey };
    while requester.engine.post_send(requester.qp, &SendWr::new(0, write, &sge)).is_ok() {
        requester.idle = false;
    }
}

fn next_ps(sides: &[Side<'_>; 2]) -> u64 {
    let arrivals = sides.iter().filter_map(|side| side.out.in_flight.front()).map(|frame| frame.0);
    let own = sides.iter().filter_map(Side::next_ps);
    arrivals.chain(own).min().expect("a requester with work has a timer")
}

/// Delivers what has arrived, and serves timers.
fn step(sides: &mut [Side<'_>; 2], now_ps: u64) {
    for from in 0..2 {
        while sides[from].out.in_flight.front().is_some_and(|frame| frame.0 <= now_ps) {
            let Some((_, frame)) = sides[from].out.in_flight.pop_front() else { break };
            sides[1 - from].receive(now_ps, &frame);
        }
    }
    for side in sides {
        if side.engine.poll_timeout().is_some_and(|at| at.0 * PS <= now_ps) {
            let _ = side.engine.handle_timeout(Instant(now_ps / PS));
            side.idle = false;
        }
    }
}
