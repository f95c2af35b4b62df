//! Messages that are not finished, in the order of their PSNs.

use std::collections::VecDeque;

use roce_codec::ib::{Answer, NakCode, OpcodeInfo, Operation, PathMtu, Position, Psn};

use super::packet::{At, Request};
use super::{Ending, Message};
use crate::observed::FlowKey;

/// A message whose end or answer is still to come.
#[derive(Debug)]
pub(super) struct Outstanding {
    info: &'static OpcodeInfo,
    pub(super) first: Psn,
    /// The last PSN, if `ended`; otherwise the furthest seen.
    pub(super) last: Psn,
    pub(super) ended: bool,
    /// `last` was only concluded, from where the next message starts.
    assumed: bool,
    /// Its first packet was not seen.
    pub(super) headless: bool,
    /// Of the RETH.
    dma_len: Option<u32>,
    payload: u64,
    packets: u32,
    first_packet: u64,
    last_packet: u64,
    started_ns: Option<u64>,
    sent_ns: Option<u64>,
    pub(super) retransmitted: u32,
    pub(super) rnr: u32,
    /// The NAK that refused it, and when: more of it may be on its way.
    pub(super) refused: Option<(NakCode, At)>,
    /// The READ response that comes next.
    pub(super) next_answer: Psn,
    /// The last READ response came, though others are missing.
    pub(super) last_answer: Option<At>,
}

impl Outstanding {
    pub(super) fn new(request: &Request, at: At) -> Self {
        let position = request.info.position;
        let is_read = request.info.operation == Operation::ReadRequest;
        Self {
            info: request.info,
            first: request.psn,
            last: request.psn,
            ended: position.ends() && !is_read,
            assumed: false,
            headless: !position.starts(),
            dma_len: request.dma_len,
            payload: u64::from(request.payload_len),
            packets: 1,
            first_packet: at.packet,
            last_packet: at.packet,
            started_ns: at.time_ns,
            sent_ns: at.time_ns,
            retransmitted: 0,
            rnr: 0,
            refused: None,
            next_answer: request.psn,
            last_answer: None,
        }
    }

    /// Whether it is a READ whose end nothing has told yet.
    #[inline]
    pub(super) fn is_open_read(&self) -> bool {
        self.info.operation == Operation::ReadRequest && (!self.ended || self.assumed)
    }

    /// Whether READ responses answer it.
    #[inline]
    pub(super) fn is_read_like(&self) -> bool {
        self.info.answer() == Answer::ReadResponse
    }

    /// Whether it has an answer of its own, which no ACK stands for.
    #[inline]
    pub(super) fn is_answered_itself(&self) -> bool {
        matches!(self.info.answer(), Answer::ReadResponse | Answer::AtomicAcknowledge)
    }

    /// Whether it is an atomic.
    #[inline]
    pub(super) fn is_atomic(&self) -> bool {
        self.info.answer() == Answer::AtomicAcknowledge
    }

    /// PSNs that a READ takes, once the path MTU is known.
    pub(super) fn set_mtu(&mut self, mtu: Option<PathMtu>) {
        if (self.ended && !self.assumed) || self.info.operation != Operation::ReadRequest {
            return;
        }
        let len = self.dma_len.unwrap_or(0);
        let packets = match mtu {
            Some(mtu) => mtu.packets(len),
            None if len <= PathMtu::Mtu256.bytes() => 1,
            None => return,
        };
        self.last = self.first.add(packets.clamp(1, Psn::HALF) - 1);
        (self.ended, self.assumed) = (true, false);
    }

    /// Another message starts at `next`.
    pub(super) fn end_before(&mut self, next: Psn) {
        if !self.ended {
            self.last = next.sub(1);
            self.ended = true;
            self.assumed = true;
        }
    }

    /// Whether a packet that starts no message continues this one.
    pub(super) fn takes(&self, request: &Request) -> bool {
        let same = self.info.operation == request.info.operation
            && self.info.service == request.info.service
            && self.info.position != Position::Only;
        same && (!self.ended || self.assumed || !request.psn.is_after(self.last))
    }

