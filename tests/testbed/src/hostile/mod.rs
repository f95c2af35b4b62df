//! A hostile client at the live responder, with an honest peer beside it.
//!
//! Two kinds of attack: [`aim`]ed ones, each at one step of the pipeline, which must meet exactly
//! what that step does; and wild ones, valid traffic bent at random with the ICRC repaired, which
//! may meet anything but must not crash the responder, touch a byte that was not given, read a
//! byte that is secret, or disturb the honest peer.

pub mod aim;
pub mod honest;
pub mod mutate;
pub mod packet;
mod shot;
pub mod target;
mod wild;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use roce_codec::ib::{NakCode, Opcode, PathMtu, Psn, Qpn, Service};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Frame, Start};
use roce_engine::{
    Access, Body, Counters, Event, HeapStorage, Instant, Limits, LinkHeader, QpState, Recovery, Rx,
    TransmitError,
};

use self::aim::{Aim, Met};
use self::honest::Honest;
use self::target::{SECRET, Target};
use crate::random::Random;

/// Queue pairs that the wild attacks are made on.
const WILD: usize = 8;

/// Packets that the responder has room for behind gaps: fewer than the hostile client sends.
const HELD: usize = 64;

/// The pools of the responder.
pub const LIMITS: Limits = Limits {
    qps: 16,
    replays_per_qp: 4,
    mrs: 64,
    cqs: 2,
    cqes: 8192,
    send_wqes: 512,
    recv_wqes: 512,
    ahs: 4,
    events: 4096,
    ..Limits::SMALL
};

/// The queue pairs that the hostile client has been given.
#[derive(Debug, Clone, Copy)]
struct QueuePairs {
    /// For aimed attacks: everything is allowed.
    full: Qpn,
    /// Nothing is allowed.
    bare: Qpn,
    /// Never leaves Init.
    init: Qpn,
    wild: [Qpn; WILD],
    /// Of the unreliable service.
    unreliable: Qpn,
}

/// What came of a siege.
#[derive(Debug, Clone)]
pub struct Report {
    /// Frames of the hostile client's.
    pub frames: u64,
    /// Of these, wild ones.
    pub wild: u64,
    /// How often each aim was hit.
    pub hits: HashMap<Aim, u64>,
    /// NAKs by syndrome.
    pub syndromes: HashMap<u8, u64>,
    /// Times a hostile queue pair was connected again.
    pub reconnects: u64,
    /// Rounds of five or more verified requests that the honest peer completed.
    pub honest_rounds: u64,
    /// What the responder counted.
    pub counters: Counters,
}

/// A siege in progress.
struct Siege<'s> {
    target: Target<'s>,
    honest: Honest<'s>,
    random: Random,
    now: Instant,
    hostile: Ipv4Addr,
    queue_pairs: QueuePairs,
    /// Frames from the honest peer that are on the wire.
    pending: Vec<Vec<u8>>,
    /// What the responder has sent the hostile client since the last delivery.
    answers: Vec<Answer>,
    frames: u64,
    wild: u64,
    syndromes: HashMap<u8, u64>,
    reconnects: u64,
}

/// An answer of the responder's to the hostile client.
#[derive(Debug, Clone, Copy)]
struct Answer {
    opcode: Opcode,
    psn: Psn,
    syndrome: Option<u8>,
}

/// Lays siege with `shots` attacks at each aim, and `wild` frames, to a responder that recovers in
/// this way.
///
/// # Errors
/// What the responder did wrong, or what an attack met instead of what it had to.
pub fn run(seed: u64, shots: u64, wild: u64, recovery: Recovery) -> Result<Report, String> {
    let mut storage = HeapStorage::new(&LIMITS).with_held(HELD, PathMtu::Mtu4096);
    let mut honest_storage = HeapStorage::new(&LIMITS);
    let mut siege = Siege::new(&mut storage, &mut honest_storage, seed, recovery);
    let mut hits = HashMap::new();
    let every = wild / shots.max(1);
    for round in 0..shots {
        for &aim in Aim::ALL {
            siege.attack(aim).map_err(|what| format!("seed {seed}, {aim:?} {round}: {what}"))?;
            *hits.entry(aim).or_insert(0) += 1;
        }
        for _ in 0..every {
            let frame = siege.frames;
            siege
                .wild_attack()
                .map_err(|what| format!("seed {seed}, wild at frame {frame}: {what}"))?;
        }
        siege.target.check_secrets()?;
    }
    while siege.wild < wild {
        siege.wild_attack().map_err(|what| format!("seed {seed}: {what}"))?;
    }
    siege.target.check_secrets()?;
    Ok(Report {
        frames: siege.frames,
        wild: siege.wild,
        hits,
        syndromes: siege.syndromes,
        reconnects: siege.reconnects,
        honest_rounds: siege.honest.rounds,
        counters: siege.target.engine.counters().clone(),
    })
}

