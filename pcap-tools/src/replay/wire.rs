//! The requests of a capture out of an interface, and the answers that come back.
//!
//! A cut packet is never sent, nor what was lost before it reached the captured responder. The
//! target's memory and receives are its own: what it holds, its answers say.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use roce_codec::ib::{Answer, Msn, Psn};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{EtherType, Ethernet, MacAddr, VlanStack};
use roce_codec::{Frame, Start};
use roce_dataplane::port::{MAX_FRAME, Port, RxBurst};

use super::answer::Sides;
use super::compare::{Circumstances, compare};
use super::fate::{Fate, psns};
use super::freedom::Unknown;
use super::mapping;
use super::own::{Executed, Own};
use super::recording::{Icrc, Recording};
use super::report::{Report, StreamReport, Wire};
use super::target::Target;
use super::{Part, Replay, ReplayError, in_order};

/// Requests that an answer is looked for among, the newest first.
const NEWEST: usize = 4096;
/// Below this the clock is watched instead of waited for, in nanoseconds.
const SPIN_NS: u64 = 100_000;
/// The longest wait between two looks at the port, in nanoseconds.
const WAIT_NS: u64 = 10_000_000;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// Each as soon as what had been answered before it in the capture has been answered.
    Max,
    /// At the times of the capture, so many times as fast; 1 is the original speed.
    Times(f64),
}

/// How a capture is sent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SendOptions {
    /// The numbers of the target.
    pub target: Target,
    /// Whose requests are sent, by its captured address; the first requester's of the capture unless
    /// set.
    pub from: Option<IpAddr>,
    /// When they are sent.
    pub speed: Speed,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

impl SendOptions {
    /// To this target, at the original speed, a second for each answer.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let timeout = Duration::from_secs(1);
        Self { target, from: None, speed: Speed::Times(1.0), timeout }
    }
}

/// A stream on the wire.
struct Sent {
    own: Own,
    report: StreamReport,
    /// Requests sent: their PSNs, and their place in the stream.
    requests: Vec<(Psn, Psn, usize)>,
    /// What the captured responder expected behind each of them.
    expected: Psn,
    msn: Msn,
    /// The farthest PSN that the target has answered.
    answered: Option<Psn>,
    /// An answer did not come in time: no more is waited for.
    given_up: bool,
}

struct Session<'a, P> {
    recording: &'a Recording,
    parts: &'a [Part],
    port: &'a mut P,
    options: &'a SendOptions,
    streams: Vec<Option<Sent>>,
    /// Streams by who answers and the queue pair that the answers come to, on the wire.
    by_peer: HashMap<(IpAddr, u32), usize>,
    wire: Wire,
    last_heard: Instant,
}

impl Replay {
    /// Sends the requests of one host out of `port`, to the next hop that `link` names for an
    /// address, and compares the answers. `idle` is called while there is nothing to do, with the
    /// nanoseconds until there is.
    ///
    /// # Errors
    /// [`ReplayError::Nothing`], [`ReplayError::Unreachable`], [`ReplayError::AddressFamily`],
    /// [`ReplayError::PortMtu`].
    pub fn send<P: Port>(
        &self,
        port: &mut P,
        mut link: impl FnMut(IpAddr) -> Option<(MacAddr, VlanStack)>,
        mut idle: impl FnMut(&mut P, u64),
        options: &SendOptions,
    ) -> Result<Report, ReplayError> {
        let first = self.parts.iter().flatten().map(|part| part.plan.requester).next();
        let from = options.from.or(first).ok_or(ReplayError::Nothing)?;
        // With two taps, the streams of one host's requests are in one recording or the other.
        let is_from = |part: &Part| part.plan.requester == from;
        let which = self.parts.iter().position(|parts| parts.iter().any(is_from));
        let which = which.ok_or(ReplayError::Nothing)?;
        let (recording, parts) = (&self.recordings[which], &self.parts[which]);
        let mut session = Session::new(recording, parts, port, options);
        let mut links = HashMap::new();
        for (at, part) in parts.iter().enumerate().filter(|(_, part)| is_from(part)) {
            let there = options.target.address(part.plan.responder);
            let here = options.target.address(from);
            let families = [there, here, from].map(|address| address.is_ipv4());
            if families != [families[0]; 3] {
                return Err(ReplayError::AddressFamily { here, there });
            }
            if let Entry::Vacant(unknown) = links.entry(there) {
                unknown.insert(link(there).ok_or(ReplayError::Unreachable(there))?);
            }
            session.fits(part)?;
            session.open(at, which, part);
        }
        session.send_all(&links, &mut idle)?;
        session.drain(&mut idle);
        Ok(session.report(self))
    }
}

impl<'a, P: Port> Session<'a, P> {
    fn new(
        recording: &'a Recording,
        parts: &'a [Part],
        port: &'a mut P,
        options: &'a SendOptions,
    ) -> Self {
        Self {
            recording,
            parts,
            port,
            options,
            streams: parts.iter().map(|_| None).collect(),
            by_peer: HashMap::new(),
            wire: Wire::default(),
            last_heard: Instant::now(),
        }
    }

