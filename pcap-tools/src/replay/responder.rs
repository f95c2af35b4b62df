//! Our responder in place of the captured one, in process: memory, keys, receives and queue pairs as
//! the capture shows them, and requests given to it one by one.

use std::collections::HashMap;
use std::net::IpAddr;

use roce_codec::ib::{
    Msn, NakCode, Opcode, Operation, PKey, Psn, QKey, Qpn, RKey, RnrTimer, Service,
};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Frame, Start};
use roce_engine::{
    Access, Addr, AtomicOp, Config, Cq, DropReason, Engine, HeapStorage, Instant, Limits,
    LinkHeader, ModifyQp, MrAttr, NextHop, Path, Pd, QpInit, RecvWr, RtrAttr, Rx, SeededEntropy,
    Sge, Wc, WcStatus,
};

use super::ReplayError;
use super::fate::{self, Fate};
use super::mapping::{self, Changes};
use super::memory::{BROKEN, Memory};
use super::plan::{ShortReceive, StreamPlan};
use super::region::{Reach, Region, Regions};

/// Streams that one engine serves at most.
pub(super) const MAX_STREAMS: usize = 1 << 16;

/// The region number of the first stream's receives.
const RECEIVES: u32 = 0x8000_0000;

/// Bytes of a receive where nothing says otherwise: the longest message there is.
const LONGEST: u32 = 1 << 31;

/// A frame of our responder's, and room to write it.
const FRAME: usize = 4352;

/// What our responder did with a request.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Whether it carried the request out.
    pub(super) executed: bool,
    /// Whether it had seen the request before.
    pub(super) duplicate: bool,
    /// The PSN that it expects now.
    pub(super) expected: Psn,
    /// Messages completed since the connection began.
    pub(super) msn: Msn,
    /// The completions of receives.
    pub(super) completions: Vec<Wc>,
    /// Whether the payload of a SEND is where it belongs.
    pub(super) placed: Option<bool>,
    /// Whether it was dropped for its ICRC.
    pub(super) bad_icrc: bool,
}

#[derive(Debug, Clone, Copy)]
struct Host {
    pd: Pd,
    region: u32,
    /// Whose memory fails.
    broken: Sge,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    rkey: RKey,
    region: Region,
}

/// One stream's queue pair.
#[derive(Debug, Clone, Copy)]
struct Served {
    qpn: Qpn,
    receive: Sge,
    /// Bytes of the SEND in progress.
    filled: u32,
}

/// An engine with a queue pair for each stream.
pub(super) struct Responder<'s, 'm> {
    engine: Engine<'s>,
    memory: &'m Memory,
    entropy: SeededEntropy,
    cq: Cq,
    hosts: HashMap<IpAddr, Host>,
    served: Vec<Served>,
    regions: Regions,
    live: HashMap<(IpAddr, u32), Live>,
    /// A key that no region has.
    no_key: RKey,
    scratch: Vec<u8>,
}

/// Storage for the streams of a plan.
pub(super) fn storage(plans: &[StreamPlan], regions: &Regions) -> HeapStorage {
    let most = plans.iter().map(|plan| usize::from(plan.resources)).max().unwrap_or(1);
    let hosts = 2 * plans.len();
    HeapStorage::new(&Limits {
        qps: plans.len().max(1),
        // A wish for very many at once is cut for very many queue pairs.
        replays_per_qp: most.clamp(1, (1 << 22) / plans.len().max(1)),
        mrs: plans.len() + hosts + regions.iter().count() + 2,
        cqs: 1,
        cqes: 1024,
        send_wqes: 1,
        recv_wqes: plans.len() + 16,
        sges: plans.len() + 16,
        inlines: 1,
        ahs: 1,
        srqs: 1,
        events: 64,
    })
}

impl<'s, 'm> Responder<'s, 'm> {
    /// A queue pair in RTR for each stream.
    ///
    /// # Errors
    /// [`ReplayError::Engine`]: a stream that no responder can have.
    pub(super) fn new(
        storage: &'s mut HeapStorage,
        memory: &'m Memory,
        plans: &[StreamPlan],
        regions: Regions,
    ) -> Result<Self, ReplayError> {
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let cq = engine.create_cq(1024).ok_or(ReplayError::Engine("no completion queue".into()))?;
        let mut responder = Self {
            engine,
            memory,
            entropy: SeededEntropy::new(0x5eed),
            cq,
            hosts: HashMap::new(),
            served: Vec::with_capacity(plans.len()),
            regions,
            live: HashMap::new(),
            no_key: RKey(0),
            scratch: vec![0; FRAME],
        };
        for plan in plans {
            let host = responder.host(plan.responder)?;
            let served = responder.serve(plan, host)?;
            responder.served.push(served);
        }
        Ok(responder)
    }

