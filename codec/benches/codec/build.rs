//! Putting packets together, Ethernet to ICRC, payload copied.
//!
//! Peers: the outer headers by etherparse, smoltcp, pnet_packet, or by
//! hand from a template; behind them, for all of them, transport headers written by hand, the
//! payload copied, and the ICRC by crc32fast over a scratch copy of the masked headers. All build
//! the same bytes.

use std::hint::black_box;

use roce_codec::Crc;
use roce_codec::ib::{Aeth, Msn, Opcode, Syndrome};

use crate::compare::compare_burst;
use crate::packets::{DST, DST_MAC, ETHERNET, SRC, SRC_MAC, SRC_PORT, headers, write_only};

/// Ethernet, IPv4, UDP.
const OUTER: usize = ETHERNET + 20 + 8;

/// Packets built in turn, so that no branch is learnt from one of them.
const BURST: u32 = 8;

/// What differs from one packet of a burst to the next.
struct Job {
    qpn: u32,
    psn: u32,
    payload: Vec<u8>,
}

type Build = fn(&Job, &mut [u8]) -> usize;

pub(crate) fn run() {
    let acks = burst(0);
    versus("build-ack/etherparse", &acks, ours_ack, |job, out| by_peer(job, out, etherparse));
    versus("build-ack/smoltcp", &acks, ours_ack, |job, out| by_peer(job, out, smoltcp));
    versus("build-ack/pnet_packet", &acks, ours_ack, |job, out| by_peer(job, out, pnet));
    versus("build-ack/by-hand", &acks, ours_ack, |job, out| by_peer(job, out, by_hand));
    let writes = burst(1024);
    versus("build-write-1024/etherparse", &writes, ours_write, |job, out| {
        by_peer(job, out, etherparse)
    });
    versus("build-write-1024/by-hand", &writes, ours_write, |job, out| by_peer(job, out, by_hand));
}

fn burst(payload_len: usize) -> Vec<Job> {
    let job = |number| Job { qpn: 0x11 + number, psn: number, payload: vec![0x5a; payload_len] };
    (0..BURST).map(job).collect()
}

fn versus(name: &str, burst: &[Job], ours: Build, peer: Build) {
    let mut out = [vec![0; 2048], vec![0; 2048]];
    for job in burst {
        let len = ours(job, &mut out[0]);
        assert_eq!(peer(job, &mut out[1]), len);
        assert_eq!(out[0][..len], out[1][..len], "{name}");
    }
    let with = |build: Build, mut out: Vec<u8>| {
        move || {
            for job in black_box(burst) {
                black_box(build(job, black_box(&mut out)));
            }
        }
    };
    let [out, peer_out] = out;
    compare_burst(name, BURST, with(ours, out), with(peer, peer_out));
}

// ---- Ours --------------------------------------------------------------------------------------

#[inline(never)]
fn ours_ack(job: &Job, out: &mut [u8]) -> usize {
    let mut builder = headers(Opcode::RC_ACKNOWLEDGE, job.qpn, job.psn);
    builder.ext.aeth = Some(Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(job.psn) });
    builder.set_payload_len(0).unwrap();
    builder.emit::<Crc>([b"", b""], out).unwrap()
}

#[inline(never)]
fn ours_write(job: &Job, out: &mut [u8]) -> usize {
    let mut builder = write_only(job.qpn, job.psn, job.payload.len());
    builder.set_payload_len(job.payload.len()).unwrap();
    builder.emit::<Crc>([&job.payload, b""], out).unwrap()
}

// ---- The peers ---------------------------------------------------------------------------------

/// The outer headers of `len` bytes of UDP payload by `outer`, the rest by hand.
#[inline(always)]
fn by_peer(job: &Job, out: &mut [u8], outer: impl FnOnce(usize, &mut [u8])) -> usize {
    let ext_len = if job.payload.is_empty() { 4 } else { 16 };
    let payload_at = OUTER + 12 + ext_len;
    let icrc_at = payload_at + job.payload.len();
    let len = icrc_at + 4;
    outer(len - OUTER, &mut out[..OUTER]);
    let transport = &mut out[OUTER..len];
    transport[..4].copy_from_slice(&[if ext_len == 4 { 0x11 } else { 0x0a }, 0, 0xff, 0xff]);
    transport[4..8].copy_from_slice(&job.qpn.to_be_bytes());
    transport[8..12].copy_from_slice(&job.psn.to_be_bytes());
    if ext_len == 4 {
        transport[12..16].copy_from_slice(&(0x1f00_0000 | job.psn).to_be_bytes());
    } else {
        transport[12..20].copy_from_slice(&0x10_0000_u64.to_be_bytes());
        transport[20..24].copy_from_slice(&0x1234_u32.to_be_bytes());
        let dma_len = u32::try_from(job.payload.len()).unwrap();
        transport[24..28].copy_from_slice(&dma_len.to_be_bytes());
    }
    out[payload_at..icrc_at].copy_from_slice(&job.payload);
    let mut scratch = [0xff; 8 + 20 + 8 + 12];
    scratch[8..].copy_from_slice(&out[ETHERNET..OUTER + 12]);
    for at in [1, 8, 10, 11, 26, 27, 32] {
        scratch[8 + at] = 0xff;
    }
    let mut icrc = crc32fast::Hasher::new();
    icrc.update(&scratch);
    icrc.update(&out[OUTER + 12..icrc_at]);
    out[icrc_at..len].copy_from_slice(&icrc.finalize().to_le_bytes());
    len
}

