//! Two engines and their poll loops: every kind of work, over a wire that loses one frame in 50.

use std::net::{IpAddr, Ipv4Addr};

use dpu_app::self_test::{self, End, Host, MEMORY, Pools, Report};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer, Service};
use roce_dataplane::host_memory::HostMemory;
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::loopback::{LoopbackPort, LoopbackWire};
use roce_engine::{
    Access, Addr, Config, Cq, Engine, Entropy, HeapStorage, Instant, Limits, ModifyQp, Mr, MrAttr,
    NextHop, Path, Placement, QpInit, RecvWr, RtrAttr, RtsAttr, SeededEntropy, Selectivity, SendWr,
    Sge, WcStatus, WrOpcode,
};

use crate::MACS;
use crate::counting::watch;
use crate::lossy::Lossy;

const OPERATIONS: u64 = 20_000;
const LEN: u32 = 64 << 10;
const ONE_IN: u32 = 50;
/// Operations under way, and receives posted.
const DEPTH: u64 = 16;

struct Side<'s> {
    engine: Engine<'s>,
    memory: HostMemory,
    port: Lossy<LoopbackPort<'s, 64>>,
    hop: OneNeighbour,
    cq: Cq,
    mr: Mr,
    va: u64,
    qpn: Qpn,
}

impl<'s> Side<'s> {
    fn new(storage: &'s mut HeapStorage, port: LoopbackPort<'s, 64>, end: usize) -> Self {
        let mut random = SeededEntropy::new(u64::try_from(end).unwrap());
        let mut engine = Engine::new(Config::DEFAULT, storage.lend());
        let mut memory = HostMemory::new();
        let region = memory.map(usize::try_from(LEN).unwrap()).unwrap();
        let va = memory.va(region).unwrap();
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(256).unwrap();
        let backing = Addr { region, offset: 0 };
        let access = Access::ALL;
        let attr = MrAttr { pd, va, len: u64::from(LEN), access, backing };
        let mr = engine.register_mr(&attr, &mut random).unwrap();
        let init = QpInit {
            max_inline_data: 128,
            max_send_sge: 3,
            ..QpInit::new(Service::Rc, pd, cq, cq)
        };
        let qpn = engine.create_qp(&init, &mut random).unwrap();
        let port = Lossy::new(port, ONE_IN);
        Self { engine, memory, port, hop: OneNeighbour(MACS[1 - end]), cq, mr, va, qpn }
    }

    fn connect(&mut self, peer: Qpn, end: u8) {
        let address = |end| IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1 + end));
        let path = Path {
            src: address(end),
            dst: address(1 - end),
            next_hop: NextHop(0),
            src_port: 0xc000,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
        };
        let max_rd_atomic = 4;
        for change in [
            ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu: PathMtu::Mtu1024,
                dest_qpn: peer,
                rq_psn: Psn::new(0),
                max_dest_rd_atomic: max_rd_atomic,
                min_rnr_timer: RnrTimer::new(1),
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn: Psn::new(0),
                timeout: 8,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic,
            }),
        ] {
            self.engine.modify_qp(self.qpn, &change).unwrap();
        }
    }

    fn sge(&self, offset: u32, len: u32) -> Sge {
        Sge { va: self.va + u64::from(offset), len, lkey: self.mr.lkey }
    }

    fn post_receive(&mut self) {
        let sges = [self.sge(0, 8192)];
        self.engine.post_recv(self.qpn, &RecvWr::new(0, &sges)).unwrap();
    }

    /// The operation with this number, of a kind and length that it decides.
    fn post(&mut self, number: u64, peer: &Self, random: &mut SeededEntropy) {
        let (va, rkey) = (peer.va + 16_384, peer.mr.rkey);
        let len = random.next_u32() % 5000;
        let all = [self.sge(32_768, len), self.sge(40_960, 100), self.sge(49_152, 3)];
        let (eight, none) = ([self.sge(57_344, 8)], []);
        let short = [7; 100];
        let add = number;
        let wr = match number % 9 {
            0 => SendWr::new(number, WrOpcode::RdmaWrite { va, rkey }, &all),
            1 => SendWr::new(number, WrOpcode::RdmaRead { va, rkey }, &all),
            2 => SendWr::new(number, WrOpcode::Send, &all),
            3 => SendWr::new(number, WrOpcode::FetchAdd { va, rkey, add }, &eight),
            4 => SendWr::new(number, WrOpcode::AtomicWrite { va, rkey }, &eight),
            5 => {
                let selectivity = Selectivity::Range { va, len: 8 };
                let placement = Placement::GLOBAL_VISIBILITY;
                SendWr::new(number, WrOpcode::Flush { rkey, selectivity, placement }, &none)
            }
            6 => SendWr::new(number, WrOpcode::RdmaWriteWithImm { va, rkey, imm: 5 }, &all[..1]),
            7 => SendWr::new(number, WrOpcode::SendWithImm(6), &none).inline(&short).fenced(),
            _ => {
                let swap = number;
                SendWr::new(number, WrOpcode::CompareSwap { va, rkey, compare: 0, swap }, &eight)
            }
        };
        self.engine.post_send(self.qpn, &wr).unwrap();
    }

    fn turn(&mut self, now: Instant) {
        let _ = turn(&mut self.engine, &mut self.port, &self.memory, &self.hop, now);
    }
}

