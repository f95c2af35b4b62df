//! An honest peer of the responder under siege: it writes, reads, sends and adds, and everything
//! must come out right, at once and without a retransmission.

use std::net::Ipv4Addr;

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RKey, RnrTimer};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, HwCounter, ModifyQp, Mr, MrAttr, NextHop, Path,
    QpInit, RecvWr, RtrAttr, RtsAttr, SendWr, Sge, Storage, WcStatus, WrOpcode,
};

use super::target::Target;
use crate::random::Random;

/// Bytes of its memory on either side.
const LEN: usize = 64 << 10;
/// Where things lie in it: what is sent, what comes back, an atomic's result, a counter.
const SOURCE: usize = 0;
const RETURNED: usize = 16 << 10;
const RESULT: usize = 48 << 10;
const WRITTEN: usize = 0;
const RECEIVED: usize = 16 << 10;
const COUNTER: usize = 48 << 10;
/// The most that one message carries.
const MOST: usize = 12 << 10;

/// One side's memory.
#[derive(Debug)]
struct Share {
    region: u32,
    va: u64,
    mr: Mr,
}

/// An honest peer, and its queue pair at the responder.
#[derive(Debug)]
pub struct Honest<'s> {
    /// Its engine.
    pub engine: Engine<'s>,
    /// Its memory.
    pub memory: HostMemory,
    own: Share,
    remote: Share,
    qp: Qpn,
    remote_qp: Qpn,
    cq: Cq,
    remote_cq: Cq,
    random: Random,
    /// Rounds that are complete.
    pub rounds: u64,
    /// Where and how long this round's message is.
    at: usize,
    len: usize,
    outstanding: usize,
}

impl<'s> Honest<'s> {
    /// A peer that is connected to the responder.
    ///
    /// # Panics
    /// If the system has no memory or the storage no slots.
    #[must_use]
    pub fn new(storage: Storage<'s>, target: &mut Target<'_>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut engine = Engine::new(Config::DEFAULT, storage);
        let mut memory = HostMemory::new();
        let (own, qp, cq) = {
            let pd = engine.alloc_pd();
            let share = share(&mut engine, &mut memory, pd, &mut random);
            let (qp, cq) = queue_pair(&mut engine, pd, &mut random);
            (share, qp, cq)
        };
        let (remote, remote_qp, remote_cq) = {
            let pd = target.engine.alloc_pd();
            let share = share(&mut target.engine, &mut target.memory, pd, &mut target.random);
            let (qp, cq) = queue_pair(&mut target.engine, pd, &mut target.random);
            (share, qp, cq)
        };
        let own_address = Ipv4Addr::new(198, 51, 100, 2);
        let psns = [Psn::new(0x00ff_ff00), Psn::new(77)];
        connect(&mut engine, qp, [own_address, target.address], remote_qp, psns);
        let psns = [psns[1], psns[0]];
        connect(&mut target.engine, remote_qp, [target.address, own_address], qp, psns);
        let mut honest = Self {
            engine,
            memory,
            own,
            remote,
            qp,
            remote_qp,
            cq,
            remote_cq,
            random,
            rounds: 0,
            at: 0,
            len: 0,
            outstanding: 0,
        };
        honest.begin_round(target);
        honest
    }

    /// Takes completions; when a round is complete, checks it and begins the next.
    ///
    /// # Errors
    /// What did not come out right.
    pub fn advance(&mut self, target: &mut Target<'_>) -> Result<(), String> {
        let own = std::iter::from_fn(|| self.engine.poll_cq(self.cq));
        let remote = std::iter::from_fn(|| target.engine.poll_cq(self.remote_cq));
        for wc in own.chain(remote) {
            if wc.status != WcStatus::Success {
                return Err(format!("the honest peer: {wc:?}"));
            }
            self.outstanding = self.outstanding.saturating_sub(1);
        }
        if self.outstanding > 0 {
            return Ok(());
        }
        self.check_round(target)?;
        self.rounds += 1;
        self.begin_round(target);
        Ok(())
    }

    fn begin_round(&mut self, target: &mut Target<'_>) {
        self.len = match self.random.below(4) {
            0 => self.random.index(64),
            1 => self.random.index(MOST),
            _ => self.random.index(2048),
        };
        self.at = self.random.index(MOST - self.len + 1);
        let mut bytes = vec![0; self.len];
        self.random.fill(&mut bytes);
        put(&self.memory, &self.own, SOURCE + self.at, &bytes);
        let len = u32::try_from(self.len).unwrap_or(0);
        let (own_va, remote_va) = (self.own.va, self.remote.va);
        let at = |base: u64, offset: usize| base + u64::try_from(offset).unwrap_or(0);
        let source = self.sge(SOURCE + self.at, len);
        let returned = self.sge(RETURNED + self.at, len);
        let result = self.sge(RESULT, 8);
        let rkey = self.remote.mr.rkey;
        let written = at(remote_va, WRITTEN + self.at);
        let received = at(remote_va, RECEIVED + self.at);
        let sge = Sge { va: received, len, lkey: self.remote.mr.lkey };
        for wr_id in 0..2 {
            target
                .engine
                .post_recv(self.remote_qp, &RecvWr::new(wr_id, &[sge]))
                .expect("room for two receives");
        }
        let counter = at(remote_va, COUNTER);
        let requests = [
            (WrOpcode::RdmaWrite { va: written, rkey }, source),
            (WrOpcode::RdmaRead { va: written, rkey }, returned),
            (WrOpcode::SendWithImm(7), source),
            (WrOpcode::FetchAdd { va: counter, rkey, add: 1 }, result),
            (WrOpcode::RdmaWriteWithImm { va: written, rkey, imm: 8 }, source),
        ];
        for (opcode, sge) in requests {
            let sges = [sge];
            let wr = SendWr::new(0, opcode, &sges);
            self.engine.post_send(self.qp, &wr).expect("room for a round");
        }
        // The responder asks, too.
        let sge = Sge { va: at(remote_va, COUNTER + 64), len: 8, lkey: self.remote.mr.lkey };
        let opcode =
            WrOpcode::FetchAdd { va: at(own_va, COUNTER + 64), rkey: self.own.mr.rkey, add: 1 };
        let sges = [sge];
        let wr = SendWr::new(0, opcode, &sges);
        target.engine.post_send(self.remote_qp, &wr).expect("room for a round");
        self.outstanding = 8;
    }

