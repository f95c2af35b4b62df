//! The requests of one recording, one after the other, to our responder.

use std::collections::HashSet;

use roce_codec::Frame;
use roce_codec::ib::{Answer, Msn, Operation, Service};

use super::answer::Sides;
use super::answered::Answered;
use super::compare::{Circumstances, compare};
use super::fate::{Fate, psns};
use super::freedom::Unknown;
use super::learn::{Lessons, Message};
use super::memory::Memory;
use super::own::{Executed, Own};
use super::plan::StreamPlan;
use super::recording::{Icrc, Recording};
use super::report::{Kind, Mismatch, StreamReport};
use super::responder::{Done, MAX_STREAMS, Responder, is_host_memory, storage};
use super::{Part, ReplayError, in_order, regions_of};

/// A connection that has not answered for so long in the capture does not answer.
const SILENCE_NS: u64 = 1_000_000_000;

/// Answer packets that a READ may have beyond those the capture shows.
const SPARE_ANSWERS: usize = 4096;

/// Where a stream stands.
#[derive(Debug, Default)]
struct State {
    own: Own,
    message: Message,
    write_at: Option<u64>,
    shared_icrc: HashSet<usize>,
    /// Nothing more of it is given.
    stopped: Option<(usize, Unknown)>,
}

/// Gives everything and compares.
pub(super) fn run(
    recording: &Recording,
    parts: &[Part],
    tap: usize,
    sees_all: bool,
    limit: usize,
) -> Result<Vec<StreamReport>, ReplayError> {
    if parts.len() > MAX_STREAMS {
        let (streams, most) = (parts.len(), MAX_STREAMS);
        return Err(ReplayError::TooManyStreams { streams, most });
    }
    let plans: Vec<StreamPlan> = parts.iter().map(|part| part.plan.clone()).collect();
    let answered: Vec<Answered> = parts
        .iter()
        .map(|part| Answered::of(recording, &part.stream, &part.fates, part.plan.mtu))
        .collect();
    let regions = regions_of(recording, parts);
    let (truth, memory) = (Memory::new(limit), Memory::new(limit));
    let mut storage = storage(&plans, &regions);
    let mut responder = Responder::new(&mut storage, &memory, &plans, regions)?;
    let mut lessons = Lessons::new(&truth, &memory);
    let mut states: Vec<State> = parts.iter().map(|_| State::default()).collect();
    let mut reports: Vec<StreamReport> = parts
        .iter()
        .map(|part| StreamReport::new(part.plan.clone(), tap, part.stream.damaged_answers))
        .collect();
    let mut held = 0;
    for (index, stream, at) in in_order(parts) {
        let (part, state, report) = (&parts[stream], &mut states[stream], &mut reports[stream]);
        let fate = part.fates.of[at];
        report.cut += u64::from(fate == Fate::Cut);
        report.lost += u64::from(fate == Fate::Lost);
        if !fate.is_given() || state.stopped.is_some() {
            continue;
        }
        let frame = recording.frame(index);
        if held > limit || reads_too_much(recording, part, &frame, index) {
            state.stopped = Some((index, Unknown::LongRead));
            continue;
        }
        let region = responder.region_of(part.plan.responder);
        if matches!(fate, Fate::Executed | Fate::Duplicate) {
            report.learned += lessons.before(recording, region, &frame, &answered[stream], at);
        }
        let packet = recording.packet(index);
        if packet.icrc == Icrc::Mistaken && fate != Fate::Damaged {
            state.shared_icrc.insert(index);
        }
        let (from, before) = (state.own.answers.len(), state.own.len());
        let own = &mut state.own;
        let time = (at, packet.time_ns);
        let done =
            responder.give(stream, &part.plan, &frame, fate, time, |frame| own.push(at, frame))?;
        own.explain(from, done.duplicate, done.expected);
        held += own.len() - before;
        report.given += 1;
        follow(part, state, report, &frame, (index, packet.number), fate, &done);
        if fate == Fate::Executed && (part.plan.service == Service::Rc || state.message.is_whole())
        {
            lessons.after(region, &frame, &mut state.write_at);
        }
        if truth.is_full() || memory.is_full() {
            return Err(ReplayError::Memory { limit });
        }
    }
    let silent_from = silent_from(recording);
    for ((part, state), report) in parts.iter().zip(&states).zip(&mut reports) {
        let sides = Sides {
            recording,
            stream: &part.stream,
            own: &state.own,
            msn_base: Msn::new(0),
            memory_is_ours: true,
        };
        let cut = part.fates.unknown_from.map(|index| (index, Unknown::Cut));
        let closed = part.stream.agreed.is_some_and(|end| end.closed_at.is_some());
        let with = Circumstances {
            certain: sees_all || !part.fates.lossy,
            unknown_from: [cut, state.stopped].into_iter().flatten().min_by_key(|(at, _)| *at),
            learned_first: (!part.plan.agreed).then_some(part.plan.first_psn),
            owner_stores: &lessons.owner_stores,
            shared_icrc: &state.shared_icrc,
            silent_from: if closed { usize::MAX } else { silent_from },
        };
        compare(sides, with, report);
    }
    let differing = memory.differing_pages(&truth, is_host_memory);
    let certain = reports.iter().all(|report| report.unknown.is_empty());
    if differing > 0
        && certain
        && let Some(report) = reports.first_mut()
    {
        report.mismatch(Mismatch {
            kind: Kind::Memory,
            request: None,
            packet: None,
            fields: Vec::new(),
            message: format!("{differing} pages differ at the end"),
        });
    }
    Ok(reports)
}

