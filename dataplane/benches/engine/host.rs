//! The engine under test, its memory, and the ring its answers are written to.

use std::cell::Cell;

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_codec::icrc::Icrc;
use roce_codec::net::VlanStack;
use roce_codec::{Crc, Crc32, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::port::{BURST, MAX_FRAME};
use roce_engine::{
    Access, Addr, AtomicOp, Backing, BackingFault, Config, Cq, Engine, Instant, LinkHeader,
    ModifyQp, Mr, MrAttr, NextHop, Path, Pd, QpInit, RtrAttr, RtsAttr, Rx, SeededEntropy, Storage,
};

use crate::frames::{OUR_MAC, OURS, PEER_MAC, PEER_QPN, PEERS};

/// The virtual address of the region's first byte.
pub(crate) const VA: u64 = 0x10_0000_0000;
/// READs and atomics that a queue pair keeps, as `ib_read_bw` asks for.
pub(crate) const DEPTH: usize = 16;

const LINK: LinkHeader = LinkHeader { dst: PEER_MAC, src: OUR_MAC, vlans: VlanStack::EMPTY };

/// Memory of which a pass sees a window, another one each time: frames made once then touch memory
/// that no cache holds.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) memory: HostMemory,
    pub(crate) base: Cell<u64>,
}

impl Window {
    /// `len` bytes that are there, not only promised.
    pub(crate) fn new(len: usize) -> Self {
        let mut memory = HostMemory::new();
        assert_eq!(memory.map(len).expect("there is memory"), 0);
        for offset in (0..len).step_by(4096) {
            let addr = Addr { region: 0, offset: u64::try_from(offset).expect("an offset") };
            memory.write(addr, [&[1], &[]]).expect("inside");
        }
        Self { memory, base: Cell::new(0) }
    }

    fn at(&self, addr: Addr) -> Addr {
        Addr { offset: addr.offset + self.base.get(), ..addr }
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, addr: Addr, out: &mut [u8]) {
        self.memory.read(self.at(addr), out).expect("inside");
    }
}

impl Backing for Window {
    fn write(&self, addr: Addr, data: [&[u8]; 2]) -> Result<(), BackingFault> {
        self.memory.write(self.at(addr), data)
    }

    fn read_crc<C: Crc32>(
        &self,
        addr: Addr,
        out: &mut [u8],
        icrc: &mut Icrc<C>,
    ) -> Result<(), BackingFault> {
        self.memory.read_crc(self.at(addr), out, icrc)
    }

    fn atomic(&self, addr: Addr, op: AtomicOp) -> Result<u64, BackingFault> {
        self.memory.atomic(self.at(addr), op)
    }
}

/// Transmit slots of a burst, written one after the other.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<u8>,
    next: usize,
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; BURST * MAX_FRAME], next: 0 }
    }

    pub(crate) fn slot(&mut self) -> &mut [u8] {
        let at = self.next * MAX_FRAME;
        self.next = (self.next + 1) % BURST;
        &mut self.slots[at..at + MAX_FRAME]
    }
}

pub(crate) struct Host<'s> {
    pub(crate) engine: Engine<'s>,
    pub(crate) cq: Cq,
    pub(crate) mr: Mr,
    pub(crate) random: SeededEntropy,
    ring: Ring,
    pd: Pd,
    now: Instant,
}

impl<'s> Host<'s> {
    /// An engine with one region of `len` bytes.
    pub(crate) fn new(storage: Storage<'s>, len: u64) -> Self {
        let mut engine = Engine::new(Config::DEFAULT, storage);
        let mut random = SeededEntropy::new(1);
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(4096).expect("a completion queue");
        let backing = Addr { region: 0, offset: 0 };
        let attr = MrAttr { pd, va: VA, len, access: Access::ALL, backing };
        let mr = engine.register_mr(&attr, &mut random).expect("a region");
        Self { engine, cq, mr, random, ring: Ring::new(), pd, now: Instant::ZERO }
    }

    pub(crate) fn create_qp(&mut self) -> Qpn {
        let init = QpInit {
            max_send_wr: 1024,
            max_recv_wr: 1024,
            ..QpInit::new(Service::Rc, self.pd, self.cq, self.cq)
        };
        self.engine.create_qp(&init, &mut self.random).expect("a queue pair")
    }

    /// To RTS with both PSNs 0, from wherever it is.
    pub(crate) fn connect(&mut self, qpn: Qpn, path_mtu: PathMtu) {
        let path = Path {
            src: OURS,
            dst: PEERS,
            next_hop: NextHop(0),
            src_port: 0xc000,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
        };
        let replays = self.engine.max_dest_rd_atomic();
        for change in [
            ModifyQp::Reset,
            ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu,
                dest_qpn: PEER_QPN,
                rq_psn: Psn::new(0),
                max_dest_rd_atomic: replays,
                min_rnr_timer: RnrTimer::new(1),
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn: Psn::new(0),
                timeout: 14,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: replays,
            }),
        ] {
            self.engine.modify_qp(qpn, &change).expect("a legal change");
        }
    }

    /// A poll loop's turn without the wire: takes a burst, writes the answers; says how many.
    #[inline]
    pub(crate) fn turn<B: Backing>(&mut self, burst: &[Vec<u8>], backing: &B) -> usize {
        // Turns are this far apart at the rates measured here.
        self.now = self.now.add_ns(4000);
        let mut frames = heapless::Vec::<_, BURST>::new();
        frames.extend(burst.iter().map(|frame| Rx {
            segments: [frame, &[]],
            start: Start::Ethernet,
            icrc_verified: false,
        }));
        self.engine.handle_burst(self.now, &frames, backing);
        let _ = self.engine.handle_timeout(self.now);
        self.transmit(backing)
    }

    /// Writes what there is to send; says how many frames.
    pub(crate) fn transmit<B: Backing>(&mut self, backing: &B) -> usize {
        let mut sent = 0;
        loop {
            let transmit = self.engine.poll_transmit(self.now);
            let Some(transmit) = &transmit else { break };
            let len = transmit.emit::<Crc, B>(&self.engine, &LINK, backing, self.ring.slot());
            len.expect("there is room");
            sent += 1;
        }
        sent
    }
}
