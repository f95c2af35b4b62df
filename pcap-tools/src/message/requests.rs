//! A flow's requests as messages, and what the answers make of them.

use roce_codec::ib::{NakCode, PathMtu, Psn, Service};

use super::outstanding::{Outstanding, Queue};
use super::packet::{Answer, At, Kind, Request};
use super::recovery::{Cause, Recovering, Resent};
use super::window::{WINDOW, Window};
use super::{Arrival, Ending, Finished};
use crate::observed::FlowKey;

/// Messages of a flow that wait at a time; beyond that the oldest is given up.
const MAX_WAITING: usize = 1024;

/// The shortest timeout there is, 4.096 µs · 2: what comes twice within less is one packet seen
/// twice.
const SHORTEST_TIMEOUT_NS: u64 = 8_192;

/// How a request relates to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// It has a place among them.
    Known(Arrival),
    /// Nothing before has to do with it.
    NewConnection,
}

/// The request that came last.
#[derive(Debug, Clone, Copy)]
struct Last {
    psn: Psn,
    icrc: [u8; 4],
    time_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Requests {
    flow: FlowKey,
    service: Service,
    first: Psn,
    seen: Window,
    queue: Queue,
    last: Last,
    /// Whether any answer was seen.
    is_answered: bool,
    /// The furthest PSN that was executed.
    answered: Option<Psn>,
    /// When either side of the connection was last heard of.
    heard_ns: Option<u64>,
    recovering: Recovering,
}

impl Requests {
    pub(super) fn new(
        flow: FlowKey,
        request: &Request,
        mtu: Option<PathMtu>,
        at: At,
        done: &mut Finished,
    ) -> Self {
        let mut requests = Self {
            flow,
            service: request.info.service,
            first: request.psn,
            seen: Window::new(request.psn),
            queue: Queue::default(),
            last: Last { psn: request.psn, icrc: request.icrc, time_ns: at.time_ns },
            is_answered: false,
            answered: None,
            heard_ns: at.time_ns,
            recovering: Recovering::default(),
        };
        requests.push(request, mtu, at);
        requests.settle_unreliable(done);
        requests
    }

    /// Messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The furthest PSN in use.
    pub(super) fn highest(&self) -> Psn {
        self.seen.highest()
    }

    /// Whether a request of that PSN was seen.
    #[inline]
    pub(super) fn has_seen(&self, psn: Psn) -> bool {
        self.seen.contains(psn)
    }

    /// Whether a PSN is near those in use, or of a READ that is.
    #[inline]
    pub(super) fn is_near(&self, psn: Psn) -> bool {
        psn.distance_from(self.seen.highest()).unsigned_abs() <= WINDOW || self.queue.covers(psn)
    }

    /// How a request relates to those before it.
    #[inline]
    pub(super) fn relation(&self, request: &Request, at: At) -> Relation {
        let psn = request.psn;
        if request.info.service != self.service || !self.is_near(psn) {
            return Relation::NewConnection;
        }
        if psn.is_after(self.seen.highest()) {
            return Relation::Known(Arrival::New);
        }
        if !self.seen.contains(psn) && !self.queue.covers(psn) {
            return Relation::Known(Arrival::Late);
        }
        if psn == self.last.psn && request.icrc == self.last.icrc && !self.recovering.is_open() {
            let since = at.time_ns.zip(self.last.time_ns);
            if since.is_none_or(|(now, then)| now.saturating_sub(then) < SHORTEST_TIMEOUT_NS) {
                return Relation::Known(Arrival::Copy);
            }
        }
        // A connection that starts at the same PSN as the one before it, as some do.
        let restart = psn == self.first
            && request.info.position.starts()
            && self.queue.len() == 0
            && self.answered.is_some_and(|answered| answered.is_after(psn));
        if restart { Relation::NewConnection } else { Relation::Known(Arrival::Again) }
    }

