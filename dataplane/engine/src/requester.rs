//! The requester: turns send work requests into packets, and sends them again when it must.

mod audit;

use roce_codec::ib::{Bth, ExtHeaders, Msn, Psn, Service};

use crate::counters::HwCounter;
use crate::cq::WcStatus;
use crate::engine::{Engine, wc_opcode};
use crate::event::Event;
use crate::pool::{Link, List, Pool};
use crate::qp::RtsAttr;
use crate::qp_state::QpState;
use crate::rules::credits;
use crate::scheduler::Class;
use crate::segment::in_service;
use crate::time::Instant;
use crate::transmit::Transmit;
use crate::wqe::SendWqe;

/// The requester half of a queue pair.
///
/// PSNs from `una` to before `sent` are outstanding. `cursor` is the work request the next packet
/// comes from and `cursor_psn` that packet's PSN: before `sent` while sending again.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) queue: List,
    pub(crate) una: Psn,
    pub(crate) sent: Psn,
    pub(crate) next_psn: Psn,
    /// The number of the next message.
    pub(crate) next_ssn: Msn,
    /// The newest message that the peer has a receive for; `None` if it has not said.
    pub(crate) credit_limit: Option<Msn>,
    /// The packet sent beyond that limit: one at a time, to hear of new receives.
    probe: Option<(Psn, Msn)>,
    pub(crate) cursor: Link,
    cursor_psn: Psn,
    /// READs and atomics sent and not completed.
    pub(crate) rd_outstanding: u8,
    max_rd_atomic: u8,
    /// Where the window starts if not at `una`: behind the last READ request, since the packets
    /// of its answer are not ours to limit.
    window_start: Psn,
    since_ack_req: u32,
    timeout_ns: Option<u64>,
    retry_cnt: u8,
    retry_left: u8,
    rnr_retry: u8,
    rnr_left: u8,
    /// While the peer is not ready: when to try again.
    rnr_until: Option<Instant>,
    /// The PSN that a NAK, or a later answer, has made us send again from, until there is
    /// progress: one event, one retry.
    resent_from: Option<Psn>,
}

/// RNR retry count that means without end.
const RNR_RETRY_INFINITE: u8 = 7;

impl Requester {
    pub(crate) const EMPTY: Self = Self {
        queue: List::EMPTY,
        una: Psn::new(0),
        sent: Psn::new(0),
        next_psn: Psn::new(0),
        next_ssn: Msn::new(1),
        credit_limit: None,
        probe: None,
        cursor: Link::NONE,
        cursor_psn: Psn::new(0),
        rd_outstanding: 0,
        max_rd_atomic: 0,
        window_start: Psn::new(0),
        since_ack_req: 0,
        timeout_ns: None,
        retry_cnt: 0,
        retry_left: 0,
        rnr_retry: 0,
        rnr_left: 0,
        rnr_until: None,
        resent_from: None,
    };

    pub(crate) fn new(attr: &RtsAttr) -> Self {
        let mut requester = Self {
            una: attr.sq_psn,
            sent: attr.sq_psn,
            next_psn: attr.sq_psn,
            cursor_psn: attr.sq_psn,
            window_start: attr.sq_psn,
            ..Self::EMPTY
        };
        requester.set_retries(attr);
        requester
    }

    /// Takes over everything but the PSN.
    pub(crate) fn set_retries(&mut self, attr: &RtsAttr) {
        self.max_rd_atomic = attr.max_rd_atomic;
        self.timeout_ns = attr.timeout_ns();
        self.retry_cnt = attr.retry_cnt.min(7);
        self.retry_left = self.retry_cnt;
        self.rnr_retry = attr.rnr_retry.min(RNR_RETRY_INFINITE);
        self.rnr_left = self.rnr_retry;
    }

    /// Notes a work request appended to the queue.
    pub(crate) fn posted(&mut self, index: u32, next_psn: Psn, message: bool) {
        if self.cursor.is_none() {
            self.cursor = Link::to(index);
        }
        self.next_psn = next_psn;
        if message {
            self.next_ssn = self.next_ssn.next();
        }
    }

    /// Moves on if the next packet would come from this request, the first one no more.
    pub(crate) const fn skip(&mut self, index: u32) {
        if matches!(self.cursor.index(), Some(next) if next == index) {
            self.cursor = self.queue.head();
        }
    }

    /// Request packets sent and not acknowledged, since the last READ request.
    fn in_window(&self) -> u32 {
        self.beyond_una(self.cursor_psn).saturating_sub(self.beyond_una(self.window_start))
    }

    /// PSNs from the oldest unacknowledged one to before `psn`: up to 2²³, which is one more than
    /// a signed distance can tell.
    const fn beyond_una(&self, psn: Psn) -> u32 {
        psn.sub(self.una.get()).get()
    }