impl<'s> Siege<'s> {
    fn new(
        storage: &'s mut HeapStorage,
        honest_storage: &'s mut HeapStorage,
        seed: u64,
        recovery: Recovery,
    ) -> Self {
        let mut target = Target::new(storage.lend(), seed, recovery);
        let honest = Honest::new(honest_storage.lend(), &mut target, !seed);
        let mut create = || target.create_qp(Service::Rc);
        let queue_pairs = QueuePairs {
            full: create(),
            bare: create(),
            init: create(),
            wild: [(); WILD].map(|()| create()),
            unreliable: target.create_qp(Service::Uc),
        };
        let mut siege = Self {
            target,
            honest,
            random: Random::new(seed.rotate_left(32)),
            now: Instant::ZERO,
            // Far from every other address, so that a few flipped bits do not reach one.
            hostile: Ipv4Addr::new(10, 227, 158, 105),
            queue_pairs,
            pending: Vec::new(),
            answers: Vec::new(),
            frames: 0,
            wild: 0,
            syndromes: HashMap::new(),
            reconnects: 0,
        };
        siege.connect(siege.queue_pairs.init, Access::ALL, QpState::Init);
        siege
    }

    /// Source and destination of the hostile client's packets.
    fn addresses(&self) -> [Ipv4Addr; 2] {
        [self.hostile, self.target.address]
    }

    fn connect(&mut self, qp: Qpn, access: Access, state: QpState) -> [Psn; 2] {
        self.reconnects += 1;
        let psns = self.target.connect(qp, self.hostile, access, state);
        // What the connection before owed.
        while self.target.engine.poll_cq(self.target.cq).is_some() {}
        while self.target.engine.poll_event().is_some() {}
        psns
    }

    /// Makes an attack and holds what it meets to its aim.
    fn attack(&mut self, aim: Aim) -> Result<(), String> {
        let shot = self.shot(aim);
        self.drain()?;
        if shot.at_once {
            let mut frames = shot.before.clone();
            frames.push(shot.last.clone());
            self.answers.clear();
            self.deliver(&frames)?;
        } else {
            for frame in &shot.before {
                self.deliver(std::slice::from_ref(frame))?;
            }
            self.answers.clear();
            let before = self.target.engine.counters().clone();
            self.hand_over(std::slice::from_ref(&shot.last));
            if let Met::Drop(reason) = aim.met() {
                let after = self.target.engine.counters();
                if after.dropped(reason) != before.dropped(reason) + 1 {
                    return Err(format!("dropped for another reason: {before:?}, {after:?}"));
                }
            }
            if let Some(rkey) = shot.dies {
                self.drain_some(1)?;
                let _ = self.target.engine.deregister_mr(rkey);
            }
            self.drain()?;
        }
        self.judge(aim, shot.psn)
    }

    fn judge(&mut self, aim: Aim, psn: Psn) -> Result<(), String> {
        let answers = &self.answers;
        let fair = match aim.met() {
            Met::Drop(_) => answers.is_empty(),
            Met::Syndrome(syndrome) => answers.last().is_some_and(|answer| {
                // A sequence NAK names the PSN that is missing.
                let named = syndrome == 0x60 || answer.psn == psn;
                answer.opcode == Opcode::RC_ACKNOWLEDGE
                    && answer.syndrome == Some(syndrome)
                    && named
            }),
            Met::Answer(opcode) => {
                answers.len() == 1 && answers[0].opcode == opcode && answers[0].psn == psn
            }
            Met::Completion => {
                answers.is_empty() && self.target.engine.poll_cq(self.target.cq).is_some()
            }
        };
        if !fair {
            return Err(format!("it met {answers:?}"));
        }
        let mut events = std::iter::from_fn(|| self.target.engine.poll_event());
        let refused = events.find_map(|event| match event {
            Event::RequestRefused { code, .. } => Some(code),
            _ => None,
        });
        let expect = match aim.met() {
            Met::Syndrome(0x61) => Some(NakCode::InvalidRequest),
            Met::Syndrome(0x62) => Some(NakCode::RemoteAccessError),
            Met::Syndrome(0x63) => Some(NakCode::RemoteOperationalError),
            _ => None,
        };
        if refused == expect { Ok(()) } else { Err(format!("the event says {refused:?}")) }
    }

