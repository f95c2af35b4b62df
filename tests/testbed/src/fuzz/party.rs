//! One of two engines in a fuzz run, and what must be true of it after every operation.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RKey, RnrTimer};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, HeapStorage, Instant, LinkHeader, ModifyQp, Mr,
    MrAttr, NextHop, Path, Pd, QpInit, QpState, Recovery, RecvWr, RtrAttr, RtsAttr, Rx, SendWr,
    Sge, TransmitError, WcOpcode, WcStatus, WrOpcode,
};

use crate::random::Random;

/// Bytes of the region that are registered; as many lie untouched on either side.
pub(super) const LEN: usize = 8192;
const OFFSET: u64 = 8192;
const UNTOUCHED: u8 = 0xc5;
/// Work requests each queue holds.
const DEPTH: u32 = 8;

/// An engine with one queue pair.
pub(super) struct Party<'s> {
    engine: Engine<'s>,
    memory: HostMemory,
    random: Random,
    pub(super) address: IpAddr,
    pub(super) qp: Qpn,
    pd: Pd,
    cq: Cq,
    region: u32,
    va: u64,
    mr: Option<Mr>,
    rkey: RKey,
    serial: u64,
    /// Requests and receives that have not ended, oldest first, and whether success is told.
    sends: VecDeque<(u64, bool)>,
    receives: VecDeque<u64>,
    received: u64,
}

impl<'s> Party<'s> {
    pub(super) fn new(storage: &'s mut HeapStorage, number: u8) -> Self {
        let mut random = Random::new(u64::from(number) + 1);
        // One of each kind.
        let recovery = if number == 0 { Recovery::SelectiveAccept } else { Recovery::GoBackN };
        let config = Config { window: 4, recovery, ..Config::DEFAULT };
        let mut engine = Engine::new(config, storage.lend());
        let mut memory = HostMemory::new();
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(64).expect("a completion queue");
        let region = memory.map(3 * LEN).expect("memory");
        let fill = |offset, byte: u8| {
            memory.write(Addr { region, offset }, [&[byte; LEN], &[]]).expect("inside");
        };
        fill(0, UNTOUCHED);
        fill(OFFSET, 0);
        fill(2 * OFFSET, UNTOUCHED);
        let va = memory.va(region).expect("a region") + OFFSET;
        let init = QpInit {
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            observe_writes: number == 0,
            ..QpInit::new(roce_codec::ib::Service::Rc, pd, cq, cq)
        };
        let qp = engine.create_qp(&init, &mut random).expect("a slot");
        Self {
            engine,
            memory,
            random,
            address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, number + 1)),
            qp,
            pd,
            cq,
            region,
            va,
            mr: None,
            rkey: RKey(0),
            serial: 0,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            received: 0,
        }
    }

    /// The memory that the other side is told of.
    pub(super) fn offer(&self) -> (u64, RKey) {
        (self.va, self.rkey)
    }

    /// The PSN it expects, or the oldest of its own that is not acknowledged.
    pub(super) fn psn(&self, own: bool) -> Psn {
        let info = self.engine.query_qp(self.qp).expect("a queue pair");
        if own { info.unacknowledged_psn } else { info.expected_psn }
    }

    fn sge(&self, at: usize, len: usize) -> Sge {
        let lkey = self.mr.map(|mr| mr.lkey).unwrap_or_default();
        let va = self.va + u64::try_from(at).unwrap_or(0);
        Sge { va, len: u32::try_from(len).unwrap_or(0), lkey }
    }

    pub(super) fn post_send(&mut self, opcode: WrOpcode, at: usize, len: usize, signaled: bool) {
        self.serial += 1;
        let sge = self.sge(at, len);
        let sges = [sge];
        let wr = SendWr { signaled, ..SendWr::new(self.serial, opcode, &sges) };
        if self.engine.post_send(self.qp, &wr).is_ok() {
            self.sends.push_back((self.serial, signaled));
        }
    }

    pub(super) fn post_recv(&mut self, at: usize, len: usize) {
        self.serial += 1;
        let sges = [self.sge(at, len)];
        let wr = RecvWr::new(self.serial, &sges);
        if self.engine.post_recv(self.qp, &wr).is_ok() {
            self.receives.push_back(self.serial);
        }
    }

    pub(super) fn transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let link = LinkHeader {
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            vlans: VlanStack::EMPTY,
        };
        let transmit = self.engine.poll_transmit(now)?;
        let mut out = vec![0; 4352];
        match transmit.emit::<Crc, _>(&self.engine, &link, &self.memory, &mut out) {
            Ok(len) => {
                out.truncate(len);
                Some(out)
            }
            Err(TransmitError::Backing(_)) => {
                self.engine.transmit_failed(&transmit);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn receive(&mut self, now: Instant, frames: &[Vec<u8>]) {
        let burst: Vec<_> = frames
            .iter()
            .map(|frame| Rx {
                segments: [frame, &[]],
                start: Start::Ethernet,
                icrc_verified: false,
            })
            .collect();
        self.received += u64::try_from(burst.len()).unwrap_or(0);
        self.engine.handle_burst(now, &burst, &self.memory);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let _ = self.engine.handle_timeout(now);
    }

    /// Takes the region away, or brings it back.
    pub(super) fn lose_region(&mut self) {
        match self.mr.take() {
            Some(mr) => self.engine.deregister_mr(mr.rkey).expect("it was registered"),
            None => self.register(),
        }
    }

    fn register(&mut self) {
        let backing = Addr { region: self.region, offset: OFFSET };
        let len = u64::try_from(LEN).unwrap_or(0);
        let attr = MrAttr { pd: self.pd, va: self.va, len, access: Access::ALL, backing };
        let mr = self.engine.register_mr(&attr, &mut self.random).expect("a slot");
        self.rkey = mr.rkey;
        self.mr = Some(mr);
    }

    pub(super) fn end(&mut self) {
        self.engine.modify_qp(self.qp, &ModifyQp::Error).expect("always legal");
    }

    /// Takes completions and events, and holds everything to what must be true.
    pub(super) fn check(&mut self) {
        while let Some(wc) = self.engine.poll_cq(self.cq) {
            assert_eq!(wc.qp, self.qp);
            if matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) {
                assert_eq!(self.receives.pop_front(), Some(wc.wr_id), "receives end in order");
                continue;
            }
            // Those before it succeeded in silence.
            while let Some((wr_id, signaled)) = self.sends.pop_front() {
                if wr_id == wc.wr_id {
                    break;
                }
                assert!(!signaled, "request {wr_id} is missing before {wc:?}");
            }
            assert!(wc.status != WcStatus::Success || wc.wr_id <= self.serial);
        }
        while self.engine.poll_event().is_some() {}
        assert_eq!(self.engine.audit(), Ok(()));
        let counters = self.engine.counters();
        assert_eq!(counters.received, self.received);
        assert_eq!(counters.received, counters.acted_on + counters.dropped_total());
        let info = self.engine.query_qp(self.qp).expect("a queue pair");
        let (sends, receives) = (info.send_wrs, info.recv_wrs);
        assert!(sends <= DEPTH && receives <= DEPTH);
        assert!(usize::try_from(sends).is_ok_and(|sends| sends <= self.sends.len()));
        if info.state == QpState::Error {
            assert_eq!((sends, receives), (0, 0), "nothing waits in error");
            self.sends.retain(|(_, signaled)| *signaled);
            assert!(self.sends.is_empty() && self.receives.is_empty(), "something is missing");
        }
    }

    /// Ends everything: each request and receive ends, and nothing was touched that should not be.
    pub(super) fn finish(&mut self) {
        self.end();
        self.check();
        let mut bytes = vec![0; LEN];
        for offset in [0, 2 * OFFSET] {
            self.memory.read(Addr { region: self.region, offset }, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte == UNTOUCHED), "a byte outside was written");
        }
    }
}

