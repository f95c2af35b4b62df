//! Answers to requests: acknowledgements, READ responses, and the congestion notification.

use core::ptr;

use roce_codec::FrameBuilder;
use roce_codec::ib::{
    Aeth, AtomicAckEth, Bth, ExtHeaders, Msn, Opcode, Operation, PKey, Psn, Qpn, Service, Syndrome,
};
use roce_codec::net::{Ip, ROCE_V2_PORT, Udp};
use zerocopy::FromBytes;

use crate::build::{Output, build};
use crate::headers::roce_packet;
use crate::opcode::roce_position;
use crate::pointer;
use crate::status::{roce_error, roce_status};

/// What an answer says beyond what its request determines.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_answer {
    /// The requester's queue pair, 24 bits. An RC request does not name it: it was agreed when the
    /// connection was made.
    pub dest_qp: u32,
    /// The PSN that is answered, 24 bits.
    pub psn: u32,
    /// Messages completed, 24 bits.
    pub msn: u32,
    /// Partition key.
    pub pkey: u16,
    /// UDP source port.
    pub src_port: u16,
    /// IPv4: identification.
    pub identification: u16,
    /// ACK, RNR NAK or NAK: `roce_syndrome_ack` and its like.
    pub syndrome: u8,
    /// DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Hop limit, time to live.
    pub hop_limit: u8,
    /// `roce_build_read_response`: where the packet stands in the answer, a `roce_position`.
    pub position: u8,
}

/// Fills `answer` for `request`: its PSN, P_Key, source port and DSCP (marked ECT(0) if it came
/// over an ECN-capable path), hop limit 64, a plain ACK, MSN 0, the whole answer in one packet.
///
/// # Safety
/// `request` and `answer` are NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_answer_init(
    request: *const roce_packet,
    dest_qp: u32,
    answer: *mut roce_answer,
) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::read(request) }.and_then(|request| {
        let dscp = request.ip.traffic_class & 0xfc;
        // A mark that the request met with says nothing of the way back.
        let ecn = if request.ip.traffic_class & 3 == 0 { 0 } else { 2 };
        let value = roce_answer {
            dest_qp,
            psn: request.bth.psn,
            msn: 0,
            pkey: request.bth.pkey,
            src_port: request.udp.src_port,
            identification: 0,
            syndrome: Syndrome::ACK.0,
            traffic_class: dscp | ecn,
            hop_limit: 64,
            position: roce_position::Only as u8,
        };
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write(answer, value) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Writes the acknowledgement (or NAK) of `request`: an RC or XRC request of any kind. Addresses
/// are swapped, VLAN tags kept.
///
/// # Safety
/// All pointers are NULL or valid, `out` for `out_len` bytes, and none lies in `out`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_build_ack(
    request: *const roce_packet,
    answer: *const roce_answer,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    // SAFETY: the same contract.
    let builder = unsafe { reply(request, answer) }.and_then(|(asked, answer, mut builder)| {
        builder.bth.opcode = match asked.info().service {
            Service::Rc => Opcode::RC_ACKNOWLEDGE,
            Service::Xrc => Opcode::XRC_ACKNOWLEDGE,
            _ => return Err(roce_status::NotAnswerable.into()),
        };
        builder.ext.aeth = Some(aeth(&answer));
        Ok(builder)
    });
    // SAFETY: the same contract.
    unsafe { build(builder, ptr::null(), 0, Output { out, out_len, written, error }) }
}

/// Writes one packet of the answer to `request`: an RC or XRC RDMA READ request, or a FLUSH or
/// ATOMIC WRITE, whose answers are READ responses without payload. `answer->position` says which
/// packet. `payload` is as in `roce_build`.
///
/// # Safety
/// All pointers are NULL or valid, `payload` for `payload_len` bytes, `out` for `out_len`; only
/// `payload` may lie in `out`, which is an error.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_build_read_response(
    request: *const roce_packet,
    answer: *const roce_answer,
    payload: *const u8,
    payload_len: usize,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    const FIRST: u8 = roce_position::First as u8;
    const MIDDLE: u8 = roce_position::Middle as u8;
    const LAST: u8 = roce_position::Last as u8;
    const ONLY: u8 = roce_position::Only as u8;

    // SAFETY: the same contract.
    let builder = unsafe { reply(request, answer) }.and_then(|(asked, answer, mut builder)| {
        match asked.info().operation {
            Operation::ReadRequest => {}
            Operation::Flush | Operation::AtomicWrite if payload_len == 0 => {}
            _ => return Err(roce_status::NotAnswerable.into()),
        }
        builder.bth.opcode = match (asked.info().service, answer.position) {
            (Service::Rc, FIRST) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            (Service::Rc, MIDDLE) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            (Service::Rc, LAST) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            (Service::Rc, ONLY) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            (Service::Xrc, FIRST) => Opcode::XRC_RDMA_READ_RESPONSE_FIRST,
            (Service::Xrc, MIDDLE) => Opcode::XRC_RDMA_READ_RESPONSE_MIDDLE,
            (Service::Xrc, LAST) => Opcode::XRC_RDMA_READ_RESPONSE_LAST,
            (Service::Xrc, ONLY) => Opcode::XRC_RDMA_READ_RESPONSE_ONLY,
            (Service::Rc | Service::Xrc, _) => return Err(roce_status::BadArgument.into()),
            _ => return Err(roce_status::NotAnswerable.into()),
        };
        builder.ext.aeth = Some(aeth(&answer));
        Ok(builder)
    });
    // SAFETY: the same contract.
    unsafe { build(builder, payload, payload_len, Output { out, out_len, written, error }) }
}

