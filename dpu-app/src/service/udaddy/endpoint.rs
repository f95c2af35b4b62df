//! A datagram queue pair, its memory, and the way to the peer.

use core::net::IpAddr;

use roce_codec::ib::{PKey, Psn, QKey, Qpn, Service};
use roce_engine::{
    Access, Addr, Ah, Entropy, GrhArea, ModifyQp, Path, QpInit, RecvWr, SendWr, Sge, UdAddress, Wc,
    WrOpcode,
};

use super::QKEY;
use crate::service::cm::CmServiceError;
use crate::service::memory::Exposed;
use crate::service::{Context, Platform, Route, wr_id};

/// See the [module](self). It is to be ended with [`Endpoint::destroy`].
///
/// Its memory is places of equal length for a datagram each, with the area in front of it.
#[derive(Debug)]
pub(super) struct Endpoint {
    number: u32,
    qpn: Qpn,
    exposed: Exposed,
    place_len: u32,
    path: Path,
    route: Route,
    ah: Ah,
}

impl Endpoint {
    /// For a session of this number; datagrams are no longer than `len`. The queue pair is in RTS and
    /// has no receives.
    pub(super) fn new<P: Platform>(
        number: u32,
        peer: IpAddr,
        places: u32,
        len: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<Self, CmServiceError> {
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
        let place_len = area_len() + len;
        let (qpn, exposed) = match with_memory(places, place_len, context) {
            Ok(made) => made,
            Err(error) => {
                // It is there: it has just been made.
                let _ = context.engine.destroy_ah(ah);
                context.platform.release_route(route);
                return Err(error);
            }
        };
        let endpoint = Self { number, qpn, exposed, place_len, path, route, ah };
        match endpoint.prepare(context) {
            Ok(()) => Ok(endpoint),
            Err(error) => {
                endpoint.destroy(context);
                Err(error)
            }
        }
    }

    fn prepare<P: Platform>(&self, context: &mut Context<'_, '_, P>) -> Result<(), CmServiceError> {
        let sq_psn = Psn::new(context.platform.random().next_u32());
        let init = ModifyQp::InitUd { pkey: PKey::DEFAULT, qkey: QKEY };
        for change in [init, ModifyQp::RtrUd, ModifyQp::RtsUd { sq_psn }] {
            context.engine.modify_qp(self.qpn, &change)?;
        }
        Ok(())
    }

    pub(super) const fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The way to the peer.
    pub(super) const fn path(&self) -> &Path {
        &self.path
    }

    /// The memory.
    pub(super) const fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// Where the datagram of a place lies.
    pub(super) fn addr(&self, place: u32) -> Addr {
        self.exposed.addr(self.offset(place) + u64::from(area_len()))
    }

    fn offset(&self, place: u32) -> u64 {
        u64::from(place) * u64::from(self.place_len)
    }

    /// The beginning of a place.
    fn sge(&self, place: u32, len: u32) -> Sge {
        let va = self.exposed.region.va.wrapping_add(self.offset(place));
        Sge { va, len, lkey: self.exposed.mr.lkey }
    }

    /// Lends a place to a datagram that comes.
    pub(super) fn post_receive<P: Platform>(
        &self,
        place: u32,
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let sges = [self.sge(place, self.place_len)];
        let wr = RecvWr::new(wr_id(self.number, place), &sges);
        Ok(context.engine.post_recv(self.qpn, &wr)?)
    }

    /// Sends the first `len` bytes of a place's datagram to a queue pair of the peer's.
    pub(super) fn send<P: Platform>(
        &self,
        place: u32,
        len: u32,
        (dest_qpn, qkey): (Qpn, QKey),
        context: &mut Context<'_, '_, P>,
    ) -> Result<(), CmServiceError> {
        let sge = self.sge(place, len);
        let sges = [Sge { va: sge.va.wrapping_add(area_len().into()), ..sge }];
        let to = UdAddress { ah: self.ah, dest_qpn, qkey };
        let opcode = WrOpcode::SendWithImm(self.qpn.get());
        let wr = SendWr::new(wr_id(self.number, place), opcode, &sges).to(to);
        Ok(context.engine.post_send(self.qpn, &wr)?)
    }

    pub(super) fn destroy<P: Platform>(self, context: &mut Context<'_, '_, P>) {
        // Both are there: nobody else destroys them.
        let _ = context.engine.destroy_qp(self.qpn);
        let _ = context.engine.destroy_ah(self.ah);
        self.exposed.withdraw(context);
        context.platform.release_route(self.route);
    }
}

fn with_memory<P: Platform>(
    places: u32,
    place_len: u32,
    context: &mut Context<'_, '_, P>,
) -> Result<(Qpn, Exposed), CmServiceError> {
    let pd = context.engine.alloc_pd();
    let len = u64::from(places) * u64::from(place_len);
    let exposed = Exposed::new(context, pd, len, Access::LOCAL_WRITE)?;
    let (send_cq, recv_cq) = (context.queues.send, context.queues.recv);
    let init = QpInit {
        max_send_wr: places,
        max_recv_wr: places,
        ..QpInit::new(Service::Ud, pd, send_cq, recv_cq)
    };
    match context.engine.create_qp(&init, context.platform.random()) {
        Ok(qpn) => Ok((qpn, exposed)),
        Err(error) => {
            exposed.withdraw(context);
            Err(error.into())
        }
    }
}

/// Bytes in front of a received datagram.
pub(super) const fn area_len() -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "40")]
    let len = GrhArea::LEN as u32;
    len
}

/// Bytes of a datagram that has come.
pub(super) const fn datagram_len(wc: &Wc) -> u32 {
    wc.byte_len.saturating_sub(area_len())
}
