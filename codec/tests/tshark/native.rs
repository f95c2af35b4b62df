//! The same for native InfiniBand and RoCE v1, their LRH, GRH and both CRCs, and for PAUSE frames.

use std::path::Path;

use roce_codec::ib::{Lid, LinkNextHeader, Lrh, Opcode};
use roce_codec::net::{
    EtherType, Ethernet, Grh, MacAddr, MacControl, Pause, PauseQuanta, Pfc, VlanStack, VlanTag,
};
use roce_codec::{Crc, Frame, NativeBuilder, NativeFrame, NativeStart, Route, Start};

use crate::opcodes::{in_wireshark, packet};
use crate::packets::{ETHERNET, write_pcap};
use crate::{number, tshark};

/// What analyzers of InfiniBand links write, Endace's Extensible Record Format. Wireshark 4.0 does
/// not read link type 247, which is native InfiniBand without it.
const LINKTYPE_ERF: u32 = 197;

/// A record of type InfiniBand: time, type, flags (records vary in length), record length, loss
/// counter, length on the wire.
fn erf(packet: Vec<u8>) -> Vec<u8> {
    let len = u16::try_from(packet.len()).unwrap();
    let mut record = vec![0; 8];
    record.extend([21, 4]);
    record.extend((16 + len).to_be_bytes());
    record.extend([0, 0]);
    record.extend(len.to_be_bytes());
    record.extend(packet);
    record
}

const LRH: Lrh = Lrh {
    vl: 9,
    lver: 0,
    sl: 5,
    resv2: 0,
    lnh: LinkNextHeader::RawEtherType,
    dlid: Lid(0x1234),
    resv5: 0,
    pkt_len: 0,
    slid: Lid(0x5678),
};

fn grh() -> Grh {
    Grh {
        traffic_class: 0xa5,
        flow_label: 0x1_2345,
        pay_len: 0,
        next_header: Grh::IBA,
        hop_limit: 0x3f,
        sgid: "fe80::1:2:3:4".parse::<std::net::Ipv6Addr>().unwrap().into(),
        dgid: "2001:db8::9".parse::<std::net::Ipv6Addr>().unwrap().into(),
    }
}

fn ethernet(tags: u16) -> Ethernet {
    let mut vlans = VlanStack::EMPTY;
    for tag in 0..tags {
        assert!(vlans.push(VlanTag::new(3, 100 + tag)));
    }
    Ethernet {
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        vlans,
        ethertype: EtherType::ROCE_V1,
    }
}

/// The RoCEv2 packet of the opcode on another route.
fn routed(opcode: Opcode, route: Route) -> Vec<u8> {
    let bytes = packet(opcode);
    let frame = Frame::parse([&bytes, &[]], Start::Ethernet).unwrap();
    let mut builder = NativeBuilder {
        route,
        bth: frame.bth(),
        ext: frame.ext_headers(),
        pad: frame.pad().bytes(),
    };
    builder.set_payload_len(frame.payload_len()).unwrap();
    let mut out = [0; 256];
    let len = builder.emit::<Crc>(frame.payload(), &mut out).unwrap();
    out[..len].to_vec()
}

