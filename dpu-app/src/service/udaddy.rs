//! The server of `udaddy`, the program of rdma-core.
//!
//! A client finds out by SIDR which queue pair serves it, and sends datagrams with its own queue
//! pair's number as immediate data. The program's server answers when it has all of them; this one
//! answers each as it comes, with what it said, so it need not know how many there are. A client
//! does not say that it is done.

use core::net::IpAddr;

use roce_codec::cm::{CommunicationId, SidrStatus};
use roce_codec::ib::{PKey, Psn, QKey, Qpn, Service};
use roce_engine::cm::SidrAnswer;
use roce_engine::{
    Access, Ah, Entropy, GrhArea, Instant, ModifyQp, Path, QpInit, RecvWr, SendWr, Sge, UdAddress,
    Wc, WcOpcode, WrOpcode,
};

use crate::service::cm::{CmServiceError, CmSession, Gsi, Notice, Request};
use crate::service::memory::Exposed;
use crate::service::{Context, Platform, Route, wr_id};

/// The port of RDMA CM's, in UDP's space, that clients ask for.
pub const DEFAULT_PORT: u16 = 7174;

/// The Q_Key of RDMA CM's datagram services.
const QKEY: QKey = QKey(0x0123_4567);
/// Datagrams that may be here at a time; further ones are lost.
const SLOTS: u32 = 128;
/// How long a client may be silent before it is taken to be done.
const IDLE_NS: u64 = 10_000_000_000;

/// One client of the server's.
#[derive(Debug)]
pub struct Server {
    number: u32,
    qpn: Qpn,
    exposed: Exposed,
    slot_len: u32,
    peer: IpAddr,
    route: Route,
    ah: Ah,
    received: u64,
    ends: Instant,
    over: bool,
}

