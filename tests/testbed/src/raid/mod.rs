//! Short raids by a hostile peer, each from a seed: it knows queue pairs, PSNs and keys, its ICRCs
//! are right, and it is asked things that it answers as it likes. A model says which bytes may
//! change, which may be told, and how much may be sent for what was received; an honest
//! peer at the same responder must notice nothing.
//!
//! Queue pairs of all services, shared receives, memory windows of both types that come and go,
//! keys that are taken away, either recovery mode.

mod frames;
mod ground;
mod ledger;
mod own;

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Mutex;

use roce_codec::ib::{Opcode, Psn, QKey, Qpn, RKey, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Frame, Start};
use roce_engine::{
    GrhArea, HeapStorage, HwCounter, Instant, Limits, LinkHeader, ModifyQp, QpInit, QpState, Rate,
    Recovery, Rx, Srq, SrqInit, TransmitError, WcOpcode, WcStatus,
};

use self::ground::Ground;
use self::ledger::Ledger;
use crate::hostile::honest::Honest;
use crate::hostile::target::{MTU, SECRET, Target};
use crate::random::Random;

/// Bursts of a raid, and frames of one.
const BURSTS: u64 = 80;
const FRAMES: u64 = 5;

/// Packets that the responder has room for behind gaps.
const HELD: usize = 12;

const QKEY: QKey = QKey(0x0bad_cafe);

const LIMITS: Limits = Limits {
    qps: 8,
    replays_per_qp: 4,
    mrs: 64,
    cqs: 4,
    cqes: 4096,
    send_wqes: 128,
    recv_wqes: 128,
    sges: 128,
    inlines: 16,
    ahs: 2,
    srqs: 2,
    events: 512,
};

/// Frames in the order they passed, and whether the responder received them.
pub type Trace = Mutex<Vec<(Instant, bool, Vec<u8>)>>;

/// What came of raids.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Frames of the hostile peer's.
    pub frames: u64,
    /// Answers to it, and requests.
    pub sent: u64,
    /// Rounds that the honest peer completed.
    pub rounds: u64,
    /// Windows bound, keys taken away by the peer, and by their owner.
    pub bound: u64,
    /// See `bound`.
    pub taken: u64,
    /// See `bound`.
    pub closed: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Own requests that succeeded, and that failed.
    pub ended: [u64; 2],
    /// What happened, in the order of [`HwCounter::ALL`].
    pub events: Vec<u64>,
}

struct Raid<'s, 't> {
    target: Target<'s>,
    honest: Honest<'s>,
    ground: Ground,
    ledger: Ledger,
    random: Random,
    now: Instant,
    qps: [Besieged; 4],
    srq: Srq,
    windows: Vec<roce_engine::Mw>,
    /// Own requests that have not ended, by queue pair, oldest first.
    sends: HashMap<Qpn, VecDeque<(u64, Post)>>,
    serial: u64,
    /// Requests that the peer was last sent: what it may answer.
    asked: VecDeque<Asked>,
    pending: Vec<Vec<u8>>,
    outcome: Outcome,
    trace: Option<&'t Trace>,
}

/// A queue pair that the hostile peer has.
#[derive(Debug, Clone, Copy)]
struct Besieged {
    qp: Qpn,
    service: Service,
    shared: bool,
}

/// What an own request is, as far as it matters when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Post {
    Plain,
    Bind(RKey),
    Invalidate(RKey),
}

/// A request that the peer was sent.
#[derive(Debug, Clone, Copy)]
struct Asked {
    qp: Qpn,
    psn: Psn,
    opcode: Opcode,
    len: usize,
}

