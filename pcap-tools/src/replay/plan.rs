//! What our responder is given before the first request: everything that the capture shows of the
//! responder it stands for.

use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

use roce_codec::ib::Service;
use roce_codec::ib::{NakCode, Operation, PKey, PathMtu, Psn, QKey, Qpn, RKey, RnrTimer};
use roce_engine::Access;

use super::fate::{Fate, Fates, fates};
use super::recording::Recording;
use super::region::{Reach, Region};
use super::responder::full_member;
use super::stream::Stream;
use crate::json::Object;

/// A receive that is too short for its message, or whose memory fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortReceive {
    /// The place of the message's first packet among the requests.
    pub(super) message: usize,
    /// Bytes that it takes.
    pub(super) len: u32,
    /// What comes behind them meets memory that fails, instead of the receive's end.
    pub(super) broken: bool,
}

/// One direction of a connection: whose requests are replayed, and what answers them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamPlan {
    /// The service.
    pub service: Service,
    /// Who asks.
    pub requester: IpAddr,
    /// Who answers.
    pub responder: IpAddr,
    /// The queue pair asked.
    pub qpn: Qpn,
    /// The queue pair that the answers go to; `None` if no answer was seen.
    pub peer: Option<Qpn>,
    /// Other streams between the two hosts have the same PSNs: the answers may be theirs.
    pub ambiguous: bool,
    /// Whether the connection manager's messages are in the capture; what they do not say is
    /// learned from the packets.
    pub agreed: bool,
    /// Path MTU.
    pub mtu: PathMtu,
    /// The PSN expected first.
    pub first_psn: Psn,
    /// Partition.
    pub pkey: PKey,
    /// Of a datagram queue pair.
    pub qkey: Option<QKey>,
    /// What the queue pair allows.
    pub access: Access,
    /// READs and atomics kept.
    pub resources: u8,
    /// The wait that its RNR NAKs ask for.
    pub rnr_timer: Option<RnrTimer>,
    /// Requests in the capture.
    pub requests: usize,
    /// Answers in the capture.
    pub answers: usize,
    pub(super) short_receive: Option<ShortReceive>,
}

/// What is replayed, and to which responder.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The streams, in the order of their first requests.
    pub streams: Vec<StreamPlan>,
    /// Memory regions by host and captured key, in the order in which the key came to them.
    pub regions: Vec<(IpAddr, RKey, Region)>,
}

/// What a stream's packets tell of its responder.
pub(super) fn plan_of(
    recording: &Recording,
    stream: &Stream,
    sees_all: bool,
) -> (StreamPlan, Fates) {
    let mtu = stream.mtu(recording);
    let fates = fates(recording, stream, mtu, sees_all);
    let first_request = stream.requests.first().map(|index| recording.frame(*index));
    let first_answer = stream.answers.first().map(|index| recording.frame(*index).bth().pkey);
    let asked = first_request.map_or(PKey::DEFAULT, |frame| frame.bth().pkey);
    let plan = StreamPlan {
        service: stream.service,
        requester: stream.requester,
        responder: stream.responder.host,
        qpn: stream.responder.qpn,
        peer: stream.peer,
        ambiguous: stream.ambiguous,
        agreed: stream.agreed.is_some(),
        mtu,
        first_psn: fates.first_psn,
        pkey: first_answer.unwrap_or_else(|| full_member(asked)),
        qkey: first_request.and_then(|frame| frame.deth()).map(|deth| deth.qkey),
        access: access(recording, stream, &fates, mtu),
        resources: stream.resources(),
        rnr_timer: fates.rnr_timer,
        requests: stream.requests.len(),
        answers: stream.answers.len(),
        short_receive: short_receive(recording, stream, &fates),
    };
    (plan, fates)
}

/// What a right is asked for.
fn right(operation: Operation) -> Access {
    match operation {
        Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
        Operation::ReadRequest => Access::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
        Operation::Flush => Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT,
        _ => Access::NONE,
    }
}

/// All rights, but the one that a request was refused for as invalid though nothing is wrong with
/// it: unless another of its kind was carried out.
fn access(recording: &Recording, stream: &Stream, fates: &Fates, mtu: PathMtu) -> Access {
    let all = [
        Access::LOCAL_WRITE,
        Access::REMOTE_WRITE,
        Access::REMOTE_READ,
        Access::REMOTE_ATOMIC,
        Access::FLUSH_GLOBAL,
        Access::FLUSH_PERSISTENT,
    ];
    let mut denied = Access::NONE;
    let mut used = Access::NONE;
    for (index, fate) in stream.requests.iter().zip(&fates.of) {
        let frame = recording.frame(*index);
        let right = right(frame.info().operation);
        match fate {
            Fate::Executed => used = used | right,
            Fate::Refused(NakCode::InvalidRequest) if is_valid(&frame, mtu) => denied = right,
            _ => {}
        }
    }
    let granted = all.into_iter().filter(|one| used.contains(*one) || !denied.contains(*one));
    granted.fold(Access::NONE, Access::or)
}

