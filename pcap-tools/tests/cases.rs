//! Known ways to be wrong, each a report from people who do this job, numbered as they were
//! collected: what `decode` says of the packets that others got wrong.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use roce_codec::cm::{IpCmHeader, MAD_LEN, Message, Req, ServiceId};
use roce_codec::ib::{Aeth, Bth, Deth, ExtHeaders, Msn, Opcode, Psn, QKey, Qpn, Syndrome};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};
use roce_pcap::capture::{LinkType, Packet};
use roce_pcap::decode::{Decoder, Style};
use roce_pcap::generate::Golden;
use serde_json::Value;

/// Bytes of Ethernet and IPv4 in front of UDP.
const UDP_AT: usize = 34;

fn ip() -> Ip {
    Ip::V4(Ipv4::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into()))
}

fn ethernet() -> Ethernet {
    Ethernet::new(MacAddr([2; 6]), MacAddr([4; 6]), EtherType::IPV4)
}

fn emit(mut builder: FrameBuilder, payload: &[u8]) -> Vec<u8> {
    builder.set_payload_len(payload.len()).unwrap();
    seal(&builder, payload)
}

/// As the values say, however odd they are.
fn seal(builder: &FrameBuilder, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 512];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    out.truncate(len);
    out
}

fn send(src_port: u16) -> FrameBuilder {
    let bth = Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x12), Psn::new(5));
    FrameBuilder::new(Some(ethernet()), ip(), src_port, bth)
}

