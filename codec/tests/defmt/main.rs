//! What firmware logs: each value is logged as on a chip, and the bytes are turned into text with
//! the strings in this executable. The text expected is typed here.
//!
//! `cargo test -p roce-codec --features defmt --test defmt`, on 64-bit Linux.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod decoder;
mod logger;

use std::net::{Ipv4Addr, Ipv6Addr};

use decoder::Decoder;
use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Credits, Deth, Eecn, ExtHeaders, Feth, HeaderKind,
    HeaderSet, Ieth, ImmDt, LKey, Msn, NakCode, Opcode, PKey, PathMtu, Psn, QKey, Qpn, RKey, Rdeth,
    Reth, RnrTimer, Srqn, Syndrome, Xrceth,
};
use roce_codec::icrc::{Icrc, IcrcVerdict, NotCheckable};
use roce_codec::net::{Ecn, EtherType, Ethernet, Ip, Ipv4, Ipv6, MacAddr, Udp, VlanStack, VlanTag};
use roce_codec::{
    Crc, Crc32, EmitError, Frame, FrameBuilder, Layer, NibbleTable, ParseError, SmallTable, Start,
    TransportBuilder,
};

fn logged(value: &impl defmt::Format) -> String {
    Decoder::of_this_executable().decode(&logger::log(value))
}

/// Holds each value's text against what is typed beside it.
macro_rules! logs {
    ($($value:expr => $text:expr,)*) => {{
        let decoder = Decoder::of_this_executable();
        $(assert_eq!(decoder.decode(&logger::log(&$value)), $text, "{}", stringify!($value));)*
    }};
}

#[test]
fn numbers_have_their_usual_base() {
    logs! {
        Psn::new(0xab_cdef) => "0xabcdef",
        Psn::new(7) => "0x000007",
        Qpn::new(0x11) => "0x000011",
        Msn::new(3) => "0x000003",
        PKey(0xff) => "0x00ff",
        QKey::GSI => "0x80010000",
        RKey(0x4d6) => "0x000004d6",
        LKey(1) => "0x00000001",
        Eecn::new(5) => "0x000005",
        Srqn::new(6) => "0x000006",
        EtherType::IPV6 => "0x86dd",
        MacAddr([0x52, 0x54, 0, 0, 0, 0x0f]) => "52:54:00:00:00:0f",
        PathMtu::Mtu4096 => "Mtu4096",
        Crc::new() => "Crc(0xffffffff)",
        SmallTable::resume(1) => "SmallTable(0x00000001)",
        NibbleTable::resume(2) => "NibbleTable(0x00000002)",
        roce_crc::Kernel::PORTABLE => "slice-by-16",
    }
}

#[test]
fn an_opcode_is_its_name_in_one_byte() {
    let decoder = Decoder::of_this_executable();
    for value in 0..=255 {
        let opcode = Opcode(value);
        let log = logger::log(&opcode);
        assert_eq!(decoder.decode(&log), opcode.to_string());
        // The line, the sequence's format and its end, two strings, and then the number.
        assert_eq!(log.len(), if opcode.name().is_some() { 11 } else { 9 }, "{opcode}");
    }
    assert_eq!(logged(&Opcode::RC_RDMA_WRITE_ONLY), "RC_RDMA_WRITE_ONLY");
    assert_eq!(logged(&Opcode(0xff)), "opcode 0xff");
}

