//! Links for QEMU's board, and makes the packets that the firmware is given.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::{env, fs};

use roce_codec::cm::{Mad, Message};
use roce_codec::ib::{Aeth, Bth, ExtHeaders, Msn, Opcode, Psn, Qpn, RKey, Reth, Syndrome};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, Udp, VlanStack};
use roce_codec::{Crc, Frame, FrameBuilder, Start};

fn main() {
    let script = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("memory.x");
    println!("cargo:rerun-if-changed={}", script.display());
    println!("cargo:rustc-link-arg-bins=--script={}", script.display());
    println!("cargo:rustc-link-arg-bins=--gc-sections");

    let write = ExtHeaders {
        reth: Some(Reth { va: 0x1000, rkey: RKey(0x1234), dma_len: 0 }),
        ..ExtHeaders::NONE
    };
    let ack = ExtHeaders {
        aeth: Some(Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(5) }),
        ..ExtHeaders::NONE
    };
    packet("write_64", 1, Opcode::RC_RDMA_WRITE_ONLY, write, 64);
    packet("write_1024", 1, Opcode::RC_RDMA_WRITE_ONLY, write, 1024);
    cm_req();
    packet("ack", 2, Opcode::RC_ACKNOWLEDGE, ack, 0);
}

/// The first REQ that was captured.
fn cm_req() {
    let path =
        PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../captures/rxe-cm.pcap");
    println!("cargo:rerun-if-changed={}", path.display());
    let capture = fs::read(path).unwrap();
    // The file's header; then each packet's times, length in the file, and length on the wire.
    let mut rest = &capture[24..];
    while let Some((header, packets)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(header[8..12].try_into().unwrap());
        let (packet, others) = packets.split_at(len.try_into().unwrap());
        rest = others;
        let Ok(frame) = Frame::parse([packet, &[]], Start::Ethernet) else { continue };
        let mad = frame.payload()[0];
        let Ok(parsed) = Mad::parse(mad) else { continue };
        if let (Qpn::GSI, Ok(Message::Req(_))) = (frame.dest_qp(), Message::parse(&parsed)) {
            return write("cm_req", mad);
        }
    }
    panic!("no REQ in the capture");
}

/// Between hosts 1 and 2, which their addresses end in.
fn packet(name: &str, from: u8, opcode: Opcode, mut ext: ExtHeaders, payload_len: usize) {
    let to = 3 - from;
    if let Some(reth) = &mut ext.reth {
        reth.dma_len = payload_len.try_into().unwrap();
    }
    let mut builder = FrameBuilder {
        ethernet: Some(Ethernet {
            dst: MacAddr([2, 0, 0, 0, 0, to]),
            src: MacAddr([2, 0, 0, 0, 0, from]),
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
            src: Ipv4Addr::new(192, 0, 2, from),
            dst: Ipv4Addr::new(192, 0, 2, to),
        }),
        udp: Udp { src_port: 0xc000, dst_port: 4791, length: 0, checksum: 0 },
        bth: Bth::new(opcode, Qpn::new(0x11), Psn::new(7)),
        ext,
        pad: [0; 3],
    };
    builder.set_payload_len(payload_len).unwrap();
    let payload: Vec<u8> = (0..payload_len).map(|i| (i * 7 % 251).try_into().unwrap()).collect();
    let mut bytes = [0; 1200];
    let len = builder.emit::<Crc>([&payload, &[]], &mut bytes).unwrap();
    write(name, &bytes[..len]);
}

fn write(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env::var("OUT_DIR").unwrap()).join(name);
    fs::write(path, bytes).unwrap();
}
