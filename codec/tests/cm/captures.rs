//! Every connection manager message of every capture: parsed to values, and back to the same 256
//! bytes.

use std::collections::BTreeMap;
use std::path::Path;

use roce_codec::cm::{AttributeId, MAD_LEN, Mad, Message, is_cm_frame};
use roce_codec::ib::{OpcodeClass, Operation, Psn, Qpn, Service};
use roce_codec::{Frame, Start};

use crate::packets::{captures, ours, packets};

type Counts = BTreeMap<&'static str, usize>;

/// Parses, re-emits and counts every message of a capture.
fn check(path: &Path) -> Counts {
    let mut counts = Counts::new();
    for (index, bytes) in packets(path).into_iter().enumerate() {
        let at = format!("{} packet {}", path.display(), index + 1);
        let Ok(frame) = Frame::parse([&bytes, &[]], Start::Ethernet) else { continue };
        let Some(mad) = Mad::from_frame(&frame) else {
            assert!(!is_cm_frame(&frame), "{at}");
            assert_ne!(frame.dest_qp(), Qpn::GSI, "{at}: no MAD to QP 1");
            continue;
        };
        assert!(mad.is_cm() && is_cm_frame(&frame), "{at}");
        let wire = frame.payload()[0];
        let message = Message::parse(&mad).unwrap_or_else(|error| panic!("{at}: {error}"));
        *counts.entry(message.attribute().name().unwrap()).or_default() += 1;

        let mut out = [0xa5; MAD_LEN + 4];
        message.emit(mad.header.transaction_id, &mut out).unwrap();
        assert_eq!(out[..MAD_LEN], *wire, "{at}");
        assert_eq!(out[MAD_LEN..], [0xa5; 4], "{at}: wrote past the end");
        assert_eq!(frame.deth().unwrap().src_qp, Qpn::GSI, "{at}");

        two_segments(&bytes, &frame, wire);
    }
    counts
}

/// A MAD behind headers in a segment of their own is found; one that is cut in two is not.
fn two_segments(bytes: &[u8], frame: &Frame<'_>, wire: &[u8]) {
    let behind = frame.pad().len() + 4 + frame.trailer()[0].len();
    let payload_at = bytes.len() - behind - MAD_LEN;
    let (head, tail) = bytes.split_at(payload_at);
    let split = Frame::parse([head, tail], Start::Ethernet).unwrap();
    assert_eq!(Mad::from_frame(&split).unwrap().data, &wire[24..]);
    let (head, tail) = bytes.split_at(payload_at + 100);
    let split = Frame::parse([head, tail], Start::Ethernet).unwrap();
    assert_eq!(Mad::from_frame(&split), None);
    let cut = Frame::parse_captured([&bytes[..payload_at + 255], &[]], Start::Ethernet).unwrap();
    assert_eq!(Mad::from_frame(&cut), None);
}