impl Server {
    /// Answers a client that asks which queue pair serves it. `number` is the session's.
    ///
    /// # Errors
    /// [`CmServiceError`]; nothing is kept, and the client has been told that there is none.
    pub fn accept<P: Platform>(
        number: u32,
        id: CommunicationId,
        request: &Request,
        gsi: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let made = Self::new(number, request, context);
        let (status, qpn) = match &made {
            Ok(server) => (SidrStatus::VALID, server.qpn),
            Err(_) => (SidrStatus::NO_QP, Qpn::new(0)),
        };
        let answer = SidrAnswer { status, qpn, qkey: QKEY, private_data: &[] };
        let answered = gsi.cm().sidr_reply(context.now, id, &answer);
        let server = made?;
        match answered {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close(gsi, context);
                Err(error.into())
            }
        }
    }

    fn new<P: Platform>(
        number: u32,
        request: &Request,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
        let peer = request.path.dst;
        let route = context.platform.route(peer)?;
        // A source port of 0 is the one that Linux gives the queue pair.
        let path = Path {
            src: route.src,
            dst: peer,
            next_hop: route.next_hop,
            src_port: 0,
            ..Path::EMPTY
        };
        let ah = match context.engine.create_ah(&path) {
            Ok(ah) => ah,
            Err(error) => {
                context.platform.release_route(route);
                return Err(error.into());
            }
        };
        let made = Self::with_memory(context);
        let (qpn, exposed, slot_len) = match made {
            Ok(made) => made,
            Err(error) => {
                // It is there: it has just been made.
                let _ = context.engine.destroy_ah(ah);
                context.platform.release_route(route);
                return Err(error);
            }
        };
        let ends = context.now.add_ns(IDLE_NS);
        let (received, over) = (0, false);
        let server = Self { number, qpn, exposed, slot_len, peer, route, ah, received, ends, over };
        match server.prepare(context) {
            Ok(()) => Ok(server),
            Err(error) => {
                server.destroy(context);
                Err(error)
            }
        }
    }

    fn with_memory<P: Platform>(
        context: &mut Context<'_, '_, P>,
    ) -> Result<(Qpn, Exposed, u32), CmServiceError> {
        let pd = context.engine.alloc_pd();
        let slot_len = context.path_mtu.bytes() + area_len();
        let len = u64::from(SLOTS) * u64::from(slot_len);
        let exposed = Exposed::new(context, pd, len, Access::LOCAL_WRITE)?;
        let (send_cq, recv_cq) = (context.queues.send, context.queues.recv);
        let init = QpInit {
            max_send_wr: SLOTS,
            max_recv_wr: SLOTS,
            ..QpInit::new(Service::Ud, pd, send_cq, recv_cq)
        };
        match context.engine.create_qp(&init, context.platform.random()) {
            Ok(qpn) => Ok((qpn, exposed, slot_len)),
            Err(error) => {
                exposed.withdraw(context);
                Err(error.into())
            }
        }
    }

    fn prepare<P: Platform>(&self, context: &mut Context<'_, '_, P>) -> Result<(), CmServiceError> {
        let sq_psn = Psn::new(context.platform.random().next_u32());
        let init = ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKEY };
        for change in [init, ModifyQp::RtrUd, ModifyQp::RtsUd { sq_psn }] {
            context.engine.modify_qp(self.qpn, &change)?;
        }
        (0..SLOTS).try_for_each(|slot| self.post_receive(slot, context))
    }

    fn va(&self, slot: u32) -> u64 {
        let offset = u64::from(slot) * u64::from(self.slot_len);
        self.exposed.region.va.wrapping_add(offset)
    }

    fn post_receive<P: Platform>(
        &self,
        slot: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let lkey = self.exposed.mr.lkey;
        let sges = [Sge { va: self.va(slot), len: self.slot_len, lkey }];
        let wr = RecvWr::new(wr_id(self.number, slot), &sges);
        Ok(context.engine.post_recv(self.qpn, &wr)?)
    }

    /// Sends back what has come.
    fn answer<P: Platform>(
        &self,
        wc: &Wc,
        slot: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        // The program takes the number from the immediate data; it is the sender's.
        let Some(dest_qpn) = wc.imm.map(Qpn::new).or(wc.src_qp) else {
            return Err(CmServiceError::Protocol);
        };
        let len = wc.byte_len.saturating_sub(area_len());
        let va = self.va(slot).wrapping_add(area_len().into());
        let sges = [Sge { va, len, lkey: self.exposed.mr.lkey }];
        let opcode = WrOpcode::SendWithImm(self.qpn.get());
        let to = UdAddress { ah: self.ah, dest_qpn, qkey: QKEY };
        let wr = SendWr::new(wr_id(self.number, slot), opcode, &sges).to(to);
        Ok(context.engine.post_send(self.qpn, &wr)?)
    }

    fn destroy<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // Both are there: nobody else destroys them.
        let _ = context.engine.destroy_qp(self.qpn);
        let _ = context.engine.destroy_ah(self.ah);
        self.exposed.withdraw(context);
        context.platform.release_route(self.route);
    }
}

/// Bytes in front of a received datagram.
const fn area_len() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "40")]
    let len = GrhArea::LEN as u32;
    len
}

impl CmSession for Server {
    /// None: a resolution ends with its answer.
    fn id(&self) -> CommunicationId {
        CommunicationId(0)
    }

    fn owns(&self, qpn: Qpn) -> bool {
        self.qpn == qpn
    }

    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn count(&self) -> u64 {
        self.received
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn handle_notice<P: Platform>(
        &mut self,
        _: &Notice,
        _: &mut Gsi<'_>,
        _: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        Ok(())
    }

    fn handle_completion<P: Platform>(
        &mut self,
        wc: &Wc,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.ends = context.now.add_ns(IDLE_NS);
        let slot = u32::try_from(wc.wr_id & u64::from(u32::MAX)).unwrap_or(0);
        if wc.opcode == WcOpcode::Recv {
            self.received += 1;
            self.answer(wc, slot, context)
        } else {
            self.post_receive(slot, context)
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.ends)
    }

    fn handle_timeout<P: Platform>(
        &mut self,
        _: &mut Gsi<'_>,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        self.over = self.ends <= context.now;
        Ok(())
    }

    fn close<P: Platform>(self, _: &mut Gsi<'_>, context: &mut Context<'_, '_, P>) {
        self.destroy(context);
    }
}
