//! Packets of a connection made by hand, between a requester and a responder.

use roce_codec::ib::{Aeth, Bth, ExtHeaders, Msn, NakCode, Opcode, Psn, Qpn, RKey, Reth, Syndrome};
use roce_codec::net::{Ecn, EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};
use roce_pcap::capture::{LinkType, Packet};

/// The queue pairs of the requester and the responder.
pub(crate) const QPS: [u32; 2] = [0x21, 0x52];

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Requester,
    Responder,
}

fn addresses(by: By) -> (Ethernet, Ipv4, Qpn) {
    let (src, dst, qp) = match by {
        By::Requester => (1, 2, QPS[1]),
        By::Responder => (2, 1, QPS[0]),
    };
    let mac = |host| MacAddr([2, 0, 0, 0, 0, host]);
    let ip = |host| [192, 0, 2, host].into();
    (Ethernet::new(mac(dst), mac(src), EtherType::IPV4), Ipv4::new(ip(src), ip(dst)), Qpn::new(qp))
}

fn emit(mut builder: FrameBuilder, payload: usize) -> Vec<u8> {
    builder.set_payload_len(payload).unwrap();
    let (bytes, mut out) = (vec![0x5a; payload], vec![0; 128 + payload]);
    let len = builder.emit::<Crc>([&bytes, b""], &mut out).unwrap();
    out.truncate(len);
    out
}

/// A packet of that opcode and PSN, to the other side's queue pair.
pub(crate) fn packet(
    by: By,
    opcode: Opcode,
    psn: Psn,
    ext: ExtHeaders,
    payload: usize,
    marked: bool,
) -> Vec<u8> {
    let (ethernet, mut ip, qp) = addresses(by);
    ip.dscp_ecn = if marked { Ecn::Ce as u8 } else { Ecn::Ect0 as u8 };
    let bth = Bth::new(opcode, qp, psn);
    let mut builder = FrameBuilder::new(Some(ethernet), Ip::V4(ip), 0xc123, bth);
    builder.ext = ext;
    emit(builder, payload)
}

/// A WRITE of one packet.
pub(crate) fn write(psn: Psn, payload: u16, marked: bool) -> Vec<u8> {
    let reth = Reth { va: 0x1000, rkey: RKey(7), dma_len: payload.into() };
    let ext = ExtHeaders { reth: Some(reth), ..ExtHeaders::NONE };
    let opcode = Opcode::RC_RDMA_WRITE_ONLY;
    packet(By::Requester, opcode, psn, ext, payload.into(), marked)
}

/// An Acknowledge with that syndrome.
pub(crate) fn answer(psn: Psn, syndrome: Syndrome) -> Vec<u8> {
    let aeth = Aeth { syndrome, msn: Msn::new(0) };
    let ext = ExtHeaders { aeth: Some(aeth), ..ExtHeaders::NONE };
    packet(By::Responder, Opcode::RC_ACKNOWLEDGE, psn, ext, 0, false)
}

/// A sequence NAK.
pub(crate) fn nak(psn: Psn) -> Vec<u8> {
    answer(psn, Syndrome::nak(NakCode::PsnSequenceError))
}

/// A congestion notification to the requester.
pub(crate) fn cnp() -> Vec<u8> {
    let (ethernet, ip, qp) = addresses(By::Responder);
    emit(FrameBuilder::cnp(Some(ethernet), Ip::V4(ip), 0, qp), 0)
}

/// A frame as captured.
pub(crate) fn captured(number: u64, time_ns: u64, data: &[u8]) -> Packet<'_> {
    Packet { number, timestamp_ns: Some(time_ns), ..Packet::new(LinkType::ETHERNET, data) }
}