    fn check_round(&self, target: &Target<'_>) -> Result<(), String> {
        let sent = get(&self.memory, &self.own, SOURCE + self.at, self.len);
        let wrong = |what: &str| Err(format!("the honest peer's round {}: {what}", self.rounds));
        if get(&target.memory, &self.remote, WRITTEN + self.at, self.len) != sent {
            return wrong("the WRITE is not in memory");
        }
        if get(&self.memory, &self.own, RETURNED + self.at, self.len) != sent {
            return wrong("the READ returned something else");
        }
        if get(&target.memory, &self.remote, RECEIVED + self.at, self.len) != sent {
            return wrong("the SEND is not in its receive");
        }
        let word = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        if word(get(&self.memory, &self.own, RESULT, 8)) != self.rounds
            || word(get(&target.memory, &self.remote, COUNTER, 8)) != self.rounds + 1
            || word(get(&self.memory, &self.own, COUNTER + 64, 8)) != self.rounds + 1
        {
            return wrong("the counter is wrong");
        }
        if self.engine.counters().event(HwCounter::Retransmissions) > 0 {
            return wrong("something had to be sent again");
        }
        if self.engine.counters().dropped_total() > 0 {
            return wrong("something was dropped");
        }
        Ok(())
    }

    fn sge(&self, offset: usize, len: u32) -> Sge {
        let va = self.own.va + u64::try_from(offset).unwrap_or(0);
        Sge { va, len, lkey: self.own.mr.lkey }
    }
}

fn share(
    engine: &mut Engine<'_>,
    memory: &mut HostMemory,
    pd: roce_engine::Pd,
    random: &mut Random,
) -> Share {
    let region = memory.map(LEN).expect("memory");
    let va = memory.va(region).expect("a region");
    let len = u64::try_from(LEN).unwrap_or(0);
    let attr = MrAttr { pd, va, len, access: Access::ALL, backing: Addr { region, offset: 0 } };
    Share { region, va, mr: engine.register_mr(&attr, random).expect("a region slot") }
}

fn queue_pair(engine: &mut Engine<'_>, pd: roce_engine::Pd, random: &mut Random) -> (Qpn, Cq) {
    let cq = engine.create_cq(64).expect("a completion queue");
    let init = QpInit {
        max_send_wr: 8,
        max_recv_wr: 8,
        ..QpInit::new(roce_codec::ib::Service::Rc, pd, cq, cq)
    };
    (engine.create_qp(&init, random).expect("a queue pair slot"), cq)
}

fn connect(
    engine: &mut Engine<'_>,
    qp: Qpn,
    [src, dst]: [Ipv4Addr; 2],
    dest_qpn: Qpn,
    [sq_psn, rq_psn]: [Psn; 2],
) {
    let path = Path {
        src: src.into(),
        dst: dst.into(),
        next_hop: NextHop(0),
        src_port: 0xc000,
        ..Path::EMPTY
    };
    let rtr = RtrAttr {
        path,
        path_mtu: PathMtu::Mtu1024,
        dest_qpn,
        rq_psn,
        max_dest_rd_atomic: 4,
        min_rnr_timer: RnrTimer::new(12),
    };
    let rts = RtsAttr { sq_psn, timeout: 18, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 4 };
    let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
    for change in [init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
        engine.modify_qp(qp, &change).expect("a legal change");
    }
}

fn put(memory: &HostMemory, share: &Share, offset: usize, bytes: &[u8]) {
    let addr = Addr { region: share.region, offset: u64::try_from(offset).unwrap_or(0) };
    memory.write(addr, [bytes, &[]]).expect("inside the region");
}

fn get(memory: &HostMemory, share: &Share, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let addr = Addr { region: share.region, offset: u64::try_from(offset).unwrap_or(0) };
    memory.read(addr, &mut bytes).expect("inside the region");
    bytes
}

/// Keys that the hostile client may guess at: the honest peer's, at the responder.
impl Honest<'_> {
    /// The R_Key and address of the honest peer's memory at the responder, and its queue pair.
    #[must_use]
    pub fn prey(&self) -> (RKey, u64, Qpn) {
        (self.remote.mr.rkey, self.remote.va, self.remote_qp)
    }
}