#[test]
fn errors_say_what_display_says_and_lengths_are_whole() {
    let huge = usize::MAX;
    for error in [
        ParseError::Truncated { layer: Layer::Bth, needed: 12, available: huge },
        ParseError::NotRoce { layer: Layer::Udp, found: 53 },
        ParseError::Ipv4Options,
        ParseError::Ipv4HeaderLength,
        ParseError::Ipv6Extension(43),
        ParseError::Fragment,
        ParseError::TooManyVlanTags,
        ParseError::SplitHeaders,
    ] {
        assert_eq!(logged(&error), error.to_string().replace("BTH", "Bth"));
    }
    logs! {
        ParseError::Truncated { layer: Layer::Ext(HeaderKind::Reth), needed: 16, available: 3 }
            => "Ext(Reth) needs 16 bytes, 3 are left",
        ParseError::NotRoce { layer: Layer::Ethernet, found: 0x0806 }
            => "Ethernet carries protocol 0x806, which is not RoCEv2",
        ParseError::Length { layer: Layer::Udp, field: huge, expected: 8 }
            => "Udp length field says 18446744073709551615, 8 expected",
        EmitError::NoRoom { needed: huge, available: 4 }
            => "18446744073709551615 bytes needed, the buffer has 4",
        EmitError::MissingHeader(HeaderKind::AtomicEth) => "the opcode needs a AtomicEth",
        EmitError::TooLong(70_000) => "a packet of 70000 bytes is too long for its length field",
    }
}

#[test]
fn headers() {
    let mut bth = Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x11), Psn::new(9));
    bth.ack_req = true;
    logs! {
        bth => "Bth { opcode: RC_ACKNOWLEDGE, solicited: false, mig_req: false, pad_count: 0, \
                version: 0, pkey: 0xffff, fecn: false, becn: false, resv6: 0, dest_qp: 0x000011, \
                ack_req: true, resv7: 0, psn: 0x000009 }",
        Reth { va: 0x7f00, rkey: RKey(0x4d6), dma_len: 64 }
            => "RETH va 0x7f00, R_Key 0x000004d6, 64 bytes",
        AtomicEth { va: 8, rkey: RKey(1), swap_add: 0x10, compare: 0xff } => "AtomicETH va 0x8, \
            R_Key 0x00000001, swap or add 0x10, compare 0xff",
        AtomicAckEth { original: 255 } => "AtomicAckETH original 0xff",
        Aeth { syndrome: Syndrome::ACK, msn: Msn::new(2) }
            => "Aeth { syndrome: ACK, msn: 0x000002 }",
        Deth { qkey: QKey(1), resv8: 0, src_qp: Qpn::GSI }
            => "Deth { qkey: 0x00000001, resv8: 0, src_qp: 0x000001 }",
        Rdeth { resv8: 0, eecn: Eecn::new(5) }
            => "Rdeth { resv8: 0, eecn: 0x000005 }",
        Xrceth { resv8: 0, srqn: Srqn::new(6) } => "Xrceth { resv8: 0, srqn: 0x000006 }",
        ImmDt(17) => "ImmDt(17)",
        Ieth(RKey(0x10)) => "Ieth(0x00000010)",
        Feth(0x11) => "FETH 0x00000011",
        Syndrome::ack(Credits::of_receives(8)) => "ACK, 8 credits",
        Syndrome::rnr_nak(RnrTimer::new(12)) => "RNR NAK, 640 us",
        Syndrome::nak(NakCode::RemoteAccessError) => "NAK, RemoteAccessError",
        Syndrome(0x9f) => "reserved syndrome 0x9f",
        HeaderSet::EMPTY => "none",
        HeaderSet::EMPTY.with(HeaderKind::ImmDt).with(HeaderKind::Reth) => "Reth ImmDt",
        ExtHeaders::NONE => "ExtHeaders",
        ExtHeaders { imm_dt: Some(ImmDt(1)), feth: Some(Feth(2)), cnp_reserved: Some([10; 16]),
            ..ExtHeaders::NONE } => "ExtHeaders FETH 0x00000002 ImmDt(1) CNP reserved \
            [0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a, 0a]",
    }
    let info = logged(Opcode::CNP.info());
    assert!(info.starts_with("OpcodeInfo { class: Known, service: Cnp, operation: Cnp"), "{info}");
}