    /// After `una` has moved: where the window starts lies no farther back.
    const fn start_window(&mut self) {
        if self.beyond_una(self.window_start) > Psn::HALF {
            self.window_start = self.una;
        }
    }

    /// Whether `psn` was sent and is not yet acknowledged.
    pub(crate) const fn is_outstanding(&self, psn: Psn) -> bool {
        self.beyond_una(psn) < self.beyond_una(self.sent)
    }

    /// Whether a packet has to wait for credits (IBTA 9.7.7.2). Only messages that take a receive
    /// do: a SEND with its first packet, and what follows when that one has arrived; a WRITE with
    /// immediate with its last.
    fn waits_for_credits(&self, wqe: &SendWqe, psn: Psn) -> bool {
        if !self.is_beyond_credits(wqe) {
            return false;
        }
        if wqe.takes_receive_at(psn) {
            self.probe.is_some_and(|(psn, ssn)| {
                self.is_outstanding(psn) && credits::is_beyond(ssn, self.credit_limit)
            })
        } else {
            wqe.opcode.is_send() && self.is_outstanding(wqe.first_psn)
        }
    }

    fn is_beyond_credits(&self, wqe: &SendWqe) -> bool {
        wqe.opcode.takes_receive() && credits::is_beyond(wqe.ssn, self.credit_limit)
    }

    /// Takes all that was sent for arrived, as the unreliable service does; says up to where.
    pub(crate) const fn all_arrived(&mut self) -> Psn {
        self.una = self.sent;
        self.window_start = self.sent;
        self.sent
    }

    /// Whether the peer keeps any READs or atomics at all.
    pub(crate) const fn may_read(&self) -> bool {
        self.max_rd_atomic > 0
    }

    const fn has_outstanding(&self) -> bool {
        self.una.get() != self.sent.get()
    }

    /// Whether a request has been begun and is not done.
    pub(crate) fn begun(&self, sends: &Pool<'_, SendWqe>) -> bool {
        let next = self.cursor.index().and_then(|index| sends.get(index));
        self.has_outstanding() || next.is_some_and(|wqe| wqe.first_psn != self.cursor_psn)
    }

    /// Goes on behind the requests that were flushed.
    const fn skip_flushed(&mut self) {
        self.una = self.next_psn;
        self.sent = self.next_psn;
        self.cursor_psn = self.next_psn;
        self.window_start = self.next_psn;
    }
}

