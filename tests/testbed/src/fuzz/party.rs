//! One of two engines in a fuzz run, and what must be true of it after every operation.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, RKey, RnrTimer, Service};
use roce_codec::net::{MacAddr, VlanStack};
use roce_codec::{Crc, Start};
use roce_dataplane::host_memory::HostMemory;
use roce_engine::{
    Access, Addr, Backing, Config, Cq, Engine, HeapStorage, HwCounter, Instant, LinkHeader,
    MemoryError, ModifyQp, Mr, MrAttr, Mw, MwBind, MwBindInfo, MwType, NextHop, Path, Pd, QpInit,
    QpState, Rate, Recovery, RecvWr, RtrAttr, RtsAttr, Rx, SendWr, Sge, Srq, SrqInit,
    TransmitError, UdAddress, WcOpcode, WcStatus, WrOpcode,
};

use crate::random::Random;

/// Bytes of the region that are registered; as many lie untouched on either side.
pub(super) const LEN: usize = 8192;
const OFFSET: u64 = 8192;
const UNTOUCHED: u8 = 0xc5;
/// Work requests each queue holds.
const DEPTH: u32 = 8;
/// Memory windows of each party, at most.
const MOST_WINDOWS: usize = 3;

/// What datagrams must know.
const QKEY: QKey = QKey(0x1234_5678);

/// The services of which a party has a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rc,
    Uc,
    Ud,
    /// Queue pair 1.
    Gsi,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Rc, Self::Uc, Self::Ud, Self::Gsi];

    /// Whether it takes datagrams.
    pub(super) const fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Gsi)
    }

    /// What a sender must know.
    pub(super) const fn qkey(self) -> QKey {
        match self {
            Self::Gsi => QKey::GSI,
            _ => QKEY,
        }
    }

    const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud | Self::Gsi => Service::Ud,
        }
    }

    /// The upper bits of its opcodes.
    pub(super) const fn class(self) -> u8 {
        match self {
            Self::Rc => 0x00,
            Self::Uc => 0x20,
            Self::Ud | Self::Gsi => 0x60,
        }
    }
}

/// A send to post.
pub(super) struct Posting {
    pub(super) opcode: WrOpcode,
    pub(super) at: usize,
    pub(super) len: usize,
    /// Elements of its list.
    pub(super) pieces: usize,
    /// Unsignaled, solicited, fenced, inline.
    pub(super) flags: u8,
}