#[test]
fn outer_headers() {
    let outer = VlanTag { tpid: EtherType::QINQ, tci: 0x7005 };
    let mut vlans = VlanStack::one(outer);
    vlans.push(VlanTag::new(6, 7));
    let ethernet = Ethernet {
        dst: MacAddr::BROADCAST,
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        vlans,
        ethertype: EtherType::IPV4,
    };
    let ipv6 = Ipv6 {
        traffic_class: 2,
        flow_label: 5,
        payload_len: 20,
        next_header: 17,
        hop_limit: 64,
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };
    logs! {
        VlanTag::new(6, 7) => "VLAN 7 priority 6",
        outer => "VLAN 5 priority 3 drop-eligible tagged 0x88a8",
        ethernet => "Ethernet { dst: ff:ff:ff:ff:ff:ff, src: 02:00:00:00:00:01, vlans: VlanStack { \
            tags: [Some(VLAN 5 priority 3 drop-eligible tagged 0x88a8), Some(VLAN 7 priority 6), \
            None] }, ethertype: 0x0800 }",
        Udp { src_port: 0xc000, dst_port: 4791, length: 28, checksum: 0 }
            => "Udp { src_port: 49152, dst_port: 4791, length: 28, checksum: 0 }",
        Ecn::Ce => "Ce",
        Start::Ip => "Ip",
    }
    assert!(logged(&Ip::V6(ipv6)).starts_with("V6(Ipv6 { traffic_class: 2, flow_label: 5"));
}

#[test]
fn a_frame_is_one_line() {
    let mut builder = FrameBuilder {
        ethernet: None,
        ip: Ip::V4(Ipv4 {
            dscp_ecn: 2,
            total_len: 0,
            identification: 0,
            flags_fragment: Ipv4::DONT_FRAGMENT,
            ttl: 64,
            protocol: 17,
            checksum: 0,
            src: Ipv4Addr::new(192, 0, 2, 1),
            dst: Ipv4Addr::new(192, 0, 2, 2),
        }),
        udp: Udp { src_port: 0xc000, dst_port: 4791, length: 0, checksum: 0 },
        bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x11), Psn::new(7)),
        ext: ExtHeaders {
            aeth: Some(Aeth { syndrome: Syndrome::nak(NakCode::InvalidRequest), msn: Msn::new(4) }),
            ..ExtHeaders::NONE
        },
        pad: [0; 3],
    };
    let line = |builder: &mut FrameBuilder, payload: &[u8]| {
        let mut packet = [0; 128];
        builder.set_payload_len(payload.len()).unwrap();
        let len = builder.emit::<Crc>([payload, b""], &mut packet).unwrap();
        logged(&Frame::parse([&packet[..len], &[]], Start::Ip).unwrap())
    };
    assert_eq!(line(&mut builder, b"hello"), "RC_SEND_ONLY to QP 0x000011, PSN 0x000007, 5 bytes");
    builder.bth.opcode = Opcode::RC_ACKNOWLEDGE;
    assert_eq!(
        line(&mut builder, b""),
        "RC_ACKNOWLEDGE to QP 0x000011, PSN 0x000007, 0 bytes, NAK, InvalidRequest, MSN 0x000004"
    );
    let transport = TransportBuilder::new(builder.bth, &builder.ext, 5);
    assert_eq!(logged(&transport), "RC_ACKNOWLEDGE to QP 0x000011, PSN 0x000007, 5 bytes");
    assert!(logged(&builder).starts_with("FrameBuilder { ethernet: None, ip: V4(Ipv4 { dscp_ecn"));
}

#[test]
fn verdicts() {
    let (expected, found) = ([0x64, 0x0e, 0x93, 0x87], [0, 0, 0, 1]);
    let headers = [0x45; 40];
    logs! {
        IcrcVerdict::Valid => "ICRC valid",
        IcrcVerdict::Invalid { expected, found }
            => "ICRC invalid, 640e9387 expected, 00000001 found",
        IcrcVerdict::NotCheckable(NotCheckable::Truncated)
            => "ICRC not checkable, packet cut short",
        IcrcVerdict::NotCheckable(NotCheckable::NotFilled)
            => "ICRC not checkable, not filled in yet",
    }
    let icrc: Icrc = Icrc::ipv4(&headers);
    assert_eq!(logged(&icrc), format!("Icrc({:08x})", u32::from_be_bytes(icrc.finish())));
}