/// Notes what our responder did with a request.
fn follow(
    part: &Part,
    state: &mut State,
    report: &mut StreamReport,
    frame: &Frame<'_>,
    (index, number): (usize, u64),
    fate: Fate,
    done: &Done,
) {
    let mut complain = |message: String| {
        report.mismatches += 1;
        report.mismatch.push(Mismatch {
            kind: Kind::Delivery,
            request: Some(number),
            packet: None,
            fields: Vec::new(),
            message,
        });
    };
    if fate == Fate::Damaged {
        if !done.bad_icrc {
            complain("a request with a wrong ICRC was taken".into());
        }
        report.damaged += u64::from(done.bad_icrc);
        return;
    }
    let rc = part.plan.service == Service::Rc;
    if rc && done.executed {
        let first = frame.psn();
        state.own.executed.push(Executed {
            first,
            last: first.add(psns(frame, part.plan.mtu) - 1),
            msn: done.msn,
            index,
            acknowledged: frame.info().answer() == Answer::Acknowledge,
            asks: frame.bth().ack_req,
        });
    }
    if fate != Fate::Executed {
        return;
    }
    let ended = state.message.packet(part.plan.service, frame);
    if done.placed == Some(false) && state.message.is_whole() {
        complain("the payload is not where it belongs".into());
    }
    let completes = match frame.info().operation {
        Operation::Send => true,
        Operation::Write => frame.info().has_immediate(),
        _ => false,
    };
    let Some(len) = ended.filter(|_| completes) else { return };
    // A datagram comes with its IP header in front.
    let len = if part.plan.service == Service::Ud { len.saturating_add(40) } else { len };
    let imm = frame.imm_dt().map(|imm| imm.0);
    match done.completions.as_slice() {
        [wc] if wc.byte_len == len && wc.imm == imm && wc.solicited == frame.bth().solicited => {
            report.delivered += 1;
        }
        [wc] => complain(format!("{} bytes delivered, {len} were sent", wc.byte_len)),
        other => complain(format!("{} completions", other.len())),
    }
}

/// Whether a READ asks for far more than the capture shows answered.
fn reads_too_much(recording: &Recording, part: &Part, frame: &Frame<'_>, index: usize) -> bool {
    if frame.info().operation != Operation::ReadRequest {
        return false;
    }
    debug_assert!(index < recording.len());
    let answers = &part.stream.answers;
    let later = answers.len() - answers.partition_point(|answer| *answer < index);
    let packets = usize::try_from(psns(frame, part.plan.mtu)).unwrap_or(usize::MAX);
    packets > later + SPARE_ANSWERS
}

/// From where in the recording on a responder may not have had the time to answer.
pub(super) fn silent_from(recording: &Recording) -> usize {
    let end = recording.end_ns();
    let (mut low, mut high) = (0, recording.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if recording.packet(middle).time_ns.saturating_add(SILENCE_NS) <= end {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
