//! Connections begin, are used, and end.

use roce_codec::ib::{Operation, Qpn};
use roce_engine::{Engine, Instant, ModifyQp, QpState, Transmit};

use super::World;
use super::completions::pick;
use super::end::End;
use super::windows::Windows;
use crate::oracle::Direction;
use crate::plan::{Connection, Plan};

/// Connections that follow each other.
pub(super) struct Chain<'a> {
    plan: &'a [Connection],
    /// Which one it is, from 0.
    pub(super) number: usize,
    pub(super) phase: Phase,
    pub(super) ends: Option<[End; 2]>,
    /// Queue pairs that the next one takes over.
    left: Option<[Qpn; 2]>,
    start_at: Instant,
}

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Running,
    /// Something has failed, or all is done: at this time both sides go to error.
    Closing(Instant),
    /// Both sides are in error.
    Closed,
    Over,
}

impl<'a> Chain<'a> {
    pub(super) fn new(plan: &'a [Connection]) -> Self {
        let phase = if plan.is_empty() { Phase::Over } else { Phase::Waiting };
        Self { plan, number: 0, phase, ends: None, left: None, start_at: Instant::ZERO }
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    pub(super) fn connection(&self) -> &'a Connection {
        &self.plan[self.number.min(self.plan.len() - 1)]
    }

    /// Whether a queue pair has used up half of its retries.
    pub(super) fn is_desperate(&self) -> bool {
        let half = u32::from(self.connection().retry_cnt / 2);
        self.ends.iter().flatten().any(|end| end.passes >= half)
    }

    pub(super) fn next_time(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Waiting => Some(self.start_at),
            Phase::Closing(at) => Some(at),
            Phase::Running => {
                let times = self.ends.iter().flatten().flat_map(|end| {
                    let posted = end.direction.posted().len();
                    let requests = (posted < end.direction.requests().len()).then_some(end.post_at);
                    let receives =
                        (end.receives_posted < end.receives.len()).then_some(end.receive_at);
                    let ready = (!end.ready).then_some(end.ready_at);
                    [requests, receives, ready]
                });
                times.flatten().filter(|at| *at > now).min()
            }
            Phase::Closed | Phase::Over => None,
        }
    }

    /// Notes a request that an engine has sent: how far it has come, and whether it starts over
    /// from the oldest one that is not acknowledged.
    pub(super) fn note_sent(&mut self, host: usize, transmit: &Transmit, engine: &Engine<'_>) {
        let info = transmit.bth.opcode.info();
        if info.is_response() {
            return;
        }
        let mtu = self.connection().path_mtu.bytes();
        for end in self.ends.iter_mut().flatten() {
            if end.host != host || end.qp != transmit.qp {
                continue;
            }
            let Ok(qp) = engine.query_qp(end.qp) else { return };
            if end.una.advance(qp.unacknowledged_psn) == Ok(true) {
                end.passes = 0;
            }
            let at = end.una.of(transmit.bth.psn);
            if at == end.una.packets && at < end.sent {
                end.passes += 1;
            }
            // A READ request takes as many as its answer has packets.
            let read = transmit.ext.reth.filter(|_| info.operation == Operation::ReadRequest);
            let packets = read.map_or(1, |reth| reth.dma_len.div_ceil(mtu).max(1));
            end.sent = end.sent.max(at + u64::from(packets));
        }
    }

    pub(super) fn describe(&self) -> String {
        let ends: Vec<_> = self
            .ends
            .iter()
            .flatten()
            .map(|end| {
                format!(
                    "host {} {}: {} of {} requests posted, {} completed, {} of {} receives, \
                     failed {:?}, acknowledged {}, expects {}",
                    end.host,
                    end.qp,
                    end.direction.posted().len(),
                    end.direction.requests().len(),
                    end.completed,
                    end.receives_completed,
                    end.receives.len(),
                    end.failed,
                    end.una.packets,
                    end.expected.packets,
                )
            })
            .collect();
        format!("connection {} {:?} [{}]", self.number, self.phase, ends.join(", "))
    }
}

impl World<'_, '_> {
    /// Starts the connections whose time has come.
    pub(super) fn start_connections(&mut self) -> Result<(), String> {
        for (name, chain) in self.chains.iter_mut().enumerate() {
            if chain.phase != Phase::Waiting || chain.start_at > self.now {
                continue;
            }
            let plan = chain.connection();
            let hosts = plan.hosts;
            let [a, b] = &plan.sides;
            let now = self.now;
            let mut ends = [
                End::new(&mut self.hosts[hosts[0]], hosts[0], a, b, now)?,
                End::new(&mut self.hosts[hosts[1]], hosts[1], b, a, now)?,
            ];
            let left = chain.left.take();
            for (number, end) in ends.iter_mut().enumerate() {
                let host = &mut self.hosts[hosts[number]];
                end.connect(host, plan, number, left.map(|left| left[number]))?;
            }
            let qps = [ends[0].qp, ends[1].qp];
            for (number, end) in ends.iter_mut().enumerate() {
                let peer = 1 - number;
                let dst = self.hosts[hosts[peer]].address;
                end.rtr(&mut self.hosts[hosts[number]], plan, number, dst, qps[peer])?;
            }
            let name = name << 8 | chain.number;
            for number in 0..2 {
                let side = &plan.sides[number];
                if side.windows {
                    let len = plan.sides[1 - number].remote_len;
                    let offered = (ends[number].offered, len);
                    let host = &mut self.hosts[hosts[number]];
                    ends[number].windows = Some(Windows::new(host, name, offered)?);
                }
                let offered = ends[1 - number].offered;
                let memory = self.hosts[hosts[1 - number]].bytes(offered, side.remote_len)?;
                ends[number].direction =
                    Direction::new(side.requests.clone(), plan.path_mtu.bytes(), memory);
            }
            // The passive side may learn late that it may send.
            ends[1].ready_at = now.add_ns(self.random.below(3 * self.plan.latency_ns));
            chain.ends = Some(ends);
            chain.phase = Phase::Running;
            self.outcome.connections += 1;
        }
        Ok(())
    }

