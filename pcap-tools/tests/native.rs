//! What is no RoCEv2 and yet shown: RoCE v1, native InfiniBand, PAUSE and PFC.

use std::io::Write;
use std::process::{Command, Stdio};

use roce_codec::ib::{
    Aeth, Bth, ExtHeaders, Lid, LinkNextHeader, Lrh, Msn, Opcode, Psn, Qpn, RKey, Reth, Syndrome,
};
use roce_codec::net::{
    EtherType, Ethernet, Gid, Grh, Ip, Ipv4, MacAddr, MacControl, Pause, PauseQuanta, Pfc,
    VlanStack, VlanTag,
};
use roce_codec::{Crc, FrameBuilder, NativeBuilder, Route};
use serde_json::Value;

const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn grh() -> Grh {
    Grh {
        traffic_class: 0x12,
        flow_label: 0x34567,
        pay_len: 0,
        next_header: Grh::IBA,
        hop_limit: 64,
        sgid: Gid::from(std::net::Ipv4Addr::new(192, 0, 2, 1)),
        dgid: Gid([0xfe; 16]),
    }
}

fn lrh() -> Lrh {
    Lrh {
        vl: 2,
        lver: 0,
        sl: 3,
        resv2: 0,
        lnh: LinkNextHeader::Local,
        dlid: Lid(7),
        resv5: 0,
        pkt_len: 0,
        slid: Lid(5),
    }
}

fn ethernet(ethertype: EtherType) -> Ethernet {
    Ethernet { dst: DST, src: SRC, vlans: VlanStack::one(VlanTag::new(3, 9)), ethertype }
}

/// A WRITE of five bytes.
fn write(route: Route) -> Vec<u8> {
    let bth =
        Bth { ack_req: true, ..Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(17), Psn::new(9)) };
    let reth = Reth { va: 0x1000, rkey: RKey(0x77), dma_len: 5 };
    native(route, bth, ExtHeaders { reth: Some(reth), ..ExtHeaders::NONE }, b"hello")
}

fn ack(route: Route) -> Vec<u8> {
    let aeth = Aeth { syndrome: Syndrome(0x1f), msn: Msn::new(4) };
    let bth = Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(18), Psn::new(9));
    native(route, bth, ExtHeaders { aeth: Some(aeth), ..ExtHeaders::NONE }, b"")
}

fn native(route: Route, bth: Bth, ext: ExtHeaders, payload: &[u8]) -> Vec<u8> {
    let mut builder = NativeBuilder { route, bth, ext, pad: [0; 3] };
    builder.set_payload_len(payload.len()).unwrap();
    let mut out = vec![0; 256];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    out.truncate(len);
    out
}

fn control(frame: MacControl) -> Vec<u8> {
    let mut out = vec![0; 60];
    frame.emit(&mut out).unwrap();
    out
}

fn cnp() -> Vec<u8> {
    let ip = Ip::V4(Ipv4 {
        dscp_ecn: 0,
        total_len: 0,
        identification: 1,
        flags_fragment: Ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: 17,
        checksum: 0,
        src: [192, 0, 2, 2].into(),
        dst: [192, 0, 2, 1].into(),
    });
    let mut out = vec![0; 128];
    let cnp = FrameBuilder::cnp(Some(ethernet(EtherType::IPV4)), ip, 0, Qpn::new(0x17));
    let len = cnp.emit::<Crc>([b"", b""], &mut out).unwrap();
    out.truncate(len);
    out
}

/// A capture of Ethernet with one of each, and of what is none of them.
fn mixed() -> Vec<u8> {
    let pfc = Pfc::new(SRC).with(3, PauseQuanta(0xffff)).with(4, PauseQuanta(0));
    let arp = [&[0xff; 6][..], &SRC.0, &[0x08, 0x06], &[0; 46]].concat();
    let mut gate = control(MacControl::Pause(Pause::new(SRC, PauseQuanta(1))));
    gate[15] = 2;
    capture(
        1,
        &[
            write(Route::RoceV1(ethernet(EtherType::ROCE_V1), grh())),
            control(MacControl::Pause(Pause::new(SRC, PauseQuanta(0x1234)))),
            control(MacControl::Pfc(pfc)),
            cnp(),
            arp,
            gate,
        ],
    )
}