/// Makes the raid of a seed.
///
/// # Errors
/// What the responder did wrong.
pub fn run(seed: u64, trace: Option<&Trace>) -> Result<Outcome, String> {
    let mut storage = HeapStorage::new(&LIMITS).with_held(HELD, MTU);
    let mut honest = HeapStorage::new(&LIMITS);
    let mut raid = Raid::new(seed, &mut storage, &mut honest, trace);
    let failed = |raid: &Raid<'_, '_>, what| format!("seed {seed} at {}: {what}", raid.now);
    for _ in 0..BURSTS {
        raid.burst().map_err(|what| failed(&raid, what))?;
    }
    raid.finish().map_err(|what| failed(&raid, what))?;
    let counters = raid.target.engine.counters();
    raid.outcome.events = HwCounter::ALL.iter().map(|event| counters.event(*event)).collect();
    raid.outcome.rounds = raid.honest.rounds;
    Ok(raid.outcome)
}

impl<'s, 't> Raid<'s, 't> {
    fn new(
        seed: u64,
        storage: &'s mut HeapStorage,
        honest: &'s mut HeapStorage,
        trace: Option<&'t Trace>,
    ) -> Self {
        let mut random = Random::new(seed ^ 0x5eed_0000);
        let recovery =
            random.pick(&[Recovery::GoBackN, Recovery::SelectiveAccept, Recovery::SelectiveAccept]);
        let mut target = Target::new(storage.lend(), seed, recovery);
        let honest = Honest::new(honest.lend(), &mut target, !seed);
        let ground = Ground::new(&mut target);
        let init = SrqInit { pd: target.pd, max_wr: 16, max_sge: 2 };
        let srq = target.engine.create_srq(&init).expect("a slot");
        let qps =
            [(Service::Rc, false), (Service::Rc, true), (Service::Uc, false), (Service::Ud, false)]
                .map(|(service, shared)| {
                    let init = QpInit {
                        max_recv_sge: 2,
                        srq: shared.then_some(srq),
                        ..QpInit::new(service, target.pd, target.cq, target.cq)
                    };
                    let qp = target.engine.create_qp(&init, &mut target.random).expect("a slot");
                    Besieged { qp, service, shared }
                });
        let mut raid = Self {
            target,
            honest,
            ground,
            ledger: Ledger::EMPTY,
            random,
            now: Instant::ZERO,
            qps,
            srq,
            windows: Vec::new(),
            sends: HashMap::new(),
            serial: 0,
            asked: VecDeque::new(),
            pending: Vec::new(),
            outcome: Outcome::default(),
            trace,
        };
        for which in 0..raid.qps.len() {
            raid.connect(which);
        }
        raid
    }

    /// Source and destination of what the hostile peer sends.
    fn addresses(&self) -> [Ipv4Addr; 2] {
        [Ipv4Addr::new(10, 227, 158, 105), self.target.address]
    }

    /// Connects a queue pair, from whatever state; what it had is forgotten.
    fn connect(&mut self, which: usize) {
        let Besieged { qp, service, .. } = self.qps[which];
        if service == Service::Ud {
            let sq_psn = Psn::new(0);
            let pkey = roce_codec::ib::PKey::DEFAULT;
            for change in [
                ModifyQp::Reset,
                ModifyQp::InitUd { pkey, qkey: QKEY },
                ModifyQp::RtrUd,
                ModifyQp::RtsUd { sq_psn },
            ] {
                self.target.engine.modify_qp(qp, &change).expect("a legal change");
            }
        } else {
            let some = own::random_access(&mut self.random);
            let peer = self.addresses()[0];
            self.target.connect(qp, peer, some, QpState::Rts);
            if self.random.one_in(2) {
                let rate = Rate { bytes_per_second: 200_000, burst: 0 };
                let rate = if self.random.one_in(2) { rate } else { Rate::UNLIMITED };
                self.target.engine.set_read_rate(qp, rate).expect("a queue pair");
            }
        }
        self.ground.forget(qp);
        self.sends.remove(&qp);
        self.asked.retain(|asked| asked.qp != qp);
    }

