//! The peer's packets, one Ethernet frame each.

use std::net::{IpAddr, Ipv4Addr};

use roce_codec::ib::{
    Aeth, AtomicEth, Bth, ExtHeaders, Msn, Opcode, Psn, Qpn, RKey, Reth, Syndrome,
};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, Udp, VlanStack};
use roce_codec::{Crc, FrameBuilder};

pub(crate) const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const PEERS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub(crate) const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The peer's queue pair.
pub(crate) const PEER_QPN: Qpn = Qpn::new(0x1234);

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct To {
    pub(crate) qpn: Qpn,
    pub(crate) psn: u32,
    pub(crate) ack_req: bool,
}

pub(crate) fn write(to: To, rkey: RKey, va: u64, payload: &[u8]) -> Vec<u8> {
    let ext = ExtHeaders { reth: Some(reth(rkey, va, payload.len())), ..ExtHeaders::NONE };
    frame(Opcode::RC_RDMA_WRITE_ONLY, to, ext, payload)
}

pub(crate) fn read(to: To, rkey: RKey, va: u64, len: usize) -> Vec<u8> {
    let ext = ExtHeaders { reth: Some(reth(rkey, va, len)), ..ExtHeaders::NONE };
    frame(Opcode::RC_RDMA_READ_REQUEST, to, ext, &[])
}

pub(crate) fn send(to: To, payload: &[u8]) -> Vec<u8> {
    frame(Opcode::RC_SEND_ONLY, to, ExtHeaders::NONE, payload)
}

pub(crate) fn fetch_add(to: To, rkey: RKey, va: u64) -> Vec<u8> {
    let eth = AtomicEth { va, rkey, swap_add: 1, compare: 0 };
    let ext = ExtHeaders { atomic_eth: Some(eth), ..ExtHeaders::NONE };
    frame(Opcode::RC_FETCH_ADD, to, ext, &[])
}

/// An ACK of everything up to a PSN.
pub(crate) fn ack(to: To, msn: u32) -> Vec<u8> {
    // Credit code 31: none are told.
    let aeth = Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(msn) };
    let ext = ExtHeaders { aeth: Some(aeth), ..ExtHeaders::NONE };
    frame(Opcode::RC_ACKNOWLEDGE, to, ext, &[])
}

fn reth(rkey: RKey, va: u64, len: usize) -> Reth {
    Reth { va, rkey, dma_len: u32::try_from(len).expect("a message") }
}

fn frame(opcode: Opcode, to: To, ext: ExtHeaders, payload: &[u8]) -> Vec<u8> {
    let mut bth = Bth::new(opcode, to.qpn, Psn::new(to.psn));
    bth.ack_req = to.ack_req;
    let ethernet = Ethernet {
        dst: OUR_MAC,
        src: PEER_MAC,
        vlans: VlanStack::EMPTY,
        ethertype: EtherType::IPV4,
    };
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (PEERS, OURS) else { unreachable!("both are IPv4") };
    let ip = Ip::V4(Ipv4 {
        dscp_ecn: 0,
        total_len: 0,
        identification: 0,
        flags_fragment: Ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: Udp::PROTOCOL,
        checksum: 0,
        src,
        dst,
    });
    let mut builder = FrameBuilder { ext, ..FrameBuilder::new(Some(ethernet), ip, 0xc000, bth) };
    builder.set_payload_len(payload.len()).expect("a packet");
    let mut frame = vec![0; builder.header_len() + payload.len() + 8];
    let len = builder.emit::<Crc>([payload, &[]], &mut frame).expect("there is room");
    frame.truncate(len);
    frame
}
