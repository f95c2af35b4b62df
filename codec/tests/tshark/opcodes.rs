//! Wireshark's dissector as the oracle of the opcode table and of every field behind UDP: one
//! packet of each opcode goes through tshark, and what it prints is what we put in.

use std::path::Path;

use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Eecn, ExtHeaders, Feth, HeaderKind, Ieth, ImmDt, Msn,
    Opcode, OpcodeClass, PKey, Psn, QKey, Qpn, RKey, Rdeth, Reth, Service, Srqn, Syndrome, Xrceth,
};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, MacAddr, Udp};
use roce_codec::{Crc, Frame, FrameBuilder, Start};

use crate::packets::{ETHERNET, write_pcap};
use crate::{number, tshark};

const PAYLOAD: [u8; 6] = [0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6];

pub(crate) fn packet(opcode: Opcode) -> Vec<u8> {
    let mut builder = FrameBuilder {
        ethernet: Some(Ethernet::new(
            MacAddr([2, 0, 0, 0, 0, 2]),
            MacAddr([2, 0, 0, 0, 0, 1]),
            EtherType::IPV4,
        )),
        ip: Ip::V4(Ipv4::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into())),
        udp: Udp::new(0xc0de),
        bth: Bth {
            solicited: true,
            ack_req: true,
            resv7: 0x2a,
            pkey: PKey(0x8123),
            ..Bth::new(opcode, Qpn::new(0x12_3456), Psn::new(0xab_cdef))
        },
        ext: ExtHeaders {
            rdeth: Some(Rdeth { resv8: 0, eecn: Eecn::new(0x65_4321) }),
            deth: Some(Deth { qkey: QKey(0x8102_0304), resv8: 0, src_qp: Qpn::new(0x0a_0b0c) }),
            xrceth: Some(Xrceth { resv8: 0, srqn: Srqn::new(0x77_6655) }),
            feth: Some(Feth(0x11)),
            reth: Some(Reth {
                va: 0x1102_0304_0506_0708,
                rkey: RKey(0x2203_0405),
                dma_len: 0x3304,
            }),
            atomic_eth: Some(AtomicEth {
                va: 0x4405_0607_0809_0a0b,
                rkey: RKey(0x5506_0708),
                swap_add: 0x6607_0809_0a0b_0c0d,
                compare: 0x7708_090a_0b0c_0d0e,
            }),
            aeth: Some(Aeth { syndrome: Syndrome(0x62), msn: Msn::new(0x0c_0b0a) }),
            atomic_ack_eth: Some(AtomicAckEth { original: 0x0809_0a0b_0c0d_0e0f }),
            imm_dt: Some(ImmDt(0x4142_4344)),
            ieth: Some(Ieth(RKey(0x5152_5354))),
            cnp_reserved: None,
        },
        pad: [0; 3],
    };
    let payload: &[u8] = if opcode.info().payload { &PAYLOAD } else { &[] };
    builder.set_payload_len(payload.len()).unwrap();
    let mut out = [0; 256];
    let len = builder.emit::<Crc>([payload, b""], &mut out).unwrap();
    out[..len].to_vec()
}

/// The opcodes that Wireshark 4.0 reads right. XRC, FLUSH, ATOMIC WRITE and the CNP are younger
/// than its table, and reliable datagrams it reads from eight bytes too far on.
pub(crate) fn in_wireshark(opcode: Opcode) -> bool {
    let info = opcode.info();
    info.class == OpcodeClass::Known
        && matches!(info.service, Service::Rc | Service::Uc | Service::Ud)
        && !matches!(opcode, Opcode::RC_FLUSH | Opcode::RC_ATOMIC_WRITE)
}

#[test]
fn wireshark_finds_the_same_headers_behind_every_opcode() {
    let opcodes: Vec<Opcode> = (0..=255).map(Opcode).filter(|code| in_wireshark(*code)).collect();
    assert_eq!(opcodes.len(), 23 + 12 + 2);
    let packets: Vec<Vec<u8>> = opcodes.iter().map(|code| packet(*code)).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("opcodes.pcap");
    write_pcap(&path, ETHERNET, &packets);
    let numbers = [
        "infiniband.bth.opcode",
        "infiniband.bth.p_key",
        "infiniband.bth.destqp",
        "infiniband.bth.psn",
        "infiniband.bth.padcnt",
        "infiniband.deth.q_key",
        "infiniband.deth.srcqp",
        "infiniband.reth.va",
        "infiniband.reth.r_key",
        "infiniband.reth.dmalen",
        "infiniband.atomiceth.swapdt",
        "infiniband.atomiceth.cmpdt",
        "infiniband.aeth.syndrome",
        "infiniband.aeth.msn",
        "infiniband.atomicacketh.origremdt",
        "infiniband.invariant.crc",
    ];
    let bytes = ["infiniband.immdt", "infiniband.ieth", "data.data", "_ws.malformed"];
    let Some(rows) = tshark(&path, &[&numbers[..], &bytes[..]].concat()) else {
        println!("passed over: no tshark here");
        return;
    };
    assert_eq!(rows.len(), opcodes.len());
    for ((opcode, packet), row) in opcodes.iter().zip(&packets).zip(&rows) {
        let frame = Frame::parse([packet, &[]], Start::Ethernet).unwrap();
        let headers = opcode.info().headers;
        let (reth, atomic, aeth) = (frame.reth(), frame.atomic_eth(), frame.aeth());
        let ours = [
            Some(u64::from(opcode.0)),
            Some(0x8123),
            Some(0x12_3456),
            Some(0xab_cdef),
            Some(u64::from(frame.bth().pad_count)),
            frame.deth().map(|deth| u64::from(deth.qkey.0)),
            frame.deth().map(|deth| u64::from(deth.src_qp.get())),
            reth.map(|reth| reth.va).or(atomic.map(|atomic| atomic.va)),
            reth.map(|reth| u64::from(reth.rkey.0)).or(atomic.map(|it| u64::from(it.rkey.0))),
            reth.map(|reth| u64::from(reth.dma_len)),
            atomic.map(|atomic| atomic.swap_add),
            atomic.map(|atomic| atomic.compare),
            aeth.map(|aeth| u64::from(aeth.syndrome.0)),
            aeth.map(|aeth| u64::from(aeth.msn.get())),
            frame.atomic_ack_eth().map(|ack| ack.original),
            Some(u64::from(u32::from_be_bytes(frame.icrc()))),
        ];
        for (name, ours) in numbers.iter().zip(ours) {
            let theirs = Some(&row[*name]).filter(|text| !text.is_empty()).map(|text| number(text));
            assert_eq!(theirs, ours, "{opcode}: {name}");
        }
        // Printed once for the tree and once for the value.
        let first = |name: &str| row[name].split(',').next().unwrap_or_default().to_owned();
        let when =
            |present: bool, text: &str| if present { text.to_owned() } else { String::new() };
        assert_eq!(
            first("infiniband.immdt"),
            when(headers.contains(HeaderKind::ImmDt), "41424344")
        );
        assert_eq!(first("infiniband.ieth"), when(headers.contains(HeaderKind::Ieth), "51525354"));
        // It takes the pad for payload.
        assert_eq!(first("data.data"), when(opcode.info().payload, "d1d2d3d4d5d60000"), "{opcode}");
        assert_eq!(row["_ws.malformed"], "", "{opcode}");
    }
}