fn etherparse(len: usize, out: &mut [u8]) {
    use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header, UdpHeader};
    let ethernet =
        Ethernet2Header { source: SRC_MAC, destination: DST_MAC, ether_type: EtherType::IPV4 };
    let udp_len = u16::try_from(8 + len).unwrap();
    let (src, dst) = (SRC.octets(), DST.octets());
    let mut ip = Ipv4Header::new(udp_len, 64, IpNumber::UDP, src, dst).unwrap();
    ip.ecn = etherparse::IpEcn::TWO;
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    let udp =
        UdpHeader { source_port: SRC_PORT, destination_port: 4791, length: udp_len, checksum: 0 };
    out[..14].copy_from_slice(&ethernet.to_bytes());
    out[14..34].copy_from_slice(&ip.to_bytes());
    out[34..].copy_from_slice(&udp.to_bytes());
}

fn smoltcp(len: usize, out: &mut [u8]) {
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
        Ipv4Repr, UdpPacket,
    };
    EthernetRepr {
        src_addr: EthernetAddress(SRC_MAC),
        dst_addr: EthernetAddress(DST_MAC),
        ethertype: EthernetProtocol::Ipv4,
    }
    .emit(&mut EthernetFrame::new_unchecked(&mut *out));
    let mut ip = Ipv4Packet::new_unchecked(&mut out[14..]);
    Ipv4Repr {
        src_addr: SRC,
        dst_addr: DST,
        next_header: IpProtocol::Udp,
        payload_len: 8 + len,
        hop_limit: 64,
    }
    .emit(&mut ip, &ChecksumCapabilities::ignored());
    ip.set_ecn(2);
    ip.fill_checksum();
    let mut udp = UdpPacket::new_unchecked(&mut out[34..]);
    udp.set_src_port(SRC_PORT);
    udp.set_dst_port(4791);
    udp.set_len(u16::try_from(8 + len).unwrap());
    udp.set_checksum(0);
}

fn pnet(len: usize, out: &mut [u8]) {
    use pnet_packet::ethernet::{EtherTypes, MutableEthernetPacket};
    use pnet_packet::ip::IpNextHeaderProtocols;
    use pnet_packet::ipv4::{Ipv4Flags, MutableIpv4Packet, checksum};
    use pnet_packet::udp::MutableUdpPacket;
    let mut ethernet = MutableEthernetPacket::new(&mut *out).unwrap();
    ethernet.set_destination(DST_MAC.into());
    ethernet.set_source(SRC_MAC.into());
    ethernet.set_ethertype(EtherTypes::Ipv4);
    let mut ip = MutableIpv4Packet::new(&mut out[14..]).unwrap();
    ip.set_version(4);
    ip.set_header_length(5);
    ip.set_dscp(0);
    ip.set_ecn(2);
    ip.set_total_length(u16::try_from(28 + len).unwrap());
    ip.set_identification(0);
    ip.set_flags(Ipv4Flags::DontFragment);
    ip.set_fragment_offset(0);
    ip.set_ttl(64);
    ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
    ip.set_source(SRC);
    ip.set_destination(DST);
    ip.set_checksum(checksum(&ip.to_immutable()));
    let mut udp = MutableUdpPacket::new(&mut out[34..]).unwrap();
    udp.set_source(SRC_PORT);
    udp.set_destination(4791);
    udp.set_length(u16::try_from(8 + len).unwrap());
    udp.set_checksum(0);
}

/// The headers as they always are, the lengths and the checksum patched.
fn by_hand(len: usize, out: &mut [u8]) {
    const TEMPLATE: [u8; OUTER] = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, //
        0x45, 2, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, //
        0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0,
    ];
    /// The ones' complement sum of the template's IPv4 header.
    const SUM: u32 = 0x4502 + 0x4000 + 0x4011 + 0xc000 + 0x0201 + 0xc000 + 0x0202;
    out.copy_from_slice(&TEMPLATE);
    let total = u16::try_from(28 + len).unwrap();
    let mut sum = SUM + u32::from(total);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    out[16..18].copy_from_slice(&total.to_be_bytes());
    out[24..26].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
    out[38..40].copy_from_slice(&(total - 20).to_be_bytes());
}
