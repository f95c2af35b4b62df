//! The connection manager: the messages that set a reliable connection up and tear it down.

use roce_codec::cm::{
    AttributeId, CaGuid, CmEmitError, CmError, CommunicationId, Drep, Dreq, Failover, Gid, MAD_LEN,
    Mad, Message, Path, Rej, RejReason, RejectedMessage, Rep, Req, Rtu, ServiceId, Timeout,
    TransportType,
};
use roce_codec::ib::{PKey, Psn, Qpn};
use zerocopy::{FromBytes, FromZeros};

use crate::pointer;
use crate::status::{report, roce_error, roce_status};

/// Bytes of a MAD, and so of the payload of a datagram with a connection manager message.
pub const ROCE_MAD_LEN: usize = 256;

const _: () = assert!(ROCE_MAD_LEN == MAD_LEN);

/// Which message it is: the MAD's attribute.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_cm_kind {
    /// Request for communication.
    Req = 0x10,
    /// Rejection.
    Rej = 0x12,
    /// Reply to a REQ.
    Rep = 0x13,
    /// Ready to use.
    Rtu = 0x14,
    /// Request to disconnect.
    Dreq = 0x15,
    /// Reply to a DREQ.
    Drep = 0x16,
}

/// The path that a REQ proposes. Times are codes, 0 to 31: 4.096 us times two to that power.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_cm_path {
    /// The sender's GID: ::ffff:a.b.c.d for IPv4.
    pub local_gid: [u8; 16],
    /// The receiver's GID.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// The sender's LID; 0xFFFF on RoCE.
    pub local_lid: u16,
    /// The receiver's LID; 0xFFFF on RoCE.
    pub remote_lid: u16,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Packet rate, 6 bits.
    pub packet_rate: u8,
    /// 1 if both ports are in one subnet.
    pub subnet_local: u8,
    /// How long the sender of a request waits for its acknowledgement.
    pub local_ack_timeout: u8,
}

/// A connection manager message. Fields that the message of `kind` does not have are 0 when parsed
/// and not looked at when written; what is said of reliable datagrams, alternate paths, vendors and
/// reserved bits is left out and written as 0.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_cm {
    /// The MAD's transaction; an answer has its request's.
    pub transaction_id: u64,
    /// REQ: the service asked for.
    pub service_id: u64,
    /// REQ, REP: the sender's channel adapter.
    pub local_ca_guid: u64,
    /// Which message: a `roce_cm_kind`.
    pub kind: u32,
    /// What the sender calls the connection.
    pub local_comm_id: u32,
    /// All but REQ: what the receiver calls it.
    pub remote_comm_id: u32,
    /// REQ, REP: the sender's queue pair, 24 bits.
    pub local_qpn: u32,
    /// DREQ: the receiver's queue pair, 24 bits.
    pub remote_qpn: u32,
    /// REQ, REP: the PSN that the receiver of this message must send with, 24 bits.
    pub starting_psn: u32,
    /// REJ: why.
    pub reason: u16,
    /// REQ: partition key.
    pub pkey: u16,
    /// REQ, REP: how many READs and atomics the sender will serve at a time.
    pub responder_resources: u8,
    /// REQ, REP: how many of them the sender would have outstanding.
    pub initiator_depth: u8,
    /// REQ: path MTU, a code of `roce_mtu_bytes`.
    pub path_mtu: u8,
    /// REQ: transport service, 2 bits: 0 RC, 1 UC.
    pub transport: u8,
    /// REQ: retries for want of an acknowledgement, 3 bits.
    pub retry_count: u8,
    /// REQ, REP: retries after an RNR NAK, 3 bits; 7 is without end.
    pub rnr_retry_count: u8,
    /// REQ: times that a connection manager sends a message again, 4 bits.
    pub max_cm_retries: u8,
    /// REQ: how soon the receiver's connection manager shall answer, a time code.
    pub remote_cm_response_timeout: u8,
    /// REQ: how soon the sender's answers, a time code.
    pub local_cm_response_timeout: u8,
    /// REP: the longest the sender's queue pair takes to acknowledge, a time code.
    pub target_ack_delay: u8,
    /// REQ, REP: 1 if the sender's requester heeds credits.
    pub end_to_end_flow_control: u8,
    /// REQ, REP: 1 if the sender's queue pair has a shared receive queue.
    pub srq: u8,
    /// REP: what became of the alternate path, 2 bits.
    pub failover: u8,
    /// REJ: the message rejected, 2 bits: 0 REQ, 1 REP, 2 another.
    pub rejected: u8,
    /// REQ: the path.
    pub path: roce_cm_path,
    /// When parsed: where the private data lie in the MAD. When written: not looked at.
    pub private_data_at: usize,
    /// When parsed: bytes of the message's private data field.
    pub private_data_len: usize,
}