/// Connects the queue pairs, from whatever state they are in.
pub(super) fn connect(parties: &mut [Party<'_>; 2], choice: u8) {
    let mtu = PathMtu::from_code(1 + choice % 3).unwrap_or_default();
    let psns = [Psn::new(0x00ff_fffd), Psn::new(u32::from(choice))];
    let peers = [(parties[0].qp, parties[0].address), (parties[1].qp, parties[1].address)];
    for (side, party) in parties.iter_mut().enumerate() {
        if party.mr.is_none() {
            party.register();
        }
        let (dest_qpn, dst) = peers[1 - side];
        let rtr = RtrAttr {
            path: Path {
                src: party.address,
                dst,
                next_hop: NextHop(0),
                src_port: 0xc000,
                ..Path::EMPTY
            },
            path_mtu: mtu,
            dest_qpn,
            rq_psn: psns[1 - side],
            max_dest_rd_atomic: 3,
            min_rnr_timer: RnrTimer::new(1),
        };
        let rts = RtsAttr {
            sq_psn: psns[side],
            timeout: 1 + choice % 16,
            retry_cnt: choice % 8,
            rnr_retry: choice / 8 % 8,
            max_rd_atomic: 3,
        };
        let init = ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL };
        for change in [ModifyQp::Reset, init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)] {
            party.engine.modify_qp(party.qp, &change).expect("a legal change");
        }
    }
}
