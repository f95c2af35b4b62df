//! The responder under siege: its engine, its regions, and its queue pairs.

use std::net::Ipv4Addr;

use roce_codec::ib::{LKey, PKey, PathMtu, Psn, Qpn, RKey, RnrTimer, Service};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, Instant, ModifyQp, MrAttr, NextHop, Path, Pd,
    QpInit, QpState, Recovery, RecvWr, RtrAttr, RtsAttr, Sge, Storage,
};

use crate::random::Random;

/// What no peer may read, and nobody may change.
pub const SECRET: [u8; 8] = [0xc5, 0xe1, 0xd7, 0xfb, 0x93, 0xa8, 0xbe, 0xf0];

/// Bytes of a region, of which the peer is given the middle.
const REGION: usize = 3 * 4096;
const GIVEN: usize = 4096;
const GIVEN_AT: usize = 4096 + 8;
const GIVEN_OFFSET: u64 = 4096 + 8;

/// Path MTU of the hostile queue pairs.
pub const MTU: PathMtu = PathMtu::Mtu512;
/// READs and atomics that each keeps.
pub const KEPT: u8 = 4;

/// A region of which a part is registered; the rest is secret.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    /// The region.
    pub region: u32,
    /// The address of the part that is given.
    pub va: u64,
    /// Its keys.
    pub rkey: RKey,
    /// Its keys.
    pub lkey: LKey,
    /// What may be done with it.
    pub access: Access,
}

impl Area {
    /// Bytes that are given.
    pub const LEN: u32 = 4096;
}

/// The regions of the hostile client's protection domain, and two that are not for it.
#[derive(Debug, Clone, Copy)]
pub struct Areas {
    /// Everything is allowed.
    pub all: Area,
    /// READ only.
    pub read: Area,
    /// WRITE only: what is in it is secret.
    pub write: Area,
    /// Atomics only: what is in it is secret but by eights.
    pub atomic: Area,
    /// For receives and READ answers.
    pub local: Area,
    /// Another protection domain.
    pub foreign: Area,
    /// Deregistered.
    pub dead: Area,
}

impl Areas {
    /// All of them.
    #[must_use]
    pub const fn each(&self) -> [Area; 7] {
        [self.all, self.read, self.write, self.atomic, self.local, self.foreign, self.dead]
    }
}

/// The responder.
#[derive(Debug)]
pub struct Target<'s> {
    /// Its engine.
    pub engine: Engine<'s>,
    /// Its memory.
    pub memory: HostMemory,
    /// Its choices.
    pub random: Random,
    /// Its address.
    pub address: Ipv4Addr,
    /// The hostile client's protection domain.
    pub pd: Pd,
    /// The completions of hostile queue pairs.
    pub cq: Cq,
    /// The hostile client's regions.
    pub areas: Areas,
}

impl<'s> Target<'s> {
    /// A responder with regions and without queue pairs.
    ///
    /// # Panics
    /// If the system has no memory, or the storage no slots: nothing a peer does.
    #[must_use]
    pub fn new(storage: Storage<'s>, seed: u64, recovery: Recovery) -> Self {
        let mut random = Random::new(seed);
        let config = Config { window: 8, recovery, ..Config::DEFAULT };
        let mut engine = Engine::new(config, storage);
        let mut memory = HostMemory::new();
        let pd = engine.alloc_pd();
        let other = engine.alloc_pd();
        let cq = engine.create_cq(4096).expect("a completion queue");
        let mut area = |pd, access| {
            let region = memory.map(REGION).expect("memory");
            fill(&memory, region, 0, &SECRET.repeat(REGION / 8));
            let va = memory.va(region).expect("a region") + GIVEN_OFFSET;
            let len = u64::from(Area::LEN);
            let backing = Addr { region, offset: GIVEN_OFFSET };
            let attr = MrAttr { pd, va, len, access, backing };
            let mr = engine.register_mr(&attr, &mut random).expect("a region slot");
            if access.contains(Access::REMOTE_READ) {
                fill(&memory, region, GIVEN_OFFSET, &[0; GIVEN]);
            }
            Area { region, va, rkey: mr.rkey, lkey: mr.lkey, access }
        };
        let areas = Areas {
            all: area(pd, Access::ALL),
            read: area(pd, Access::REMOTE_READ),
            write: area(pd, Access::REMOTE_WRITE | Access::LOCAL_WRITE),
            atomic: area(pd, Access::REMOTE_ATOMIC | Access::LOCAL_WRITE),
            local: area(pd, Access::LOCAL_WRITE),
            foreign: area(other, Access::ALL),
            dead: area(pd, Access::ALL),
        };
        // What is not for the hostile client is secret even where somebody else may read it.
        fill(&memory, areas.foreign.region, 0, &SECRET.repeat(REGION / 8));
        fill(&memory, areas.dead.region, 0, &SECRET.repeat(REGION / 8));
        engine.deregister_mr(areas.dead.rkey).expect("a region");
        let address = Ipv4Addr::new(198, 51, 100, 1);
        Self { engine, memory, random, address, pd, cq, areas }
    }