    /// Takes in a request of this connection.
    pub(super) fn request(
        &mut self,
        request: &Request,
        arrival: Arrival,
        mtu: Option<PathMtu>,
        at: At,
        done: &mut Finished,
    ) {
        let psn = request.psn;
        match arrival {
            Arrival::Copy => return,
            Arrival::New => {
                self.recovering.settle(&mut done.recoveries);
                self.seen.advance(psn);
                self.seen.mark(psn, 1);
                self.new_packet(request, mtu, at);
            }
            Arrival::Late => {
                self.seen.mark(psn, 1);
                if self.recovering.takes_late(!psn.is_after(self.last.psn)) {
                    self.went_back(psn, at, done);
                }
                self.late_packet(request, mtu, at);
            }
            Arrival::Again => {
                self.went_back(psn, at, done);
                if let Some((_, message)) = self.queue.around(psn)
                    && !psn.is_after(message.last)
                {
                    message.sent_again(at);
                }
            }
        }
        self.last = Last { psn, icrc: request.icrc, time_ns: at.time_ns };
        self.heard_ns = at.time_ns.or(self.heard_ns);
        self.settle_unreliable(done);
        self.settle_refused(done);
        if self.queue.len() > MAX_WAITING {
            self.give_up_oldest(done);
        }
    }

    fn went_back(&mut self, psn: Psn, at: At, done: &mut Finished) {
        let silent_ns = at.time_ns.zip(self.heard_ns).map(|(now, then)| now.saturating_sub(then));
        let cause = match self.answered {
            Some(answered) if !psn.is_after(answered) => Cause::AnswerLost,
            _ if self.is_answered && silent_ns.is_some_and(|ns| ns >= SHORTEST_TIMEOUT_NS) => {
                Cause::Timeout
            }
            _ => Cause::Unknown,
        };
        let goes_back = !psn.is_after(self.last.psn);
        let resent = Resent { flow: self.flow, cause, psn, stalled_ns: self.heard_ns };
        self.recovering.resent(&resent, at, goes_back, &mut done.recoveries);
    }

    fn new_packet(&mut self, request: &Request, mtu: Option<PathMtu>, at: At) {
        if !request.info.position.starts()
            && let Some(newest) = self.queue.newest()
            && !newest.ended
            && newest.takes(request)
        {
            newest.add(request, at);
            return;
        }
        if let Some(newest) = self.queue.newest() {
            newest.end_before(request.psn);
        }
        self.push(request, mtu, at);
    }

    /// Puts a message at the end of the queue.
    fn push(&mut self, request: &Request, mtu: Option<PathMtu>, at: At) {
        let mut message = Outstanding::new(request, at);
        message.set_mtu(mtu);
        self.take_in(&message);
        self.queue.insert(self.queue.len(), message);
    }

    /// A READ takes the PSNs of its answers.
    fn take_in(&mut self, message: &Outstanding) {
        if message.first == message.last {
            return;
        }
        if message.last.is_after(self.seen.highest()) {
            self.seen.advance(message.last);
        }
        self.seen
            .mark(message.first, message.last.next().distance_from(message.first).unsigned_abs());
    }

    /// A packet that others overtook, or that was lost on its way to the tap before.
    fn late_packet(&mut self, request: &Request, mtu: Option<PathMtu>, at: At) {
        let psn = request.psn;
        let place = self.queue.up_to(psn);
        if !request.info.position.starts() {
            let before = place.checked_sub(1).and_then(|at| self.queue.get_mut(at));
            if let Some(message) = before.filter(|message| message.takes(request)) {
                message.add(request, at);
                return;
            }
        } else if let Some(before) = place.checked_sub(1).and_then(|at| self.queue.get_mut(at)) {
            before.end_before(psn);
        }
        let next = self.queue.get_mut(place);
        match next {
            Some(next)
                if next.headless
                    && request.info.position.starts()
                    && !request.info.position.ends()
                    && next.takes(request) =>
            {
                next.add_head(request, at);
            }
            next => {
                let mut message = Outstanding::new(request, at);
                message.set_mtu(mtu);
                if let Some(next) = next {
                    message.end_before(next.first);
                }
                self.take_in(&message);
                self.queue.insert(place, message);
            }
        }
    }