fn counts(of: &[(&'static str, usize)]) -> Counts {
    of.iter().copied().collect()
}

/// As many of each as what ran when the captures were taken makes: rping, two connections of
/// ucmatose, one resolution of udaddy; a connection for each of 17 cases; nvme's admin and one
/// I/O queue; six cases.
#[test]
fn our_captures() {
    let each = |n| counts(&[("REQ", n), ("REP", n), ("RTU", n), ("DREQ", n), ("DREP", n)]);
    let mut rxe_cm = each(3);
    rxe_cm.extend(counts(&[("SIDR_REQ", 1), ("SIDR_REP", 1)]));
    let mut total = 0;
    for path in captures("../tests/captures") {
        let expected = match path.file_stem().unwrap().to_str().unwrap() {
            "rxe-cm" => rxe_cm.clone(),
            "rxe-errors" => each(17),
            "rxe-nvme" => each(2),
            "rxe72-flush-atomicwrite" => each(6),
            _ => Counts::new(),
        };
        assert_eq!(check(&path), expected, "{}", path.display());
        total += expected.values().sum::<usize>();
    }
    assert_eq!(total, 5 * (3 + 17 + 2 + 6) + 2);
}

#[test]
fn public_captures() {
    let paths = captures("../../shared/public-captures");
    if paths.is_empty() {
        println!("passed over: no public captures here");
        return;
    }
    for path in paths {
        let expected = match path.file_stem().unwrap().to_str().unwrap() {
            // One DREQ was sent twice.
            "linlinw5_rdma_cm" => {
                counts(&[("REQ", 2), ("REP", 2), ("RTU", 2), ("DREQ", 3), ("DREP", 3)])
            }
            _ => Counts::new(),
        };
        assert_eq!(check(&path), expected, "{}", path.display());
    }
}

/// The starting PSN of a message is what its receiver sends with: the first request of either
/// side shows it.
#[test]
fn starting_psns_are_those_the_receiver_sends_with() {
    let mut compared = 0;
    for name in ["rxe-cm.pcap", "rxe-errors.pcap", "rxe-nvme.pcap", "rxe72-flush-atomicwrite.pcap"]
    {
        // Who a packet goes to, by address and QP, and the PSN that its first request must have.
        let mut expected: Vec<([u8; 16], Qpn, Psn)> = Vec::new();
        for bytes in packets(&ours(name)) {
            let Ok(frame) = Frame::parse([&bytes, &[]], Start::Ethernet) else { continue };
            let address = |ip| roce_codec::cm::Gid::from(ip).0;
            if let Some(mad) = Mad::from_frame(&frame) {
                let sender = address(frame.src());
                match Message::parse(&mad).unwrap() {
                    Message::Req(req) => expected.push((sender, req.local_qpn, req.starting_psn)),
                    Message::Rep(rep) => expected.push((sender, rep.local_qpn, rep.starting_psn)),
                    _ => {}
                }
                continue;
            }
            let info = frame.opcode().info();
            let response = matches!(
                info.operation,
                Operation::Acknowledge | Operation::AtomicAcknowledge | Operation::ReadResponse
            );
            if info.class != OpcodeClass::Known || info.service != Service::Rc || response {
                continue;
            }
            let receiver = (address(frame.dst()), frame.dest_qp());
            if let Some(at) = expected.iter().position(|(ip, qp, _)| (*ip, *qp) == receiver) {
                assert_eq!(expected.remove(at).2, frame.psn(), "{name} {}", frame.psn());
                compared += 1;
            }
        }
    }
    // Each of 28 connections, in at least one direction.
    assert!(compared >= 28, "{compared}");
}

#[test]
fn what_is_no_mad() {
    let bytes = packets(&ours("rxe-cm.pcap")).remove(0);
    let frame = |bytes: &[u8]| {
        let frame = Frame::parse([bytes, &[]], Start::Ethernet).unwrap();
        (Mad::from_frame(&frame).map(|mad| mad.header.attribute), is_cm_frame(&frame))
    };
    assert_eq!(frame(&bytes), (Some(AttributeId::REQ), true));
    // Ethernet 14, IPv4 20, UDP 8: the BTH is at 42, the DETH at 54, the MAD at 62.
    for (at, xor) in [(42, 1), (49, 3), (54, 0x80), (57, 1)] {
        let mut changed = bytes.clone();
        changed[at] ^= xor;
        let frame = Frame::parse([&changed, &[]], Start::Ethernet).unwrap();
        assert!(Mad::from_frame(&frame).is_none() && !is_cm_frame(&frame), "byte {at}");
    }
    let mut other_class = bytes.clone();
    other_class[63] = 0x03;
    assert_eq!(frame(&other_class), (Some(AttributeId::REQ), false));
    let mut padded = bytes;
    padded[43] |= 0x10;
    assert_eq!(frame(&padded), (None, false), "255 bytes of payload and one of pad");
}
