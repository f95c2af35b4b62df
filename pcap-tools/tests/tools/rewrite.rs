//! Rewritten captures: what was to go is gone, what was to stay is there, and no ICRC, checksum or
//! finding is other than it was.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use roce_codec::cm::{Mad, Message};
use roce_codec::icrc::IcrcVerdict;
use roce_codec::{Frame, Start};
use roce_pcap::capture::{CaptureWriter, Packet, PacketRecord, PcapngWriter, Reader};
use roce_pcap::check::{Rule, Verdict};
use roce_pcap::generate::Golden;
use roce_pcap::rewrite::{Config, Dedupe, Key, Mask, Payload, Rewriter};

use crate::support::{Temporary, capture, packets, roce_pcap, tshark};

const CAPTURES: [&str; 6] =
    ["rxe-write", "rxe-cm", "rxe-nvme", "rxe-ipv6", "rxe-lossy-client", "rxe72-flush-atomicwrite"];

fn rewrite(file: &[u8], config: Config) -> Vec<u8> {
    let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
    let mut reader = Reader::new(file).unwrap();
    let mut rewriter = Rewriter::new(config);
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        if let Some((data, orig_len)) = rewriter.packet(&packet) {
            let time = packet.timestamp_ns.unwrap();
            writer.write(&PacketRecord { orig_len, ..PacketRecord::new(time, data) }).unwrap();
        }
    }
    writer.into_inner().unwrap()
}

fn masked(payload: Payload) -> Config {
    Config { mask: Some(Mask::new(Key::of_text("test"))), payload, ..Config::default() }
}

fn frame(data: &[u8]) -> Option<Frame<'_>> {
    Frame::parse_captured([data, &[]], Start::Ethernet).ok()
}

/// What is left of a file's packets when nothing but RoCEv2 is kept.
fn roce(file: &[u8]) -> Vec<Vec<u8>> {
    packets(file)
        .into_iter()
        .map(|packet| packet.data)
        .filter(|data| frame(data).is_some())
        .collect()
}

type Findings = Vec<(Rule, Verdict, u64)>;

fn findings(file: &[u8]) -> Findings {
    let report = roce_pcap::check(Reader::new(file).unwrap());
    report.findings.iter().map(|found| (found.rule, found.verdict, found.packet)).collect()
}

#[test]
fn icrcs_stay_as_right_or_wrong_as_they_were() {
    for name in CAPTURES {
        let file = std::fs::read(capture(name)).unwrap();
        for payload in [Payload::Kept, Payload::Zeroed] {
            let after = rewrite(&file, masked(payload));
            let (before, after) = (roce(&file), roce(&after));
            assert_eq!(before.len(), after.len());
            for (before, after) in before.iter().zip(&after) {
                let (before, after) = (frame(before).unwrap(), frame(after).unwrap());
                match (before.verify_icrc(), after.verify_icrc()) {
                    (IcrcVerdict::Valid, IcrcVerdict::Valid) => {}
                    (
                        IcrcVerdict::Invalid { expected: a, found: b },
                        IcrcVerdict::Invalid { expected: c, found: d },
                    ) => {
                        let difference = |a, b| u32::from_be_bytes(a) ^ u32::from_be_bytes(b);
                        assert_eq!(difference(a, b), difference(c, d));
                    }
                    (before, after) => panic!("{name}: {before} became {after}"),
                }
                assert_eq!(before.bth(), after.bth());
                assert_eq!(before.payload_len(), after.payload_len());
            }
        }
    }
}

/// The faults of golden traces are found all the same, none goes, none comes. (What the ICRC's
/// mistake was is told only where the difference still says so.)
#[test]
fn findings_survive_masking() {
    for golden in Golden::all() {
        let mut writer = CaptureWriter::Pcapng(PcapngWriter::new(Vec::new()).unwrap());
        golden.write(1, &mut writer).unwrap();
        let file = writer.into_inner().unwrap();
        // Unreadable packets and pauses are left out, and with them what is found in them.
        if roce(&file).len() < packets(&file).len() || golden.name.starts_with("icrc") {
            continue;
        }
        assert_eq!(
            findings(&rewrite(&file, masked(Payload::Kept))),
            findings(&file),
            "{}",
            golden.name
        );
    }
}

