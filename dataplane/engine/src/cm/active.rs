//! The active side: REQ out, REP in, RTU out.

use roce_codec::cm::CommunicationId;
use roce_codec::cm::{
    Gid, IpCmHeader, Mad, Message, Mra, MraedMessage, Path as PathRecord, RdmaCmServiceId,
    RejReason, RejectedMessage, Rep, Req, Rtu, ServiceId, Timeout, TransportType,
};
use roce_codec::ib::{PKey, PathMtu, Psn, Qpn};

use super::answer::{Ari, Says};
use super::attributes::QpAttributes;
use super::state::{CmState, Input};
use super::table::Key;
use super::{Cm, CmCallError, CmDropReason, Handled};
use crate::qp::Path;
use crate::time::Instant;

/// LIDs mean nothing on Ethernet; Linux sends all ones.
const NO_LID: u16 = 0xffff;

/// A connection to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The service; of the RDMA IP CM Service with
    /// [`RdmaCmServiceId`](roce_codec::cm::RdmaCmServiceId).
    pub service_id: ServiceId,
    /// Reliable or unreliable connection.
    pub transport: TransportType,
    /// The way to the peer, of messages and of the connection.
    pub path: Path,
    /// Our port in the header of the RDMA IP CM Service, which precedes the private data where
    /// the service is one of that Service; unused elsewhere.
    pub ip_src_port: u16,
    /// For the peer's consumer: up to 92 bytes, or 56 behind the header of the RDMA IP CM Service.
    pub private_data: &'a [u8],
    /// Our queue pair.
    pub qpn: Qpn,
    /// The PSN our responder expects first, which the peer's requester will start with.
    pub starting_psn: Psn,
    /// READs and atomics we serve at a time.
    pub responder_resources: u8,
    /// READs and atomics we want to have outstanding.
    pub initiator_depth: u8,
    /// Times either requester sends again without progress, 0 to 7.
    pub retry_count: u8,
    /// Times the peer's requester sends again after an RNR NAK, 0 to 6; 7 is without end.
    pub rnr_retry_count: u8,
    /// Our requester heeds the credits in acknowledgements.
    pub end_to_end_flow_control: bool,
    /// Our queue pair has a shared receive queue.
    pub srq: bool,
    /// Partition.
    pub pkey: PKey,
    /// Path MTU.
    pub path_mtu: PathMtu,
    /// Service level, 4 bits.
    pub sl: u8,
    /// How long the peer's requester waits for an acknowledgement: twice the packet's life time,
    /// and our delay.
    pub local_ack_timeout: Timeout,
    /// How soon the peer's connection manager shall answer.
    pub remote_cm_response_timeout: Timeout,
    /// How soon ours answers.
    pub local_cm_response_timeout: Timeout,
    /// Times either connection manager sends a message again, 0 to 15.
    pub max_cm_retries: u8,
}

impl Connect<'_> {
    /// A reliable connection with what Linux's RDMA CM asks for: 4.3 s to answer, 15 retries of
    /// messages, 7 of packets, an ACK timeout of 2.1 s; one READ or atomic each way, path MTU 1024.
    #[must_use]
    pub const fn new(service_id: ServiceId, path: Path, qpn: Qpn, starting_psn: Psn) -> Self {
        Self {
            service_id,
            transport: TransportType::Rc,
            path,
            ip_src_port: 0,
            private_data: &[],
            qpn,
            starting_psn,
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            end_to_end_flow_control: false,
            srq: false,
            pkey: PKey::DEFAULT,
            path_mtu: PathMtu::Mtu1024,
            sl: 0,
            local_ack_timeout: Timeout::new(19),
            remote_cm_response_timeout: Timeout::new(20),
            local_cm_response_timeout: Timeout::new(20),
            max_cm_retries: 15,
        }
    }
}

/// Private data behind the header of the RDMA IP CM Service, where the service wants one (IBTA
/// Annex A11).
pub(super) fn private_data<'b, const N: usize>(
    service_id: ServiceId,
    path: &Path,
    src_port: u16,
    consumer: &[u8],
    room: &'b mut [u8; N],
) -> Result<&'b [u8], CmCallError> {
    use roce_codec::cm::CmEmitError::TooLong;
    let head = match RdmaCmServiceId::from_service_id(service_id) {
        None => 0,
        Some(_) => {
            let header = match (path.src, path.dst) {
                (core::net::IpAddr::V4(src), core::net::IpAddr::V4(dst)) => {
                    IpCmHeader::v4(src, src_port, dst)
                }
                (src, dst) => IpCmHeader {
                    ip_version: 6,
                    src_port,
                    src: Gid::from(src).0,
                    dst: Gid::from(dst).0,
                    ..IpCmHeader::default()
                },
            };
            header.emit(room).map_err(CmCallError::PrivateData)?;
            IpCmHeader::LEN
        }
    };
    let len = consumer.len();
    let too_long = CmCallError::PrivateData(TooLong { len, room: N.saturating_sub(head) });
    let rest = room.get_mut(head..).and_then(|rest| rest.get_mut(..len)).ok_or(too_long)?;
    rest.copy_from_slice(consumer);
    room.get(..head + len).ok_or(too_long)
}

