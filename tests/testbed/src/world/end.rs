//! One side of a live connection: its queue pair, its memory, and how far it has come.

use roce_codec::ib::{LKey, PKey, Psn, Qpn, RKey, RnrTimer};
use roce_engine::{
    Access, Instant, ModifyQp, Mr, NextHop, Path, Placement, QpInit, RecvWr, RtrAttr, RtsAttr,
    Selectivity, SendWr, Sge, Srq, SrqInit, WcStatus, WrOpcode,
};

use super::host::{GAP, Host};
use super::windows::Windows;
use crate::oracle::Direction;
use crate::plan::{Connection, Kind, MAX_INLINE, Poison, Request, Side};

/// Work requests a queue pair holds.
pub(super) const DEPTH: u32 = 32;

/// A place in a sequence of packets: the PSN, and how many packets have come since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    psn: Psn,
    pub(super) packets: u64,
}

impl Place {
    const fn new(psn: Psn) -> Self {
        Self { psn, packets: 0 }
    }

    /// Moves on to a PSN that lies ahead.
    pub(super) fn advance(&mut self, psn: Psn) -> Result<bool, String> {
        let step = psn.get().wrapping_sub(self.psn.get()) & 0x00ff_ffff;
        if step >= 1 << 23 {
            return Err(format!("a PSN went back from {} to {psn}", self.psn));
        }
        *self = Self { psn, packets: self.packets + u64::from(step) };
        Ok(step > 0)
    }

    /// The place of a PSN at most half of the number space ahead.
    pub(super) fn of(&self, psn: Psn) -> u64 {
        self.packets + u64::from(psn.get().wrapping_sub(self.psn.get()) & 0x00ff_ffff)
    }
}

/// One side.
pub(super) struct End {
    pub(super) host: usize,
    pub(super) qp: Qpn,
    /// What it asks of the other side.
    pub(super) direction: Direction,
    /// Where the memory that the other side asks for lies.
    pub(super) offered: usize,
    pub(super) offered_mr: Mr,
    /// Where each of its requests puts what it returns.
    pub(super) results: Vec<usize>,
    results_mr: Mr,
    /// Its receives: where, and how much they hold.
    pub(super) receives: Vec<(usize, usize)>,
    receives_mr: Mr,
    /// The shared queue that they come from, and whether its limit has been told.
    pub(super) srq: Option<Srq>,
    pub(super) limit_told: bool,
    /// Where every other one is cut into scatter-gather elements.
    cuts: u64,
    /// Regions for keys to the offered memory that the other side's SENDs may take away.
    invalidatable_mrs: Vec<Mr>,
    /// Windows to the offered memory.
    pub(super) windows: Option<Windows>,
    /// The keys that the other side's SENDs take away, by message.
    taken: Vec<(usize, RKey)>,
    /// How many of them are regions'.
    regions_taken: usize,
    /// Requests that have completed, by a completion or silently.
    pub(super) completed: usize,
    pub(super) failed: Option<WcStatus>,
    pub(super) receives_posted: usize,
    pub(super) receives_completed: usize,
    pub(super) receive_failed: Option<WcStatus>,
    /// WRITEs of the other side's that have been told.
    pub(super) writes_told: usize,
    /// What it has seen acknowledged, and what it expects of the other side.
    pub(super) una: Place,
    pub(super) expected: Place,
    /// The packets it has sent, and how often the oldest unacknowledged one was sent again.
    pub(super) sent: u64,
    pub(super) passes: u32,
    /// When it is ready to send, posts requests, and posts receives.
    pub(super) ready_at: Instant,
    pub(super) post_at: Instant,
    pub(super) receive_at: Instant,
    pub(super) ready: bool,
}

/// Bytes of memory that a side needs on its host.
pub(super) fn needs(side: &Side, peer: &Side) -> usize {
    let returned = side.requests.iter().map(|request| request.len + GAP + 8);
    let received = side.receives.iter().map(|capacity| capacity + GAP + 8);
    returned.chain(received).sum::<usize>() + peer.remote_len + 8 * (GAP + 8)
}

