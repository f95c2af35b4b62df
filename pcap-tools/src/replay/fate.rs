//! What became of each request at the responder that was captured, as its answers show it.
//!
//! This is the captured responder's side told from the outside: which requests it carried out, saw
//! again, refused or had no receive for. What it was asked and cannot have got (a NAK asks for it
//! although the tap saw it) was lost behind the tap.

use std::collections::HashMap;

use roce_codec::Frame;
use roce_codec::ib::{AethKind, NakCode, Operation, PathMtu, Psn, RnrTimer, Service};

use super::recording::{Icrc, Recording};
use super::stream::Stream;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Carried out.
    Executed,
    /// Seen before.
    Duplicate,
    /// A PSN before it is missing.
    Ahead,
    /// There was no receive for it.
    NotReady,
    /// It ended the connection.
    Refused(NakCode),
    /// The connection had ended.
    Ended,
    /// Lost between the tap and the responder.
    Lost,
    /// The rest of a message that began before the capture.
    Midway,
    /// Its ICRC is wrong, and the responder did not take it.
    Damaged,
    /// The capture has not all of it.
    Cut,
    /// Behind a cut one, without which the responder is another.
    BehindCut,
}

impl Fate {
    /// Whether it is given to our responder.
    pub(super) fn is_given(self) -> bool {
        !matches!(self, Self::Lost | Self::Midway | Self::Cut | Self::BehindCut)
    }
}

/// What the answers of a stream show of its requests.
#[derive(Debug)]
pub(super) struct Fates {
    /// One a request.
    pub(super) of: Vec<Fate>,
    /// The PSN our responder is to expect first.
    pub(super) first_psn: Psn,
    /// The wait that the RNR NAKs ask for.
    pub(super) rnr_timer: Option<RnrTimer>,
    /// From which place of the recording on nothing can be compared.
    pub(super) unknown_from: Option<usize>,
    /// Requests came again: something was lost, or late.
    pub(super) lossy: bool,
}

/// How many executed requests back a NAK may show one to have been lost.
const REWIND: usize = 4096;

/// Answers among which one to a request whose ICRC is mistaken is looked for.
const SOON: usize = 256;

/// PSNs that a request takes.
pub(super) fn psns(frame: &Frame<'_>, mtu: PathMtu) -> u32 {
    match frame.reth() {
        Some(reth) if frame.info().operation == Operation::ReadRequest => {
            mtu.packets(reth.dma_len).min(Psn::HALF)
        }
        _ => 1,
    }
}

struct Walk<'r> {
    recording: &'r Recording,
    stream: &'r Stream,
    mtu: PathMtu,
    fates: Vec<Fate>,
    expected: Psn,
    ended: bool,
    unknown_from: Option<usize>,
    /// Requests executed, and what was expected before each.
    executed: Vec<(usize, Psn)>,
    /// The answer that ended the connection.
    fatal: Option<(Psn, NakCode)>,
    /// Where RNR NAKs are, by PSN, newest first.
    not_ready: HashMap<Psn, Vec<usize>>,
}

/// Follows a stream's requests and answers in the order of the capture. `sees_all` says that the tap
/// is the responder's own: what it shows has arrived.
pub(super) fn fates(recording: &Recording, stream: &Stream, mtu: PathMtu, sees_all: bool) -> Fates {
    let mut fatal = None;
    let mut rnr_timer = None;
    let mut not_ready: HashMap<Psn, Vec<usize>> = HashMap::new();
    for index in stream.answers.iter().rev() {
        let frame = recording.frame(*index);
        match frame.aeth().map(|aeth| aeth.syndrome.kind()) {
            Some(AethKind::RnrNak(timer)) => {
                rnr_timer = Some(timer);
                not_ready.entry(frame.psn()).or_default().push(*index);
            }
            Some(AethKind::Nak(code)) if code != NakCode::PsnSequenceError => {
                fatal = Some((frame.psn(), code));
            }
            _ => {}
        }
    }
    let mut walk = Walk {
        recording,
        stream,
        mtu,
        fates: vec![Fate::Ended; stream.requests.len()],
        expected: stream.first_psn(recording),
        ended: false,
        unknown_from: None,
        executed: Vec::new(),
        fatal,
        not_ready,
    };
    let first_psn = walk.start();
    if stream.service == Service::Rc {
        walk.reliable(sees_all);
    } else {
        walk.unreliable();
    }
    let lossy =
        walk.fates.iter().any(|fate| matches!(fate, Fate::Duplicate | Fate::Ahead | Fate::Lost));
    let Walk { fates: of, unknown_from, .. } = walk;
    Fates { of, first_psn, rnr_timer, unknown_from, lossy }
}