/// Whether nothing in the request itself is invalid.
fn is_valid(frame: &roce_codec::Frame<'_>, mtu: PathMtu) -> bool {
    let info = frame.info();
    let aligned = match info.operation {
        Operation::CompareSwap | Operation::FetchAdd | Operation::AtomicWrite => {
            Reach::of(frame).is_some_and(|reach| reach.va % 8 == 0)
        }
        _ => true,
    };
    let len = u32::try_from(frame.payload_len()).unwrap_or(u32::MAX);
    let fits = roce_engine::rules::length::packet(info.position, len, Some(mtu));
    aligned && (!info.payload || fits.fault().is_none())
}

/// A SEND that was refused met a receive too short for it, or one whose memory failed.
fn short_receive(recording: &Recording, stream: &Stream, fates: &Fates) -> Option<ShortReceive> {
    let refused = fates.of.iter().position(|fate| matches!(fate, Fate::Refused(_)))?;
    let broken = match fates.of[refused] {
        Fate::Refused(NakCode::RemoteOperationalError) => true,
        Fate::Refused(NakCode::InvalidRequest) => false,
        _ => return None,
    };
    let frame = recording.frame(stream.requests[refused]);
    if frame.info().operation != Operation::Send || frame.payload_len() == 0 {
        return None;
    }
    let (mut message, mut len) = (refused, 0_u32);
    if !frame.info().position.starts() {
        for at in (0..refused).rev().filter(|at| fates.of[*at] == Fate::Executed) {
            let frame = recording.frame(stream.requests[at]);
            len = len.saturating_add(u32::try_from(frame.payload_len()).unwrap_or(u32::MAX));
            message = at;
            if frame.info().position.starts() {
                break;
            }
        }
    }
    Some(ShortReceive { message, len, broken })
}

impl fmt::Display for StreamPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.service)?;
        write!(f, "{} > {} QP {}", self.requester, self.responder, self.qpn)?;
        if let Some(peer) = self.peer {
            write!(f, ", answers to QP {peer}")?;
        }
        let how = match (self.agreed, self.ambiguous) {
            (true, _) => "by the connection manager",
            (false, false) => "learned",
            (false, true) => "learned, doubtful",
        };
        write!(f, " ({how}): path MTU {}, first PSN {}", self.mtu, self.first_psn)?;
        if self.service == Service::Rc {
            write!(f, ", keeps {} READs and atomics", self.resources)?;
        }
        if let Some(qkey) = self.qkey {
            write!(f, ", Q_Key {:#010x}", qkey.0)?;
        }
        if let Some(timer) = self.rnr_timer {
            write!(f, ", RNR timer {} us", timer.wait_ns() / 1000)?;
        }
        if let Some(ShortReceive { len, broken, .. }) = self.short_receive {
            let end = if broken { "fails behind" } else { "has" };
            write!(f, ", a receive {end} {len} bytes")?;
        }
        write!(f, "; {} requests, {} answers", self.requests, self.answers)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stream in &self.streams {
            writeln!(f, "{stream}")?;
        }
        for (host, rkey, region) in &self.regions {
            let Region { va, len, access } = region;
            writeln!(f, "{host} R_Key {:#010x}: {va:#x}, {len} bytes, {access:?}", rkey.0)?;
        }
        Ok(())
    }
}

impl Plan {
    /// Writes the plan as JSON, an object a line: `{"stream":...}` and `{"region":...}`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for stream in &self.streams {
            out.write_all(b"{\"stream\":")?;
            Object::start(out)?
                .text("service", format!("{:?}", stream.service))?
                .text("requester", stream.requester)?
                .text("responder", stream.responder)?
                .raw("qpn", stream.qpn.get())?
                .option("peer_qpn", stream.peer.map(Qpn::get))?
                .raw("agreed", stream.agreed)?
                .raw("ambiguous", stream.ambiguous)?
                .raw("path_mtu", stream.mtu)?
                .raw("first_psn", stream.first_psn.get())?
                .raw("pkey", stream.pkey.0)?
                .option("qkey", stream.qkey.map(|qkey| qkey.0))?
                .text("access", format!("{:?}", stream.access))?
                .raw("resources", stream.resources)?
                .option("rnr_timer_ns", stream.rnr_timer.map(RnrTimer::wait_ns))?
                .raw("requests", stream.requests)?
                .raw("answers", stream.answers)?
                .end()?;
            out.write_all(b"}\n")?;
        }
        for (host, rkey, region) in &self.regions {
            out.write_all(b"{\"region\":")?;
            Object::start(out)?
                .text("host", host)?
                .raw("rkey", rkey.0)?
                .raw("va", region.va)?
                .raw("len", region.len)?
                .text("access", format!("{:?}", region.access))?
                .end()?;
            out.write_all(b"}\n")?;
        }
        Ok(())
    }
}