    /// Whether the port carries every request of a stream.
    fn fits(&self, part: &Part) -> Result<(), ReplayError> {
        let longest = part.stream.requests.iter().map(|index| self.recording.bytes(*index).len());
        let longest = longest.max().unwrap_or(0);
        let mtu = self.port.mtu();
        if longest > mtu {
            return Err(ReplayError::PortMtu { needed: longest, mtu });
        }
        Ok(())
    }

    fn open(&mut self, at: usize, tap: usize, part: &Part) {
        let report = StreamReport::new(part.plan.clone(), tap, part.stream.damaged_answers);
        self.streams[at] = Some(Sent {
            own: Own::default(),
            report,
            requests: Vec::new(),
            expected: part.plan.first_psn,
            msn: Msn::new(0),
            answered: None,
            given_up: false,
        });
        if let Some(peer) = self.options.target.peer(&part.plan) {
            let there = self.options.target.address(part.plan.responder);
            self.by_peer.insert((there, peer.get()), at);
        }
    }

    fn send_all(
        &mut self,
        links: &HashMap<IpAddr, (MacAddr, VlanStack)>,
        idle: &mut impl FnMut(&mut P, u64),
    ) -> Result<(), ReplayError> {
        let started = Instant::now();
        let mut first_ns = None;
        let mut bytes = Vec::new();
        for (index, stream, at) in in_order(self.parts) {
            let part = &self.parts[stream];
            let fate = part.fates.of[at];
            let Some(sent) = &mut self.streams[stream] else { continue };
            sent.report.cut += u64::from(fate == Fate::Cut);
            sent.report.lost += u64::from(fate == Fate::Lost);
            if !fate.is_given() {
                continue;
            }
            let packet = self.recording.packet(index);
            let first = *first_ns.get_or_insert(packet.time_ns);
            match self.options.speed {
                Speed::Max => self.wait_for_answers(stream, index, idle),
                Speed::Times(times) => {
                    let since = Duration::from_nanos(packet.time_ns - first);
                    self.wait_until(started + since.div_f64(times), idle);
                }
            }
            let frame = self.recording.frame(index);
            let mut changes = self.options.target.request(&part.plan, &frame);
            let there = self.options.target.address(part.plan.responder);
            let (dst, vlans) = links[&there];
            let ethertype = if there.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
            changes.ethernet = Some(Ethernet { dst, src: self.port.mac(), vlans, ethertype });
            changes.keep_wrong = packet.icrc == Icrc::Wrong || fate == Fate::Damaged;
            mapping::emit(&frame, &changes, &mut bytes).map_err(ReplayError::engine)?;
            self.note(stream, at, index, &frame, fate);
            self.put_on_wire(&bytes, idle);
            self.receive();
        }
        Ok(())
    }

    /// What the captured responder made of a request, which the target should, too.
    fn note(&mut self, stream: usize, at: usize, index: usize, frame: &Frame<'_>, fate: Fate) {
        let part = &self.parts[stream];
        let Some(sent) = &mut self.streams[stream] else { return };
        sent.report.given += 1;
        sent.report.damaged += u64::from(fate == Fate::Damaged);
        let first = frame.psn();
        let last = first.add(psns(frame, part.plan.mtu) - 1);
        sent.requests.push((first, last, at));
        if fate != Fate::Executed {
            return;
        }
        sent.expected = last.next();
        if frame.info().position.ends() {
            sent.msn = sent.msn.next();
        }
        let acknowledged = frame.info().answer() == Answer::Acknowledge;
        let (msn, asks) = (sent.msn, frame.bth().ack_req);
        sent.own.executed.push(Executed { first, last, msn, index, acknowledged, asks });
    }

    fn put_on_wire(&mut self, bytes: &[u8], idle: &mut impl FnMut(&mut P, u64)) {
        let begun = Instant::now();
        loop {
            if let Some(room) = self.port.tx_reserve(bytes.len().min(MAX_FRAME)) {
                for (to, from) in room.iter_mut().zip(bytes) {
                    *to = *from;
                }
                self.port.tx_commit(bytes.len());
                self.port.tx_flush();
                self.wire.sent += 1;
                return;
            }
            if begun.elapsed() > self.options.timeout {
                self.wire.not_sent += 1;
                return;
            }
            self.port.tx_flush();
            self.receive();
            idle(self.port, SPIN_NS);
        }
    }

    fn wait_until(&mut self, due: Instant, idle: &mut impl FnMut(&mut P, u64)) {
        loop {
            self.receive();
            let now = Instant::now();
            let Some(left) = due.checked_duration_since(now) else {
                let late = u64::try_from((now - due).as_nanos()).unwrap_or(u64::MAX);
                self.wire.latest_ns = self.wire.latest_ns.max(late);
                return;
            };
            let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            idle(self.port, left.saturating_sub(SPIN_NS).min(WAIT_NS));
        }
    }