    /// A queue pair of this service, in Reset.
    ///
    /// # Panics
    /// If there is no slot left.
    pub fn create_qp(&mut self, service: Service) -> Qpn {
        let init = QpInit {
            max_send_wr: 16,
            max_recv_wr: 16,
            observe_writes: true,
            ..QpInit::new(service, self.pd, self.cq, self.cq)
        };
        self.engine.create_qp(&init, &mut self.random).expect("a queue pair slot")
    }

    /// Connects a queue pair, from whatever state it is in, as far as `state`. Returns the PSNs
    /// that it expects and that it sends.
    ///
    /// # Panics
    /// If the engine refuses: nothing a peer does.
    pub fn connect(&mut self, qp: Qpn, peer: Ipv4Addr, access: Access, state: QpState) -> [Psn; 2] {
        let psns = [(); 2].map(|()| Psn::new(self.random.below_u32(1 << 24)));
        let rtr = RtrAttr {
            path: Path {
                src: self.address.into(),
                dst: peer.into(),
                next_hop: NextHop(1),
                src_port: 0xc001,
                ..Path::EMPTY
            },
            path_mtu: MTU,
            dest_qpn: Qpn::new(0x66_6666),
            rq_psn: psns[0],
            max_dest_rd_atomic: KEPT,
            min_rnr_timer: RnrTimer::new(1),
        };
        let rts = RtsAttr {
            sq_psn: psns[1],
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: KEPT,
        };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access };
        let changes = [ModifyQp::Reset, init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)];
        let far = match state {
            QpState::Init => 2,
            QpState::Rtr => 3,
            _ => 4,
        };
        for change in &changes[..far] {
            self.engine.modify_qp(qp, change).expect("a legal change");
        }
        psns
    }

    /// Posts a receive of the hostile client's, in the area for these or in one that is dead.
    pub fn post_receive(&mut self, qp: Qpn, len: u32, dead: bool) {
        let mut sge = Sge { va: self.areas.local.va, len, lkey: self.areas.local.lkey };
        if !dead {
            let _ = self.engine.post_recv(qp, &RecvWr::new(0, &[sge]));
            return;
        }
        let area = self.areas.dead;
        let backing = Addr { region: area.region, offset: GIVEN_OFFSET };
        let len = u64::from(Area::LEN);
        let access = Access::LOCAL_WRITE;
        let attr = MrAttr { pd: self.pd, va: area.va, len, access, backing };
        if let Ok(mr) = self.engine.register_mr(&attr, &mut self.random) {
            sge.va = area.va;
            sge.lkey = mr.lkey;
            let _ = self.engine.post_recv(qp, &RecvWr::new(0, &[sge]));
            let _ = self.engine.deregister_mr(mr.rkey);
        }
    }

    /// Registers the read area a second time, with a right more, for keys that are about to die.
    ///
    /// # Panics
    /// If there is no slot left.
    pub fn lend_read_area(&mut self, more: Access) -> RKey {
        let area = self.areas.read;
        let backing = Addr { region: area.region, offset: GIVEN_OFFSET };
        let len = u64::from(Area::LEN);
        let access = area.access | more;
        let attr = MrAttr { pd: self.pd, va: area.va, len, access, backing };
        self.engine.register_mr(&attr, &mut self.random).expect("a region slot").rkey
    }

    /// What a queue pair is doing.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn query(&self, qp: Qpn) -> roce_engine::QpInfo {
        self.engine.query_qp(qp).expect("a queue pair of ours")
    }

    /// Holds everything that nobody was given to what it was at the start.
    ///
    /// # Errors
    /// Where it was touched.
    pub fn check_secrets(&self) -> Result<(), String> {
        for area in self.areas.each() {
            let mut bytes = vec![0; REGION];
            let whole = Addr { region: area.region, offset: 0 };
            self.memory.read(whole, &mut bytes).map_err(|_| "a region is gone")?;
            let given = GIVEN_AT..GIVEN_AT + GIVEN;
            let writable = area.access.contains(Access::REMOTE_WRITE)
                || area.access.contains(Access::REMOTE_ATOMIC)
                || area.access == Access::LOCAL_WRITE;
            let owned = area.rkey != self.areas.foreign.rkey && area.rkey != self.areas.dead.rkey;
            for (at, (is, must)) in bytes.iter().zip(SECRET.iter().cycle()).enumerate() {
                let inside = given.contains(&at);
                let must = if inside && area.access == Access::REMOTE_READ { 0 } else { *must };
                if *is != must && !(inside && writable && owned) {
                    return Err(format!("{area:?}: byte {at} was written"));
                }
            }
        }
        Ok(())
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.engine.handle_timeout(now) == roce_engine::More::Yes {}
    }
}

fn fill(memory: &HostMemory, region: u32, offset: u64, bytes: &[u8]) {
    memory.write(Addr { region, offset }, [bytes, &[]]).expect("inside the region");
}