/// Parses the MAD at `mad`, the payload of a UD SEND Only to queue pair 1 (`dest_qp` 1, Q_Key
/// 0x80010000), into `message`. `ROCE_STATUS_NOT_CM` is any other MAD, its attribute in
/// `error->found`. `error` may be NULL.
///
/// # Safety
/// `mad` is NULL or valid for `len` bytes; `message` and `error` are NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_cm_parse(
    mad: *const u8,
    len: usize,
    message: *mut roce_cm,
    error: *mut roce_error,
) -> roce_status {
    let parse = || -> Result<roce_cm, roce_error> {
        // SAFETY: valid by the caller's word; nothing is written while the slice is in use.
        let bytes = unsafe { pointer::bytes(mad, len) }?;
        let mad = Mad::parse(bytes)?;
        let mut value = match Message::parse(&mad)? {
            Message::Req(req) => req_to_c(&req),
            Message::Rej(rej) => rej_to_c(&rej),
            Message::Rep(rep) => rep_to_c(&rep),
            Message::Rtu(rtu) => ids_to_c(rtu.local_comm_id, rtu.remote_comm_id, rtu.private_data),
            Message::Dreq(dreq) => roce_cm {
                remote_qpn: dreq.remote_qpn.get(),
                ..ids_to_c(dreq.local_comm_id, dreq.remote_comm_id, dreq.private_data)
            },
            Message::Drep(drep) => {
                ids_to_c(drep.local_comm_id, drep.remote_comm_id, drep.private_data)
            }
            other => return Err(not_cm(other.attribute())),
        };
        value.kind = mad.header.attribute.0.into();
        value.transaction_id = mad.header.transaction_id;
        Ok(value)
    };
    let result = parse().and_then(|value| {
        // SAFETY: valid by the caller's word; the slice is gone.
        unsafe { pointer::write(message, value) }.map_err(roce_error::from)
    });
    // SAFETY: valid by the caller's word.
    unsafe { report(result, error) }
}

/// Writes `message` with `private_data` (NULL for none) as a MAD of `ROCE_MAD_LEN` bytes to `out`.
/// The rest of the private data field is zeroes. `error` may be NULL.
///
/// # Safety
/// `message` and `error` are NULL or valid and do not lie in `out`; `private_data` is NULL or valid
/// for `private_data_len` bytes, `out` for `out_len`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_cm_emit(
    message: *const roce_cm,
    private_data: *const u8,
    private_data_len: usize,
    out: *mut u8,
    out_len: usize,
    error: *mut roce_error,
) -> roce_status {
    let emit = || -> Result<(), roce_error> {
        // SAFETY: valid by the caller's word.
        let value = unsafe { pointer::read(message) }?;
        pointer::check_apart(private_data, private_data_len, out, out_len)?;
        // SAFETY: valid by the caller's word; does not overlap what is written.
        let private_data = unsafe { pointer::bytes(private_data, private_data_len) }?;
        let message = message_from_c(&value, private_data)?;
        if out.is_null() {
            return Err(roce_status::NullPointer.into());
        }
        // SAFETY: valid by the caller's word; `private_data` lies apart.
        let out = unsafe { pointer::bytes_mut(out, out_len) }?;
        Ok(message.emit(value.transaction_id, out)?)
    };
    // SAFETY: valid by the caller's word.
    unsafe { report(emit(), error) }
}

