//! Which captured READ response and atomic answer belongs to which request, so that memory can be
//! learned from it.

use std::collections::{HashMap, VecDeque};

use roce_codec::ib::{Operation, PathMtu, Psn};

use super::fate::{Fate, Fates, psns};
use super::recording::Recording;
use super::stream::Stream;

/// A READ response or atomic answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where in the recording it is.
    pub(super) index: usize,
    /// How far into the READ its payload begins.
    pub(super) offset: u64,
}

/// The answers with data by the place of their request among the stream's.
#[derive(Debug, Default)]
pub(super) struct Answered(HashMap<usize, Vec<Piece>>);

/// Requests that wait for such answers, at most.
const MAX_WAITING: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Waiting {
    at: usize,
    first: Psn,
    next: Psn,
    last: Psn,
}

impl Answered {
    /// Goes through the requests and answers of a stream: a responder answers in the order it is
    /// asked.
    pub(super) fn of(recording: &Recording, stream: &Stream, fates: &Fates, mtu: PathMtu) -> Self {
        let mut answered = Self::default();
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        let mut requests = stream.requests.iter().enumerate().peekable();
        for index in &stream.answers {
            while let Some((at, request)) = requests.next_if(|(_, request)| *request < index) {
                let frame = recording.frame(*request);
                let operation = frame.info().operation;
                let answers = matches!(
                    operation,
                    Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
                );
                if !answers || !matches!(fates.of[at], Fate::Executed | Fate::Duplicate) {
                    continue;
                }
                let first = frame.psn();
                let last = first.add(psns(&frame, mtu) - 1);
                if waiting.len() == MAX_WAITING {
                    waiting.pop_front();
                }
                waiting.push_back(Waiting { at, first, next: first, last });
            }
            let frame = recording.frame(*index);
            let operation = frame.info().operation;
            if !matches!(operation, Operation::ReadResponse | Operation::AtomicAcknowledge) {
                continue;
            }
            let psn = frame.psn();
            let exact = waiting.iter().position(|read| read.next == psn);
            let inside = || waiting.iter().position(|read| psn.is_within(read.next, read.last));
            let Some(which) = exact.or_else(inside) else { continue };
            // What was asked before it has been answered, as far as it is going to be.
            waiting.drain(..which);
            let Some(read) = waiting.front_mut() else { continue };
            let packets = u64::try_from(psn.distance_from(read.first)).unwrap_or(0);
            let offset = packets * u64::from(mtu.bytes());
            answered.0.entry(read.at).or_default().push(Piece { index: *index, offset });
            read.next = psn.next();
            if psn == read.last {
                waiting.pop_front();
            }
        }
        answered
    }

    /// The answers to the request at this place of the stream.
    pub(super) fn to(&self, at: usize) -> &[Piece] {
        self.0.get(&at).map(Vec::as_slice).unwrap_or_default()
    }
}