fn written(style: Style, packet: &Packet<'_>) -> String {
    let mut out = Vec::new();
    Decoder::new(style, true).packet(packet, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn object(bytes: &[u8]) -> Value {
    let packet = Packet::new(LinkType::ETHERNET, bytes);
    serde_json::from_str(&written(Style::JsonLines, &packet)).unwrap()
}

#[test]
fn case_2_the_icrc_is_shown_as_its_bytes_are_on_the_wire() {
    let bytes = emit(send(0xc000), b"abcd");
    let end = bytes.len();
    let wire: String = bytes[end - 4..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(object(&bytes)["infiniband.invariant.crc"], format!("0x{wire}"));
}

#[test]
fn case_12_what_may_change_in_flight_leaves_the_icrc_valid_and_the_address_does_not() {
    let bytes = emit(send(0xc000), b"abcd");
    // MAC, DSCP and ECN, time to live, checksum; then the destination address and the port.
    for (at, status) in [(0, "valid"), (15, "valid"), (22, "valid"), (24, "valid")]
        .into_iter()
        .chain([(33, "invalid"), (UDP_AT, "invalid"), (UDP_AT + 19, "invalid")])
    {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(object(&changed)["icrc.status"], status, "byte {at}");
    }
}

#[test]
fn case_18_reserved_bits_low_ports_and_odd_pads_decode() {
    let mut builder = send(0);
    builder.bth.resv6 = 0x10;
    builder.bth.resv7 = 0x7f;
    builder.set_payload_len(5).unwrap();
    builder.pad = [1, 2, 3];
    let packet = object(&seal(&builder, b"hello"));
    assert!(packet["error"].is_null(), "{packet}");
    assert_eq!((&packet["icrc.status"], &packet["payload.len"]), (&"valid".into(), &5.into()));
}

#[test]
fn cases_25_and_26_a_cnp_as_hardware_sends_it() {
    let cnp = FrameBuilder::cnp(Some(ethernet()), ip(), 0, Qpn::new(0x17));
    let packet = object(&emit(cnp, b""));
    assert_eq!(
        (&packet["opcode"], &packet["infiniband.bth.opcode"]),
        (&"CNP".into(), &0x81.into())
    );
    assert_eq!((&packet["ip.dsfield.dscp"], &packet["udp.srcport"]), (&48.into(), &0.into()));
    for (field, value) in
        [("becn", true), ("se", false), ("m", false), ("a", false), ("fecn", false)]
    {
        assert_eq!(packet[format!("infiniband.bth.{field}")], value, "{field}");
    }
    assert_eq!((&packet["payload.len"], &packet["icrc.status"]), (&0.into(), &"valid".into()));
}

#[test]
fn case_28_dscp_and_ecn_are_two_fields_of_one_byte() {
    for (tos, dscp, ecn) in [(0x68, 26, 0), (0xc2, 48, 2), (0x03, 0, 3)] {
        let mut builder = send(0xc000);
        let Ip::V4(ip) = &mut builder.ip else { panic!() };
        ip.dscp_ecn = tos;
        let packet = object(&emit(builder, b""));
        assert_eq!(packet["ip.dsfield.dscp"], dscp);
        assert_eq!(packet["ip.dsfield.ecn"], ecn);
    }
}

#[test]
fn cases_30_and_74_the_destination_port_decides() {
    for port in [0, 69, 72, 53, 4791, 0xc000] {
        let packet = object(&emit(send(port), b""));
        assert_eq!(
            (&packet["udp.srcport"], &packet["opcode"]),
            (&port.into(), &"RC_SEND_ONLY".into())
        );
    }
}

#[test]
fn cases_33_and_34_padding_of_ethernet_is_neither_payload_nor_icrc() {
    let mut bytes = emit(send(0xc000), b"");
    bytes.extend([0x55; 29]);
    let packet = object(&bytes);
    assert_eq!((&packet["payload.len"], &packet["icrc.status"]), (&0.into(), &"valid".into()));
    let tree = written(Style::Tree, &Packet::new(LinkType::ETHERNET, &bytes));
    assert!(tree.contains("Trailer, 29 bytes\n"), "{tree}");
}

#[test]
fn case_35_a_packet_cut_by_the_capture_is_not_a_bad_one() {
    let bytes = emit(send(0xc000), &[7; 200]);
    let orig_len = u32::try_from(bytes.len()).unwrap();
    let cut = Packet { orig_len, ..Packet::new(LinkType::ETHERNET, &bytes[..96]) };
    let packet: Value = serde_json::from_str(&written(Style::JsonLines, &cut)).unwrap();
    assert_eq!(
        (&packet["icrc.status"], &packet["payload.len"]),
        (&"truncated".into(), &200.into())
    );
    assert!(packet["error"].is_null());
}

#[test]
fn cases_43_and_47_rnr_timers_and_credits_come_from_their_tables() {
    for (syndrome, words) in [
        (0x20, "RNR NAK, 655360 us"),
        (0x21, "RNR NAK, 10 us"),
        (0x2c, "RNR NAK, 640 us"),
        (0x39, "RNR NAK, 61440 us"),
        (0x3f, "RNR NAK, 491520 us"),
        (0x00, "ACK, 0 credits"),
        (0x05, "ACK, 6 credits"),
        (0x06, "ACK, 8 credits"),
        (0x1f, "ACK"),
    ] {
        let mut builder = send(0xc000);
        builder.bth.opcode = Opcode::RC_ACKNOWLEDGE;
        builder.ext.aeth = Some(Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(1) });
        let packet = object(&emit(builder, b""));
        assert_eq!(packet["syndrome"], words);
        assert_eq!(packet["infiniband.aeth.syndrome"], syndrome);
    }
}

/// What `roce-pcap` prints on standard output for these arguments and a pcap of the frames, whose
/// name comes last.
fn tool(arguments: &[&str], frames: &[Vec<u8>]) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("roce-case-{}-{number}", std::process::id()));
    // Microseconds, version 2.4, Ethernet.
    let mut file =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for (second, frame) in (1_u32..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap();
        file.extend([second, 0, len, len].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(frame);
    }
    std::fs::write(&path, file).unwrap();
    let command = env!("CARGO_BIN_EXE_roce-pcap");
    let output = Command::new(command).args(arguments).arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A datagram that begins with what looks like the area in front of another one: of IPv4 (twenty
/// bytes of nothing, then the header, as a ConnectX-5 delivers it) and of IPv6.
#[test]
fn case_69_payload_that_looks_like_a_grh_area_stays_payload() {
    let mut ipv4 = vec![0; 20];
    ipv4.extend([0x45, 0x02, 0x04, 0x34, 0x36, 0xf3, 0x40, 0, 64, 17, 0, 0]);
    ipv4.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 24, 17, 64];
    ipv6.resize(40, 0xfe);
    let frames: Vec<Vec<u8>> = (5..)
        .zip([ipv4, ipv6])
        .map(|(psn, area)| {
            let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::new(0x12), Psn::new(psn));
            let mut builder = FrameBuilder::new(Some(ethernet()), ip(), 0xc000, bth);
            let deth = Deth { qkey: QKey(0x1111), resv8: 0, src_qp: Qpn::new(0x34) };
            builder.ext = ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE };
            emit(builder, &[&area[..], b"mail"].concat())
        })
        .collect();
    let fields = "opcode,ip.src,ipv6.src,payload.len,icrc.status";
    let lines = tool(&["decode", "--format", "jsonl", "--fields", fields], &frames);
    assert_eq!(lines.lines().count(), 3, "two packets and the summary: {lines}");
    for line in lines.lines().take(2) {
        let packet: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&packet["opcode"], &packet["ip.src"]),
            (&"UD_SEND_ONLY".into(), &"192.0.2.1".into())
        );
        assert_eq!((&packet["payload.len"], &packet["icrc.status"]), (&44.into(), &"valid".into()));
        assert!(packet["ipv6.src"].is_null(), "{packet}");
    }
    // Behind an area of its own, the receive has all of it.
    let replayed = tool(&["replay"], &frames);
    assert!(replayed.contains("2 of 2 requests given"), "{replayed}");
    assert!(replayed.ends_with("0 mismatches\n"), "{replayed}");
}

