//! What the packets of all benchmarks have in common.

use std::net::Ipv4Addr;

use roce_codec::ib::{Bth, Opcode, Psn, Qpn, RKey, Reth};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};

pub(crate) const SRC_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const DST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const DST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const SRC_PORT: u16 = 0xc000;
/// Bytes of the Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// The headers of a packet over IPv4.
#[inline(always)]
pub(crate) fn headers(opcode: Opcode, qpn: u32, psn: u32) -> FrameBuilder {
    let ethernet = Ethernet::new(MacAddr(DST_MAC), MacAddr(SRC_MAC), EtherType::IPV4);
    let ip = Ip::V4(Ipv4 { dscp_ecn: 2, ..Ipv4::new(SRC, DST) });
    let bth = Bth::new(opcode, Qpn::new(qpn), Psn::new(psn));
    FrameBuilder::new(Some(ethernet), ip, SRC_PORT, bth)
}

/// The same of a WRITE only.
#[inline(always)]
pub(crate) fn write_only(qpn: u32, psn: u32, dma_len: usize) -> FrameBuilder {
    let mut write = headers(Opcode::RC_RDMA_WRITE_ONLY, qpn, psn);
    let dma_len = dma_len.try_into().unwrap();
    write.ext.reth = Some(Reth { va: 0x10_0000, rkey: RKey(0x1234), dma_len });
    write
}

/// The packet's bytes.
pub(crate) fn emit(mut builder: FrameBuilder, payload: &[u8]) -> Vec<u8> {
    builder.set_payload_len(payload.len()).unwrap();
    let mut out = vec![0; payload.len() + 128];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    out.truncate(len);
    out
}
