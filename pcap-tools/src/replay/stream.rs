//! Which requests go to which queue pair, and which answers come back from it.
//!
//! A stream is the requests to one queue pair of one peer, and the answers to them. An answer names
//! its receiver's queue pair alone; whose it is, the connection manager's messages say, or it is
//! learned: a queue pair's answers carry the PSNs of the requests to it.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_codec::ib::{AethKind, NakCode, PathMtu, Position, Psn, Qpn, Service};

use super::agreement::{Agreements, End, QpId};
use super::recording::{Icrc, Recording};

/// READs and atomics kept where no connection manager's message says how many: what rxe and mlx5
/// offer unless told otherwise.
const USUAL_RESOURCES: u8 = 16;

/// One direction of a connection: requests, and the answers to them.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) service: Service,
    pub(super) requester: IpAddr,
    /// Who answers, and which queue pair of it.
    pub(super) responder: QpId,
    /// The queue pair that the answers go to, if there are any.
    pub(super) peer: Option<Qpn>,
    /// Other streams between the two hosts have the same PSNs, so that the answers may be theirs.
    pub(super) ambiguous: bool,
    /// Where in the recording requests are.
    pub(super) requests: Vec<usize>,
    /// Where in the recording answers are, those aside that are damaged.
    pub(super) answers: Vec<usize>,
    /// Answers with a wrong ICRC, which say nothing.
    pub(super) damaged_answers: u64,
    /// What the connection manager agreed.
    pub(super) agreed: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey {
    src: IpAddr,
    to: QpId,
}

#[derive(Debug)]
struct Flow {
    key: FlowKey,
    service: Service,
    requests: Vec<usize>,
    answers: Vec<usize>,
    damaged_answers: u64,
}

/// The streams of a recording, in the order of their first requests.
pub(super) fn streams(recording: &Recording) -> Vec<Stream> {
    let mut agreements = Agreements::default();
    let mut flows: Vec<Flow> = Vec::new();
    let mut known: HashMap<FlowKey, usize> = HashMap::new();
    let mut votes = Votes::default();
    for index in 0..recording.len() {
        let frame = recording.frame(index);
        if frame.dest_qp() == Qpn::GSI {
            agreements.learn(index, &frame);
            continue;
        }
        let packet = recording.packet(index);
        let key = FlowKey { src: frame.src(), to: agreements.qp(frame.dst(), frame.dest_qp()) };
        let service = frame.info().service;
        let at = *known.entry(key).or_insert_with(|| {
            let (requests, answers) = (Vec::new(), Vec::new());
            flows.push(Flow { key, service, requests, answers, damaged_answers: 0 });
            flows.len() - 1
        });
        let is_request = frame.info().is_request();
        if is_request {
            flows[at].requests.push(index);
        } else if packet.icrc == Icrc::Wrong {
            flows[at].damaged_answers += 1;
            continue;
        } else {
            flows[at].answers.push(index);
        }
        if service == Service::Rc {
            votes.packet(at, &key, frame.psn(), is_request);
        }
    }
    let pairs = pair(&flows, &agreements, &votes);
    let mut streams: Vec<Stream> = flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| !flow.requests.is_empty())
        .map(|(at, flow)| {
            let pair = pairs.get(&at);
            let answers = pair.map(|pair| &flows[pair.answers]);
            Stream {
                service: flow.service,
                requester: flow.key.src,
                responder: flow.key.to,
                peer: answers.map(|flow| flow.key.to.qpn),
                ambiguous: pair.is_some_and(|pair| pair.ambiguous),
                requests: flow.requests.clone(),
                answers: answers.map(|flow| flow.answers.clone()).unwrap_or_default(),
                damaged_answers: answers.map_or(0, |flow| flow.damaged_answers),
                agreed: agreements.end(flow.key.to).copied(),
            }
        })
        .collect();
    streams.sort_by_key(|stream| stream.requests.first().copied());
    streams
}

/// How often a flow's answers carried the PSN of another flow's newest request with it.
#[derive(Debug, Default)]
struct Votes {
    newest: HashMap<(IpAddr, IpAddr, Psn), usize>,
    /// (flow of the answers, flow of the requests).
    counts: HashMap<(usize, usize), u64>,
}

