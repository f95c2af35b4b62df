//! A responder's answer: an acknowledgement with its lengths, checksum and ICRC.
#![no_std]
#![no_main]

use core::net::Ipv4Addr;

use roce_codec::ib::{Aeth, Bth, ExtHeaders, Msn, Opcode, Psn, Qpn, Syndrome};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, Udp, VlanStack};
use roce_codec::{FrameBuilder, SmallTable};
use roce_size::packets;

roce_size::firmware! {
    // The ICRC covers the rest, and its comparison needs no code worth mentioning.
    &(Psn::new(7), Msn::new(5)) => |packet| {
        packet.is_some_and(|packet| packet.last_chunk::<4>() == packets::ACK.last_chunk())
    },
}

/// Ethernet, IPv4, UDP, BTH, AETH, ICRC.
const LEN: usize = 14 + 20 + 8 + 12 + 4 + 4;

/// What stays the same for a queue pair.
const TEMPLATE: FrameBuilder = FrameBuilder {
    ethernet: Some(Ethernet {
        dst: MacAddr([2, 0, 0, 0, 0, 1]),
        src: MacAddr([2, 0, 0, 0, 0, 2]),
        vlans: VlanStack::EMPTY,
        ethertype: EtherType::IPV4,
    }),
    ip: Ip::V4(Ipv4 {
        dscp_ecn: 0x02,
        total_len: 0,
        identification: 0,
        flags_fragment: Ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: 17,
        checksum: 0,
        src: Ipv4Addr::new(192, 0, 2, 2),
        dst: Ipv4Addr::new(192, 0, 2, 1),
    }),
    udp: Udp { src_port: 0xc000, dst_port: 4791, length: 0, checksum: 0 },
    bth: Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x11), Psn::new(0)),
    ext: ExtHeaders::NONE,
    pad: [0; 3],
};

#[inline(never)]
fn case(&(psn, msn): &(Psn, Msn)) -> Option<[u8; LEN]> {
    let mut builder = TEMPLATE;
    builder.bth.psn = psn;
    builder.ext.aeth = Some(Aeth { syndrome: Syndrome(0x1f), msn });
    builder.set_payload_len(0).ok()?;
    let mut packet = [0; LEN];
    builder.emit::<SmallTable>([&[], &[]], &mut packet).ok()?;
    Some(packet)
}
