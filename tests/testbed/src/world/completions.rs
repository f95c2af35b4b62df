//! What completions and events say, held to the plan.

use roce_codec::ib::NakCode;
use roce_engine::{Event, Wc, WcOpcode, WcStatus};

use super::World;
use super::end::{BYSTANDER, End, of_wr_id};
use super::host::Host;
use super::lifecycle::{Chain, Phase};
use crate::plan::{Kind, Poison, Request};

impl World<'_, '_> {
    /// Takes completions and events from all hosts.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            let (send_cq, recv_cq) = (self.hosts[host].send_cq, self.hosts[host].recv_cq);
            // Receives first: what a peer is told has arrived has arrived.
            while let Some(wc) = self.hosts[host].engine.poll_cq(recv_cq) {
                let ended = self.datagram_ended(host, &wc);
                let ended = ended.unwrap_or_else(|| self.receive_ended(host, &wc));
                ended.map_err(|what| format!("{wc:?}: {what}"))?;
            }
            while let Some(wc) = self.hosts[host].engine.poll_cq(send_cq) {
                let ended = self.datagram_ended(host, &wc);
                let ended = ended.unwrap_or_else(|| self.request_ended(host, &wc));
                ended.map_err(|what| format!("{wc:?}: {what}"))?;
            }
            while let Some(event) = self.hosts[host].engine.poll_event() {
                self.event(host, &event).map_err(|what| format!("{event:?}: {what}"))?;
            }
        }
        Ok(())
    }

    /// The chain, and its side, that a work request belongs to.
    fn owner(&self, host: usize, wc: &Wc) -> Result<(usize, usize, usize), String> {
        let (name, index) = of_wr_id(wc.wr_id);
        let (number, connection) = (name >> 8, name & 0xff);
        let chain = self.chains.get(number).ok_or("of no chain")?;
        let ends = chain.ends.as_ref().ok_or("of a connection that is over")?;
        if chain.number != connection {
            return Err("of a connection that is over".to_owned());
        }
        let side = ends.iter().position(|end| end.host == host && end.qp == wc.qp);
        Ok((number, side.ok_or("of no queue pair here")?, index))
    }

    fn request_ended(&mut self, host: usize, wc: &Wc) -> Result<(), String> {
        if self.hosts[host].is_bystander(wc.qp) {
            return self.bystander_ended(host, wc);
        }
        let (number, side, index) = self.owner(host, wc)?;
        let chain = &mut self.chains[number];
        let closing = chain.phase != Phase::Running;
        let connection = chain.connection();
        let Some(ends) = &mut chain.ends else { return Ok(()) };
        let (end, peer) = pick(ends, side);
        let request = *end.direction.requests().get(index).ok_or("no such request")?;
        if index >= end.direction.posted().len() || index < end.completed {
            return Err(format!("{} have been completed already", end.completed));
        }
        let info = self.hosts[host].engine.query_qp(end.qp).map_err(|error| error.to_string())?;
        if end.una.advance(info.unacknowledged_psn)? {
            end.passes = 0;
        }
        // Those before it succeeded without a word.
        for before in end.completed..index {
            if end.direction.requests()[before].signaled || end.failed.is_some() {
                return Err(format!("request {before} is missing"));
            }
            check_success(&mut self.hosts, end, peer, before)?;
            self.outcome.succeeded += 1;
        }
        end.completed = index + 1;
        if wc.status == WcStatus::Success {
            if end.failed.is_some() || !request.signaled || request.poison.is_some() {
                return Err("it should not succeed aloud".to_owned());
            }
            check_wc(wc, &request)?;
            self.outcome.succeeded += 1;
            if let Some(windows) = end.windows.as_mut().filter(|_| request.kind.is_local()) {
                windows.done(index);
                self.outcome.bound += u64::from(request.kind == Kind::Bind);
            }
            return check_success(&mut self.hosts, end, peer, index);
        }
        self.outcome.failed += 1;
        if end.failed.is_some() {
            return flushed(wc.status);
        }
        end.failed = Some(wc.status);
        let peer_dead = self.hosts[peer.host]
            .engine
            .query_qp(peer.qp)
            .is_ok_and(|info| info.state == roce_engine::QpState::Error);
        let poisoned = |end: &End| end.direction.requests().iter().any(|r| r.poison.is_some());
        let allowed = match wc.status {
            status if request.poison.map(Poison::status) == Some(status) => true,
            // The queue pair went to error for another reason: the peer's doing, or the end.
            WcStatus::WrFlush => closing || poisoned(peer) || peer.failed.is_some(),
            WcStatus::RetryExceeded => {
                self.outcome.exhausted += 1;
                let spent = end.passes >= u32::from(connection.retry_cnt);
                spent && (peer_dead || !self.plan.mercy)
            }
            _ => false,
        };
        if allowed { Ok(()) } else { Err(format!("after {} passes", end.passes)) }
    }

    /// A bystander has bound a window, for a connection that may be over.
    fn bystander_ended(&mut self, host: usize, wc: &Wc) -> Result<(), String> {
        let (name, index) = of_wr_id(wc.wr_id);
        if (wc.status, wc.opcode, index) != (WcStatus::Success, WcOpcode::BindMw, BYSTANDER) {
            return Err("a window was not bound".to_owned());
        }
        let chain = self.chains.get_mut(name >> 8).filter(|chain| chain.number == name & 0xff);
        let ends = chain.and_then(|chain| chain.ends.as_mut()).into_iter().flatten();
        for end in ends.filter(|end| end.host == host) {
            if let Some(windows) = &mut end.windows {
                windows.done(BYSTANDER);
            }
        }
        Ok(())
    }

    fn receive_ended(&mut self, host: usize, wc: &Wc) -> Result<(), String> {
        let (number, side, index) = self.owner(host, wc)?;
        let Some(ends) = &mut self.chains[number].ends else { return Ok(()) };
        let (end, peer) = pick(ends, side);
        if index != end.receives_completed || index >= end.receives_posted {
            return Err(format!("{} have been completed", end.receives_completed));
        }
        end.receives_completed += 1;
        let posted = peer.direction.posted();
        let message = posted.iter().position(|posted| posted.receive == Some(index));
        if wc.status != WcStatus::Success {
            if end.receive_failed.is_some() {
                return flushed(wc.status);
            }
            end.receive_failed = Some(wc.status);
            let short = message.is_some_and(|message| {
                peer.direction.requests()[message].poison == Some(Poison::ShortReceive)
            });
            let wrong_key = message.is_some_and(|message| {
                let request = peer.direction.requests()[message];
                request.kind == Kind::SendInv && request.poison == Some(Poison::Key)
            });
            return match wc.status {
                WcStatus::LocalLength if short => Ok(()),
                WcStatus::RemoteInvalidate if wrong_key => Ok(()),
                status => flushed(status),
            };
        }
        let message = message.ok_or("nobody sent anything")?;
        let request = peer.direction.requests()[message];
        if end.receive_failed.is_some() || request.poison.is_some() {
            return Err("it should not succeed".to_owned());
        }
        let opcode = match request.kind {
            Kind::WriteImm => WcOpcode::RecvRdmaWithImm,
            _ => WcOpcode::Recv,
        };
        if let (Some(windows), Some(rkey)) = (&mut end.windows, wc.invalidated) {
            windows.taken(rkey);
        }
        let operand = u32::try_from(request.operand & 0xffff_ffff).unwrap_or(0);
        let imm = matches!(request.kind, Kind::SendImm | Kind::WriteImm).then_some(operand);
        if wc.invalidated != end.invalidatable(message) {
            return Err(format!("message {message} takes another key away"));
        }
        let len = u32::try_from(request.len).unwrap_or(0);
        let expect = (opcode, len, imm, request.solicited);
        if (wc.opcode, wc.byte_len, wc.imm, wc.solicited) != expect {
            return Err(format!("message {message} says {expect:?}"));
        }
        if request.kind != Kind::WriteImm {
            let (at, _) = end.receives[index];
            let payload =
                self.hosts[peer.host].source[request.source..request.source + request.len].to_vec();
            let receiver = &mut self.hosts[host];
            if receiver.bytes(at, request.len)? != payload {
                return Err(format!("message {message} arrived wrong"));
            }
            receiver.expect(at, &payload);
        }
        Ok(())
    }

    fn event(&mut self, host: usize, event: &Event) -> Result<(), String> {
        if let Event::SrqLimitReached(srq) = *event {
            let mut ends = self.chains.iter_mut().filter_map(|chain| chain.ends.as_mut()).flatten();
            let end = ends.find(|end| end.host == host && end.srq == Some(srq));
            let end = end.ok_or("of no connection".to_owned())?;
            let again = core::mem::replace(&mut end.limit_told, true);
            return if again { Err("told again".to_owned()) } else { Ok(()) };
        }
        let qp = match *event {
            Event::CommunicationEstablished(qp)
            | Event::RequestRefused { qp, .. }
            | Event::RequestFailed { qp, .. }
            | Event::LastWqeReached(qp)
            | Event::RemoteWrite { qp, .. } => qp,
            _ => return Err("it should not happen".to_owned()),
        };
        let ends = self.chains.iter_mut().filter_map(|chain| chain.ends.as_mut());
        for ends in ends {
            let Some(side) = ends.iter().position(|end| end.host == host && end.qp == qp) else {
                continue;
            };
            let (end, peer) = pick(ends, side);
            return match *event {
                Event::CommunicationEstablished(_) if end.ready => Err("it is".to_owned()),
                Event::LastWqeReached(_) if end.srq.is_none() => {
                    Err("nothing is shared".to_owned())
                }
                Event::RequestRefused { code, .. } => {
                    let mut poisons = peer.direction.requests().iter().filter_map(|r| r.poison);
                    let expect = match code {
                        NakCode::InvalidRequest => WcStatus::RemoteInvalidRequest,
                        NakCode::RemoteAccessError => WcStatus::RemoteAccess,
                        _ => WcStatus::RemoteOperation,
                    };
                    let known = poisons.any(|poison| poison.status() == expect);
                    known.then_some(()).ok_or("nothing called for it".to_owned())
                }
                Event::RequestFailed { status, .. } if end.failed != Some(status) => {
                    Err(format!("its completion says {:?}", end.failed))
                }
                Event::RemoteWrite { va, len, .. } => {
                    let write = peer
                        .direction
                        .requests()
                        .iter()
                        .filter(|request| request.kind.is_write() && request.poison.is_none())
                        .nth(end.writes_told)
                        .ok_or("nobody wrote")?;
                    end.writes_told += 1;
                    let base = self.hosts[host].va(end.offered);
                    let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
                    let expect = (base + number(write.remote), number(write.len));
                    let same = (va, u64::from(len)) == expect;
                    same.then_some(()).ok_or(format!("the next WRITE is {write:?}"))
                }
                _ => Ok(()),
            };
        }
        Err("of no queue pair".to_owned())
    }

    /// A connection has ended: every request and receive has, too, and the memory is known.
    pub(super) fn check_end(&mut self, number: usize) -> Result<(), String> {
        self.check_invariants()?;
        let Chain { ends: Some(ends), .. } = &mut self.chains[number] else { return Ok(()) };
        for side in 0..2 {
            let (end, peer) = pick(ends, side);
            if !end.is_accounted() {
                return Err(format!("host {}: work requests are missing", end.host));
            }
            let posted = end.direction.posted().len();
            // The rest succeeded silently, or what came of READs in part is as it should be.
            for index in end.completed..posted {
                check_success(&mut self.hosts, end, peer, index)?;
                self.outcome.succeeded += 1;
            }
            end.completed = posted;
            for index in 0..posted {
                settle_request(&mut self.hosts, end, peer, index)?;
            }
            let remote = end.direction.remote_at(peer.expected.packets);
            self.hosts[peer.host].expect(peer.offered, &remote);
        }
        Ok(())
    }
}