#[test]
fn engine_and_poll_loop() {
    let mut wire = Box::new(LoopbackWire::<64>::new());
    let limits = Limits { qps: 2, ..Limits::SMALL };
    let mut storage = [HeapStorage::new(&limits), HeapStorage::new(&limits)];
    let [near, far] = &mut storage;
    let [left, right] = wire.ends(MACS);
    let (mut here, mut there) = (Side::new(near, left, 0), Side::new(far, right, 1));
    here.connect(there.qpn, 0);
    there.connect(here.qpn, 1);

    let mut random = SeededEntropy::new(9);
    let (mut posted, mut done, mut now) = (0, 0, Instant::ZERO);
    let ((), asked) = watch(|| {
        for _ in 0..DEPTH {
            there.post_receive();
        }
        while done < OPERATIONS {
            if posted < OPERATIONS && posted - done < DEPTH {
                here.post(posted, &there, &mut random);
                posted += 1;
            }
            now = now.add_ns(2000);
            here.turn(now);
            there.turn(now);
            while let Some(wc) = here.engine.poll_cq(here.cq) {
                assert_eq!((wc.wr_id, wc.status), (done, WcStatus::Success));
                done += 1;
            }
            while let Some(wc) = there.engine.poll_cq(there.cq) {
                assert_eq!(wc.status, WcStatus::Success);
                there.post_receive();
            }
            while let Some(event) = there.engine.poll_event().or(here.engine.poll_event()) {
                core::hint::black_box(event);
            }
            assert!(now < Instant(600_000_000_000), "{done} of {posted} are done");
        }
    });
    assert_eq!(asked, 0, "calls of the allocator in {OPERATIONS} operations");
    assert!(
        here.port.lost > 300 && there.port.lost > 100,
        "{} {}",
        here.port.lost,
        there.port.lost
    );
}

/// Nothing to tell it, and a clock that ticks.
struct Silent(u64);

impl Host for Silent {
    fn now(&mut self) -> Instant {
        self.0 += 1000;
        Instant(self.0)
    }

    fn passed(&mut self, _: &Report) {}
}

/// Queue pairs made and taken away, refusals, errors.
#[test]
fn self_test() {
    let mut wire = Box::new(LoopbackWire::<32>::new());
    let (mut near, mut far) = (Box::new(Pools::EMPTY), Box::new(Pools::EMPTY));
    let (mut here, mut there) = (vec![0; MEMORY], vec![0; MEMORY]);
    let [mut left, mut right] = wire.ends(MACS);
    let (result, asked) = watch(|| {
        let requester = End { storage: near.lend(), memory: &mut here, port: &mut left };
        let responder = End { storage: far.lend(), memory: &mut there, port: &mut right };
        self_test::run(requester, responder, &mut Silent(0))
    });
    assert!(result.unwrap().messages > 500);
    assert_eq!(asked, 0, "calls of the allocator");
}