impl Cm<'_> {
    /// Asks for a connection; says what it is called here. What becomes of it is told by
    /// [`CmEvent::ConnectResponse`](super::CmEvent::ConnectResponse),
    /// [`Rejected`](super::CmEvent::Rejected) or [`Unreachable`](super::CmEvent::Unreachable).
    ///
    /// # Errors
    /// [`CmCallError::NoSlot`], [`Transport`](CmCallError::Transport),
    /// [`PrivateData`](CmCallError::PrivateData).
    pub fn connect(
        &mut self,
        now: Instant,
        connect: &Connect<'_>,
    ) -> Result<CommunicationId, CmCallError> {
        self.advance(now);
        if !matches!(connect.transport, TransportType::Rc | TransportType::Uc) {
            return Err(CmCallError::Transport);
        }
        let mut room = [0; Req::PRIVATE_DATA_LEN];
        let data = private_data(
            connect.service_id,
            &connect.path,
            connect.ip_src_port,
            connect.private_data,
            &mut room,
        )?;
        let index = self.open(CmState::Idle).ok_or(CmCallError::NoSlot)?;
        let Some(slot) = self.table.get_mut(index) else { return Err(CmCallError::NoSlot) };
        let id = slot.id;
        slot.active = true;
        slot.service_id = connect.service_id;
        slot.path = connect.path;
        slot.local_qpn = connect.qpn;
        slot.qp = QpAttributes::asked(connect);
        // The peer has so long to answer; the messages travel there and back.
        let round_trip_ns = connect.local_ack_timeout.ns();
        slot.response_ns = connect.remote_cm_response_timeout.ns().saturating_add(round_trip_ns);
        slot.max_retries = connect.max_cm_retries & 15;
        slot.retries_left = slot.max_retries;
        let tid = self.transaction_id(id);
        let req = self.req(id, connect, data);
        let written = self.write(index, &Message::Req(req), tid);
        let row = super::transition(CmState::Idle, Input::Connect);
        let (Ok(()), Some(row)) = (written, row) else {
            self.table.give(index);
            return Err(written.err().unwrap_or(CmCallError::NoSlot));
        };
        if let Some(slot) = self.table.get_mut(index) {
            slot.transaction_id = tid;
        }
        self.commit(index, row);
        Ok(id)
    }

    fn req<'a>(
        &self,
        id: CommunicationId,
        connect: &Connect<'_>,
        private_data: &'a [u8],
    ) -> Req<'a> {
        Req {
            local_comm_id: id,
            service_id: connect.service_id,
            local_ca_guid: self.config.ca_guid,
            local_qpn: connect.qpn,
            responder_resources: connect.responder_resources,
            initiator_depth: connect.initiator_depth,
            remote_cm_response_timeout: connect.remote_cm_response_timeout,
            transport: connect.transport,
            end_to_end_flow_control: connect.end_to_end_flow_control,
            starting_psn: connect.starting_psn,
            local_cm_response_timeout: connect.local_cm_response_timeout,
            retry_count: connect.retry_count & 7,
            pkey: connect.pkey,
            path_mtu_code: connect.path_mtu.code(),
            rnr_retry_count: connect.rnr_retry_count & 7,
            max_cm_retries: connect.max_cm_retries & 15,
            srq: connect.srq,
            primary: PathRecord {
                local_lid: NO_LID,
                remote_lid: NO_LID,
                local_gid: connect.path.src.into(),
                remote_gid: connect.path.dst.into(),
                flow_label: connect.path.flow_label,
                traffic_class: connect.path.traffic_class,
                hop_limit: connect.path.hop_limit,
                sl: connect.sl,
                local_ack_timeout: connect.local_ack_timeout,
                ..PathRecord::NONE
            },
            private_data,
            ..Req::default()
        }
    }

    /// The peer has accepted, or it says so again.
    pub(super) fn handle_rep(
        &mut self,
        tid: u64,
        rep: &Rep<'_>,
        mad: &Mad<'_>,
        from: &Path,
    ) -> Handled {
        let found = self.connection(rep.remote_comm_id, None, from).and_then(|index| {
            let slot = self.table.get(index).ok_or(CmDropReason::UnknownConnection)?;
            if !slot.active || slot.datagram {
                return Err(CmDropReason::State);
            }
            let first = matches!(slot.state, CmState::ReqSent | CmState::RepWait);
            if !first && slot.remote_id != rep.local_comm_id {
                return Err(CmDropReason::UnknownConnection);
            }
            Ok((index, first))
        });
        let (index, first) = match found {
            Ok(found) => found,
            Err(CmDropReason::UnknownConnection) => {
                return self.refuse_rep(tid, rep, from, RejReason::INVALID_COMM_ID);
            }
            Err(reason) => return Err(reason),
        };
        if !first {
            self.counters.duplicates += 1;
            let row = self.message(index, Input::Rep)?;
            self.commit(index, row);
            if row.send == super::Send::Answer {
                return self.refuse_rep(tid, rep, from, RejReason::INVALID_COMM_ID);
            }
            return Ok(());
        }
        if is_reserved(rep.local_qpn) {
            return Err(CmDropReason::Mismatch);
        }
        if let Some(old) = self.table.find_key(Key::Qp(rep.local_ca_guid, rep.local_qpn)) {
            let row = self.message(index, Input::StaleRep)?;
            self.refuse_rep(tid, rep, from, RejReason::STALE_CONNECTION)?;
            self.commit(index, row);
            self.end_stale(old, from);
            return Ok(());
        }
        let row = self.message(index, Input::Rep)?;
        self.keep(index, mad);
        let Some(slot) = self.table.get_mut(index) else {
            return Err(CmDropReason::UnknownConnection);
        };
        slot.remote_id = rep.local_comm_id;
        slot.remote_guid = rep.local_ca_guid;
        slot.qp = slot.qp.answered(rep);
        self.table.index_by_qp(index);
        self.commit(index, row);
        Ok(())
    }

    /// IBTA 12.6.7.2.
    fn refuse_rep(&mut self, tid: u64, rep: &Rep<'_>, from: &Path, reason: RejReason) -> Handled {
        let says = Says::Rej {
            local: rep.remote_comm_id,
            remote: rep.local_comm_id,
            rejected: RejectedMessage::Rep,
            reason,
            ari: Ari::None,
        };
        self.answer(from, tid, says)?;
        self.counters.rejects += 1;
        Ok(())
    }

    /// Sends the RTU: our queue pair is in RTS. The connection is established. `private_data` is
    /// up to 224 bytes.
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn ready(
        &mut self,
        now: Instant,
        id: CommunicationId,
        private_data: &[u8],
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::Ready)?;
        let (remote_comm_id, tid) = self.names(index);
        let rtu = Rtu { local_comm_id: id, remote_comm_id, private_data };
        self.write(index, &Message::Rtu(rtu), tid)?;
        self.commit(index, row);
        Ok(())
    }

    /// Tells the peer by MRA that our answer, to its REQ or its REP, takes up to
    /// `service_timeout`. `private_data` is up to 222 bytes.
    ///
    /// # Errors
    /// [`CmCallError`].
    pub fn delay(
        &mut self,
        now: Instant,
        id: CommunicationId,
        service_timeout: Timeout,
        private_data: &[u8],
    ) -> Result<(), CmCallError> {
        self.advance(now);
        let (index, row) = self.call(id, Input::Delay)?;
        let (remote_comm_id, tid) = self.names(index);
        let active = self.table.get(index).is_some_and(|slot| slot.active);
        let mra = Mra {
            local_comm_id: id,
            remote_comm_id,
            message: if active { MraedMessage::Rep } else { MraedMessage::Req },
            service_timeout,
            private_data,
            ..Mra::default()
        };
        self.write(index, &Message::Mra(mra), tid)?;
        self.commit(index, row);
        Ok(())
    }

    /// The peer has our message, its answer takes longer (IBTA 12.6.6).
    pub(super) fn handle_mra(&mut self, mra: &Mra<'_>, from: &Path) -> Handled {
        let index = match mra.message {
            // The REP that would tell the peer's ID has not come yet.
            MraedMessage::Req => self.connection(mra.remote_comm_id, None, from)?,
            _ => self.connection(mra.remote_comm_id, Some(mra.local_comm_id), from)?,
        };
        let max_wait = self.config.max_wait.ns();
        let active = self.table.get(index).is_some_and(|slot| slot.active);
        let expected = if active { MraedMessage::Req } else { MraedMessage::Rep };
        if mra.message != expected {
            return Err(CmDropReason::State);
        }
        let row = self.message(index, Input::Mra)?;
        if let Some(slot) = self.table.get_mut(index) {
            slot.service_ns =
                mra.service_timeout.ns().saturating_add(slot.qp.timeout.ns()).min(max_wait);
        }
        self.commit(index, row);
        Ok(())
    }

    /// The peer's ID of a connection, and its transaction.
    pub(super) fn names(&self, index: u32) -> (CommunicationId, u64) {
        self.table
            .get(index)
            .map_or((CommunicationId(0), 0), |slot| (slot.remote_id, slot.transaction_id))
    }
}

/// Whether no connection can be with this queue pair: the management queue pairs and multicast.
pub(super) fn is_reserved(qpn: Qpn) -> bool {
    [Qpn::SMI, Qpn::GSI, Qpn::MULTICAST].contains(&qpn)
}
