//! All that a packet asks of the codec: a WRITE parsed and its ICRC checked, its acknowledgement
//! built.
#![no_std]
#![no_main]

use roce_codec::ib::{Aeth, Bth, ExtHeaders, Msn, Opcode, Qpn, Syndrome};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::Ip;
use roce_codec::{Frame, FrameBuilder, SmallTable, Start};
use roce_size::packets;

roce_size::firmware! {
    // The ICRC covers the rest, and its comparison needs no code worth mentioning.
    &packets::WRITE_64 => |answer| {
        answer.is_some_and(|answer| answer.last_chunk::<4>() == packets::ACK.last_chunk())
    },
}

/// Ethernet, IPv4, UDP, BTH, AETH, ICRC.
const LEN: usize = 14 + 20 + 8 + 12 + 4 + 4;

#[inline(never)]
fn case(bytes: &'static [u8]) -> Option<[u8; LEN]> {
    let write = Frame::parse([bytes, &[]], Start::Ethernet).ok()?;
    if write.verify_icrc_with::<SmallTable>() != IcrcVerdict::Valid {
        return None;
    }
    let mut answer = answer_to(&write)?;
    answer.set_payload_len(0).ok()?;
    let mut packet = [0; LEN];
    answer.emit::<SmallTable>([&[], &[]], &mut packet).ok()?;
    Some(packet)
}

/// Source and destination change places, on Ethernet and IP alike.
fn answer_to(write: &Frame<'_>) -> Option<FrameBuilder> {
    let mut ethernet = write.ethernet()?;
    (ethernet.src, ethernet.dst) = (ethernet.dst, ethernet.src);
    let mut ip = write.ip();
    match &mut ip {
        Ip::V4(ip) => (ip.src, ip.dst) = (ip.dst, ip.src),
        Ip::V6(ip) => (ip.src, ip.dst) = (ip.dst, ip.src),
    }
    Some(FrameBuilder {
        ethernet: Some(ethernet),
        ip,
        udp: write.udp(),
        bth: Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x11), write.psn()),
        ext: ExtHeaders {
            aeth: Some(Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(5) }),
            ..ExtHeaders::NONE
        },
        pad: [0; 3],
    })
}
