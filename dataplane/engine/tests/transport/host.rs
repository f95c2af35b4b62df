//! One engine with memory, keys and a queue pair.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use roce_codec::Crc32;
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::icrc::Icrc;
use roce_engine::{
    Access, Addr, AtomicOp, Backing, BackingFault, Config, Cq, Engine, Event, HeapStorage, Limits,
    ModifyQp, Mr, MrAttr, NextHop, Path, Pd, Placement, QpInit, Rate, Recovery, RecvWr, RtrAttr,
    RtsAttr, SeededEntropy, SendWr, Sge, Srq, SrqInit, Wc, WrOpcode,
};

/// Where a host's one region lies, and how long it is.
pub(crate) const VA: u64 = 0x7f00_0000_1000;
pub(crate) const LEN: usize = 512 << 10;

/// The region's bytes; there is nothing outside them.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: RefCell<Vec<u8>>,
    /// From here on, accesses fail, as when the memory behind a region goes away.
    pub(crate) gone: std::cell::Cell<bool>,
    /// What was flushed: from where, how much, and how far.
    pub(crate) flushed: RefCell<Vec<(u64, u64, Placement)>>,
}

impl Memory {
    fn new() -> Self {
        Self {
            bytes: RefCell::new(vec![0; LEN]),
            gone: std::cell::Cell::new(false),
            flushed: RefCell::default(),
        }
    }

    fn range(&self, addr: Addr, len: usize) -> Result<std::ops::Range<usize>, BackingFault> {
        let start = usize::try_from(addr.offset).map_err(|_| BackingFault)?;
        let end = start.checked_add(len).ok_or(BackingFault)?;
        let inside = addr.region == 0 && end <= LEN && !self.gone.get();
        inside.then_some(start..end).ok_or(BackingFault)
    }
}

impl Backing for Memory {
    fn write(&self, addr: Addr, data: [&[u8]; 2]) -> Result<(), BackingFault> {
        let data = data.concat();
        let range = self.range(addr, data.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(&data);
        Ok(())
    }

    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        let range = self.range(addr, out.len())?;
        out.copy_from_slice(&self.bytes.borrow()[range]);
        icrc.update(out);
        Ok(())
    }

    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault> {
        let range = self.range(addr, 8)?;
        let mut bytes = self.bytes.borrow_mut();
        let original = u64::from_ne_bytes(bytes[range.clone()].try_into().unwrap());
        bytes[range].copy_from_slice(&op.apply(original).to_ne_bytes());
        Ok(original)
    }

    fn flush(&self, addr: Addr, len: u64, placement: Placement) -> Result<(), BackingFault> {
        self.range(addr, usize::try_from(len).map_err(|_| BackingFault)?)?;
        self.flushed.borrow_mut().push((addr.offset, len, placement));
        Ok(())
    }
}

/// What a test may want otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) service: Service,
    pub(crate) path_mtu: PathMtu,
    pub(crate) access: Access,
    pub(crate) pkey: PKey,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) rnr_timer: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) window: u32,
    pub(crate) ipv6: bool,
    pub(crate) observe_writes: bool,
    pub(crate) recovery: Recovery,
    /// Packets that can be held behind gaps.
    pub(crate) held: usize,
    pub(crate) read_rate: Rate,
    /// Whether receives come from a shared queue, of eight.
    pub(crate) srq: bool,
}

impl Setup {
    pub(crate) const DEFAULT: Self = Self {
        service: Service::Rc,
        path_mtu: PathMtu::Mtu1024,
        access: Access::ALL,
        pkey: PKey::DEFAULT,
        rq_psn: 100,
        sq_psn: 5000,
        max_dest_rd_atomic: 4,
        max_rd_atomic: 4,
        rnr_timer: 12,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        window: 128,
        ipv6: false,
        observe_writes: false,
        recovery: Recovery::GoBackN,
        held: 16,
        read_rate: Rate::UNLIMITED,
        srq: false,
    };

    pub(crate) fn addresses(&self) -> [IpAddr; 2] {
        if self.ipv6 {
            ["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()]
        } else {
            [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2))]
        }
    }
}

/// An engine, its memory, and one queue pair.
pub(crate) struct Host {
    pub(crate) engine: Engine<'static>,
    pub(crate) memory: Memory,
    pub(crate) entropy: SeededEntropy,
    pub(crate) pd: Pd,
    pub(crate) mr: Mr,
    pub(crate) cq: Cq,
    pub(crate) recv_cq: Cq,
    pub(crate) srq: Option<Srq>,
    pub(crate) qp: Qpn,
}