    fn host(&mut self, address: IpAddr) -> Result<Host, ReplayError> {
        if let Some(host) = self.hosts.get(&address) {
            return Ok(*host);
        }
        let pd = self.engine.alloc_pd();
        let region = u32::try_from(self.hosts.len()).unwrap_or(0);
        let backing = Addr { region: BROKEN, offset: 0 };
        let access = Access::LOCAL_WRITE;
        let attr = MrAttr { pd, va: 0, len: LONGEST.into(), access, backing };
        let mr = self.engine.register_mr(&attr, &mut self.entropy).map_err(ReplayError::engine)?;
        let broken = Sge { va: 0, len: LONGEST, lkey: mr.lkey };
        let host = Host { pd, region, broken };
        self.hosts.insert(address, host);
        Ok(host)
    }

    fn serve(&mut self, plan: &StreamPlan, host: Host) -> Result<Served, ReplayError> {
        let engine = &mut self.engine;
        let number = u32::try_from(self.served.len()).unwrap_or(0);
        let backing = Addr { region: RECEIVES + number, offset: 0 };
        let access = Access::LOCAL_WRITE;
        let attr = MrAttr { pd: host.pd, va: 0, len: LONGEST.into(), access, backing };
        let mr = engine.register_mr(&attr, &mut self.entropy).map_err(ReplayError::engine)?;
        let init =
            QpInit { max_recv_sge: 2, ..QpInit::new(plan.service, host.pd, self.cq, self.cq) };
        let qpn = engine.create_qp(&init, &mut self.entropy).map_err(ReplayError::engine)?;
        let path = Path {
            src: plan.responder,
            dst: plan.requester,
            next_hop: NextHop(0),
            src_port: 0xc000,
            ..Path::EMPTY
        };
        let resources = if plan.service == Service::Rc {
            plan.resources.min(engine.max_dest_rd_atomic())
        } else {
            0
        };
        let rtr = RtrAttr {
            path,
            path_mtu: plan.mtu,
            dest_qpn: plan.peer.unwrap_or_default(),
            rq_psn: plan.first_psn,
            max_dest_rd_atomic: resources,
            min_rnr_timer: plan.rnr_timer.unwrap_or(RnrTimer::new(12)),
        };
        let changes = match plan.service {
            Service::Ud => [
                ModifyQp::InitUd { pkey: plan.pkey, qkey: plan.qkey.unwrap_or(QKey(0)) },
                ModifyQp::RtrUd,
            ],
            _ => [ModifyQp::Init { pkey: plan.pkey, access: plan.access }, ModifyQp::Rtr(rtr)],
        };
        for change in changes {
            engine.modify_qp(qpn, &change).map_err(ReplayError::engine)?;
        }
        Ok(Served { qpn, receive: Sge { va: 0, len: LONGEST, lkey: mr.lkey }, filled: 0 })
    }

    /// Where our responder keeps the memory of a host.
    pub(super) fn region_of(&self, host: IpAddr) -> u32 {
        self.hosts.get(&host).map_or(0, |host| host.region)
    }