/// Writes the answer to `request`, an RC or XRC COMPARE SWAP or FETCH ADD: `original` is what the
/// eight bytes held before.
///
/// # Safety
/// As `roce_build_ack`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_build_atomic_ack(
    request: *const roce_packet,
    answer: *const roce_answer,
    original: u64,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    // SAFETY: the same contract.
    let builder = unsafe { reply(request, answer) }.and_then(|(asked, answer, mut builder)| {
        let info = asked.info();
        builder.bth.opcode = match (info.operation, info.service) {
            (Operation::CompareSwap | Operation::FetchAdd, Service::Rc) => {
                Opcode::RC_ATOMIC_ACKNOWLEDGE
            }
            (Operation::CompareSwap | Operation::FetchAdd, Service::Xrc) => {
                Opcode::XRC_ATOMIC_ACKNOWLEDGE
            }
            _ => return Err(roce_status::NotAnswerable.into()),
        };
        builder.ext.aeth = Some(aeth(&answer));
        builder.ext.atomic_ack_eth = Some(AtomicAckEth { original });
        Ok(builder)
    });
    // SAFETY: the same contract.
    unsafe { build(builder, ptr::null(), 0, Output { out, out_len, written, error }) }
}

/// Writes the congestion notification packet for `marked`, a packet that came with its ECN bits at
/// 3 (which is not checked here), to the queue pair `answer->dest_qp` that sent it. BECN is set and
/// the PSN is 0; `answer->psn`, `msn`, `syndrome` and `position` do not matter. Senders mostly use a DSCP of
/// its own (48, so `traffic_class` 0xC2); how often to send is for a notification point to say.
///
/// # Safety
/// As `roce_build_ack`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_build_cnp(
    marked: *const roce_packet,
    answer: *const roce_answer,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    // SAFETY: the same contract.
    let builder = unsafe { swapped(marked, answer) }
        .map(|(_, _, mut builder)| {
            builder.bth.opcode = Opcode::CNP;
            builder.bth.becn = true;
            builder.bth.psn = Psn::new(0);
            builder.ext.cnp_reserved = Some([0; 16]);
            builder
        })
        .map_err(roce_error::from);
    // SAFETY: the same contract.
    unsafe { build(builder, ptr::null(), 0, Output { out, out_len, written, error }) }
}

fn aeth(answer: &roce_answer) -> Aeth {
    Aeth { syndrome: Syndrome(answer.syndrome), msn: Msn::new(answer.msn) }
}

/// As [`swapped`], for requests only.
///
/// # Safety
/// Both pointers are NULL or valid.
unsafe fn reply(
    request: *const roce_packet,
    answer: *const roce_answer,
) -> Result<(Opcode, roce_answer, FrameBuilder), roce_error> {
    // SAFETY: the same contract.
    let (opcode, answer, builder) = unsafe { swapped(request, answer) }?;
    if opcode.info().is_request() {
        Ok((opcode, answer, builder))
    } else {
        Err(roce_status::NotAnswerable.into())
    }
}

/// A packet from where `request` went to where it came from, its opcode and headers still to be set.
///
/// # Safety
/// Both pointers are NULL or valid.
unsafe fn swapped(
    request: *const roce_packet,
    answer: *const roce_answer,
) -> Result<(Opcode, roce_answer, FrameBuilder), roce_status> {
    // SAFETY: valid by the caller's word.
    let request = FrameBuilder::try_from(&unsafe { pointer::read(request) }?)?;
    // SAFETY: valid by the caller's word.
    let answer = unsafe { pointer::read(answer) }?;
    let mut ethernet = request.ethernet;
    if let Some(ethernet) = &mut ethernet {
        // Nobody answers in the name of a group.
        if ethernet.dst.is_multicast() {
            return Err(roce_status::NotAnswerable);
        }
        (ethernet.src, ethernet.dst) = (ethernet.dst, ethernet.src);
    }
    let mut ip = request.ip;
    match &mut ip {
        Ip::V4(ip) => {
            (ip.src, ip.dst) = (ip.dst, ip.src);
            ip.dscp_ecn = answer.traffic_class;
            ip.ttl = answer.hop_limit;
            ip.identification = answer.identification;
        }
        Ip::V6(ip) => {
            (ip.src, ip.dst) = (ip.dst, ip.src);
            ip.traffic_class = answer.traffic_class;
            ip.hop_limit = answer.hop_limit;
        }
    }
    let mut bth = Bth::new(request.bth.opcode, Qpn::new(answer.dest_qp), Psn::new(answer.psn));
    bth.pkey = PKey(answer.pkey);
    bth.mig_req = request.bth.mig_req;
    let builder = FrameBuilder {
        ethernet,
        ip,
        udp: Udp { src_port: answer.src_port, dst_port: ROCE_V2_PORT, length: 0, checksum: 0 },
        bth,
        ext: ExtHeaders::NONE,
        pad: [0; 3],
    };
    Ok((request.bth.opcode, answer, builder))
}