fn capture(link_type: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, link_type] {
        file.extend(word.to_le_bytes());
    }
    for (packet, second) in packets.iter().zip(0_u32..) {
        let len = u32::try_from(packet.len()).unwrap();
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// What `roce-pcap` prints of a capture, and its exit status.
fn run(args: &[&str], input: &[u8]) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roce-pcap"))
        .args(args)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_line_each() {
    let (status, text) = run(&["decode"], &mixed());
    assert_eq!(status, 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "    1 0.000000000 RoCE v1 192.0.2.1 > fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe \
         RC_RDMA_WRITE_ONLY QP 0x000011 PSN 0x000009 A va=0x1000 r_key=0x00000077 dmalen=5 len=5 \
         ICRC valid"
    );
    assert_eq!(
        lines[1],
        "    2 1.000000000 PAUSE 02:00:00:00:00:01 > 01:80:c2:00:00:01 quanta=4660"
    );
    assert_eq!(
        lines[2],
        "    3 2.000000000 PFC 02:00:00:00:00:01 > 01:80:c2:00:00:01 \
         priority 3 quanta=65535 priority 4 quanta=0"
    );
    assert!(lines[3].contains("192.0.2.2 > 192.0.2.1 CNP QP 0x000017 PSN 0x000000 BECN"));
    assert_eq!(
        lines[4..],
        ["6 packets: 1 RoCEv2 (0 malformed), 1 RoCE v1 or InfiniBand, 2 PAUSE or PFC, 2 other"]
    );
    let (_, text) = run(&["decode", "--all"], &mixed());
    assert!(text.contains("5 4.000000000 not RoCEv2: Ethernet carries protocol 0x806"), "{text}");
    assert!(text.contains("not RoCEv2: MAC control opcode 0x0002 is neither PAUSE nor PFC"));
}

#[test]
fn every_field() {
    let (_, text) = run(&["decode", "-V"], &mixed());
    for part in [
        "    VLAN: 9, priority 3\nGlobal route header, 192.0.2.1 > fefe:",
        "    Traffic class: 0x12\n    Flow label: 0x34567\n    Payload length: 40\n",
        "Payload, 5 bytes\n    Bytes: 68656c6c6f\n    Pad: 000000\nICRC, valid\n",
        "MAC control, PAUSE\n    Quanta: 4660\n",
        "MAC control, PFC\n    Class-enable vector: 0x0018\n    Priority: 3, quanta 65535\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn the_names_of_wireshark() {
    let (_, text) = run(&["decode", "--format", "jsonl"], &mixed());
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [roce_v1, pause, pfc, _, summary] = &lines[..] else { panic!("{text}") };
    assert_eq!(roce_v1["infiniband.grh.sgid"], "192.0.2.1");
    assert_eq!(roce_v1["infiniband.grh.flowlabel"], 0x34567);
    assert_eq!(roce_v1["infiniband.grh.paylen"], 40);
    assert_eq!(roce_v1["infiniband.reth.dmalen"], 5);
    assert_eq!(roce_v1["vlan.id"], 9);
    assert_eq!(roce_v1["icrc.status"], "valid");
    assert_eq!((&pause["macc.opcode"], &pause["macc.pause_time"]), (&1.into(), &4660.into()));
    assert_eq!((&pfc["macc.opcode"], &pfc["macc.cbfc.enbv"]), (&0x101.into(), &0x18.into()));
    assert_eq!(pfc["macc.cbfc.pause_time.c3"], 65535);
    assert_eq!(pfc["eth.dst"], "01:80:c2:00:00:01");
    assert_eq!(summary["summary"]["native_packets"], 1);
    assert_eq!(summary["summary"]["pauses"], 2);
}

#[test]
fn native_infiniband() {
    let mut damaged = ack(Route::Local(lrh()));
    let end = damaged.len();
    damaged[end - 1] ^= 0xff;
    let mut cut = write(Route::Local(lrh()));
    cut.truncate(cut.len() - 8);
    let mut raw = ack(Route::Local(lrh()));
    raw[1] = 0x30;
    let file = capture(
        247,
        &[ack(Route::Local(lrh())), write(Route::Global(lrh(), grh())), damaged, cut, raw],
    );
    let (status, text) = run(&["decode", "--all"], &file);
    assert_eq!(status, 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "    1 0.000000000 InfiniBand LID 5 > 7 RC_ACKNOWLEDGE QP 0x000012 PSN 0x000009 \
         ACK msn=4 ICRC valid VCRC valid"
    );
    assert!(lines[1].ends_with("dmalen=5 len=5 ICRC valid VCRC valid"), "{text}");
    assert!(lines[2].contains("ICRC valid VCRC ") && lines[2].ends_with("expected"), "{text}");
    assert!(lines[3].ends_with("len=5 ICRC truncated"), "{text}");
    assert!(lines[4].ends_with("not RoCEv2: a raw EtherType packet (LNH 0)"), "{text}");
    let (_, text) = run(&["decode", "-V"], &file);
    assert!(text.contains("Local route header\n    Virtual lane: 2\n"));
    assert!(text.contains("    Packet length in words: 22\n"));
    assert!(text.contains("VCRC, valid\n") && text.contains("VCRC, invalid\n"));
    let (_, text) = run(&["decode", "--format", "jsonl"], &file);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["infiniband.lrh.slid"], 5);
    assert_eq!(first["vcrc.status"], "valid");
}

#[test]
fn they_are_judged() {
    let (status, text) = run(&["check"], &mixed());
    assert_eq!(status, 0);
    assert!(text.contains("6 packets, 2 RoCE, 2 flows"), "{text}");
}
