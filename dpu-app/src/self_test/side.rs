//! One end: an engine, its port, its memory.

use core::net::IpAddr;

use roce_codec::ib::{PKey, PathMtu, Psn, QKey, Qpn, RnrTimer, Service};
use roce_codec::net::{MacAddr, flow_label_from_qpns, source_port_from_flow_label};
use roce_dataplane::poll::{OneNeighbour, turn};
use roce_dataplane::port::Port;
use roce_engine::{
    Access, Addr, Config, Cq, Engine, Entropy, Instant, ModifyQp, Mr, MrAttr, NextHop, Path, Pd,
    QpInit, QpState, RecvWr, RtrAttr, RtsAttr, SeededEntropy, SendWr, Sge, Srq, UdAddress,
    WrOpcode,
};

use super::memory::Memory;
use super::tap::Tap;
use super::{End, Failure, MEMORY};

/// Work requests that a queue pair may hold.
const DEPTH: u32 = 16;
/// The virtual address of the memory's first byte.
pub(super) const VA: u64 = 0x10_0000_0000;
/// Packets in flight: fewer than the wire has room for.
const WINDOW: u32 = 16;
/// Elements of a work request's list, each way, and bytes of inline data.
const SGES: u8 = 4;
const INLINE: u16 = 100;
/// The Q_Key of datagrams.
const QKEY: QKey = QKey(0x0bad_cafe);
/// 4.096 µs · 2⁶.
const TIMEOUT: u8 = 6;
/// The receiver asks for 10 µs.
const RNR_TIMER: u8 = 1;

#[derive(Debug)]
pub(super) struct Side<'m, P> {
    pub(super) engine: Engine<'m>,
    pub(super) port: Tap<'m, P>,
    pub(super) memory: Memory<'m>,
    pub(super) cq: Cq,
    pub(super) qpn: Qpn,
    service: Service,
    /// All of the memory, with all rights.
    pub(super) mr: Mr,
    /// The same, with no right for peers.
    pub(super) private: Mr,
    pub(super) random: SeededEntropy,
    /// Where the next queue pair has its receives from, if not from itself.
    pub(super) srq: Option<Srq>,
    /// The peer of a datagram queue pair.
    pub(super) to: Option<UdAddress>,
    pub(super) pd: Pd,
    /// Instructions in turns that did something, port aside, and packets in them.
    pub(super) spent: u64,
    pub(super) packets: u32,
    hop: OneNeighbour,
}

impl<'m, P: Port> Side<'m, P> {
    pub(super) fn new(
        end: End<'m, P>,
        neighbour: MacAddr,
        seed: u64,
        clock: fn() -> u32,
    ) -> Result<Self, Failure> {
        let config = Config { window: WINDOW, ..Config::DEFAULT };
        let mut engine = Engine::new(config, end.storage);
        let mut random = SeededEntropy::new(seed);
        let pd = engine.alloc_pd();
        let cq = engine.create_cq(4 * DEPTH).ok_or(Failure::NoCq)?;
        let len = u64::try_from(end.memory.len().min(MEMORY)).unwrap_or(0);
        let mut register = |access| {
            let backing = Addr { region: 0, offset: 0 };
            engine.register_mr(&MrAttr { pd, va: VA, len, access, backing }, &mut random)
        };
        let (mr, private) = (register(Access::ALL)?, register(Access::LOCAL_WRITE)?);
        Ok(Self {
            engine,
            port: Tap::new(end.port, clock),
            memory: Memory::new(end.memory),
            cq,
            qpn: Qpn::new(0),
            service: Service::Rc,
            mr,
            private,
            random,
            srq: None,
            to: None,
            pd,
            spent: 0,
            packets: 0,
            hop: OneNeighbour(neighbour),
        })
    }

    /// The virtual address of a byte.
    pub(super) const fn va(offset: u32) -> u64 {
        VA + offset as u64
    }

    /// A piece of the memory for a work request.
    pub(super) const fn sge(&self, offset: u32, len: u32) -> Sge {
        Sge { va: Self::va(offset), len, lkey: self.mr.lkey }
    }