pub(super) fn pick(ends: &mut [End; 2], side: usize) -> (&mut End, &mut End) {
    let [a, b] = ends;
    if side == 0 { (a, b) } else { (b, a) }
}

fn flushed(status: WcStatus) -> Result<(), String> {
    match status {
        WcStatus::WrFlush => Ok(()),
        _ => Err("it should be flushed".to_owned()),
    }
}

fn check_wc(wc: &Wc, request: &Request) -> Result<(), String> {
    let opcode = match request.kind {
        Kind::Send | Kind::SendImm | Kind::SendInv => WcOpcode::Send,
        Kind::Write | Kind::WriteImm => WcOpcode::RdmaWrite,
        Kind::Read => WcOpcode::RdmaRead,
        Kind::Swap | Kind::SwapMiss => WcOpcode::CompareSwap,
        Kind::Add => WcOpcode::FetchAdd,
        Kind::AtomicWrite => WcOpcode::AtomicWrite,
        Kind::Flush => WcOpcode::Flush,
        Kind::Bind => WcOpcode::BindMw,
        Kind::Invalidate => WcOpcode::LocalInvalidate,
    };
    let returned =
        matches!(opcode, WcOpcode::RdmaRead | WcOpcode::CompareSwap | WcOpcode::FetchAdd);
    let byte_len = if returned { u32::try_from(request.len).unwrap_or(0) } else { 0 };
    if (wc.opcode, wc.byte_len) == (opcode, byte_len) {
        Ok(())
    } else {
        Err(format!("the request is {request:?}"))
    }
}