    /// The path MTU came to be known: so are the ends of READs.
    pub(super) fn set_mtu(&mut self, mtu: PathMtu) {
        let mut furthest = self.seen.highest();
        for message in self.queue.iter_mut().filter(|message| message.is_open_read()) {
            message.set_mtu(Some(mtu));
            let count = message.last.next().distance_from(message.first).unsigned_abs();
            if message.last.is_after(furthest) {
                furthest = message.last;
                self.seen.advance(furthest);
            }
            self.seen.mark(message.first, count);
        }
    }

    /// Nothing answers what is sent unreliably: it is finished with its last packet.
    fn settle_unreliable(&mut self, done: &mut Finished) {
        if self.service != Service::Uc {
            return;
        }
        // A message that another one follows is over, whole or not.
        while self.queue.len() > 1 || self.queue.newest().is_some_and(|newest| newest.ended) {
            let Some(message) = self.queue.remove(0) else { return };
            done.messages.push(message.into_message(self.flow, Ending::Unreliable, None));
        }
    }

    /// Takes in an answer to these requests.
    pub(super) fn answer(&mut self, answer: &Answer, at: At, done: &mut Finished) {
        let psn = answer.psn;
        self.is_answered = true;
        match answer.kind {
            Kind::Ack => self.acknowledge(psn, at, done),
            Kind::Nak(code) => {
                self.acknowledge(psn.sub(1), at, done);
                if code == NakCode::PsnSequenceError {
                    let recoveries = &mut done.recoveries;
                    self.recovering.refused(self.flow, Cause::SequenceNak, psn, at, recoveries);
                } else {
                    self.refuse(psn, code, at, done);
                }
            }
            Kind::NotReady => {
                self.acknowledge(psn.sub(1), at, done);
                if let Some((_, message)) = self.queue.around(psn) {
                    message.rnr = message.rnr.saturating_add(1);
                }
                let recoveries = &mut done.recoveries;
                self.recovering.refused(self.flow, Cause::ReceiverNotReady, psn, at, recoveries);
            }
            Kind::ReadResponse => self.read_response(answer, at, done),
            Kind::Atomic => {
                self.acknowledge(psn.sub(1), at, done);
                if let Some((place, message)) = self.queue.around(psn)
                    && message.first == psn
                    && message.is_atomic()
                {
                    self.finish_at(place, Ending::Acknowledged, Some(at), done);
                }
                self.note_answered(psn);
                self.recovering.answered(psn, true, at);
            }
            Kind::Reserved => {}
        }
        self.heard_ns = at.time_ns.or(self.heard_ns);
    }

    fn note_answered(&mut self, psn: Psn) {
        if self.answered.is_none_or(|answered| psn.is_after(answered)) {
            self.answered = Some(psn);
        }
    }

    /// Everything up to `psn` was executed: SENDs and WRITEs are finished by that.
    fn acknowledge(&mut self, psn: Psn, at: At, done: &mut Finished) {
        let mut place = 0;
        let mut missing = None;
        while let Some(message) = self.queue.get_mut(place)
            && !message.first.is_after(psn)
        {
            let covered = message.ended && !message.last.is_after(psn);
            if covered && !message.is_answered_itself() {
                self.finish_at(place, Ending::Acknowledged, Some(at), done);
            } else {
                if covered && missing.is_none() {
                    missing = Some(message.next_answer);
                }
                place += 1;
            }
        }
        // The READ's answers were not seen yet: asking again may start where they stop.
        let to = missing.map_or(psn, |missing| missing.sub(1));
        if !to.is_before(self.first) {
            self.note_answered(to);
        }
        self.recovering.answered(to, true, at);
        self.recovering.answered(psn, false, at);
        if let Some(missing) = missing {
            let recoveries = &mut done.recoveries;
            self.recovering.refused(self.flow, Cause::ImpliedNak, missing, at, recoveries);
        }
    }

    fn refuse(&mut self, psn: Psn, code: NakCode, at: At, done: &mut Finished) {
        if let Some((place, message)) = self.queue.around(psn)
            && (!message.ended || !psn.is_after(message.last))
        {
            message.refused = Some((code, at));
            if message.ended {
                self.finish_at(place, Ending::Refused(code), Some(at), done);
            }
        }
    }

