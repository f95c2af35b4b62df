//! A queue pair and the memory of its messages, on either side.

use roce_codec::ib::{PKey, PathMtu, Psn, Qpn, RnrTimer};
use roce_codec::net::{flow_label_from_qpns, source_port_from_flow_label};
use roce_engine::{
    Access, Addr, Entropy, ModifyQp, Path, PostError, QpInit, RecvWr, RtrAttr, RtsAttr, SendWr,
    Sge, UdAddress, WrOpcode,
};

use super::error::SessionError;
use super::{Address, QKEY, Transport};
use crate::service::memory::Exposed;
use crate::service::{Context, Gid, Platform, Route};

/// What the programs ask of a connection: 67 ms, seven retries, receiver not ready for ever.
const TIMEOUT: u8 = 14;
const RETRY_COUNT: u8 = 7;
const RNR_RETRY: u8 = 7;
/// 0.64 ms.
const MIN_RNR_TIMER: RnrTimer = RnrTimer::new(12);
const HOP_LIMIT: u8 = 64;

/// See the [module](self). It is to be ended with [`Endpoint::close`].
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) qpn: Qpn,
    pub(super) exposed: Exposed,
    /// Pieces of equal length that the memory is in.
    slots: u32,
    slot_len: u32,
    transport: Transport,
    psn: Psn,
    route: Option<Route>,
    /// Whom datagrams are for.
    to: Option<UdAddress>,
}

impl Endpoint {
    /// A queue pair with room for `slots` messages of up to `slot_len` bytes.
    pub(super) fn new<P: Platform>(
        transport: Transport,
        slots: u32,
        slot_len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, SessionError> {
        let pd = context.engine.alloc_pd();
        // As long as a datagram's area and payload at the most: far from too much.
        let slot_len = slot_len.saturating_add(transport.area());
        let len = u64::from(slots) * u64::from(slot_len.max(1));
        let exposed = Exposed::new(context, pd, len, Access::LOCAL_WRITE)?;
        let (send_cq, recv_cq) = (context.queues.send, context.queues.recv);
        let init = QpInit {
            max_send_wr: slots,
            max_recv_wr: slots,
            ..QpInit::new(transport.service(), pd, send_cq, recv_cq)
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => {
                let psn = Psn::new(context.platform.random().next_u32());
                Ok(Self { qpn, exposed, slots, slot_len, transport, psn, route: None, to: None })
            }
            Err(error) => {
                exposed.withdraw(context);
                Err(error.into())
            }
        }
    }

    /// Makes it ready to receive and to send.
    pub(super) fn connect<P: Platform>(
        &mut self,
        peer: &Address,
        path_mtu: PathMtu,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Route, SessionError> {
        let route = context.platform.route(peer.gid.address())?;
        // From here on `close` gives it back.
        self.route = Some(route);
        let flow_label = flow_label_from_qpns(self.qpn, peer.qpn);
        let path = Path {
            src: route.src,
            dst: peer.gid.address(),
            next_hop: route.next_hop,
            src_port: source_port_from_flow_label(flow_label),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
        };
        if self.transport == Transport::Ud {
            self.connect_datagrams(peer, path, context)?;
        } else {
            self.connect_queue_pair(peer, path, path_mtu, context)?;
        }
        Ok(route)
    }

    fn connect_queue_pair<P: Platform>(
        &self,
        peer: &Address,
        path: Path,
        path_mtu: PathMtu,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let changes = [
            ModifyQp::Init { pkey: PKey::DEFAULT, access: Access::NONE },
            ModifyQp::Rtr(RtrAttr {
                path,
                path_mtu,
                dest_qpn: peer.qpn,
                rq_psn: peer.psn,
                max_dest_rd_atomic: 0,
                min_rnr_timer: MIN_RNR_TIMER,
            }),
            ModifyQp::Rts(RtsAttr {
                sq_psn: self.psn,
                timeout: TIMEOUT,
                retry_cnt: RETRY_COUNT,
                rnr_retry: RNR_RETRY,
                max_rd_atomic: 0,
            }),
        ];
        for change in &changes {
            context.engine.modify_qp(self.qpn, change)?;
        }
        Ok(())
    }

    fn connect_datagrams<P: Platform>(
        &mut self,
        peer: &Address,
        path: Path,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), SessionError> {
        let changes = [
            ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKEY },
            ModifyQp::RtrUd,
            ModifyQp::RtsUd { sq_psn: self.psn },
        ];
        for change in &changes {
            context.engine.modify_qp(self.qpn, change)?;
        }
        // A source port of 0 is the one that Linux gives the queue pair.
        let ah = context.engine.create_ah(&Path { src_port: 0, ..path })?;
        self.to = Some(UdAddress { ah, dest_qpn: peer.qpn, qkey: QKEY });
        Ok(())
    }

    /// Its description for the peer, with the GID `gid`.
    pub(super) const fn address(&self, gid: Gid) -> Address {
        Address { lid: 0, qpn: self.qpn, psn: self.psn, gid }
    }

    /// Pieces that its memory is in.
    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    /// Where a slot's message lies in the platform's memory.
    pub(super) fn place(&self, slot: u32, offset: u32) -> Addr {
        let offset = u64::from(offset) + u64::from(self.transport.area());
        self.exposed.addr(self.slot_offset(slot) + offset)
    }

    fn slot_offset(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.slot_len)
    }

    /// The bytes of a message of which so many were received.
    pub(super) const fn message_len(&self, received: u32) -> u32 {
        received.saturating_sub(self.transport.area())
    }

    /// Lends a slot to the peer's next message.
    pub(super) fn post_receive<P: Platform>(
        &self,
        slot: u32,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let va = self.exposed.region.va.wrapping_add(self.slot_offset(slot));
        let sges = [Sge { va, len: self.slot_len, lkey: self.exposed.mr.lkey }];
        context.engine.post_recv(self.qpn, &RecvWr::new(wr_id, &sges))
    }

    /// SENDs the first bytes of a slot's message.
    pub(super) fn post_send<P: Platform>(
        &self,
        slot: u32,
        len: u32,
        wr_id: u64,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), PostError> {
        let offset = self.slot_offset(slot) + u64::from(self.transport.area());
        let va = self.exposed.region.va.wrapping_add(offset);
        let sges = [Sge { va, len, lkey: self.exposed.mr.lkey }];
        let wr = SendWr { to: self.to, ..SendWr::new(wr_id, WrOpcode::Send, &sges) };
        context.engine.post_send(self.qpn, &wr)
    }

    /// Destroys the queue pair and gives its memory back.
    pub(super) fn close<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // It is there: nobody else destroys it.
        let _ = context.engine.destroy_qp(self.qpn);
        if let Some(to) = self.to {
            let _ = context.engine.destroy_ah(to.ah);
        }
        self.exposed.withdraw(context);
        if let Some(route) = self.route {
            context.platform.release_route(route);
        }
    }
}