#[test]
fn wireshark_finds_the_same_routes() {
    let opcodes: Vec<Opcode> = (0..=255).map(Opcode).filter(|code| in_wireshark(*code)).collect();
    let numbers = [
        "infiniband.lrh.vl",
        "infiniband.lrh.lver",
        "infiniband.lrh.sl",
        "infiniband.lrh.lnh",
        "infiniband.lrh.dlid",
        "infiniband.lrh.slid",
        "infiniband.lrh.pktlen",
        "infiniband.grh.ipver",
        "infiniband.grh.tclass",
        "infiniband.grh.flowlabel",
        "infiniband.grh.paylen",
        "infiniband.grh.nxthdr",
        "infiniband.grh.hoplmt",
        "infiniband.bth.opcode",
        "infiniband.bth.p_key",
        "infiniband.bth.destqp",
        "infiniband.bth.psn",
        "infiniband.bth.padcnt",
        "infiniband.invariant.crc",
        "infiniband.variant.crc",
    ];
    let texts = ["infiniband.grh.sgid", "infiniband.grh.dgid", "data.data", "_ws.malformed"];
    for (name, link_type, start, route) in [
        ("local", LINKTYPE_ERF, NativeStart::Lrh, Route::Local(LRH)),
        ("global", LINKTYPE_ERF, NativeStart::Lrh, Route::Global(LRH, grh())),
        ("roce-v1", 1, NativeStart::Ethernet, Route::RoceV1(ethernet(0), grh())),
        ("roce-v1-tagged", 1, NativeStart::Ethernet, Route::RoceV1(ethernet(2), grh())),
    ] {
        let packets: Vec<Vec<u8>> = opcodes.iter().map(|code| routed(*code, route)).collect();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("native-{name}.pcap"));
        let records = match link_type {
            LINKTYPE_ERF => packets.iter().cloned().map(erf).collect(),
            _ => packets.clone(),
        };
        write_pcap(&path, link_type, &records);
        let Some(rows) = tshark(&path, &[&numbers[..], &texts[..]].concat()) else {
            println!("passed over: no tshark here");
            return;
        };
        assert_eq!(rows.len(), opcodes.len());
        for ((opcode, packet), row) in opcodes.iter().zip(&packets).zip(&rows) {
            let frame = NativeFrame::parse([packet, &[]], start).unwrap();
            let (lrh, grh) = (route.lrh().is_some(), route.grh().is_some());
            let words = frame.lrh().map(|lrh| u64::from(lrh.pkt_len));
            let pay_len = frame.grh().map(|grh| u64::from(grh.pay_len));
            let end = packet.len() - if lrh { 2 } else { 0 };
            let crc =
                |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            let ours = [
                lrh.then_some(9),
                lrh.then_some(0),
                lrh.then_some(5),
                lrh.then_some(if grh { 3 } else { 2 }),
                lrh.then_some(0x1234),
                lrh.then_some(0x5678),
                words,
                grh.then_some(6),
                grh.then_some(0xa5),
                grh.then_some(0x1_2345),
                pay_len,
                grh.then_some(0x1b),
                grh.then_some(0x3f),
                Some(u64::from(opcode.0)),
                Some(0x8123),
                Some(0x12_3456),
                Some(0xab_cdef),
                Some(u64::from(frame.bth().pad_count)),
                Some(crc(&packet[end - 4..end])),
                lrh.then(|| crc(&packet[end..])),
            ];
            for (field, ours) in numbers.iter().zip(ours) {
                let theirs =
                    Some(&row[*field]).filter(|text| !text.is_empty()).map(|text| number(text));
                assert_eq!(theirs, ours, "{name} {opcode}: {field}");
            }
            // What the lengths say is there.
            let network = if lrh { 8 } else { 0 } + if grh { 40 } else { 0 };
            assert_eq!(words, lrh.then_some(u64::try_from(end / 4).unwrap()));
            if lrh {
                let behind = u64::try_from(end - network).unwrap();
                assert_eq!(pay_len, grh.then_some(behind));
            }
            let when = |present: bool, text: &str| present.then(|| text.to_owned());
            let text = |field: &str| Some(row[field].clone()).filter(|text| !text.is_empty());
            assert_eq!(text("infiniband.grh.sgid"), when(grh, "fe80::1:2:3:4"));
            assert_eq!(text("infiniband.grh.dgid"), when(grh, "2001:db8::9"));
            // It takes the pad for payload.
            let payload = when(opcode.info().payload, "d1d2d3d4d5d60000");
            assert_eq!(text("data.data"), payload, "{name} {opcode}");
            assert_eq!(row["_ws.malformed"], "", "{name} {opcode}");
        }
    }
}

#[test]
fn wireshark_reads_the_same_pauses() {
    let src = MacAddr([2, 0, 0, 0, 0, 1]);
    let pfc = Pfc::new(src).with(0, PauseQuanta(0x4321)).with(5, PauseQuanta(0x1234));
    let frames = [MacControl::Pause(Pause::new(src, PauseQuanta(0xfffe))), MacControl::Pfc(pfc)];
    let packets = frames.map(|frame| {
        let mut out = vec![0; 60];
        frame.emit(&mut out).unwrap();
        out
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pauses.pcap");
    write_pcap(&path, ETHERNET, &packets);
    let fields = [
        "eth.dst",
        "macc.opcode",
        "macc.pause_time",
        "macc.cbfc.enbv",
        "macc.cbfc.pause_time.c0",
        "macc.cbfc.pause_time.c1",
        "macc.cbfc.pause_time.c5",
        "_ws.malformed",
    ];
    let Some(rows) = tshark(&path, &fields) else {
        println!("passed over: no tshark here");
        return;
    };
    let [pause, pfc] = &rows[..] else { panic!("{rows:?}") };
    let all = |row: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        fields.iter().map(|field| row[*field].clone()).collect()
    };
    let group = "01:80:c2:00:00:01";
    assert_eq!(all(pause), [group, "0x0001", "65534", "", "", "", "", ""]);
    assert_eq!(all(pfc), [group, "0x0101", "", "0x0021", "17185", "0", "4660", ""]);
}