    /// A message that was refused before its last packet came by ends with that.
    fn settle_refused(&mut self, done: &mut Finished) {
        if let Some(newest) = self.queue.newest()
            && newest.ended
            && let Some((code, at)) = newest.refused
        {
            self.finish_at(self.queue.len() - 1, Ending::Refused(code), Some(at), done);
        }
    }

    fn read_response(&mut self, answer: &Answer, at: At, done: &mut Finished) {
        let psn = answer.psn;
        let around = self.queue.around(psn).map(|(_, message)| message.first);
        // What comes before the READ was executed; an answer in its midst says nothing of it.
        if let Some(first) = around {
            self.finish_before(first, at, done);
        }
        let expected = match self.queue.around(psn) {
            Some((place, message))
                if message.is_read_like() && (!message.ended || !psn.is_after(message.last)) =>
            {
                let is_last = if message.ended { psn == message.last } else { answer.ends };
                let next = message.next_answer;
                let waiting = self.queue.waiting_before(place).map(|earlier| earlier.next_answer);
                let expected = waiting.unwrap_or(next);
                if waiting.is_none() && psn == next {
                    self.answered_in_order(place, psn, is_last, at, done);
                } else if is_last && let Some(message) = self.queue.get_mut(place) {
                    message.last_answer = Some(at);
                }
                expected
            }
            // A READ that is finished was answered again.
            _ => psn,
        };
        self.recovering.answered(psn, !psn.is_after(expected), at);
        if psn.is_after(expected) {
            let recoveries = &mut done.recoveries;
            self.recovering.refused(self.flow, Cause::ImpliedNak, expected, at, recoveries);
        } else {
            self.note_answered(psn);
        }
    }

    /// The READ response that was next, of the READ that was next.
    fn answered_in_order(
        &mut self,
        place: usize,
        psn: Psn,
        is_last: bool,
        at: At,
        done: &mut Finished,
    ) {
        let Some(message) = self.queue.get_mut(place) else { return };
        message.next_answer = psn.next();
        if is_last {
            (message.last, message.ended) = (psn, true);
            self.finish_at(place, Ending::Acknowledged, Some(at), done);
        }
    }

    /// SENDs and WRITEs in front of a READ that is being answered are finished.
    #[inline]
    fn finish_before(&mut self, first: Psn, at: At, done: &mut Finished) {
        let mut place = 0;
        while let Some(message) = self.queue.get_mut(place)
            && message.first.is_before(first)
        {
            if message.ended && !message.is_answered_itself() {
                self.finish_at(place, Ending::Acknowledged, Some(at), done);
            } else {
                place += 1;
            }
        }
    }

    fn finish_at(&mut self, place: usize, ending: Ending, answer: Option<At>, done: &mut Finished) {
        if let Some(message) = self.queue.remove(place) {
            done.messages.push(message.into_message(self.flow, ending, answer));
        }
    }

    /// Gives up waiting for the oldest message.
    pub(super) fn give_up_oldest(&mut self, done: &mut Finished) {
        let Some(message) = self.queue.remove(0) else { return };
        let (ending, answer) = match (message.refused, message.last_answer) {
            (Some((code, at)), _) => (Ending::Refused(code), Some(at)),
            // It never asked again for what the tap missed.
            (None, Some(at)) => (Ending::Acknowledged, Some(at)),
            _ if self.service == Service::Uc => (Ending::Unreliable, None),
            _ if message.rnr > 0 => (Ending::ReceiverNotReady, None),
            _ if self.is_answered => (Ending::Open, None),
            _ => (Ending::AnswersUnseen, None),
        };
        done.messages.push(message.into_message(self.flow, ending, answer));
    }

    /// The connection or the capture ends.
    pub(super) fn finish(&mut self, done: &mut Finished) {
        while self.queue.len() > 0 {
            self.give_up_oldest(done);
        }
        self.recovering.finish(&mut done.recoveries);
    }
}