/// A request has succeeded: it is acknowledged and executed, and what it returned or left is
/// what the oracle says.
fn check_success(
    hosts: &mut [Host<'_>],
    end: &End,
    peer: &End,
    index: usize,
) -> Result<(), String> {
    let request = &end.direction.requests()[index];
    let ends = end.direction.posted()[index].ends;
    let info = hosts[peer.host].engine.query_qp(peer.qp).map_err(|error| error.to_string())?;
    let executed = peer.expected.of(info.expected_psn);
    if end.una.packets < ends || executed < ends {
        return Err(format!(
            "request {index} ends at {ends}: {} acknowledged, {executed} executed",
            end.una.packets
        ));
    }
    if request.poison.is_some() {
        return Err(format!("request {index} cannot succeed"));
    }
    if request.kind == Kind::Read || request.kind.is_atomic() {
        let at = end.results[index];
        let returned = hosts[end.host].bytes(at, request.len)?;
        end.direction.check(index, &returned, request.kind.is_atomic())?;
        hosts[end.host].expect(at, &returned);
    } else if request.kind.is_write() {
        let left = hosts[peer.host].bytes(peer.offered + request.remote, request.len)?;
        end.direction.check(index, &left, false)?;
    }
    Ok(())
}

/// What an interrupted request left: the first part of a READ, or of a SEND.
fn settle_request(
    hosts: &mut [Host<'_>],
    end: &End,
    peer: &End,
    index: usize,
) -> Result<(), String> {
    let request = &end.direction.requests()[index];
    let posted = &end.direction.posted()[index];
    if request.kind == Kind::Read && end.una.packets < posted.ends {
        let len = end.direction.bytes_before(index, end.una.packets);
        let at = end.results[index];
        let part = hosts[end.host].bytes(at, len)?;
        end.direction.check(index, &part, false)?;
        hosts[end.host].expect(at, &part);
    }
    let receive = posted.receive.and_then(|receive| peer.receives.get(receive));
    if let Some((at, _)) = receive
        && request.kind != Kind::WriteImm
    {
        let len = end.direction.bytes_before(index, peer.expected.packets);
        let part = hosts[end.host].source[request.source..request.source + len].to_vec();
        hosts[peer.host].expect(*at, &part);
    }
    Ok(())
}
