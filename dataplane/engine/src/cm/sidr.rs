//! Which datagram queue pair serves a service? SIDR_REQ and SIDR_REP, both sides.

use roce_codec::cm::{
    CommunicationId, Mad, Message, ServiceId, SidrRep, SidrReq, SidrStatus, Timeout,
};
use roce_codec::ib::{PKey, QKey, Qpn};

use super::active::private_data;
use super::answer::Says;
use super::state::{CmState, Input};
use super::table::Key;
use super::{Cm, CmCallError, CmDropReason, Handled};
use crate::qp::Path;
use crate::time::Instant;

/// A datagram service to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SidrQuery<'a> {
    /// The service; of the RDMA IP CM Service with
    /// [`RdmaCmServiceId`](roce_codec::cm::RdmaCmServiceId).
    pub service_id: ServiceId,
    /// The way to the peer.
    pub path: Path,
    /// Our port in the header of the RDMA IP CM Service, where the service is one of that.
    pub ip_src_port: u16,
    /// For the peer's consumer: up to 216 bytes, or 180 behind the header of the RDMA IP CM
    /// Service.
    pub private_data: &'a [u8],
    /// Partition of the datagrams to come.
    pub pkey: PKey,
    /// How long an answer may take, there and back included.
    pub response_timeout: Timeout,
    /// Times the request is sent again.
    pub max_cm_retries: u8,
}

impl SidrQuery<'_> {
    /// With 4.3 s to answer and 15 retries.
    #[must_use]
    pub const fn new(service_id: ServiceId, path: Path) -> Self {
        Self {
            service_id,
            path,
            ip_src_port: 0,
            private_data: &[],
            pkey: PKey::DEFAULT,
            response_timeout: Timeout::new(20),
            max_cm_retries: 15,
        }
    }
}

/// What the consumer answers a SIDR_REQ with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SidrAnswer<'a> {
    /// [`SidrStatus::VALID`], or why not.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// Its key.
    pub qkey: QKey,
    /// For the peer's consumer: up to 136 bytes.
    pub private_data: &'a [u8],
}

impl Cm<'_> {
    /// Looks for a datagram service; [`CmEvent::SidrResponse`](super::CmEvent::SidrResponse) or
    /// [`Unreachable`](super::CmEvent::Unreachable) follows, and the ID ends with it.
    ///
    /// # Errors
    /// [`CmCallError::NoSlot`] and [`PrivateData`](CmCallError::PrivateData).
    pub fn sidr_request(
        &mut self,
        now: Instant,
        query: &SidrQuery<'_>,
    ) -> Result<CommunicationId, CmCallError> {
        self.advance(now);
        let mut room = [0; SidrReq::PRIVATE_DATA_LEN];
        let private_data = private_data(
            query.service_id,
            &query.path,
            query.ip_src_port,
            query.private_data,
            &mut room,
        )?;
        let index = self.open(CmState::Idle).ok_or(CmCallError::NoSlot)?;
        let Some(slot) = self.table.get_mut(index) else { return Err(CmCallError::NoSlot) };
        let id = slot.id;
        slot.active = true;
        slot.datagram = true;
        slot.service_id = query.service_id;
        slot.path = query.path;
        slot.response_ns = query.response_timeout.ns();
        slot.max_retries = query.max_cm_retries;
        slot.retries_left = query.max_cm_retries;
        let req = SidrReq {
            request_id: id.0,
            pkey: query.pkey,
            service_id: query.service_id,
            private_data,
            ..SidrReq::default()
        };
        let tid = self.transaction_id(id);
        let written = self.write(index, &Message::SidrReq(req), tid);
        let row = super::transition(CmState::Idle, Input::SidrRequest);
        let (Ok(()), Some(row)) = (written, row) else {
            self.table.give(index);
            return Err(written.err().unwrap_or(CmCallError::NoSlot));
        };
        self.commit(index, row);
        Ok(id)
    }

    /// A peer looks for a datagram service, or looks again (IBTA 12.11).
    pub(super) fn handle_sidr_req(
        &mut self,
        tid: u64,
        req: &SidrReq<'_>,
        mad: &Mad<'_>,
        from: &Path,
    ) -> Handled {
        let remote_id = CommunicationId(req.request_id);
        if let Some(index) = self.table.find_key(Key::Request(from.dst, remote_id)) {
            self.counters.duplicates += 1;
            let row = self.message(index, Input::SidrReq)?;
            self.commit(index, row);
            return Ok(());
        }
        let refuse = |status| Says::SidrRep {
            request_id: req.request_id,
            service_id: req.service_id,
            status,
        };
        let Some(listener) = self.listener(req.service_id) else {
            self.counters.rejects += 1;
            return self.answer(from, tid, refuse(SidrStatus::SERVICE_ID_NOT_SUPPORTED));
        };
        let Some(index) = self.open_passive(listener) else {
            self.counters.rejects += 1;
            self.counters.no_resources += 1;
            return self.answer(from, tid, refuse(SidrStatus::NO_QP));
        };
        let row = self.message(index, Input::SidrReq)?;
        self.keep(index, mad);
        let Some(slot) = self.table.get_mut(index) else { return Err(CmDropReason::State) };
        slot.datagram = true;
        slot.remote_id = remote_id;
        slot.transaction_id = tid;
        slot.path = *from;
        self.table.index_by_id(index);
        self.commit(index, row);
        Ok(())
    }

    /// Answers a [`CmEvent::SidrRequest`](super::CmEvent::SidrRequest); its ID ends here.
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn sidr_reply(
        &mut self,
        now: Instant,
        id: CommunicationId,
        answer: &SidrAnswer<'_>,
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::SidrReply)?;
        let (request_id, tid) = self.names(index);
        let service_id = self.table.get(index).map_or(ServiceId(0), |slot| slot.service_id);
        let rep = SidrRep {
            request_id: request_id.0,
            status: answer.status,
            qpn: answer.qpn,
            service_id,
            qkey: answer.qkey,
            private_data: answer.private_data,
            ..SidrRep::default()
        };
        self.write(index, &Message::SidrRep(rep), tid)?;
        self.commit(index, row);
        Ok(())
    }

    /// The peer says which queue pair it is, or that there is none.
    pub(super) fn handle_sidr_rep(
        &mut self,
        rep: &SidrRep<'_>,
        mad: &Mad<'_>,
        from: &Path,
    ) -> Handled {
        let index = self.connection(CommunicationId(rep.request_id), None, from)?;
        let row = self.message(index, Input::SidrRep)?;
        self.keep(index, mad);
        self.commit(index, row);
        Ok(())
    }
}
