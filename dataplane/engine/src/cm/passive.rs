//! The passive side: REQ in, REP out, RTU in.

use roce_codec::cm::{
    CommunicationId, Mad, Message, RejReason, Rep, Req, Rtu, ServiceId, TransportType,
};
use roce_codec::ib::{PathMtu, Psn, Qpn};
use roce_codec::net::source_port_from_flow_label;

use super::active::is_reserved;
use super::answer::Ari;
use super::attributes::QpAttributes;
use super::slot::ListenSlot;
use super::state::{CmState, Input};
use super::table::Key;
use super::{Cm, CmCallError, CmDropReason, Handled, Send};
use crate::qp::Path;
use crate::time::Instant;

/// What the consumer answers a REQ with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept<'a> {
    /// Our queue pair.
    pub qpn: Qpn,
    /// The PSN our responder expects first, which the peer's requester will start with.
    pub starting_psn: Psn,
    /// READs and atomics we can serve; the peer gets no more than it wants.
    pub responder_resources: u8,
    /// READs and atomics we want to have outstanding; we get no more than the peer serves.
    pub initiator_depth: u8,
    /// Times the peer's requester sends again after an RNR NAK, 0 to 6; 7 is without end.
    pub rnr_retry_count: u8,
    /// Our requester heeds the credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// Our queue pair has a shared receive queue.
    pub srq: bool,
    /// For the peer's consumer: up to 196 bytes.
    pub private_data: &'a [u8],
}

impl Accept<'_> {
    /// One READ or atomic each way, RNR retries without end.
    #[must_use]
    pub const fn new(qpn: Qpn, starting_psn: Psn) -> Self {
        Self {
            qpn,
            starting_psn,
            responder_resources: 1,
            initiator_depth: 1,
            rnr_retry_count: 7,
            end_to_end_flow_control: false,
            srq: false,
            private_data: &[],
        }
    }
}