impl Votes {
    fn packet(&mut self, flow: usize, key: &FlowKey, psn: Psn, is_request: bool) {
        if is_request {
            self.newest.insert((key.src, key.to.host, psn), flow);
        } else if let Some(requests) = self.newest.get(&(key.to.host, key.src, psn)) {
            *self.counts.entry((flow, *requests)).or_default() += 1;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    answers: usize,
    ambiguous: bool,
}

/// The flow of the answers for each flow of requests.
fn pair(flows: &[Flow], agreements: &Agreements, votes: &Votes) -> HashMap<usize, Pair> {
    let mut pairs: HashMap<usize, Pair> = HashMap::new();
    let mut taken = vec![false; flows.len()];
    let by_key: HashMap<FlowKey, usize> =
        flows.iter().enumerate().map(|(at, flow)| (flow.key, at)).collect();
    for (at, flow) in flows.iter().enumerate() {
        let Some(end) = agreements.end(flow.key.to) else { continue };
        if end.peer.host != flow.key.src {
            continue;
        }
        if let Some(answers) = by_key.get(&FlowKey { src: flow.key.to.host, to: end.peer }) {
            pairs.insert(at, Pair { answers: *answers, ambiguous: false });
            taken[*answers] = true;
        }
    }
    let mut ranked: Vec<((usize, usize), u64)> =
        votes.counts.iter().map(|(pair, count)| (*pair, *count)).collect();
    ranked.sort_by_key(|((answers, requests), count)| {
        (std::cmp::Reverse(*count), *requests, *answers)
    });
    for ((answers, requests), _) in &ranked {
        if !taken[*answers] && !pairs.contains_key(requests) {
            pairs.insert(*requests, Pair { answers: *answers, ambiguous: false });
            taken[*answers] = true;
        }
    }
    // A pair is doubtful where another flow's requests would explain half as many answers.
    let won_by: HashMap<usize, usize> =
        pairs.iter().map(|(requests, pair)| (pair.answers, *requests)).collect();
    for ((answers, requests), count) in ranked {
        let Some(winner) = won_by.get(&answers).filter(|winner| **winner != requests) else {
            continue;
        };
        let won = votes.counts.get(&(answers, *winner)).copied().unwrap_or(0);
        if won > 0
            && count * 2 >= won
            && let Some(pair) = pairs.get_mut(winner)
        {
            pair.ambiguous = true;
        }
    }
    pairs
}

impl Stream {
    /// READs and atomics that the responder keeps.
    pub(super) fn resources(&self) -> u8 {
        self.agreed.map_or(USUAL_RESOURCES, |end| end.resources)
    }

    /// The path MTU, by what is sent, else by what was agreed, else the least that everything fits.
    pub(super) fn mtu(&self, recording: &Recording) -> PathMtu {
        let mut longest = 0;
        let both = self.requests.iter().chain(&self.answers);
        for frame in both.map(|index| recording.frame(*index)) {
            let len = u32::try_from(frame.payload_len()).unwrap_or(u32::MAX);
            if matches!(frame.info().position, Position::First | Position::Middle)
                && frame.info().payload
                && let Some(mtu) = PathMtu::from_bytes(len)
            {
                return mtu;
            }
            longest = longest.max(len);
        }
        if self.service == Service::Ud {
            return PathMtu::Mtu4096;
        }
        let agreed = self.agreed.and_then(|end| end.mtu);
        let fitting = PathMtu::ALL.into_iter().find(|mtu| mtu.bytes() >= longest);
        let fitting = fitting.unwrap_or(PathMtu::Mtu4096);
        agreed.unwrap_or(PathMtu::Mtu1024).max(fitting)
    }

    /// The PSN that the responder expected first: as agreed; else that of the first request, or of
    /// one before it that the responder's first NAK asks for.
    pub(super) fn first_psn(&self, recording: &Recording) -> Psn {
        if let Some(end) = self.agreed {
            return end.first_psn;
        }
        let Some(first) = self.requests.first().map(|index| recording.frame(*index).psn()) else {
            return Psn::new(0);
        };
        let asked = self.answers.first().map(|index| recording.frame(*index)).and_then(|frame| {
            let kind = frame.aeth()?.syndrome.kind();
            (kind == AethKind::Nak(NakCode::PsnSequenceError)).then(|| frame.psn())
        });
        match asked {
            Some(psn) if psn.is_before(first) && first.distance_from(psn) < 4096 => psn,
            _ => first,
        }
    }
}
