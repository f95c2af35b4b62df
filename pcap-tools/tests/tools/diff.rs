//! Two taps of one wire, held to what the packet filter between them counted.

use std::net::IpAddr;

use roce_codec::{Crc, Frame, Start};
use roce_pcap::capture::{CaptureWriter, PacketRecord, PcapngWriter, Reader};
use roce_pcap::diff::{Change, Difference, Side, Summary, compare};
use roce_pcap::observed::Host;
use serde_json::Value;

use crate::support::{capture, packets, roce_pcap};

fn diff(a: &[u8], b: &[u8]) -> (Summary, Vec<Difference>) {
    let mut differences = Vec::new();
    let (a, b) = (Reader::new(a).unwrap(), Reader::new(b).unwrap());
    let (summary, errors) = compare(a, b, |difference| differences.push(difference.clone()));
    assert!(errors.is_empty());
    (summary, differences)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(capture(name)).unwrap()
}

/// The filter dropped 77 of the 2,228 packets that it was to forward.
#[test]
fn losses_are_those_that_the_filter_counted() {
    let (summary, differences) = diff(&read("rxe-lossy-client"), &read("rxe-lossy-server"));
    assert_eq!(summary.packets, [2202, 2177]);
    let [only_client, only_server] = summary.only;
    assert_eq!(only_client + only_server, 77);
    assert_eq!(summary.matched + 77, 2228);
    assert_eq!((only_client, only_server), (51, 26));
    assert_eq!((summary.changed, summary.reordered), (0, 0));
    assert_eq!(differences.len(), 77);
    // What is seen at the client alone was sent by it, and lost on its way to the server.
    for difference in differences {
        let Difference::Only(side, place) = difference else { panic!("{difference:?}") };
        let (flow, ..) = place.roce.unwrap();
        let last = if side == Side::A { 3 } else { 2 };
        assert_eq!(flow.src, Host::Ip(IpAddr::from([10, 77, 1, last])));
    }
}

/// The filter marked 22 of 180: the server's tap sees 19, the client's 3.
#[test]
fn marks_are_those_that_the_filter_counted() {
    let (summary, differences) = diff(&read("rxe-ecn-client"), &read("rxe-ecn-server"));
    assert_eq!((summary.matched, summary.only, summary.marked), (180, [0, 0], [3, 19]));
    assert_eq!((summary.changed, summary.rewritten), (0, 22));
    assert!(differences.is_empty());
    assert_eq!(summary.delays.count(), 180);
}

#[test]
fn a_capture_is_itself() {
    for name in ["rxe-cm", "rxe-ipv6", "rxe-lossy-client", "rxe72-flush-atomicwrite"] {
        let file = read(name);
        let (summary, differences) = diff(&file, &file);
        assert_eq!(summary.matched, summary.packets[0], "{name}");
        assert!(differences.is_empty());
        assert_eq!((summary.delays.least_ns(), summary.delays.greatest_ns()), (Some(0), Some(0)));
    }
}

/// A copy of a capture with its packets changed.
fn changed(name: &str, mut change: impl FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    for (index, mut packet) in packets(&read(name)).into_iter().enumerate() {
        change(index, &mut packet.data);
        let time = packet.time.unwrap() + 5_000;
        writer.write(&PacketRecord::new(time, &packet.data)).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn what_a_router_changes_is_allowed() {
    let routed = changed("rxe-write", |_, data| {
        data[0] ^= 2;
        data[6] ^= 2;
        data[15] ^= 0xfc;
        data[22] -= 1;
        data[24] ^= 1;
    });
    let (summary, differences) = diff(&read("rxe-write"), &routed);
    let roce = packets(&read("rxe-write"))
        .iter()
        .filter(|packet| Frame::parse([&packet.data, &[]], Start::Ethernet).is_ok())
        .count() as u64;
    assert_eq!((summary.changed, summary.rewritten), (0, roce));
    assert!(differences.iter().all(|difference| matches!(difference, Difference::Only(..))));
    assert_eq!(summary.delays.per_mille_ns(500), Some(5_000));
}

#[test]
fn what_may_not_change_is_named() {
    type Fault = fn(&mut Vec<u8>);
    let faults: [(&str, Fault, &[Change]); 4] = [
        ("an address", |data| data[33] ^= 1, &[Change::Address]),
        ("payload", |data| data[90] ^= 1, &[Change::Payload]),
        ("the source port", |data| data[35] ^= 1, &[Change::Udp]),
        (
            "AckReq, with a new ICRC",
            |data| {
                data[50] ^= 0x80;
                let frame = Frame::parse([data, &[]], Start::Ethernet).unwrap();
                let icrc = frame.computed_icrc::<Crc>().unwrap();
                let end = data.len() - 4;
                data[end..].copy_from_slice(&icrc);
            },
            &[Change::Bth, Change::Icrc],
        ),
    ];
    for (what, fault, expected) in faults {
        let at = 10;
        let broken = changed("rxe-write", |index, data| {
            if index == at {
                fault(data);
            }
        });
        let (summary, differences) = diff(&read("rxe-write"), &broken);
        assert_eq!((summary.changed, summary.only), (1, [0, 0]), "{what}");
        let Difference::Changed { a, b, changes } = &differences[0] else { panic!("{what}") };
        assert_eq!((a.number, b.number, changes.as_slice()), (11, 11, expected), "{what}");
    }
}

#[test]
fn another_order_is_told_within_a_flow() {
    let file = read("rxe-ecn-client");
    let mut all = packets(&file);
    let requests: Vec<_> = (0..all.len()).filter(|at| all[*at].data.len() > 1000).collect();
    let (one, next) = (requests[3], requests[4]);
    all.swap(one, next);
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    for packet in &all {
        writer.write(&PacketRecord::new(packet.time.unwrap(), &packet.data)).unwrap();
    }
    let (summary, differences) = diff(&file, &writer.into_inner().unwrap());
    assert_eq!((summary.reordered, summary.only, summary.matched), (1, [0, 0], 180));
    assert!(matches!(differences[..], [Difference::Reordered { .. }]));
}

#[test]
fn the_command_says_so_and_fails_as_told() {
    let [client, server] = ["rxe-lossy-client", "rxe-lossy-server"]
        .map(|name| capture(name).to_str().unwrap().to_owned());
    let text = roce_pcap(&["diff", &client, &server], &[]);
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("51 only in A, 26 only in B, 0 out of order"), "{text}");
    let relaxed = roce_pcap(&["diff", &client, &server, "--fail-on", "changed"], &[]);
    assert_eq!(relaxed.status.code(), Some(0));
    let json = roce_pcap(&["diff", &client, &server, "--format", "jsonl"], &[]);
    let lines: Vec<Value> = String::from_utf8(json.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 78);
    assert_eq!(lines[77]["summary"]["only"], serde_json::json!([51, 26]));
    let same = roce_pcap(&["diff", &client, &client, "--fail-on", "reordered"], &[]);
    assert_eq!(same.status.code(), Some(0));
    let missing = roce_pcap(&["diff", &client, "/nonexistent"], &[]);
    assert_eq!(missing.status.code(), Some(2));
}
