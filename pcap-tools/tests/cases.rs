//! Known ways to be wrong, each a report from people who do this job, numbered as they were
//! collected: what `decode` says of the packets that others got wrong.

use roce_codec::cm::{IpCmHeader, MAD_LEN, Message, Req, ServiceId};
use roce_codec::ib::{Aeth, Bth, Deth, ExtHeaders, Msn, Opcode, Psn, QKey, Qpn, Syndrome};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr};
use roce_codec::{Crc, FrameBuilder};
use roce_pcap::capture::{LinkType, Packet};
use roce_pcap::decode::{Decoder, Style};
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