impl End {
    /// Makes the memory of a side. `qp` comes later.
    pub(super) fn new(
        host: &mut Host<'_>,
        number: usize,
        side: &Side,
        peer: &Side,
        now: Instant,
    ) -> Result<Self, String> {
        let offered = host.take(peer.remote_len);
        host.scramble(offered, peer.remote_len)?;
        let remote = remote_rights() | Access::LOCAL_WRITE;
        let offered_mr = host.register(offered, peer.remote_len, remote)?;
        let returns = |kind: Kind| kind == Kind::Read || kind.is_atomic();
        let start = host.take(0);
        let results: Vec<_> = side
            .requests
            .iter()
            .map(|request| host.take(if returns(request.kind) { request.len } else { 0 }))
            .collect();
        let middle = host.take(0);
        let receives: Vec<_> = side.receives.iter().map(|len| (host.take(*len), *len)).collect();
        let end = host.take(0);
        let results_mr = host.register(start, middle - start, Access::LOCAL_WRITE)?;
        let receives_mr = host.register(middle, end - middle, Access::LOCAL_WRITE)?;
        let doomed = peer.requests.iter().filter(|request| request.kind == Kind::SendInv);
        let invalidatable_mrs = doomed
            .map(|_| host.register(offered, peer.remote_len, remote | Access::REMOTE_INVALIDATE))
            .collect::<Result<_, _>>()?;
        let late = if side.late { host.random.within(10_000, 3_000_000) } else { 0 };
        Ok(Self {
            host: number,
            qp: Qpn::new(0),
            direction: Direction::new(Vec::new(), 1, Vec::new()),
            offered,
            offered_mr,
            results,
            results_mr,
            receives,
            receives_mr,
            srq: None,
            limit_told: false,
            cuts: side.cuts,
            invalidatable_mrs,
            windows: None,
            taken: Vec::new(),
            regions_taken: 0,
            completed: 0,
            failed: None,
            receives_posted: 0,
            receives_completed: 0,
            receive_failed: None,
            writes_told: 0,
            una: Place::new(side.psn),
            expected: Place::new(peer.psn),
            sent: 0,
            passes: 0,
            ready_at: now,
            post_at: now,
            receive_at: now.add_ns(late),
            ready: false,
        })
    }