    /// Posts requests and receives, some at a time.
    pub(super) fn post(&mut self) -> Result<(), String> {
        for (number, chain) in self.chains.iter_mut().enumerate() {
            if chain.phase != Phase::Running {
                continue;
            }
            let connection = chain.connection();
            let name = number << 8 | chain.number;
            let Some(ends) = &mut chain.ends else { continue };
            for side in 0..2 {
                let (end, peer) = pick(ends, side);
                let va = self.hosts[peer.host].va(peer.offered);
                let host = &mut self.hosts[end.host];
                // It may have met its end before it was ready.
                let in_rtr =
                    host.engine.query_qp(end.qp).is_ok_and(|info| info.state == QpState::Rtr);
                if !end.ready && in_rtr && end.ready_at <= self.now {
                    end.rts(host, connection, side)?;
                }
                if end.receive_at <= self.now {
                    for _ in 0..self.random.within(1, 8) {
                        if !end.post_receive(host, name)? {
                            break;
                        }
                    }
                    end.receive_at = self.now.add_ns(self.random.within(1, 20_000));
                }
                if end.ready && end.post_at <= self.now {
                    for _ in 0..self.random.within(1, 8) {
                        if !end.post_request(host, peer, va, name)? {
                            break;
                        }
                    }
                    end.post_at = self.now.add_ns(self.random.within(1, 20_000));
                }
            }
        }
        Ok(())
    }

    /// Ends connections that have failed or are done.
    pub(super) fn end_connections(&mut self) -> Result<(), String> {
        for number in 0..self.chains.len() {
            match self.chains[number].phase {
                Phase::Running => self.notice_end(number),
                Phase::Closing(at) if at <= self.now => self.close(number)?,
                _ => {}
            }
            if self.chains[number].phase == Phase::Closed {
                self.complete()?;
                self.check_end(number)?;
                self.leave(number)?;
            }
        }
        Ok(())
    }

    fn notice_end(&mut self, number: usize) {
        let chain = &mut self.chains[number];
        let Some(ends) = &chain.ends else { return };
        let in_error = |end: &End| {
            let info = self.hosts[end.host].engine.query_qp(end.qp);
            info.is_ok_and(|info| info.state == QpState::Error)
        };
        if ends.iter().any(in_error) {
            // Somebody will tell the other side, after a while.
            let after = self.random.below(8 * self.plan.latency_ns);
            chain.phase = Phase::Closing(self.now.add_ns(after));
        } else if ends.iter().all(End::is_done) {
            chain.phase = Phase::Closing(self.now);
        }
    }

    fn close(&mut self, number: usize) -> Result<(), String> {
        let chain = &mut self.chains[number];
        for end in chain.ends.iter().flatten() {
            let engine = &mut self.hosts[end.host].engine;
            engine.modify_qp(end.qp, &ModifyQp::Error).map_err(|error| error.to_string())?;
        }
        chain.phase = Phase::Closed;
        Ok(())
    }

    /// Gives back what a connection had, and makes way for the next one.
    fn leave(&mut self, number: usize) -> Result<(), String> {
        let chain = &mut self.chains[number];
        let Some(ends) = chain.ends.take() else { return Ok(()) };
        chain.number += 1;
        let next = chain.plan.get(chain.number);
        let reuse = next.is_some_and(|next| next.reuse);
        for end in &ends {
            let host = &mut self.hosts[end.host];
            end.deregister(host)?;
            if !reuse {
                host.engine.destroy_qp(end.qp).map_err(|error| error.to_string())?;
            }
        }
        if reuse {
            chain.left = Some([ends[0].qp, ends[1].qp]);
        }
        chain.phase = if next.is_some() { Phase::Waiting } else { Phase::Over };
        let wait = if reuse { quarantine_ns(self.plan) } else { self.random.below(10_000) };
        chain.start_at = self.now.add_ns(wait);
        Ok(())
    }
}

/// How long packets of an old connection may still arrive: TIMEWAIT.
fn quarantine_ns(plan: &Plan) -> u64 {
    4 * (plan.max_delay_ns + 8 * plan.latency_ns) + 1_000_000
}