impl Walk<'_> {
    /// Passes over what is left of a message that began before the capture; says which PSN is
    /// expected then.
    fn start(&mut self) -> Psn {
        let agreed = self.stream.agreed.is_some();
        for at in 0..self.stream.requests.len() {
            let frame = self.recording.frame(self.stream.requests[at]);
            let begins = frame.info().position.starts();
            // What comes ahead of what is asked for is no rest of a message.
            if agreed || begins || frame.psn() != self.expected {
                break;
            }
            self.fates[at] = Fate::Midway;
            self.expected = self.expected.next();
        }
        self.expected
    }

    fn reliable(&mut self, sees_all: bool) {
        let answers = &self.stream.answers;
        let mut answer = 0;
        let mut at = 0;
        // So that no capture makes this long: each request is looked at a few times.
        let mut budget = 8 * self.fates.len();
        loop {
            let request = self.stream.requests.get(at).copied();
            let next = answers.get(answer).copied();
            match (request, next) {
                (Some(index), next) if next.is_none_or(|next| index < next) => {
                    self.request(at, index);
                    at += 1;
                }
                (_, Some(index)) => {
                    answer += 1;
                    if !sees_all
                        && budget > 0
                        && let Some(back) = self.lost_before(index)
                    {
                        budget = budget.saturating_sub(at - back);
                        at = back + 1;
                    }
                }
                _ => break,
            }
        }
    }

    fn unreliable(&mut self) {
        for at in 0..self.fates.len() {
            if self.fates[at] == Fate::Midway {
                continue;
            }
            let packet = self.recording.packet(self.stream.requests[at]);
            self.fates[at] = match packet.icrc {
                _ if packet.cut => Fate::Cut,
                Icrc::Right => Fate::Executed,
                _ => Fate::Damaged,
            };
        }
    }

    fn request(&mut self, at: usize, index: usize) {
        if matches!(self.fates[at], Fate::Midway | Fate::Lost) {
            return;
        }
        self.fates[at] = self.judge(at, index);
    }

    fn judge(&mut self, at: usize, index: usize) -> Fate {
        let packet = self.recording.packet(index);
        let frame = self.recording.frame(index);
        let psn = frame.psn();
        if self.unknown_from.is_some() {
            return Fate::BehindCut;
        }
        if packet.cut {
            self.unknown_from = Some(index);
            return Fate::Cut;
        }
        match packet.icrc {
            Icrc::Wrong => return Fate::Damaged,
            Icrc::Mistaken if !self.is_answered(psn, index) => return Fate::Damaged,
            _ => {}
        }
        if self.ended {
            return Fate::Ended;
        }
        let ahead = psn.distance_from(self.expected);
        if ahead != 0 {
            return if ahead < 0 { Fate::Duplicate } else { Fate::Ahead };
        }
        if let Some(later) = self.not_ready.get_mut(&psn)
            && takes_receive(&frame)
            && let Some(which) = later.iter().rposition(|nak| *nak > index)
        {
            later.remove(which);
            return Fate::NotReady;
        }
        if let Some((_, code)) = self.fatal.filter(|(refused, _)| *refused == psn) {
            self.ended = true;
            return Fate::Refused(code);
        }
        self.executed.push((at, self.expected));
        self.expected = psn.add(psns(&frame, self.mtu));
        Fate::Executed
    }

    /// Whether the answers show that a request with this PSN was taken.
    fn is_answered(&self, psn: Psn, index: usize) -> bool {
        let from = self.stream.answers.partition_point(|answer| *answer < index);
        let later = self.stream.answers[from..].iter().take(SOON);
        later.map(|answer| self.recording.frame(*answer)).any(|frame| {
            let kind = frame.aeth().map(|aeth| aeth.syndrome.kind());
            frame.psn() == psn && kind != Some(AethKind::Nak(NakCode::PsnSequenceError))
        })
    }

    /// The request that this answer shows to have been lost behind the tap: it asks for what has
    /// been taken as executed. Everything since is to be looked at again.
    fn lost_before(&mut self, index: usize) -> Option<usize> {
        let frame = self.recording.frame(index);
        let asked = frame.psn();
        let kind = frame.aeth()?.syndrome.kind();
        if kind != AethKind::Nak(NakCode::PsnSequenceError) || !asked.is_before(self.expected) {
            return None;
        }
        let from = self.executed.len().saturating_sub(REWIND);
        let which = self.executed[from..].iter().position(|(_, expected)| *expected == asked)?;
        let (at, expected) = self.executed[from + which];
        self.executed.truncate(from + which);
        self.expected = expected;
        self.ended = false;
        self.fates[at] = Fate::Lost;
        Some(at)
    }
}

/// Whether a request takes a receive of the responder's with this packet.
pub(super) fn takes_receive(frame: &Frame<'_>) -> bool {
    let info = frame.info();
    match info.operation {
        Operation::Send => info.position.starts(),
        Operation::Write => info.position.ends() && info.has_immediate(),
        _ => false,
    }
}