    /// Waits for what the captured requester had an answer to before it sent this.
    fn wait_for_answers(
        &mut self,
        stream: usize,
        index: usize,
        idle: &mut impl FnMut(&mut P, u64),
    ) {
        let answers = &self.parts[stream].stream.answers;
        let before = answers.partition_point(|answer| *answer < index);
        let Some(last) = before.checked_sub(1).map(|at| answers[at]) else { return };
        let needed = self.recording.frame(last).psn();
        let begun = Instant::now();
        loop {
            self.receive();
            let Some(sent) = &mut self.streams[stream] else { return };
            let come = sent.answered.is_some_and(|psn| !psn.is_before(needed));
            if come || sent.given_up {
                return;
            }
            if begun.elapsed() > self.options.timeout {
                sent.given_up = true;
                self.wire.timeouts += 1;
                return;
            }
            idle(self.port, SPIN_NS);
        }
    }

    /// Takes what has come.
    fn receive(&mut self) {
        let mut tokens = RxBurst::new();
        self.port.rx_burst(&mut tokens);
        for token in tokens {
            let bytes = self.port.frame(&token).concat();
            self.port.release(token);
            self.answer(&bytes);
        }
    }

    fn answer(&mut self, bytes: &[u8]) {
        let frame = Frame::parse([bytes, &[]], Start::Ethernet).ok();
        let Some(frame) = frame.filter(|frame| frame.info().is_response()) else {
            self.wire.foreign += 1;
            return;
        };
        let stream = self.by_peer.get(&(frame.src(), frame.dest_qp().get())).copied();
        let Some((stream, sent)) =
            stream.and_then(|at| self.streams[at].as_mut().map(|sent| (at, sent)))
        else {
            self.wire.foreign += 1;
            return;
        };
        if frame.verify_icrc() != IcrcVerdict::Valid {
            self.wire.damaged += 1;
            return;
        }
        self.last_heard = Instant::now();
        let part = &self.parts[stream];
        let psn = self.options.target.captured_psn(&part.plan, frame.psn());
        if sent.answered.is_none_or(|answered| psn.is_after(answered)) {
            sent.answered = Some(psn);
        }
        let mut newest = sent.requests.iter().rev().take(NEWEST);
        let asked = newest.find(|(first, last, _)| psn.is_within(*first, *last));
        let Some((_, _, at)) = asked.or(sent.requests.last()).copied() else {
            self.wire.foreign += 1;
            return;
        };
        let changes = self.options.target.answer(&part.plan, &frame);
        let mut captured = Vec::new();
        if mapping::emit(&frame, &changes, &mut captured).is_err() {
            self.wire.foreign += 1;
            return;
        }
        let from = sent.own.answers.len();
        sent.own.push(at, &captured);
        sent.own.explain(from, part.fates.of[at] == Fate::Duplicate, sent.expected);
        let asked_at = part.stream.requests[at];
        let newest = sent.own.executed.iter().rev().take(NEWEST);
        let later = newest.take_while(|request| request.index > asked_at);
        let counted = later.filter(|request| !request.acknowledged).count();
        if let Some(answer) = sent.own.answers.last_mut() {
            answer.counted = u16::try_from(counted).unwrap_or(u16::MAX);
        }
    }

    /// Waits for the last answers: until as many have come as were captured, and else for the time
    /// that one is waited for after the last.
    fn drain(&mut self, idle: &mut impl FnMut(&mut P, u64)) {
        self.last_heard = Instant::now();
        loop {
            self.receive();
            let parts = self.parts.iter().zip(&self.streams);
            let complete = parts.filter_map(|(part, sent)| Some((part, sent.as_ref()?)));
            let complete = complete
                .into_iter()
                .all(|(part, sent)| sent.own.answers.len() >= part.stream.answers.len());
            if complete || self.last_heard.elapsed() > self.options.timeout {
                return;
            }
            idle(self.port, SPIN_NS);
        }
    }

    fn report(self, replay: &Replay) -> Report {
        let none = Default::default();
        let mut reports = Vec::new();
        for (part, sent) in self.parts.iter().zip(self.streams) {
            let Some(Sent { own, mut report, .. }) = sent else { continue };
            let sides = Sides {
                recording: self.recording,
                stream: &part.stream,
                own: &own,
                msn_base: Msn::new(0),
                memory_is_ours: false,
            };
            let with = Circumstances {
                certain: replay.taps.is_some() || !part.fates.lossy,
                unknown_from: part.fates.unknown_from.map(|index| (index, Unknown::Cut)),
                learned_first: (!part.plan.agreed).then_some(part.plan.first_psn),
                owner_stores: &none,
                shared_icrc: &none,
                silent_from: super::run::silent_from(self.recording),
            };
            compare(sides, with, &mut report);
            reports.push(report);
        }
        Report {
            streams: reports,
            skipped: self.recording.skipped().collect(),
            drops: None,
            wire: Some(self.wire),
        }
    }
}