impl From<CmError> for roce_error {
    fn from(error: CmError) -> Self {
        match error {
            CmError::Truncated { needed, available } => {
                Self { needed, available, ..roce_status::Truncated.into() }
            }
            CmError::Attribute(attribute) => not_cm(attribute),
            _ => roce_status::NotCm.into(),
        }
    }
}

fn not_cm(attribute: AttributeId) -> roce_error {
    roce_error { found: attribute.0.into(), ..roce_status::NotCm.into() }
}

impl From<CmEmitError> for roce_error {
    fn from(error: CmEmitError) -> Self {
        match error {
            CmEmitError::NoRoom { needed, available } => {
                Self { needed, available, ..roce_status::NoRoom.into() }
            }
            CmEmitError::TooLong { len, room } => {
                Self { needed: len, available: room, ..roce_status::TooLong.into() }
            }
            _ => roce_status::Unwritable.into(),
        }
    }
}

/// What every message has.
fn ids_to_c(local: CommunicationId, remote: CommunicationId, private_data: &[u8]) -> roce_cm {
    roce_cm {
        local_comm_id: local.0,
        remote_comm_id: remote.0,
        // The private data end the MAD.
        private_data_at: MAD_LEN.saturating_sub(private_data.len()),
        private_data_len: private_data.len(),
        ..FromZeros::new_zeroed()
    }
}

fn req_to_c(req: &Req<'_>) -> roce_cm {
    roce_cm {
        service_id: req.service_id.0,
        local_ca_guid: req.local_ca_guid.0,
        local_qpn: req.local_qpn.get(),
        starting_psn: req.starting_psn.get(),
        pkey: req.pkey.0,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        path_mtu: req.path_mtu_code,
        transport: match req.transport {
            TransportType::Rc => 0,
            TransportType::Uc => 1,
            TransportType::Rd => 2,
            TransportType::Extended => 3,
        },
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        max_cm_retries: req.max_cm_retries,
        remote_cm_response_timeout: req.remote_cm_response_timeout.code(),
        local_cm_response_timeout: req.local_cm_response_timeout.code(),
        end_to_end_flow_control: req.end_to_end_flow_control.into(),
        srq: req.srq.into(),
        path: roce_cm_path {
            local_gid: req.primary.local_gid.0,
            remote_gid: req.primary.remote_gid.0,
            flow_label: req.primary.flow_label,
            local_lid: req.primary.local_lid,
            remote_lid: req.primary.remote_lid,
            traffic_class: req.primary.traffic_class,
            hop_limit: req.primary.hop_limit,
            sl: req.primary.sl,
            packet_rate: req.primary.packet_rate,
            subnet_local: req.primary.subnet_local.into(),
            local_ack_timeout: req.primary.local_ack_timeout.code(),
        },
        ..ids_to_c(req.local_comm_id, CommunicationId(0), req.private_data)
    }
}

fn rep_to_c(rep: &Rep<'_>) -> roce_cm {
    roce_cm {
        local_ca_guid: rep.local_ca_guid.0,
        local_qpn: rep.local_qpn.get(),
        starting_psn: rep.starting_psn.get(),
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        rnr_retry_count: rep.rnr_retry_count,
        target_ack_delay: rep.target_ack_delay.code(),
        end_to_end_flow_control: rep.end_to_end_flow_control.into(),
        srq: rep.srq.into(),
        failover: match rep.failover {
            Failover::Accepted => 0,
            Failover::NotSupported => 1,
            Failover::Rejected => 2,
            Failover::Reserved => 3,
        },
        ..ids_to_c(rep.local_comm_id, rep.remote_comm_id, rep.private_data)
    }
}

fn rej_to_c(rej: &Rej<'_>) -> roce_cm {
    roce_cm {
        reason: rej.reason.0,
        rejected: match rej.rejected {
            RejectedMessage::Req => 0,
            RejectedMessage::Rep => 1,
            RejectedMessage::Other => 2,
            RejectedMessage::Reserved => 3,
        },
        ..ids_to_c(rej.local_comm_id, rej.remote_comm_id, rej.private_data)
    }
}