impl Engine<'_> {
    /// The next request packet, if the queue pair may send one now.
    pub(crate) fn next_request(&mut self, slot: u32) -> Option<Transmit> {
        self.complete_unreliable(slot);
        let qp = self.qps.get(slot)?;
        if !qp.state.sends() || qp.requester.rnr_until.is_some() {
            return None;
        }
        let mut index = qp.requester.cursor.index()?;
        if self.sends.get(index)?.opcode.is_local() {
            index = self.run_local(slot)?;
        }
        let wqe = *self.sends.get(index)?;
        let qp = self.qps.get_mut(slot)?;
        let requester = &mut qp.requester;
        let psn = requester.cursor_psn;
        // IBTA 10.3.1.5: a draining queue begins nothing new.
        if qp.state == QpState::Sqd && psn == wqe.first_psn && !requester.is_outstanding(psn) {
            return None;
        }
        let in_window = requester.in_window();
        if in_window >= self.config.window {
            return None;
        }
        let awaits_response = wqe.opcode.awaits_response();
        // IBTA 10.8.3: the fence. IBTA 9.7.4.1.4: as many READs and atomics as the peer keeps.
        if wqe.fence && requester.rd_outstanding > 0 {
            return None;
        }
        if awaits_response && requester.rd_outstanding >= requester.max_rd_atomic {
            return None;
        }
        if requester.waits_for_credits(&wqe, psn) {
            return None;
        }
        let is_probe = requester.is_beyond_credits(&wqe) && wqe.takes_receive_at(psn);
        let packet = wqe.packet(psn, qp.path_mtu.bytes())?;
        // IBTA 9.7.1 (C9-58): never more than half of the PSNs, an answer's included.
        if requester.beyond_una(psn).saturating_add(packet.packets) > Psn::HALF {
            return None;
        }

        let next = psn.add(packet.packets);
        let last_of_message = next == wqe.last_psn.next();
        let last_again = next == requester.sent;
        requester.since_ack_req = requester.since_ack_req.saturating_add(1);
        // IBTA 9.8.2: the unreliable service asks for no answer, and waits for none.
        let reliable = qp.service == Service::Rc;
        let mut bth = Bth::new(in_service(packet.opcode, qp.service), qp.dest_qpn, psn);
        bth.pkey = qp.pkey;
        // IBTA 9.2.3.
        bth.solicited = wqe.solicited && last_of_message;
        // IBTA 9.7.7.1: so that the queue never falls silent with something unacknowledged.
        bth.ack_req = reliable
            && !awaits_response
            && (last_of_message
                || is_probe
                || last_again
                || requester.since_ack_req >= self.config.ack_interval
                || in_window + 1 == self.config.window);
        let (pd, oldest) = (qp.pd, requester.cursor == requester.queue.head());
        let mut path = qp.path;
        let way = wqe.to.map(|to| self.address(slot, &to, &mut path, &mut bth)).transpose();
        let body = self.body(pd, index, &wqe, packet.offset, packet.len);
        let body = body.map_err(|_| WcStatus::LocalProtection);
        let (deth, body) = match way.and_then(|deth| Ok((deth, body?))) {
            Ok(ready) => ready,
            // Completions come in order: what was sent before may still succeed.
            Err(_) if !oldest => return None,
            Err(status) => {
                self.fail_request(slot, status);
                return None;
            }
        };

        let qp = self.qps.get_mut(slot)?;
        let requester = &mut qp.requester;
        if bth.ack_req {
            requester.since_ack_req = 0;
        }
        if is_probe {
            requester.probe = Some((psn, wqe.ssn));
        }
        if awaits_response {
            requester.rd_outstanding += 1;
            requester.window_start = next;
        }
        if requester.is_outstanding(psn) {
            self.counters.count(HwCounter::Retransmissions);
        }
        requester.cursor_psn = next;
        if requester.beyond_una(next) > requester.beyond_una(requester.sent) {
            requester.sent = next;
        }
        if last_of_message {
            requester.cursor = self.sends.next(requester.cursor);
        }
        if let Some(timeout_ns) = requester.timeout_ns
            && reliable
            && !self.timers.is_armed(slot)
        {
            self.timers.arm(slot, self.now, self.now.add_ns(timeout_ns));
        }
        let ext = ExtHeaders { deth, ..ExtHeaders::NONE };
        let mut transmit = Some(Transmit { qp: qp.qpn, path, bth, ext, body });
        if let Some(Transmit { ext, .. }) = &mut transmit {
            wqe.put_headers(packet.offset, ext);
        }
        transmit
    }

    /// Goes back to the oldest unacknowledged packet (IBTA 9.7.5.2.8).
    pub(crate) fn resend(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let requester = &mut qp.requester;
        requester.cursor = requester.queue.head();
        requester.cursor_psn = requester.una;
        requester.window_start = requester.una;
        requester.rd_outstanding = 0;
        requester.since_ack_req = 0;
        requester.probe = None;
        self.ready.push(Class::Data, slot);
    }

    /// Sends again from the oldest unacknowledged packet because an answer says that it is
    /// missing; says whether that is news (IBTA 9.7.5.2.1). Costs a retry.
    pub(crate) fn resend_once(&mut self, slot: u32) -> bool {
        let Some(qp) = self.qps.get_mut(slot) else { return false };
        let requester = &mut qp.requester;
        // It may be about to be sent again anyway: after a timeout, or a wait for the receiver.
        if requester.resent_from == Some(requester.una) || requester.cursor_psn == requester.una {
            return false;
        }
        requester.resent_from = Some(requester.una);
        self.retry(slot);
        true
    }

    /// Uses up a retry, or ends the connection when there is none left (IBTA 9.7.6.1.3).
    fn retry(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        if qp.requester.retry_left == 0 {
            self.counters.count(HwCounter::RetryExceededErr);
            self.fail_request(slot, WcStatus::RetryExceeded);
            return;
        }
        qp.requester.retry_left -= 1;
        self.resend(slot);
        self.restart_timer(slot);
    }

    /// The peer is not ready: waits, or ends the connection after too many times. Says whether
    /// that is news.
    pub(crate) fn wait_for_receiver(&mut self, slot: u32, wait_ns: u64) -> bool {
        let Some(qp) = self.qps.get_mut(slot) else { return false };
        let requester = &mut qp.requester;
        if requester.rnr_until.is_some() {
            return false;
        }
        if requester.rnr_retry != RNR_RETRY_INFINITE {
            if requester.rnr_left == 0 {
                self.counters.count(HwCounter::RnrNakRetryErr);
                self.fail_request(slot, WcStatus::RnrRetryExceeded);
                return true;
            }
            requester.rnr_left -= 1;
        }
        let until = self.now.add_ns(wait_ns);
        requester.rnr_until = Some(until);
        self.resend(slot);
        // The acknowledge timer stops meanwhile (IBTA 9.7.6.1.3).
        self.timers.arm(slot, self.now, until);
        true
    }

    /// The timer of a queue pair went off: the wait for the receiver is over, or no answer came.
    pub(crate) fn requester_timeout(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        if qp.requester.rnr_until.take().is_some() {
            self.ready.push(Class::Data, slot);
            return;
        }
        if qp.requester.has_outstanding() {
            self.counters.count(HwCounter::LocalAckTimeoutErr);
            qp.requester.resent_from = None;
            self.retry(slot);
        }
    }

    /// After progress: all retries are there again, and the timer starts anew.
    pub(crate) fn progressed(&mut self, slot: u32) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let requester = &mut qp.requester;
        requester.retry_left = requester.retry_cnt;
        requester.rnr_left = requester.rnr_retry;
        requester.resent_from = None;
        if requester.rnr_until.take().is_some() {
            self.timers.disarm(slot);
        }
        requester.start_window();
        // An acknowledgement may cover what was about to be sent again.
        if requester.beyond_una(requester.cursor_psn) > requester.beyond_una(requester.sent) {
            self.resend(slot);
        }
        self.restart_timer(slot);
        // The window has moved.
        self.ready.push(Class::Data, slot);
        self.check_drained(slot);
    }

    fn restart_timer(&mut self, slot: u32) {
        let Some(qp) = self.qps.get(slot) else { return };
        match qp.requester.timeout_ns {
            Some(timeout_ns) if qp.requester.has_outstanding() => {
                self.timers.arm(slot, self.now, self.now.add_ns(timeout_ns));
            }
            _ => self.timers.disarm(slot),
        }
    }

    /// Ends the request that this PSN belongs to with an error, and flushes the older ones, too:
    /// whether the peer executed them is not known.
    pub(crate) fn fail_request_at(&mut self, slot: u32, psn: Psn, status: WcStatus) {
        while let Some(qp) = self.qps.get_mut(slot)
            && let Some(index) = qp.requester.queue.head().index()
            && let Some(wqe) = self.sends.get(index).copied()
            && wqe.last_psn.is_before(psn)
        {
            self.sends.pop_front(&mut qp.requester.queue);
            self.free_send(index);
            self.complete(slot, wqe.wr_id, WcStatus::WrFlush, wc_opcode(&wqe.opcode));
        }
        self.fail_request(slot, status);
    }

    /// Ends the oldest request with an error, flushes the others, and moves to error (IBTA 9.9.2);
    /// the send queue alone where the service has no connection that an error would end (10.3.1.6).
    pub(crate) fn fail_request(&mut self, slot: u32, status: WcStatus) {
        let Some(qp) = self.qps.get_mut(slot) else { return };
        let qpn = qp.qpn;
        if let Some(index) = self.sends.pop_front(&mut qp.requester.queue)
            && let Some(wqe) = self.free_send(index)
        {
            self.complete(slot, wqe.wr_id, status, wc_opcode(&wqe.opcode));
        }
        self.events.push(Event::RequestFailed { qp: qpn, status });
        match self.qps.get_mut(slot) {
            Some(qp) if qp.service != Service::Rc && qp.state.sends() => {
                qp.state = QpState::Sqe;
                self.flush_sends(slot);
                if let Some(qp) = self.qps.get_mut(slot) {
                    qp.requester.skip_flushed();
                }
            }
            _ => self.enter_error(slot),
        }
    }

    /// Completes all send requests as flushed.
    pub(crate) fn flush_sends(&mut self, slot: u32) {
        loop {
            let Some(qp) = self.qps.get_mut(slot) else { return };
            qp.requester.cursor = Link::NONE;
            let Some(index) = self.sends.pop_front(&mut qp.requester.queue) else { return };
            if let Some(wqe) = self.free_send(index) {
                self.complete(slot, wqe.wr_id, WcStatus::WrFlush, wc_opcode(&wqe.opcode));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The READ's end stays behind `una` for half of the number space and more; it must not then
    /// be taken to lie ahead.
    #[test]
    fn the_window_is_counted_across_the_number_space() {
        let mut requester = Requester { una: Psn::new(10), ..Requester::EMPTY };
        requester.window_start = Psn::new(12);
        requester.cursor_psn = Psn::new(20);
        assert_eq!(requester.in_window(), 8);
        requester.una = Psn::new(14);
        requester.start_window();
        assert_eq!((requester.in_window(), requester.window_start), (6, Psn::new(14)));
    }

    #[test]
    fn a_read_of_half_the_number_space_is_outstanding_as_a_whole() {
        let una = Psn::new(0x00ff_0000);
        let sent = una.add(Psn::HALF);
        let requester = Requester { una, sent, ..Requester::EMPTY };
        assert!(requester.is_outstanding(una));
        assert!(requester.is_outstanding(sent.sub(1)));
        assert!(!requester.is_outstanding(sent));
        assert!(!requester.is_outstanding(una.sub(1)));
    }
}