    /// One more region: the first bytes of the memory.
    pub(super) fn register(&mut self, len: u32, access: Access) -> Result<Mr, Failure> {
        let backing = Addr { region: 0, offset: 0 };
        let attr = MrAttr { pd: self.pd, va: VA, len: len.into(), access, backing };
        Ok(self.engine.register_mr(&attr, &mut self.random)?)
    }

    pub(super) fn create_qp(&mut self, service: Service) -> Result<(), Failure> {
        let init = QpInit {
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: SGES,
            max_recv_sge: SGES,
            max_inline_data: INLINE,
            srq: self.srq,
            ..QpInit::new(service, self.pd, self.cq, self.cq)
        };
        self.qpn = self.engine.create_qp(&init, &mut self.random)?;
        self.service = service;
        Ok(())
    }

    /// Takes the queue pair away, and the way to its peer.
    pub(super) fn destroy_qp(&mut self) -> Result<(), Failure> {
        self.engine.destroy_qp(self.qpn)?;
        if let Some(to) = self.to.take() {
            self.engine.destroy_ah(to.ah)?;
        }
        Ok(())
    }

    /// Brings the queue pair to RTS. The PSNs are those it receives and sends from.
    pub(super) fn connect(
        &mut self,
        peer: Qpn,
        path_mtu: PathMtu,
        [src, dst]: [IpAddr; 2],
        [rq_psn, sq_psn]: [Psn; 2],
    ) -> Result<(), Failure> {
        let rd_atomic = self.engine.max_dest_rd_atomic();
        let path = Path {
            src,
            dst,
            next_hop: NextHop(0),
            src_port: source_port_from_flow_label(flow_label_from_qpns(self.qpn, peer)),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
        };
        if self.service == Service::Ud {
            let ah = self.engine.create_ah(&path)?;
            self.to = Some(UdAddress { ah, dest_qpn: peer, qkey: QKEY });
            let init = ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKEY };
            for change in [init, ModifyQp::RtrUd, ModifyQp::RtsUd { sq_psn }] {
                self.engine.modify_qp(self.qpn, &change)?;
            }
            return Ok(());
        }
        let changes = [
            ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::ALL },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu,
                dest_qpn: peer,
                rq_psn,
                max_dest_rd_atomic: rd_atomic,
                min_rnr_timer: RnrTimer::new(RNR_TIMER),
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn,
                timeout: TIMEOUT,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: rd_atomic,
            }),
        ];
        for change in changes {
            self.engine.modify_qp(self.qpn, &change)?;
        }
        Ok(())
    }

    pub(super) fn post_send(
        &mut self,
        wr_id: u64,
        opcode: WrOpcode,
        sge: Sge,
    ) -> Result<(), Failure> {
        self.post(&SendWr::new(wr_id, opcode, &[sge]))
    }

    /// Posts a request; a datagram goes to the peer.
    pub(super) fn post(&mut self, wr: &SendWr<'_>) -> Result<(), Failure> {
        let wr = self.to.map_or(*wr, |to| wr.to(to));
        Ok(self.engine.post_send(self.qpn, &wr)?)
    }

    pub(super) fn post_recv(&mut self, wr_id: u64, sge: Sge) -> Result<(), Failure> {
        Ok(self.engine.post_recv(self.qpn, &RecvWr::new(wr_id, &[sge]))?)
    }

    pub(super) fn check_state(&self, expected: QpState) -> Result<(), Failure> {
        let found = self.engine.query_qp(self.qpn)?.state;
        if found == expected { Ok(()) } else { Err(Failure::State { expected, found }) }
    }

    /// A fresh number.
    pub(super) fn random(&mut self) -> u32 {
        self.random.next_u32()
    }

    /// One turn of the poll loop; says whether a packet came or went.
    pub(super) fn turn(&mut self, now: Instant, clock: fn() -> u32) -> bool {
        let (start, before) = (clock(), self.port.spent);
        let turn = turn(&mut self.engine, &mut self.port, &self.memory, &self.hop, now);
        let all = clock().wrapping_sub(start);
        let packets = turn.received + turn.sent;
        if packets > 0 {
            let port = self.port.spent.wrapping_sub(before);
            self.spent += u64::from(all.wrapping_sub(port));
            self.packets += u32::try_from(packets).unwrap_or(0);
        }
        packets > 0
    }
}