fn message_from_c<'a>(from: &roce_cm, private_data: &'a [u8]) -> Result<Message<'a>, roce_status> {
    let local_comm_id = CommunicationId(from.local_comm_id);
    let remote_comm_id = CommunicationId(from.remote_comm_id);
    Ok(match u16::try_from(from.kind).map(AttributeId) {
        Ok(AttributeId::REQ) => Message::Req(req_from_c(from, private_data)?),
        Ok(AttributeId::REP) => Message::Rep(rep_from_c(from, private_data)?),
        Ok(AttributeId::RTU) => Message::Rtu(Rtu { local_comm_id, remote_comm_id, private_data }),
        Ok(AttributeId::DREQ) => Message::Dreq(Dreq {
            local_comm_id,
            remote_comm_id,
            remote_qpn: Qpn::new(from.remote_qpn),
            private_data,
            ..Dreq::default()
        }),
        Ok(AttributeId::DREP) => {
            Message::Drep(Drep { local_comm_id, remote_comm_id, private_data })
        }
        Ok(AttributeId::REJ) => Message::Rej(Rej {
            local_comm_id,
            remote_comm_id,
            reason: RejReason(from.reason),
            rejected: match from.rejected {
                0 => RejectedMessage::Req,
                1 => RejectedMessage::Rep,
                2 => RejectedMessage::Other,
                _ => return Err(roce_status::BadArgument),
            },
            private_data,
            ..Rej::default()
        }),
        _ => return Err(roce_status::BadArgument),
    })
}

fn req_from_c<'a>(from: &roce_cm, private_data: &'a [u8]) -> Result<Req<'a>, roce_status> {
    let path = &from.path;
    Ok(Req {
        local_comm_id: CommunicationId(from.local_comm_id),
        service_id: ServiceId(from.service_id),
        local_ca_guid: CaGuid(from.local_ca_guid),
        local_qpn: Qpn::new(from.local_qpn),
        starting_psn: Psn::new(from.starting_psn),
        pkey: PKey(from.pkey),
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        path_mtu_code: from.path_mtu,
        transport: match from.transport {
            0 => TransportType::Rc,
            1 => TransportType::Uc,
            _ => return Err(roce_status::BadArgument),
        },
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        max_cm_retries: from.max_cm_retries,
        remote_cm_response_timeout: Timeout::new(from.remote_cm_response_timeout),
        local_cm_response_timeout: Timeout::new(from.local_cm_response_timeout),
        end_to_end_flow_control: from.end_to_end_flow_control != 0,
        srq: from.srq != 0,
        primary: Path {
            local_gid: Gid(path.local_gid),
            remote_gid: Gid(path.remote_gid),
            flow_label: path.flow_label,
            local_lid: path.local_lid,
            remote_lid: path.remote_lid,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: path.sl,
            packet_rate: path.packet_rate,
            subnet_local: path.subnet_local != 0,
            local_ack_timeout: Timeout::new(path.local_ack_timeout),
            ..Path::NONE
        },
        private_data,
        ..Req::default()
    })
}

fn rep_from_c<'a>(from: &roce_cm, private_data: &'a [u8]) -> Result<Rep<'a>, roce_status> {
    Ok(Rep {
        local_comm_id: CommunicationId(from.local_comm_id),
        remote_comm_id: CommunicationId(from.remote_comm_id),
        local_ca_guid: CaGuid(from.local_ca_guid),
        local_qpn: Qpn::new(from.local_qpn),
        starting_psn: Psn::new(from.starting_psn),
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        rnr_retry_count: from.rnr_retry_count,
        target_ack_delay: Timeout::new(from.target_ack_delay),
        end_to_end_flow_control: from.end_to_end_flow_control != 0,
        srq: from.srq != 0,
        failover: match from.failover {
            0 => Failover::Accepted,
            1 => Failover::NotSupported,
            2 => Failover::Rejected,
            _ => return Err(roce_status::BadArgument),
        },
        private_data,
        ..Rep::default()
    })
}