/// No address of the original, nor any other secret, is anywhere in the result.
#[test]
fn nothing_leaks() {
    for name in CAPTURES {
        let file = std::fs::read(capture(name)).unwrap();
        let before = roce(&file);
        let mut secrets: Vec<Vec<u8>> = Vec::new();
        for data in &before {
            let frame = frame(data).unwrap();
            for ip in [frame.src(), frame.dst()] {
                secrets.push(match ip {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                });
            }
            secrets.push(data[..6].to_vec());
            secrets.push(data[6..12].to_vec());
            if let Some(Message::Req(req)) =
                Mad::from_frame(&frame).and_then(|mad| Message::parse(&mad).ok())
            {
                secrets.push(req.local_ca_guid.0.to_be_bytes().to_vec());
            }
        }
        secrets.sort();
        secrets.dedup();
        let after = rewrite(&file, masked(Payload::Zeroed));
        for secret in secrets.iter().filter(|secret| secret.iter().any(|byte| *byte != 0)) {
            let leak = roce(&after)
                .iter()
                .position(|data| data.windows(secret.len()).any(|window| window == secret));
            assert_eq!(leak, None, "{name}: {secret:02x?}");
        }
        let text = after.windows(4).any(|window| window == b"nqn.");
        assert!(!text, "{name}: names of NVMe hosts are private data");
    }
}

/// One address becomes one address, in headers and in the connection manager's messages, and what
/// shares a prefix still does.
#[test]
fn masks_agree_everywhere() {
    let file = std::fs::read(capture("rxe-cm")).unwrap();
    let after = rewrite(&file, masked(Payload::Kept));
    let mut masks = HashMap::new();
    let mut requests = 0;
    for (before, after) in roce(&file).iter().zip(&roce(&after)) {
        let (before, after) = (frame(before).unwrap(), frame(after).unwrap());
        for (real, mask) in [(before.src(), after.src()), (before.dst(), after.dst())] {
            assert_ne!(real, mask);
            assert_eq!(*masks.entry(real).or_insert(mask), mask);
        }
        let Some(mad) = Mad::from_frame(&after) else { continue };
        if let Ok(Message::Req(req)) = Message::parse(&mad) {
            requests += 1;
            assert_eq!(req.primary.local_gid.ip(), after.src());
            assert_eq!(req.primary.remote_gid.ip(), after.dst());
            let (header, private) = req.ip_cm().unwrap();
            assert_eq!(header.src_ip(), Some(after.src()));
            assert_eq!(header.dst_ip(), Some(after.dst()));
            assert!(private.iter().all(|byte| *byte == 0));
        }
    }
    assert!(requests >= 2);
    let again = rewrite(&file, masked(Payload::Kept));
    assert_eq!(again, after, "the same key, the same addresses");
    let other = Config { mask: Some(Mask::new(Key::of_text("other"))), ..Config::default() };
    assert_ne!(rewrite(&file, other), after);
}

/// tshark's view: checksums right where they were, and nothing malformed.
#[test]
fn tshark_finds_the_checksums_right() {
    for name in ["rxe-ipv6", "rxe-cm"] {
        let file = std::fs::read(capture(name)).unwrap();
        let after = Temporary::new(".pcapng", &rewrite(&file, masked(Payload::Zeroed)));
        let filter = "ip.checksum.status == 0 || udp.checksum.status == 0";
        let mut command = std::process::Command::new("tshark");
        command.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
        let Ok(output) = command.arg("-r").arg(&after.0).args(["-Y", filter]).output() else {
            return;
        };
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{name}");
        let Some(seen) = tshark(&after.0, "infiniband", &["frame.number"]) else { return };
        assert_eq!(seen.len(), roce(&file).len());
    }
}

#[test]
fn stripped_payload_leaves_headers_and_lengths() {
    let file = std::fs::read(capture("rxe-write")).unwrap();
    let config = Config { payload: Payload::Stripped, ..Config::default() };
    let (before, after) = (packets(&file), packets(&rewrite(&file, config)));
    for (before, after) in before.iter().zip(&after) {
        let (old, new) = (frame(&before.data).unwrap(), frame(&after.data).unwrap());
        assert_eq!((old.bth(), old.ext_headers()), (new.bth(), new.ext_headers()));
        assert_eq!(new.payload().concat(), b"");
        assert_eq!(after.orig_len, before.orig_len);
        assert!(matches!(new.verify_icrc(), IcrcVerdict::NotCheckable(_)));
    }
}

#[test]
fn every_icrc_can_be_made_right() {
    let file = std::fs::read(capture("rxe72-flush-atomicwrite")).unwrap();
    let fixed = rewrite(&file, Config { fix_icrc: true, ..Config::default() });
    let report = roce_pcap::check(Reader::new(fixed.as_slice()).unwrap());
    assert_eq!((report.summary.icrc_valid, report.summary.icrc_invalid), (46, 0));
    assert_eq!(packets(&file).len(), packets(&fixed).len());
}