/// The tap shows every PSN, and the responder asks for one of them again: it was lost behind the
/// tap, and the flow has no gap.
#[test]
fn case_86_a_nak_without_a_visible_loss_invents_no_gap() {
    let golden = Golden::named("loss-behind-tap").unwrap();
    let frames: Vec<Vec<u8>> = golden.packets(3).into_iter().map(|(_, bytes)| bytes).collect();
    let naks = tool(&["decode", "--fields", "number", "--where", "ack == NAK"], &frames);
    assert_eq!(naks.lines().count(), 1, "{naks}");
    let found = tool(&["check", "--unknown"], &frames);
    assert!(!found.contains("RC-PSN-GAP"), "{found}");
    let stats: Value =
        serde_json::from_str(&tool(&["stats", "--format", "json"], &frames)).unwrap();
    let causes: Vec<_> =
        stats["losses"].as_array().unwrap().iter().map(|it| &it["cause"]).collect();
    assert_eq!(causes, ["sequence_nak"]);
}

/// A REQ for a service, with the RNR retry count that means no end.
fn req(service: u64) -> Vec<u8> {
    let mut private = [0xee; Req::PRIVATE_DATA_LEN];
    IpCmHeader::v4([192, 0, 2, 1].into(), 7, [192, 0, 2, 2].into()).emit(&mut private).unwrap();
    let request = Message::Req(Req {
        service_id: ServiceId(service),
        rnr_retry_count: 7,
        private_data: &private,
        ..Req::default()
    });
    let mut mad = [0; MAD_LEN];
    request.emit(1, &mut mad).unwrap();
    let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0));
    let mut builder = FrameBuilder::new(Some(ethernet()), ip(), 0xc000, bth);
    let deth = Deth { qkey: QKey::GSI, resv8: 0, src_qp: Qpn::GSI };
    builder.ext = ExtHeaders { deth: Some(deth), ..ExtHeaders::NONE };
    emit(builder, &mad)
}

#[test]
fn case_46_seven_retries_are_without_end() {
    let bytes = req(0x0106_1144);
    assert_eq!(object(&bytes)["infiniband.cm.req.rnrretrcount"], 7);
    let tree = written(Style::Tree, &Packet::new(LinkType::ETHERNET, &bytes));
    assert!(tree.contains("    RNR retry count: without end (0x07)\n"), "{tree}");
}

#[test]
fn case_72_the_ip_cm_header_is_there_for_services_of_its_prefix_alone() {
    let ours = object(&req(0x0106_1144));
    assert_eq!(ours["infiniband.cm.req.ip_cm.sip4"], "192.0.2.1");
    assert_eq!(ours["infiniband.cm.req.ip_cm.private"], "ee".repeat(56));
    let other = object(&req(0x1000_0001_0106_1144));
    assert!(other["infiniband.cm.req.ip_cm.sip4"].is_null(), "{other}");
    assert_eq!(other["infiniband.cm.req.private"].as_str().unwrap().len(), 2 * 92);
}