    /// Own doings, hostile frames among honest ones, and everything held to the model.
    fn burst(&mut self) -> Result<(), String> {
        for which in 0..self.qps.len() {
            self.tend(which)?;
        }
        let wait = self.random.pick(&[1_000, 1_000, 1_000, 20_000, 3_000_000]);
        self.now = self.now.add_ns(wait);
        self.ledger.time(self.now);
        let frames = self.frames();
        self.hand_over(&frames);
        self.complete()?;
        self.drain()?;
        self.complete()?;
        self.check()
    }

    /// Hands frames to the responder, among those of the honest peer.
    fn hand_over(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            self.record(true, frame);
            if let Ok(frame) = Frame::parse([frame, &[]], Start::Ethernet)
                && frame.verify_icrc() == IcrcVerdict::Valid
                && let Some(there) = self.qps.iter().find(|one| one.qp == frame.bth().dest_qp)
                && there.service == Service::Rc
            {
                self.ledger.received(&frame, &self.ground, MTU);
            }
        }
        self.outcome.frames += u64::try_from(frames.len()).unwrap_or(0);
        let honest = std::mem::take(&mut self.pending);
        let at = self.random.index(honest.len() + 1);
        let (first, rest) = honest.split_at(at);
        let all = first.iter().chain(frames).chain(rest);
        let burst: Vec<_> = all
            .map(|frame| Rx {
                segments: [frame, &[]],
                start: Start::Ethernet,
                icrc_verified: false,
            })
            .collect();
        let held = |raid: &Self| raid.target.engine.counters().event(HwCounter::RxHeld);
        let before = held(self);
        self.target.engine.handle_burst(self.now, &burst, &self.target.memory);
        self.target.handle_timeout(self.now);
        self.ledger.held(held(self) - before);
    }

    fn record(&self, received: bool, frame: &[u8]) {
        if let Some(trace) = self.trace
            && let Ok(mut trace) = trace.lock()
        {
            trace.push((self.now, received, frame.to_vec()));
        }
    }

    /// Lets the responder send all that it may now, and the honest peer go on.
    fn drain(&mut self) -> Result<(), String> {
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 9]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
        };
        while let Some(transmit) = self.target.engine.poll_transmit(self.now) {
            let mut out = vec![0; 4352];
            let Target { engine, memory, .. } = &mut self.target;
            let len = match transmit.emit::<Crc, _>(engine, &link, memory, &mut out) {
                Ok(len) => len,
                Err(TransmitError::Backing(_)) => {
                    return Err("memory that lives cannot be read".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            };
            out.truncate(len);
            if transmit.path.next_hop.0 == 0 {
                let rx = Rx { segments: [&out, &[]], start: Start::Ethernet, icrc_verified: false };
                self.honest.engine.handle_burst(self.now, &[rx], &self.honest.memory);
                continue;
            }
            self.record(false, &out);
            self.outcome.sent += 1;
            self.judge(&out, transmit.qp)?;
        }
        self.honest.advance(&mut self.target)?;
        for _ in 0..3 {
            let Some(transmit) = self.honest.engine.poll_transmit(self.now) else { break };
            let mut out = vec![0; 4352];
            let len = transmit
                .emit::<Crc, _>(&self.honest.engine, &link, &self.honest.memory, &mut out)
                .map_err(|error| error.to_string())?;
            out.truncate(len);
            self.pending.push(out);
        }
        Ok(())
    }

    /// Holds what the hostile peer is sent to what may be told and what it may cost.
    fn judge(&mut self, out: &[u8], qp: Qpn) -> Result<(), String> {
        let frame = Frame::parse([out, &[]], Start::Ethernet).map_err(|error| error.to_string())?;
        if frame.verify_icrc() != IcrcVerdict::Valid {
            return Err("a wrong ICRC".to_owned());
        }
        let four = |four: &[u8]| four == &SECRET[..4] || four == &SECRET[4..];
        if frame.payload()[0].windows(4).any(four) {
            return Err(format!("a secret was told: {} {}", frame.opcode(), frame.psn()));
        }
        if !frame.info().is_response() {
            self.note(qp, &frame);
        }
        self.ledger.sent(&frame)
    }

    /// Takes completions: each work request ends once, in its turn.
    fn complete(&mut self) -> Result<(), String> {
        // What ends now was open until now.
        self.ground.check(&self.target)?;
        while let Some(wc) = self.target.engine.poll_cq(self.target.cq) {
            let ok = wc.status == WcStatus::Success;
            let loan = self.ground.loans.iter().position(|loan| loan.wr_id == wc.wr_id);
            let loan = loan.map(|at| self.ground.loans.swap_remove(at));
            if let Some(sends) = self.sends.get_mut(&wc.qp)
                && sends.front().is_some_and(|(wr_id, _)| *wr_id == wc.wr_id)
            {
                let post = sends.pop_front().map_or(Post::Plain, |(_, post)| post);
                self.outcome.ended[usize::from(!ok)] += 1;
                match post {
                    Post::Bind(rkey) => {
                        self.outcome.bound += u64::from(ok);
                        self.ground.bound(rkey, ok, self.serial);
                    }
                    Post::Invalidate(rkey) if ok => {
                        self.outcome.closed += 1;
                        self.ground.taken(rkey, wc.qp)?;
                    }
                    _ => {}
                }
                continue;
            }
            let loan = loan.ok_or_else(|| format!("nobody asked for {wc:?}"))?;
            if !ok {
                continue;
            }
            if wc.opcode == WcOpcode::Recv
                && usize::try_from(wc.byte_len).is_ok_and(|len| len > loan.len)
            {
                return Err(format!("{} bytes of room: {wc:?}", loan.len));
            }
            if wc.src_qp.is_some() {
                self.outcome.datagrams += 1;
                let payload = loan.from + GrhArea::LEN;
                if wc.byte_len > 40 && self.ground.byte(payload) == frames::STRANGER {
                    return Err(format!("its Q_Key was wrong: {wc:?}"));
                }
            }
            if let Some(rkey) = wc.invalidated {
                self.outcome.taken += 1;
                self.ground.taken(rkey, wc.qp)?;
            }
        }
        while self.target.engine.poll_event().is_some() {}
        Ok(())
    }

    /// A queue pair is in error: nothing that was posted to it waits.
    fn all_ended(&self, qp: Qpn, shared: bool) -> Result<(), String> {
        let sends = self.sends.get(&qp).map_or(0, VecDeque::len);
        let receives = self.ground.loans.iter().filter(|loan| loan.qp == Some(qp)).count();
        if sends + if shared { 0 } else { receives } > 0 {
            return Err(format!("{qp}: {sends} sends and {receives} receives have not ended"));
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        self.target.engine.audit().map_err(|fault| fault.to_string())?;
        self.ground.check(&self.target)?;
        let counters = self.target.engine.counters();
        if counters.received != counters.acted_on + counters.dropped_total() {
            return Err(format!("packets are missing: {counters:?}"));
        }
        let [held, run, freed] = [HwCounter::RxHeld, HwCounter::RxHeldRun, HwCounter::RxHeldFreed]
            .map(|event| counters.event(event));
        if usize::try_from(held - run - freed).is_ok_and(|held| held > HELD) {
            return Err(format!("{held} packets held, {run} run, {freed} freed"));
        }
        Ok(())
    }

    /// Everything ends, and the honest peer has not noticed.
    fn finish(&mut self) -> Result<(), String> {
        for Besieged { qp, shared, .. } in self.qps {
            self.target.engine.modify_qp(qp, &ModifyQp::Error).map_err(|e| e.to_string())?;
            self.complete()?;
            self.all_ended(qp, shared)?;
        }
        let rounds = self.honest.rounds;
        let mut turns = 0;
        while self.honest.rounds < rounds + 2 {
            self.now = self.now.add_ns(1_000);
            self.hand_over(&[]);
            self.drain()?;
            turns += 1;
            if turns > 1000 {
                return Err("the honest peer stands still".to_owned());
            }
        }
        self.complete()?;
        self.check()?;
        self.target.check_secrets()
    }
}