    /// Brings the queue pair to RTR; takes over `old` or makes a new one.
    pub(super) fn connect(
        &mut self,
        host: &mut Host<'_>,
        connection: &Connection,
        number: usize,
        old: Option<Qpn>,
    ) -> Result<(), String> {
        if old.is_none() && connection.sides[number].srq {
            let init = SrqInit { pd: host.pd, max_wr: DEPTH, max_sge: 5 };
            let srq = host.engine.create_srq(&init).map_err(|error| error.to_string())?;
            self.srq = Some(srq);
        }
        let init = QpInit {
            srq: self.srq,
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: 5,
            max_recv_sge: 5,
            max_inline_data: u16::try_from(MAX_INLINE).unwrap_or(0),
            observe_writes: true,
            ..QpInit::new(roce_codec::ib::Service::Rc, host.pd, host.send_cq, host.recv_cq)
        };
        self.qp = match old {
            Some(qp) => qp,
            None => {
                host.engine.create_qp(&init, &mut host.random).map_err(|error| error.to_string())?
            }
        };
        let access = connection.sides[number].access;
        for change in [ModifyQp::Reset, ModifyQp::Init { pkey: PKey::DEFAULT, access }] {
            host.engine.modify_qp(self.qp, &change).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    pub(super) fn rtr(
        &self,
        host: &mut Host<'_>,
        connection: &Connection,
        number: usize,
        dst: std::net::IpAddr,
        dest_qpn: Qpn,
    ) -> Result<(), String> {
        let peer = &connection.sides[1 - number];
        let attr = RtrAttr {
            path: Path {
                src: host.address,
                dst,
                next_hop: NextHop(u16::try_from(connection.hosts[1 - number]).unwrap_or(0)),
                src_port: 0xc000,
                ..Path::EMPTY
            },
            path_mtu: connection.path_mtu,
            dest_qpn,
            rq_psn: peer.psn,
            max_dest_rd_atomic: peer.max_rd_atomic,
            min_rnr_timer: RnrTimer::new(connection.rnr_timer),
        };
        host.engine.modify_qp(self.qp, &ModifyQp::Rtr(attr)).map_err(|error| error.to_string())
    }

    pub(super) fn rts(
        &mut self,
        host: &mut Host<'_>,
        connection: &Connection,
        number: usize,
    ) -> Result<(), String> {
        let side = &connection.sides[number];
        let attr = RtsAttr {
            sq_psn: side.psn,
            timeout: connection.timeout,
            retry_cnt: connection.retry_cnt,
            rnr_retry: 7,
            max_rd_atomic: side.max_rd_atomic,
        };
        self.ready = true;
        host.engine.modify_qp(self.qp, &ModifyQp::Rts(attr)).map_err(|error| error.to_string())
    }

    /// Posts the next request, if there is one and room for it.
    pub(super) fn post_request(
        &mut self,
        host: &mut Host<'_>,
        peer: &mut Self,
        va: u64,
        connection: usize,
    ) -> Result<bool, String> {
        let index = self.direction.posted().len();
        let Some(request) = self.direction.requests().get(index).copied() else {
            return Ok(false);
        };
        if index - self.completed >= usize::try_from(DEPTH).unwrap_or(0) {
            return Ok(false);
        }
        let payload = &host.source[request.source..request.source + request.len];
        let [first, second] = self.direction.post(payload).operands;
        if request.kind.is_local() {
            let id = (wr_id(connection, index), index);
            self.post_local(host, peer, &request, id)?;
            return Ok(true);
        }
        let (rkey, remote) = peer.key_for(&request, index);
        let va = va + u64::try_from(remote).unwrap_or(0);
        let imm = u32::try_from(request.operand & 0xffff_ffff).unwrap_or(0);
        let len = u32::try_from(request.len).unwrap_or(0);
        let opcode = match request.kind {
            Kind::Send => WrOpcode::Send,
            Kind::SendImm => WrOpcode::SendWithImm(imm),
            Kind::SendInv => WrOpcode::SendWithInvalidate(rkey),
            Kind::Write => WrOpcode::RdmaWrite { va, rkey },
            Kind::WriteImm => WrOpcode::RdmaWriteWithImm { va, rkey, imm },
            Kind::Read => WrOpcode::RdmaRead { va, rkey },
            Kind::Swap | Kind::SwapMiss => {
                WrOpcode::CompareSwap { va, rkey, compare: first, swap: second }
            }
            Kind::Add => WrOpcode::FetchAdd { va, rkey, add: second },
            Kind::AtomicWrite => WrOpcode::AtomicWrite { va, rkey },
            Kind::Bind | Kind::Invalidate => return Ok(true),
            Kind::Flush => {
                let whole = request.poison.is_none() && request.operand & 2 == 2;
                let selectivity =
                    if whole { Selectivity::Region } else { Selectivity::Range { va, len } };
                let placement = Placement::GLOBAL_VISIBILITY;
                WrOpcode::Flush { rkey, selectivity, placement }
            }
        };
        let mut local = None;
        let sge = if request.kind == Kind::Flush {
            Sge::default()
        } else if request.kind == Kind::Read || request.kind.is_atomic() {
            Sge { va: host.va(self.results[index]), len, lkey: self.results_mr.lkey }
        } else {
            let mut lkey = host.source_mr.lkey;
            if request.poison == Some(Poison::Local) {
                let mr = host.register(request.source, request.len, Access::NONE)?;
                lkey = mr.lkey;
                local = Some(mr.rkey);
            }
            Sge { va: host.va(request.source), len, lkey }
        };
        let sges = elements(request.cuts, sge);
        let mut wr = SendWr {
            signaled: request.signaled,
            solicited: request.solicited,
            fence: request.fence,
            ..SendWr::new(wr_id(connection, index), opcode, &sges)
        };
        if request.inline {
            wr = wr.inline(&host.source[request.source..request.source + request.len]);
        }
        host.engine
            .post_send(self.qp, &wr)
            .map_err(|error| format!("request {index} was not taken: {error}"))?;
        if let Some(rkey) = local {
            host.engine.deregister_mr(rkey).map_err(|error| error.to_string())?;
        }
        Ok(true)
    }

    /// Posts the next receive, if there is one and room for it.
    pub(super) fn post_receive(
        &mut self,
        host: &mut Host<'_>,
        connection: usize,
    ) -> Result<bool, String> {
        let index = self.receives_posted;
        let Some(&(at, len)) = self.receives.get(index) else { return Ok(false) };
        if index - self.receives_completed >= usize::try_from(DEPTH).unwrap_or(0) {
            return Ok(false);
        }
        let len = u32::try_from(len).unwrap_or(0);
        let sge = Sge { va: host.va(at), len, lkey: self.receives_mr.lkey };
        let cuts = if index.is_multiple_of(2) { self.cuts } else { 0 };
        let sges = elements(cuts, sge);
        let wr = RecvWr::new(wr_id(connection, index), &sges);
        let posted = match self.srq {
            Some(srq) => host.engine.post_srq_recv(srq, &wr),
            None => host.engine.post_recv(self.qp, &wr),
        };
        posted.map_err(|error| format!("receive {index} was not taken: {error}"))?;
        self.receives_posted += 1;
        // Once there are some, told when they run low.
        if let Some(srq) = self.srq
            && self.receives_posted == 4
        {
            host.engine.modify_srq(srq, 3).map_err(|error| error.to_string())?;
        }
        Ok(true)
    }

    /// A key to the memory it offers for a request of the other side's, and where there; the wrong
    /// one, if that is how the request fails.
    fn key_for(&mut self, request: &Request, index: usize) -> (RKey, usize) {
        let nobodys = RKey(self.offered_mr.rkey.0 ^ 0x4000_0000);
        let there = request.remote;
        match (request.poison, &mut self.windows) {
            (Some(Poison::Invalidated), _) => {
                return (self.taken.last().map_or(nobodys, |(_, rkey)| *rkey), there);
            }
            (Some(Poison::Key), windows) => {
                let wrong = windows.as_ref().filter(|_| request.operand & 24 > 0);
                let wrong = wrong.and_then(|windows| windows.wrong_key(request));
                return wrong.unwrap_or((nobodys, there));
            }
            _ => {}
        }
        let windows = self.windows.as_mut().filter(|_| request.operand & 4 == 4);
        let region = self.invalidatable_mrs.get(self.regions_taken).map(|mr| mr.rkey);
        if request.kind == Kind::SendInv {
            let window = windows.and_then(|windows| windows.key_to_take(request));
            self.regions_taken += usize::from(window.is_none());
            let rkey = window.or(region).unwrap_or(nobodys);
            self.taken.push((index, rkey));
            return (rkey, there);
        }
        let window = windows.and_then(|windows| windows.key_for(request, index));
        // A key that will be taken away is as good as any until then.
        let region = region.filter(|_| request.operand & 1 == 1).unwrap_or(self.offered_mr.rkey);
        (window.unwrap_or(region), there)
    }

    /// The key of its own that a message of the other side's takes away.
    pub(super) fn invalidatable(&self, message: usize) -> Option<RKey> {
        self.taken.iter().find(|(by, _)| *by == message).map(|(_, rkey)| *rkey)
    }

    /// Whether there is nothing left to do for it.
    pub(super) fn is_done(&self) -> bool {
        let all = self.direction.requests().len();
        // Requests that nobody wanted to hear of may have succeeded silently.
        let acknowledged =
            self.direction.posted().len() == all && self.una.packets == self.direction.end();
        let heard = (self.completed..all).all(|at| !self.direction.requests()[at].kind.is_local());
        acknowledged && heard && self.receives_completed == self.receives.len()
    }

    /// Whether everything that was posted has ended.
    pub(super) fn is_accounted(&self) -> bool {
        let silent = |index: usize| {
            !self.direction.requests()[index].signaled
                && self.direction.posted()[index].ends <= self.una.packets
        };
        let posted = self.direction.posted().len();
        (self.completed..posted).all(silent) && self.receives_completed == self.receives_posted
    }

    /// Takes the regions away.
    pub(super) fn deregister(&self, host: &mut Host<'_>) -> Result<(), String> {
        let own = [self.offered_mr, self.results_mr, self.receives_mr];
        if let Some(windows) = &self.windows {
            windows.leave(host)?;
        }
        for mr in own.iter().chain(&self.invalidatable_mrs) {
            host.engine.deregister_mr(mr.rkey).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// All that a peer may do to memory.
pub(super) fn remote_rights() -> Access {
    Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::FLUSH_GLOBAL
}

/// The index of what a bystander posts for a connection.
pub(super) const BYSTANDER: usize = 1 << 24;

/// Names a request or receive of a connection.
pub(super) fn wr_id(connection: usize, index: usize) -> u64 {
    u64::try_from(connection << 32 | index).unwrap_or(u64::MAX)
}

/// What [`wr_id`] has named.
pub(super) fn of_wr_id(wr_id: u64) -> (usize, usize) {
    let number = |bits| usize::try_from(bits).unwrap_or(usize::MAX);
    (number(wr_id >> 32), number(wr_id & 0xffff_ffff))
}

/// The same memory as scatter-gather elements: cut where it says, and where two cuts meet, an
/// element of no bytes whose key is nobody's.
pub(super) fn elements(cuts: u64, whole: Sge) -> Vec<Sge> {
    if cuts == 0 {
        return vec![whole];
    }
    let at = |shift: u32| {
        let bits = u32::try_from(cuts >> shift & 0xffff).unwrap_or(0);
        bits % (whole.len + 1)
    };
    let mut ends = [at(0), at(16), at(32), at(48), whole.len];
    ends.sort_unstable();
    let mut from = 0;
    ends.map(|end| {
        let (va, len) = (whole.va + u64::from(from), end - from);
        from = end;
        Sge { va, len, lkey: if len == 0 { LKey::default() } else { whole.lkey } }
    })
    .to_vec()
}