    /// Gives a request to our responder; `out` gets each answer, whole from its IP header on.
    ///
    /// # Errors
    /// [`ReplayError::Engine`].
    pub(super) fn give(
        &mut self,
        stream: usize,
        plan: &StreamPlan,
        frame: &Frame<'_>,
        fate: Fate,
        (at, time_ns): (usize, u64),
        mut out: impl FnMut(&[u8]),
    ) -> Result<Done, ReplayError> {
        let mut changes = self.keys(plan, frame, fate)?;
        changes.dest_qp = Some(self.served[stream].qpn);
        changes.keep_wrong = fate == Fate::Damaged;
        self.post_receive(stream, plan, frame, fate, at)?;
        let mut bytes = std::mem::take(&mut self.scratch);
        mapping::emit(frame, &changes, &mut bytes).map_err(ReplayError::engine)?;
        let qpn = self.served[stream].qpn;
        let before = self.engine.query_qp(qpn).map_err(ReplayError::engine)?;
        let dropped = self.engine.counters().dropped(DropReason::BadIcrc);
        let rx = Rx { segments: [&bytes, &[]], start: Start::Ip, icrc_verified: false };
        let now = Instant(time_ns);
        self.engine.handle_burst(now, &[rx], self.memory);
        let after = self.engine.query_qp(qpn).map_err(ReplayError::engine)?;
        self.drain(now, &mut bytes, &mut out)?;
        self.scratch = bytes;

        let mut done = Done {
            executed: after.expected_psn != before.expected_psn,
            duplicate: frame.psn().is_before(before.expected_psn),
            expected: after.expected_psn,
            msn: after.msn,
            bad_icrc: self.engine.counters().dropped(DropReason::BadIcrc) != dropped,
            ..Done::default()
        };
        while let Some(wc) = self.engine.poll_cq(self.cq) {
            if wc.status == WcStatus::Success {
                done.completions.push(wc);
            }
        }
        while self.engine.poll_event().is_some() {}
        self.follow(stream, plan, frame, &mut done);
        Ok(done)
    }

    /// The keys that a request gets in place of the captured ones.
    fn keys(
        &mut self,
        plan: &StreamPlan,
        frame: &Frame<'_>,
        fate: Fate,
    ) -> Result<Changes, ReplayError> {
        let mut changes = Changes::default();
        let host = plan.responder;
        if let Some(reach) = Reach::of(frame) {
            let rkey = match fate {
                Fate::Executed => self.live_now(host, reach.rkey, reach.va)?.map(|live| live.rkey),
                // The memory behind the key fails.
                Fate::Refused(NakCode::RemoteOperationalError) => Some(self.broken(host, &reach)?),
                // The key is another domain's, or no longer good.
                Fate::Refused(NakCode::RemoteAccessError) => self
                    .live
                    .get(&(host, reach.rkey.0))
                    .filter(|live| !reach.is_within(&live.region))
                    .map(|live| live.rkey),
                _ => self.live.get(&(host, reach.rkey.0)).map(|live| live.rkey),
            };
            changes.rkey = Some(match rkey {
                Some(rkey) => rkey,
                None => self.no_key()?,
            });
        }
        if let Some(ieth) = frame.ieth() {
            let live = match fate {
                Fate::Executed => self.live_now(host, ieth.0, 0)?,
                _ => self.live.get(&(host, ieth.0.0)).copied(),
            };
            changes.invalidate = Some(match live {
                Some(live) => live.rkey,
                None => self.no_key()?,
            });
            if fate == Fate::Executed {
                self.live.remove(&(host, ieth.0.0));
            }
        }
        Ok(changes)
    }

    /// The region that has a key now: registered as the capture shows it, when it is first used.
    fn live_now(&mut self, host: IpAddr, rkey: RKey, va: u64) -> Result<Option<Live>, ReplayError> {
        if let Some(live) = self.live.get(&(host, rkey.0)) {
            return Ok(Some(*live));
        }
        let Some(region) = self.regions.take(host, rkey) else { return Ok(None) };
        let va = if region.len == 0 { va } else { region.va };
        let region = Region { va, len: region.len.max(1), ..region };
        let number = self.region_of(host);
        let live = Live { rkey: self.register(host, &region, number)?, region };
        self.live.insert((host, rkey.0), live);
        Ok(Some(live))
    }

    fn register(
        &mut self,
        host: IpAddr,
        region: &Region,
        number: u32,
    ) -> Result<RKey, ReplayError> {
        let Host { pd, .. } = self.host(host)?;
        let Region { va, len, access } = *region;
        // The last byte of the address space cannot be registered.
        let len = len.min(u64::MAX - va);
        let backing = Addr { region: number, offset: va };
        let attr = MrAttr { pd, va, len, access, backing };
        let mr = self.engine.register_mr(&attr, &mut self.entropy).map_err(ReplayError::engine)?;
        Ok(mr.rkey)
    }

    fn broken(&mut self, host: IpAddr, reach: &Reach) -> Result<RKey, ReplayError> {
        let region = Region { va: reach.va, len: reach.len.into(), access: reach.access };
        self.register(host, &region, BROKEN)
    }