    /// Hands frames to the responder, between those of the honest peer, and lets everybody
    /// answer.
    fn deliver(&mut self, frames: &[Vec<u8>]) -> Result<(), String> {
        self.hand_over(frames);
        self.drain()
    }

    fn hand_over(&mut self, frames: &[Vec<u8>]) {
        self.now = self.now.add_ns(1000);
        self.frames += u64::try_from(frames.len()).unwrap_or(0);
        let honest = std::mem::take(&mut self.pending);
        let at = self.random.index(honest.len() + 1);
        let (first, rest) = honest.split_at(at);
        let burst: Vec<_> = first
            .iter()
            .chain(frames)
            .chain(rest)
            .map(|frame| Rx {
                segments: [frame, &[]],
                start: Start::Ethernet,
                icrc_verified: false,
            })
            .collect();
        self.target.engine.handle_burst(self.now, &burst, &self.target.memory);
        self.target.handle_timeout(self.now);
    }

    /// Lets the responder send all it has, and the honest peer answer.
    fn drain(&mut self) -> Result<(), String> {
        // More than the honest peer and all hostile READs together call for.
        self.drain_some(4096)?;
        if self.target.engine.poll_transmit(self.now).is_some() {
            return Err("the responder does not stop sending".to_owned());
        }
        self.honest.advance(&mut self.target)?;
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 1]),
            src: MacAddr([2, 0, 0, 0, 0, 2]),
            vlans: VlanStack::EMPTY,
        };
        // A frame or two at a time, so that it is at work all the while.
        for _ in 0..2 {
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

    fn drain_some(&mut self, most: usize) -> Result<(), String> {
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 9]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
        };
        let mut sent = 0;
        while sent < most
            && let Some(transmit) = self.target.engine.poll_transmit(self.now)
        {
            let mut out = vec![0; 4352];
            let len = match transmit.emit::<Crc, _>(
                &self.target.engine,
                &link,
                &self.target.memory,
                &mut out,
            ) {
                Ok(len) => len,
                Err(TransmitError::Backing(_)) => {
                    self.target.engine.transmit_failed(&transmit);
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            out.truncate(len);
            if transmit.path.next_hop.0 == 0 {
                let rx = Rx { segments: [&out, &[]], start: Start::Ethernet, icrc_verified: false };
                self.honest.engine.handle_burst(self.now, &[rx], &self.honest.memory);
                continue;
            }
            sent += 1;
            let body = !matches!(transmit.body, Body::Empty);
            self.take_answer(&out, body)?;
        }
        Ok(())
    }

    /// Takes a packet for the hostile client, and looks whether it tells a secret.
    fn take_answer(&mut self, bytes: &[u8], body: bool) -> Result<(), String> {
        let frame = Frame::parse([bytes, &[]], Start::Ethernet).map_err(|e| e.to_string())?;
        if frame.verify_icrc() != IcrcVerdict::Valid {
            return Err("an answer with a wrong ICRC".to_owned());
        }
        // Half of it, at any place, would be too much.
        let told = frame.info().is_response()
            && body
            && frame.payload()[0]
                .windows(4)
                .any(|four| four == &SECRET[..4] || four == &SECRET[4..]);
        if told {
            return Err(format!("a secret was told: {} {}", frame.opcode(), frame.psn()));
        }
        let syndrome = frame.aeth().map(|aeth| aeth.syndrome.0);
        if frame.opcode() == Opcode::RC_ACKNOWLEDGE
            && let Some(syndrome) = syndrome
        {
            *self.syndromes.entry(syndrome).or_insert(0) += 1;
        }
        if frame.info().is_response() {
            self.answers.push(Answer { opcode: frame.opcode(), psn: frame.psn(), syndrome });
        }
        Ok(())
    }
}