impl Cm<'_> {
    /// Listens for a service, with at most `backlog` connections that are not established yet.
    ///
    /// # Errors
    /// [`CmCallError::Listening`] and [`NoListener`](CmCallError::NoListener).
    pub fn listen(&mut self, service_id: ServiceId, backlog: u32) -> Result<(), CmCallError> {
        if self.listener(service_id).is_some() {
            return Err(CmCallError::Listening);
        }
        let slot = self.listeners.iter_mut().find(|slot| !slot.live);
        let slot = slot.ok_or(CmCallError::NoListener)?;
        self.epoch = self.epoch.wrapping_add(1);
        *slot = ListenSlot { live: true, service_id, backlog, half_open: 0, epoch: self.epoch };
        Ok(())
    }

    /// Listens no more. Connections that were asked for stay.
    ///
    /// # Errors
    /// [`CmCallError::NotListening`].
    pub fn unlisten(&mut self, service_id: ServiceId) -> Result<(), CmCallError> {
        let at = self.listener(service_id).ok_or(CmCallError::NotListening)?;
        if let Some(slot) = self.listeners.get_mut(at) {
            *slot = ListenSlot::EMPTY;
        }
        Ok(())
    }

    pub(super) fn listener(&self, service_id: ServiceId) -> Option<usize> {
        self.listeners.iter().position(|slot| slot.live && slot.service_id == service_id)
    }

    /// A slot for what a listener is asked for; `None` if there is none, or none for it.
    pub(super) fn open_passive(&mut self, listener: usize) -> Option<u32> {
        let listen = self.listeners.get(listener)?;
        if listen.half_open >= listen.backlog {
            return None;
        }
        let index = self.open(CmState::Listen)?;
        let listen = self.listeners.get_mut(listener)?;
        listen.half_open += 1;
        if let Some(slot) = self.table.get_mut(index) {
            slot.service_id = listen.service_id;
            slot.listener = (listener, listen.epoch);
        }
        Some(index)
    }

    /// A connection is established, or has come to nothing.
    pub(super) fn forget_half_open(&mut self, (at, epoch): (usize, u32)) {
        if let Some(listen) = self.listeners.get_mut(at)
            && listen.live
            && listen.epoch == epoch
        {
            listen.half_open = listen.half_open.saturating_sub(1);
        }
    }

    /// A peer asks for a connection, or asks again.
    pub(super) fn handle_req(
        &mut self,
        tid: u64,
        req: &Req<'_>,
        mad: &Mad<'_>,
        from: &Path,
    ) -> Handled {
        if let Some(index) = self.table.find_key(Key::Id(req.local_ca_guid, req.local_comm_id)) {
            return self.handle_known_req(index, tid, req, from);
        }
        if let Some(old) = self.table.find_key(Key::Qp(req.local_ca_guid, req.local_qpn)) {
            return self.refuse_stale_req(old, tid, req, from);
        }
        let Some(listener) = self.listener(req.service_id) else {
            return self.refuse_req(tid, req, from, RejReason::INVALID_SERVICE_ID, Ari::None);
        };
        let path_mtu = match self.check_req(req, from) {
            Ok(path_mtu) => path_mtu,
            Err((reason, ari)) => return self.refuse_req(tid, req, from, reason, ari),
        };
        let Some(index) = self.open_passive(listener) else {
            self.counters.no_resources += 1;
            return self.refuse_req(tid, req, from, RejReason::NO_RESOURCES, Ari::None);
        };
        let row = self.message(index, Input::Req)?;
        self.keep(index, mad);
        let max_wait = self.config.max_wait.ns();
        let Some(slot) = self.table.get_mut(index) else { return Err(CmDropReason::State) };
        slot.remote_id = req.local_comm_id;
        slot.remote_guid = req.local_ca_guid;
        slot.req_psn = req.starting_psn;
        slot.transaction_id = tid;
        slot.path = *from;
        slot.qp = QpAttributes::requested(req, path_mtu, data_path(req, from));
        // What the peer states is what we wait, there and back included.
        slot.response_ns = req.local_cm_response_timeout.ns().min(max_wait);
        slot.max_retries = req.max_cm_retries;
        self.table.index_by_id(index);
        self.table.index_by_qp(index);
        self.commit(index, row);
        Ok(())
    }

    /// Whether a REQ can be served at all (IBTA 12.6.7.2); the path MTU if it can.
    fn check_req(&self, req: &Req<'_>, from: &Path) -> Result<PathMtu, (RejReason, Ari)> {
        if !matches!(req.transport, TransportType::Rc | TransportType::Uc) {
            return Err((RejReason::INVALID_TRANSPORT, Ari::None));
        }
        if is_reserved(req.local_qpn) {
            return Err((RejReason::UNSUPPORTED_REQUEST, Ari::None));
        }
        if req.primary.remote_gid.ip() != from.src {
            let right = roce_codec::cm::Gid::from(from.src);
            return Err((RejReason::PRIMARY_GID_REJECTED, Ari::Gid(right.0)));
        }
        if req.primary.local_gid.ip() != from.dst {
            // It would have us send to somebody who has not asked.
            return Err((RejReason::UNSUPPORTED_REQUEST, Ari::None));
        }
        let most = self.config.max_path_mtu;
        req.path_mtu()
            .filter(|mtu| *mtu <= most)
            .ok_or((RejReason::INVALID_PATH_MTU, Ari::Byte([most.code()])))
    }

    /// A REQ under an ID that the same host uses: it comes again, or its sender has started anew.
    fn handle_known_req(&mut self, index: u32, tid: u64, req: &Req<'_>, from: &Path) -> Handled {
        let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
        if (slot.path.src, slot.path.dst) != (from.src, from.dst) {
            return Err(CmDropReason::Address);
        }
        if slot.qp.dest_qpn != req.local_qpn {
            let reason = RejReason::DUPLICATE_LOCAL_COMM_ID;
            return self.refuse_req(tid, req, from, reason, Ari::None);
        }
        if slot.req_psn != req.starting_psn || slot.service_id != req.service_id {
            return self.refuse_stale_req(index, tid, req, from);
        }
        self.counters.duplicates += 1;
        let row = self.message(index, Input::Req)?;
        self.commit(index, row);
        if row.send == Send::Answer {
            return self.refuse_req(tid, req, from, RejReason::STALE_CONNECTION, Ari::None);
        }
        Ok(())
    }

    /// A REQ from a queue pair that we believe to be connected to (IBTA Vol. 1, 12.9.8.3.1): it
    /// is refused, and the connection of which its sender has forgotten is ended, so that
    /// another try succeeds.
    fn refuse_stale_req(&mut self, old: u32, tid: u64, req: &Req<'_>, from: &Path) -> Handled {
        self.refuse_req(tid, req, from, RejReason::STALE_CONNECTION, Ari::None)?;
        self.end_stale(old, from);
        Ok(())
    }

    /// Accepts: sends the REP. What comes back takes our queue pair to RTR and RTS; the peer is
    /// ready at [`CmEvent::Established`](super::CmEvent::Established).
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn accept(
        &mut self,
        now: Instant,
        id: CommunicationId,
        accept: &Accept<'_>,
    ) -> Result<QpAttributes, CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::Accept)?;
        let Some(slot) = self.table.get(index) else { return Err(CmCallError::UnknownId) };
        let (tid, agreed) = (slot.transaction_id, slot.qp.accepted(accept));
        let rep = Rep {
            local_comm_id: id,
            remote_comm_id: slot.remote_id,
            local_qpn: accept.qpn,
            starting_psn: accept.starting_psn,
            responder_resources: agreed.max_dest_rd_atomic,
            initiator_depth: agreed.max_rd_atomic,
            target_ack_delay: self.config.ack_delay,
            end_to_end_flow_control: accept.end_to_end_flow_control,
            rnr_retry_count: accept.rnr_retry_count & 7,
            srq: accept.srq,
            local_ca_guid: self.config.ca_guid,
            private_data: accept.private_data,
            ..Rep::default()
        };
        self.write(index, &Message::Rep(rep), tid)?;
        if let Some(slot) = self.table.get_mut(index) {
            slot.qp = agreed;
            slot.local_qpn = accept.qpn;
            slot.retries_left = slot.max_retries;
        }
        self.commit(index, row);
        Ok(agreed)
    }

    /// The peer's queue pair is in RTS.
    pub(super) fn handle_rtu(&mut self, rtu: &Rtu<'_>, mad: &Mad<'_>, from: &Path) -> Handled {
        let index = self.connection(rtu.remote_comm_id, Some(rtu.local_comm_id), from)?;
        if self.table.get(index).is_some_and(|slot| slot.active) {
            return Err(CmDropReason::State);
        }
        let row = self.message(index, Input::Rtu)?;
        if row.from == row.to {
            self.counters.duplicates += 1;
        } else {
            self.keep(index, mad);
        }
        self.commit(index, row);
        Ok(())
    }

    /// The first packet of the connection came while the queue pair waited in RTR; it stands for
    /// a lost RTU ([`Event::CommunicationEstablished`](crate::Event::CommunicationEstablished)).
    /// No event follows.
    ///
    /// # Errors
    /// [`CmCallError`]; [`CmCallError::State`] if the RTU has come after all.
    pub fn communication_established(
        &mut self,
        now: Instant,
        id: CommunicationId,
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::FirstPacket)?;
        self.commit(index, row);
        Ok(())
    }
}

/// The way of the connection's packets: that of the REQ's primary path.
fn data_path(req: &Req<'_>, from: &Path) -> Path {
    let primary = &req.primary;
    let src_port = match primary.flow_label {
        0 => from.src_port,
        // IBTA Annex A17; the folding is Linux's.
        label => source_port_from_flow_label(label),
    };
    Path {
        src_port,
        traffic_class: primary.traffic_class,
        flow_label: primary.flow_label,
        hop_limit: if primary.hop_limit == 0 { from.hop_limit } else { primary.hop_limit },
        ..*from
    }
}