    /// A key that was never given out: one whose region has gone.
    fn no_key(&mut self) -> Result<RKey, ReplayError> {
        if self.no_key == RKey(0)
            && let Some(host) = self.hosts.keys().next().copied()
        {
            let region = Region { va: 0, len: 1, access: Access::NONE };
            self.no_key = self.register(host, &region, BROKEN)?;
            self.engine.deregister_mr(self.no_key).map_err(ReplayError::engine)?;
        }
        Ok(self.no_key)
    }

    /// Posts the receive that a request takes, unless the capture shows that there was none.
    fn post_receive(
        &mut self,
        stream: usize,
        plan: &StreamPlan,
        frame: &Frame<'_>,
        fate: Fate,
        at: usize,
    ) -> Result<(), ReplayError> {
        let served = self.served[stream];
        let takes = fate::takes_receive(frame) && matches!(fate, Fate::Executed | Fate::Refused(_));
        let info = self.engine.query_qp(served.qpn).map_err(ReplayError::engine)?;
        if !takes || info.recv_wrs > 0 {
            return Ok(());
        }
        let whole = [served.receive];
        let mut pieces = [served.receive, self.host(plan.responder)?.broken];
        let sges: &[Sge] = match plan.short_receive {
            Some(ShortReceive { message, len, broken }) if message == at => {
                pieces[0].len = len;
                pieces[1].len = LONGEST - len;
                pieces.get(..if broken { 2 } else { 1 }).unwrap_or_default()
            }
            _ => &whole,
        };
        self.engine.post_recv(served.qpn, &RecvWr::new(0, sges)).map_err(ReplayError::engine)
    }

    /// Takes out everything that our responder answers.
    fn drain(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
        out: &mut impl FnMut(&[u8]),
    ) -> Result<(), ReplayError> {
        let nobody = MacAddr([0; 6]);
        let link = LinkHeader { dst: nobody, src: nobody, vlans: VlanStack::EMPTY };
        while let Some(transmit) = self.engine.poll_transmit(now) {
            bytes.clear();
            bytes.resize(FRAME, 0);
            match transmit.emit::<Crc, _>(&self.engine, &link, self.memory, bytes) {
                Ok(len) => out(bytes.get(14..len).unwrap_or_default()),
                Err(roce_engine::TransmitError::Backing(_)) => {
                    self.engine.transmit_failed(&transmit);
                }
                Err(error) => return Err(ReplayError::engine(error)),
            }
        }
        Ok(())
    }

    /// Looks whether the payload of a SEND has been placed.
    fn follow(&mut self, stream: usize, plan: &StreamPlan, frame: &Frame<'_>, done: &mut Done) {
        let served = &mut self.served[stream];
        let info = frame.info();
        let delivered = match plan.service {
            Service::Rc => done.executed,
            _ => !info.position.ends() || !done.completions.is_empty(),
        };
        if info.operation != Operation::Send || !delivered {
            return;
        }
        if info.position.starts() {
            // A datagram lies behind its IP header.
            served.filled = if plan.service == Service::Ud { 40 } else { 0 };
        }
        let region = RECEIVES + u32::try_from(stream).unwrap_or(0);
        let [payload, _] = frame.payload();
        let mut found = vec![0; payload.len()];
        let read = self.memory.read(Addr { region, offset: served.filled.into() }, &mut found);
        done.placed = Some(read.is_ok() && found == payload);
        served.filled =
            served.filled.saturating_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    }
}

/// What a request does to memory that our responder has no part in.
pub(super) fn atomic_of(frame: &Frame<'_>) -> Option<(u64, AtomicOp)> {
    if frame.opcode() == Opcode::RC_ATOMIC_WRITE {
        let [payload, _] = frame.payload();
        let value = payload.first_chunk().copied().map(u64::from_ne_bytes)?;
        return Some((frame.reth()?.va, AtomicOp::Write(value)));
    }
    let eth = frame.atomic_eth()?;
    let op = match frame.info().operation {
        Operation::CompareSwap => {
            AtomicOp::CompareSwap { compare: eth.compare, swap: eth.swap_add }
        }
        _ => AtomicOp::FetchAdd(eth.swap_add),
    };
    Some((eth.va, op))
}

/// What all memory of a stream's receives is numbered above.
pub(super) fn is_host_memory(region: u32) -> bool {
    region < RECEIVES
}

/// A partition key that matches whatever its peer has.
pub(super) fn full_member(pkey: PKey) -> PKey {
    PKey(pkey.0 | 0x8000)
}