impl Host {
    pub(crate) fn new(setup: &Setup) -> Self {
        let limits = Limits {
            qps: 4,
            replays_per_qp: 8,
            mrs: 8,
            cqs: 2,
            cqes: 256,
            send_wqes: 256,
            recv_wqes: 256,
            ahs: 4,
            sges: 16,
            inlines: 16,
            srqs: 2,
            events: 64,
        };
        let storage = HeapStorage::new(&limits).with_held(setup.held, PathMtu::Mtu4096);
        let storage = Box::leak(Box::new(storage));
        let config = Config {
            window: setup.window,
            recovery: setup.recovery,
            read_rate: setup.read_rate,
            ..Config::DEFAULT
        };
        let mut engine = Engine::new(config, storage.lend());
        let mut entropy = SeededEntropy::new(1);
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(128).unwrap();
        let recv_cq = engine.create_cq(128).unwrap();
        let attr = MrAttr {
            pd,
            va: VA,
            len: LEN as u64,
            access: Access::ALL,
            backing: Addr { region: 0, offset: 0 },
        };
        let mr = engine.register_mr(&attr, &mut entropy).unwrap();
        let srq_init = SrqInit { pd, max_wr: 8, max_sge: 3 };
        let srq = setup.srq.then(|| engine.create_srq(&srq_init).unwrap());
        let init = QpInit {
            srq,
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 5,
            max_recv_sge: 5,
            max_inline_data: 300,
            observe_writes: setup.observe_writes,
            ..QpInit::new(setup.service, pd, cq, recv_cq)
        };
        let qp = engine.create_qp(&init, &mut entropy).unwrap();
        Self { engine, memory: Memory::new(), entropy, pd, mr, cq, recv_cq, srq, qp }
    }

    pub(crate) fn init(&mut self, setup: &Setup) {
        let change = ModifyQp::Init { pkey: setup.pkey, access: setup.access };
        self.engine.modify_qp(self.qp, &change).unwrap();
    }

    pub(crate) fn rtr(&mut self, setup: &Setup, dest_qpn: Qpn, path: [IpAddr; 2]) {
        let attr = RtrAttr {
            path: Path {
                src: path[0],
                dst: path[1],
                next_hop: NextHop(0),
                src_port: 0xc123,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 64,
            },
            path_mtu: setup.path_mtu,
            dest_qpn,
            rq_psn: Psn::new(setup.rq_psn),
            max_dest_rd_atomic: setup.max_dest_rd_atomic,
            min_rnr_timer: RnrTimer::new(setup.rnr_timer),
        };
        self.engine.modify_qp(self.qp, &ModifyQp::Rtr(attr)).unwrap();
    }

    pub(crate) fn rts(&mut self, setup: &Setup) {
        let attr = RtsAttr {
            sq_psn: Psn::new(setup.sq_psn),
            timeout: setup.timeout,
            retry_cnt: setup.retry_cnt,
            rnr_retry: setup.rnr_retry,
            max_rd_atomic: setup.max_rd_atomic,
        };
        self.engine.modify_qp(self.qp, &ModifyQp::Rts(attr)).unwrap();
    }

    /// Registers the first `len` bytes of the region a second time.
    pub(crate) fn register(&mut self, len: u64, access: Access) -> Mr {
        let backing = Addr { region: 0, offset: 0 };
        let attr = MrAttr { pd: self.pd, va: VA, len, access, backing };
        self.engine.register_mr(&attr, &mut self.entropy).unwrap()
    }

    pub(crate) fn put(&self, offset: usize, bytes: &[u8]) {
        self.memory.bytes.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        self.memory.bytes.borrow()[offset..offset + len].to_vec()
    }

    pub(crate) fn all_bytes(&self) -> Vec<u8> {
        self.memory.bytes.borrow().clone()
    }

    pub(crate) fn word(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset, 8).try_into().unwrap())
    }

    pub(crate) fn sge(&self, offset: usize, len: u32) -> Sge {
        Sge { va: VA + offset as u64, len, lkey: self.mr.lkey }
    }

    pub(crate) fn post(&mut self, wr_id: u64, opcode: WrOpcode, sge: Sge) {
        let sges = [sge];
        let wr = SendWr::new(wr_id, opcode, &sges);
        self.engine.post_send(self.qp, &wr).unwrap();
    }

    /// Pieces of the region that lie apart: bytes `offset..offset + len` each.
    pub(crate) fn sges(&self, pieces: &[(usize, u32)]) -> Vec<Sge> {
        pieces.iter().map(|(offset, len)| self.sge(*offset, *len)).collect()
    }

    pub(crate) fn post_recv(&mut self, wr_id: u64, offset: usize, len: u32) {
        let sges = [self.sge(offset, len)];
        let wr = RecvWr::new(wr_id, &sges);
        self.engine.post_recv(self.qp, &wr).unwrap();
    }

    pub(crate) fn sent(&mut self) -> Vec<Wc> {
        std::iter::from_fn(|| self.engine.poll_cq(self.cq)).collect()
    }

    pub(crate) fn received(&mut self) -> Vec<Wc> {
        std::iter::from_fn(|| self.engine.poll_cq(self.recv_cq)).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.engine.poll_event()).collect()
    }

    /// Every received packet was acted on or dropped for one reason.
    pub(crate) fn check_counters(&self) {
        let counters = self.engine.counters();
        assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
    }
}