/// An engine with a queue pair of each service, of which one is in use.
pub(super) struct Party<'s> {
    engine: Engine<'s>,
    memory: HostMemory,
    random: Random,
    pub(super) address: IpAddr,
    pub(super) qp: Qpn,
    pub(super) kind: Kind,
    qps: [Qpn; 4],
    /// Where the receives of the connected queue pairs are, if not their own.
    srq: Option<Srq>,
    to: Option<UdAddress>,
    pd: Pd,
    cq: Cq,
    region: u32,
    va: u64,
    mr: Option<Mr>,
    windows: Vec<Mw>,
    rkey: RKey,
    serial: u64,
    /// Requests and receives that have not ended, oldest first, and whether success is told.
    sends: VecDeque<(u64, bool)>,
    receives: VecDeque<u64>,
    /// Receives of the shared queue while another is in use.
    aside: VecDeque<u64>,
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
        // One shares its receives, the other does not.
        let srq = (number == 1).then(|| {
            let init = SrqInit { pd, max_wr: DEPTH, max_sge: 3 };
            engine.create_srq(&init).expect("a slot")
        });
        let qps = Kind::ALL.map(|kind| {
            let init = QpInit {
                max_send_wr: DEPTH,
                max_recv_wr: DEPTH,
                max_send_sge: 4,
                max_recv_sge: 3,
                max_inline_data: 100,
                observe_writes: number == 0,
                srq: srq.filter(|_| !kind.is_datagram()),
                ..QpInit::new(kind.service(), pd, cq, cq)
            };
            match kind {
                Kind::Gsi => engine.create_gsi_qp(&init, &mut random).expect("a slot"),
                _ => engine.create_qp(&init, &mut random).expect("a slot"),
            }
        });
        Self {
            engine,
            memory,
            random,
            address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, number + 1)),
            qp: qps[0],
            kind: Kind::Rc,
            qps,
            srq,
            to: None,
            pd,
            cq,
            region,
            va,
            mr: None,
            windows: Vec::new(),
            rkey: RKey(0),
            serial: 0,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            aside: VecDeque::new(),
            received: 0,
        }
    }

    /// Where the memory begins that the other side is told of.
    pub(super) fn va(&self) -> u64 {
        self.va
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

    /// A list of elements that are `len` bytes together, one behind the other.
    fn sges(&self, at: usize, len: usize, pieces: usize) -> Vec<Sge> {
        let each = len / pieces;
        (0..pieces)
            .map(|piece| {
                let last = piece + 1 == pieces;
                self.sge(at + piece * each, if last { len - piece * each } else { each })
            })
            .collect()
    }

    pub(super) fn post_send(&mut self, posting: &Posting) {
        self.serial += 1;
        let Posting { opcode, at, len, pieces, flags } = *posting;
        let signaled = flags & 1 == 0;
        let sges = self.sges(at, len, pieces);
        let bytes = [0x5a; 100];
        let wr = SendWr::new(self.serial, opcode, &sges);
        let wr = SendWr { signaled, solicited: flags & 2 != 0, fence: flags & 4 != 0, ..wr };
        let wr =
            if flags & 0x18 == 0x18 && len <= bytes.len() { wr.inline(&bytes[..len]) } else { wr };
        let wr = SendWr { to: self.to.filter(|_| self.kind.is_datagram()), ..wr };
        if self.engine.post_send(self.qp, &wr).is_ok() {
            self.sends.push_back((self.serial, signaled));
        }
    }

    pub(super) fn post_recv(&mut self, at: usize, len: usize) {
        self.serial += 1;
        let sges = self.sges(at, len, 1 + at % 3);
        let wr = RecvWr::new(self.serial, &sges);
        let posted = match self.shared() {
            Some(srq) => self.engine.post_srq_recv(srq, &wr),
            None => self.engine.post_recv(self.qp, &wr),
        };
        if posted.is_ok() {
            self.receives.push_back(self.serial);
        }
    }

    /// The shared queue that the queue pair in use takes from.
    fn shared(&self) -> Option<Srq> {
        self.srq.filter(|_| !self.kind.is_datagram())
    }

    /// Drains the queue pair, lets it go on, takes rights away, paces READs, arms the limit.
    pub(super) fn modify(&mut self, choice: u8) {
        let change = match choice % 8 {
            0 | 1 => ModifyQp::Sqd,
            2..=4 => ModifyQp::Resume,
            5 => ModifyQp::Access(if choice < 128 {
                Access::ALL
            } else {
                Access::LOCAL_WRITE | Access::REMOTE_READ
            }),
            6 => {
                let rate = Rate { bytes_per_second: 1000 << (choice / 8), burst: 0 };
                self.engine.set_read_rate(self.qp, rate).expect("a queue pair");
                return;
            }
            _ => {
                if let Some(srq) = self.srq {
                    let limit = u32::from(choice / 8) % (DEPTH + 1);
                    self.engine.modify_srq(srq, limit).expect("within what it holds");
                }
                return;
            }
        };
        // Not every state has it, nor every service.
        let _ = self.engine.modify_qp(self.qp, &change);
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
            Some(mr) => {
                if self.engine.deregister_mr(mr.rkey) == Err(MemoryError::WindowsBound) {
                    self.free_windows();
                    self.engine.deregister_mr(mr.rkey).expect("it was registered");
                }
            }
            None => self.register(),
        }
    }

    /// Allocates windows, binds them, takes keys away, gives windows back.
    pub(super) fn window(&mut self, choice: u8, at: usize, len: usize, flags: u8) {
        let which = usize::from(choice / 8) % MOST_WINDOWS;
        let Some(mut mw) = self.windows.get(which).copied() else {
            let kind = if choice & 8 == 0 { MwType::Type1 } else { MwType::Type2 };
            let mw = self.engine.alloc_mw(self.pd, kind, &mut self.random).expect("a slot");
            self.windows.push(mw);
            return;
        };
        let (signaled, fence) = (flags & 1 == 0, flags & 4 != 0);
        let rights = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let info = MwBindInfo {
            lkey: self.mr.map(|mr| mr.lkey).unwrap_or_default(),
            va: self.va + u64::try_from(at).unwrap_or(0),
            len: u64::try_from(len).unwrap_or(0),
            access: if flags & 8 == 0 { rights } else { Access::FLUSH_GLOBAL },
        };
        self.serial += 1;
        let opcode = match choice % 8 {
            0 => {
                self.windows.swap_remove(which);
                self.engine.dealloc_mw(mw).expect("it was allocated");
                return;
            }
            1 => WrOpcode::LocalInvalidate(self.rkey),
            2 | 3 => WrOpcode::LocalInvalidate(mw.rkey),
            _ if mw.kind == MwType::Type1 => {
                let bind = MwBind { signaled, fence, ..MwBind::new(self.serial, info) };
                if self.engine.bind_mw(self.qp, &mut mw, &bind).is_ok() {
                    self.sends.push_back((self.serial, signaled));
                    self.windows[which] = mw;
                }
                return;
            }
            _ => {
                mw.rkey = mw.with_key(flags);
                self.windows[which] = mw;
                WrOpcode::BindMw { rkey: mw.rkey, info }
            }
        };
        let wr = SendWr { signaled, fence, ..SendWr::new(self.serial, opcode, &[]) };
        if self.engine.post_send(self.qp, &wr).is_ok() {
            self.sends.push_back((self.serial, signaled));
        }
    }

    fn free_windows(&mut self) {
        for mw in self.windows.drain(..) {
            self.engine.dealloc_mw(mw).expect("it was allocated");
        }
    }

    /// The key of a window, or else the region's.
    pub(super) fn key(&self, choice: u8) -> RKey {
        let window = self.windows.get(usize::from(choice / 2) % MOST_WINDOWS);
        window.filter(|_| choice & 1 == 1).map_or(self.rkey, |mw| mw.rkey)
    }

    fn register(&mut self) {
        let backing = Addr { region: self.region, offset: OFFSET };
        let len = u64::try_from(LEN).unwrap_or(0);
        let access = Access::ALL | Access::REMOTE_INVALIDATE | Access::MW_BIND;
        let attr = MrAttr { pd: self.pd, va: self.va, len, access, backing };
        let mr = self.engine.register_mr(&attr, &mut self.random).expect("a slot");
        self.rkey = mr.rkey;
        self.mr = Some(mr);
    }

    /// Uses the queue pair of another service.
    fn select(&mut self, kind: Kind) {
        if self.kind.is_datagram() != kind.is_datagram()
            && let Some(srq) = self.srq
        {
            // Receives that nobody has taken stay where they are; those of the shared queue are
            // kept apart from a datagram queue pair's own.
            let waiting = self.engine.query_srq(srq).expect("a shared receive queue").wrs;
            core::mem::swap(&mut self.receives, &mut self.aside);
            assert_eq!(
                u32::try_from(if kind.is_datagram() {
                    self.aside.len()
                } else {
                    self.receives.len()
                }),
                Ok(waiting)
            );
        }
        self.kind = kind;
        self.qp = self.qps[kind as usize];
    }

    pub(super) fn end(&mut self) {
        self.engine.modify_qp(self.qp, &ModifyQp::Error).expect("always legal");
    }

    /// How often something happened.
    pub(super) fn event(&self, counter: HwCounter) -> u64 {
        self.engine.counters().event(counter)
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
            // What is shared is nobody's to flush.
            let shared = self
                .shared()
                .map_or(0, |srq| self.engine.query_srq(srq).expect("a shared receive queue").wrs);
            assert!(self.sends.is_empty(), "a send is missing");
            assert_eq!(u32::try_from(self.receives.len()), Ok(shared), "a receive is missing");
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

/// Connects two queue pairs of one service, from whatever state they are in.
pub(super) fn connect(parties: &mut [Party<'_>; 2], choice: u8) {
    let mtu = PathMtu::from_code(1 + choice % 3).unwrap_or_default();
    let kind = match choice / 16 {
        0 => Kind::Gsi,
        1 => Kind::Ud,
        2..=4 => Kind::Uc,
        _ => Kind::Rc,
    };
    let psns = [Psn::new(0x00ff_fffd), Psn::new(u32::from(choice))];
    for party in parties.iter_mut() {
        // What the other queue pair still had has ended, and is told before it is left.
        party.end();
        party.check();
        party.sends.clear();
        if party.shared().is_none() {
            party.receives.clear();
        }
        party.select(kind);
        // Keys may have been taken away.
        if party.mr.is_some() {
            party.lose_region();
        }
        party.register();
    }
    let peers = [(parties[0].qp, parties[0].address), (parties[1].qp, parties[1].address)];
    for (side, party) in parties.iter_mut().enumerate() {
        let (dest_qpn, dst) = peers[1 - side];
        let path =
            Path { src: party.address, dst, next_hop: NextHop(0), src_port: 0xc000, ..Path::EMPTY };
        let rtr = RtrAttr {
            path,
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
        let pkey = PKey::DEFAULT;
        let changes = if kind.is_datagram() {
            if let Some(old) = party.to.take() {
                party.engine.destroy_ah(old.ah).expect("it was created");
            }
            let ah = party.engine.create_ah(&path).expect("a slot");
            party.to = Some(UdAddress { ah, dest_qpn, qkey: kind.qkey() });
            let rts = ModifyQp::RtsUd { sq_psn: psns[side] };
            [ModifyQp::Reset, ModifyQp::InitUd { pkey, qkey: QKEY }, ModifyQp::RtrUd, rts]
        } else {
            let init = ModifyQp::Init { pkey, access: Access::ALL };
            [ModifyQp::Reset, init, ModifyQp::Rtr(rtr), ModifyQp::Rts(rts)]
        };
        for change in changes {
            party.engine.modify_qp(party.qp, &change).expect("a legal change");
        }
    }
}