/// Two taps of one way: each packet of the second is a copy with another MAC, VLAN, TTL and DSCP.
#[test]
fn mirror_copies_are_dropped_and_retransmissions_are_not() {
    let file = std::fs::read(capture("rxe-lossy-client")).unwrap();
    let all = packets(&file);
    let mut dedupe =
        Rewriter::new(Config { dedupe: Some(Dedupe::new(10_000)), ..Config::default() });
    let (mut kept, mut number) = (Vec::new(), 0);
    for packet in &all {
        let mut copy = packet.data.clone();
        copy[5] ^= 1;
        if frame(&copy).is_some_and(|frame| frame.src().is_ipv4()) {
            copy[15] ^= 0xfc;
            copy[22] -= 1;
            copy[24] ^= 0x77;
        }
        for (data, delay) in [(&packet.data, 0), (&copy, 3_000)] {
            number += 1;
            let packet = Packet {
                number,
                offset: 0,
                timestamp_ns: packet.time.map(|time| time + delay),
                interface: 0,
                link: packet.link,
                direction: None,
                fcs_len: 0,
                link_bps: None,
                orig_len: packet.orig_len,
                data,
            };
            if let Some((data, _)) = dedupe.packet(&packet) {
                kept.push(data.to_vec());
            }
        }
    }
    let counts = dedupe.counts();
    assert_eq!(counts.copies, roce(&file).len() as u64);
    let roce_of = |datas: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        datas.into_iter().filter(|data| frame(data).is_some()).collect()
    };
    assert_eq!(roce_of(kept), roce(&file));
}

#[test]
fn the_command_merges_by_time_and_selects() {
    let (client, server) = (capture("rxe-ecn-client"), capture("rxe-ecn-server"));
    let [client, server] = [client, server].map(|path| path.to_str().unwrap().to_owned());
    let merged = roce_pcap(&["rewrite", &client, &server, "-o", "-"], &[]);
    assert_eq!(merged.status.code(), Some(0), "{merged:?}");
    let all = packets(&merged.stdout);
    assert_eq!(all.len(), 360);
    assert!(all.is_sorted_by_key(|packet| packet.time));
    let mut per_interface = BTreeMap::new();
    for packet in &all {
        *per_interface.entry(packet.interface).or_insert(0) += 1;
    }
    assert_eq!(per_interface.into_values().collect::<Vec<_>>(), [180, 180]);

    let some = roce_pcap(
        &["rewrite", &client, "-o", "-", "--from", "11", "--to", "20", "--cut", "60"],
        &[],
    );
    let some = packets(&some.stdout);
    let whole = packets(&std::fs::read(&client).unwrap());
    assert_eq!(some.len(), 10);
    for (cut, whole) in some.iter().zip(&whole[10..20]) {
        assert_eq!(cut.data, whole.data[..whole.data.len().min(60)]);
        assert_eq!(cut.orig_len, whole.orig_len);
    }

    let acks = roce_pcap(
        &["rewrite", &client, "-o", "-", "--where", "opcode == RC_ACKNOWLEDGE", "--to-pcap"],
        &[],
    );
    assert_eq!(acks.stdout[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let is_ack = |data: &[u8]| frame(data).is_some_and(|frame| frame.opcode().0 == 0x11);
    let count = whole.iter().filter(|packet| is_ack(&packet.data)).count();
    assert_eq!(packets(&acks.stdout).len(), count);
    assert!(count > 10);

    for (args, text) in
        [(&["--where", "opcod == 1"], "did you mean"), (&["--from", "x"], "a packet's number")]
    {
        let wrong = roce_pcap(&[&["rewrite", &client, "-o", "-"][..], args].concat(), &[]);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(String::from_utf8(wrong.stderr).unwrap().contains(text));
    }
}

/// Cut anywhere, no packet makes it panic.
#[test]
fn cut_packets_are_rewritten_as_far_as_they_go() {
    let file = std::fs::read(capture("rxe-cm")).unwrap();
    for packet in packets(&file).iter().take(20) {
        for len in 0..packet.data.len() {
            let mut rewriter = Rewriter::new(masked(Payload::Zeroed));
            let cut = Packet {
                number: 1,
                offset: 0,
                timestamp_ns: packet.time,
                interface: 0,
                link: packet.link,
                direction: None,
                fcs_len: 0,
                link_bps: None,
                orig_len: packet.orig_len,
                data: &packet.data[..len],
            };
            if let Some((data, _)) = rewriter.packet(&cut) {
                assert_eq!(data.len(), len);
            }
        }
    }
}