    /// Adds one of its packets, seen for the first time.
    pub(super) fn add(&mut self, request: &Request, at: At) {
        self.packets = self.packets.saturating_add(1);
        self.payload = self.payload.saturating_add(u64::from(request.payload_len));
        self.last_packet = at.packet;
        self.sent_ns = at.time_ns;
        if request.info.position.ends() {
            (self.last, self.ended, self.assumed) = (request.psn, true, false);
        } else if request.psn.is_after(self.last) {
            self.last = request.psn;
        }
    }

    /// Its first packet came after others of it.
    pub(super) fn add_head(&mut self, request: &Request, at: At) {
        self.add(request, at);
        (self.first, self.next_answer) = (request.psn, request.psn);
        self.headless = false;
        self.dma_len = request.dma_len;
    }

    /// One of its packets came again.
    pub(super) fn sent_again(&mut self, at: At) {
        self.retransmitted = self.retransmitted.saturating_add(1);
        self.last_packet = at.packet;
        self.last_answer = None;
    }

    /// What became of it.
    pub(super) fn into_message(self, flow: FlowKey, ending: Ending, answer: Option<At>) -> Message {
        let is_read = self.info.operation == Operation::ReadRequest;
        let span = self.last.distance_from(self.first).unsigned_abs();
        let all = self.ended && !self.assumed && self.packets == span.saturating_add(1);
        let whole = !self.headless && (is_read || all);
        let bytes = match (self.info.operation, self.dma_len) {
            (Operation::CompareSwap | Operation::FetchAdd, _) => 8,
            (_, Some(len)) => u64::from(len),
            (_, None) => self.payload,
        };
        Message {
            flow,
            service: self.info.service,
            operation: self.info.operation,
            first_psn: self.first,
            last_psn: self.last,
            bytes,
            packets: self.packets,
            whole,
            first_packet: self.first_packet,
            last_packet: self.last_packet,
            started_ns: self.started_ns,
            sent_ns: self.sent_ns,
            answer_packet: answer.map(|at| at.packet),
            answered_ns: answer.and_then(|at| at.time_ns),
            retransmitted: self.retransmitted,
            rnr_naks: self.rnr,
            ending,
        }
    }
}

/// The messages of a flow that are not finished, by PSN.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Outstanding>);

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Messages that start at `psn` or before it: the place of one that would start behind it.
    #[inline]
    pub(super) fn up_to(&self, psn: Psn) -> usize {
        // What is new is asked for most.
        match self.0.back() {
            Some(last) if last.first.is_after(psn) => {
                self.0.partition_point(|message| !message.first.is_after(psn))
            }
            _ => self.0.len(),
        }
    }

    /// The message that would hold `psn`, by where it starts, and its place.
    #[inline]
    pub(super) fn around(&mut self, psn: Psn) -> Option<(usize, &mut Outstanding)> {
        let at = self.up_to(psn).checked_sub(1)?;
        Some((at, self.0.get_mut(at)?))
    }

    /// Whether `psn` is one of a READ's.
    #[inline]
    pub(super) fn covers(&self, psn: Psn) -> bool {
        let before = self.up_to(psn).checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|message| message.is_read_like() && !psn.is_after(message.last))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Outstanding> {
        self.0.get_mut(at)
    }

    #[inline]
    pub(super) fn newest(&mut self) -> Option<&mut Outstanding> {
        self.0.back_mut()
    }

    pub(super) fn insert(&mut self, at: usize, message: Outstanding) {
        self.0.insert(at, message);
    }

    #[inline]
    pub(super) fn remove(&mut self, at: usize) -> Option<Outstanding> {
        self.0.remove(at)
    }

    /// The first one before `at` that waits for an answer of its own.
    #[inline]
    pub(super) fn waiting_before(&self, at: usize) -> Option<&Outstanding> {
        self.0.range(..at).find(|message| message.is_answered_itself())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Outstanding> {
        self.0.iter_mut()
    }
}
