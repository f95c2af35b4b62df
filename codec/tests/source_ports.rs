//! Linux's choice of source ports, with captured traffic as the oracle.

use std::collections::{BTreeMap, BTreeSet};

use pcap_file::pcap::PcapReader;
use roce_codec::ib::{Opcode, Qpn, Service};
use roce_codec::net::{
    datagram_source_port, flow_label_from_cm_ports, flow_label_from_qpns,
    source_port_from_flow_label,
};
use roce_codec::{Frame, Start};

/// Calls `each` with every RoCE packet of a capture of ours.
fn packets(name: &str, mut each: impl FnMut(&Frame<'_>)) {
    let path = format!("{}/../tests/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let mut reader = PcapReader::new(std::fs::File::open(path).unwrap()).unwrap();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        if let Ok(frame) = Frame::parse([packet.data(), &[]], Start::Ethernet) {
            each(&frame);
        }
    }
}

#[test]
fn datagrams_hash_the_source_queue_pair() {
    // By hand: 0x61c88647 >> 18 is 0x1872; 20 times that modulo 2^32 is 0xa3a87d8c, >> 18 0x28ea.
    assert_eq!(datagram_source_port(Qpn::GSI), 0xd872);
    assert_eq!(datagram_source_port(Qpn::new(0x14)), 0xe8ea);
    assert_eq!(datagram_source_port(Qpn::new(0)), 0xc000);
    let mut seen = BTreeMap::new();
    for name in ["rxe-cm", "rxe-pingpong", "rxe-nvme", "rxe-errors", "rxe72-flush-atomicwrite"] {
        packets(name, |frame| {
            let Some(deth) = frame.deth() else { return };
            assert_eq!(frame.udp().src_port, datagram_source_port(deth.src_qp), "{name}");
            *seen.entry(deth.src_qp.get()).or_insert(0) += 1;
        });
    }
    assert!(seen.len() >= 2 && seen[&1] > 50, "{seen:?}");
}

#[test]
fn connections_without_cm_hash_both_queue_pairs() {
    let mut connections = 0;
    for name in ["rxe-write", "rxe-read", "rxe-send", "rxe-atomic", "rxe-pingpong", "rxe-mtu4096"] {
        // By port and source address: the QPNs it is for.
        let mut flows: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
        packets(name, |frame| {
            if matches!(frame.opcode().info().service, Service::Rc | Service::Uc) {
                let key = (frame.udp().src_port, frame.src());
                flows.entry(key).or_default().insert(frame.dest_qp().get());
            }
        });
        let mut pairs: BTreeMap<u16, Vec<Qpn>> = BTreeMap::new();
        for ((port, _), qpns) in flows {
            pairs.entry(port).or_default().extend(qpns.into_iter().map(Qpn::new));
        }
        for (port, qpns) in pairs {
            let [a, b] = qpns[..] else { panic!("{name}: port {port} is for {qpns:?}") };
            assert_eq!(source_port_from_flow_label(flow_label_from_qpns(a, b)), port, "{name}");
            connections += 1;
        }
    }
    assert!(connections >= 8, "{connections}");
}

/// Offsets are those of the REQ in the specification, MAD header included.
#[test]
fn connections_with_cm_hash_its_ports() {
    let mut requests = 0;
    let mut data = 0;
    for name in ["rxe-cm", "rxe-nvme", "rxe-errors", "rxe72-flush-atomicwrite"] {
        // By QPN of who asked: the port that its connection must use.
        let mut ports: BTreeMap<u32, u16> = BTreeMap::new();
        packets(name, |frame| {
            let mad = frame.payload()[0];
            if frame.dest_qp() == Qpn::GSI && mad.get(16..18) == Some(&[0x00, 0x10]) {
                let half = |at: usize| u16::from_be_bytes([mad[at], mad[at + 1]]);
                let word = |at: usize| u32::from_be_bytes(mad[at..at + 4].try_into().unwrap());
                let label = word(112) >> 12;
                let (src, dst) = (half(166), half(38));
                assert_eq!(label, flow_label_from_cm_ports(src, dst), "{name}: {src} to {dst}");
                ports.insert(word(56) >> 8, source_port_from_flow_label(label));
                requests += 1;
            }
            // Answers are for the QP that asked.
            if let Some(port) = ports.get(&frame.dest_qp().get())
                && frame.opcode() != Opcode::UD_SEND_ONLY
            {
                assert_eq!(frame.udp().src_port, *port, "{name}");
                data += 1;
            }
        });
    }
    assert!(requests >= 5 && data > 50, "{requests} REQs, {data} packets");
}
