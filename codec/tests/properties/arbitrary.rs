//! Strategies: any header, any packet.

use proptest::prelude::*;
use roce_codec::FrameBuilder;
use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, HeaderKind, HeaderSet, Ieth, ImmDt,
    Msn, Opcode, PKey, Psn, QKey, Qpn, RKey, Rdeth, Reth, Syndrome, Xrceth,
};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, Ipv6, MacAddr, Udp, VlanStack, VlanTag};

pub(crate) fn bth() -> impl Strategy<Value = Bth> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (0..4_u8, 0..16_u8, any::<u16>(), 0..64_u8, 0..128_u8);
    (any::<u8>(), flags, numbers, any::<u32>(), any::<u32>()).prop_map(
        |(opcode, flags, (pad_count, version, pkey, resv6, resv7), qpn, psn)| {
            let (solicited, mig_req, fecn, becn, ack_req) = flags;
            Bth {
                opcode: Opcode(opcode),
                solicited,
                mig_req,
                pad_count,
                version,
                pkey: PKey(pkey),
                fecn,
                becn,
                resv6,
                dest_qp: Qpn::new(qpn),
                ack_req,
                resv7,
                psn: Psn::new(psn),
            }
        },
    )
}

pub(crate) fn reth() -> impl Strategy<Value = Reth> {
    any::<(u64, u32, u32)>().prop_map(|(va, rkey, dma_len)| Reth { va, rkey: RKey(rkey), dma_len })
}

pub(crate) fn aeth() -> impl Strategy<Value = Aeth> {
    any::<(u8, u32)>()
        .prop_map(|(syndrome, msn)| Aeth { syndrome: Syndrome(syndrome), msn: Msn::new(msn) })
}

pub(crate) fn atomic_eth() -> impl Strategy<Value = AtomicEth> {
    any::<(u64, u32, u64, u64)>().prop_map(|(va, rkey, swap_add, compare)| AtomicEth {
        va,
        rkey: RKey(rkey),
        swap_add,
        compare,
    })
}

pub(crate) fn deth() -> impl Strategy<Value = Deth> {
    any::<(u32, u8, u32)>().prop_map(|(qkey, resv8, src_qp)| Deth {
        qkey: QKey(qkey),
        resv8,
        src_qp: Qpn::new(src_qp),
    })
}

/// Every header there is; the opcode chooses among them.
pub(crate) fn ext_headers() -> impl Strategy<Value = ExtHeaders> {
    let words = any::<(u32, u32, u32, u32, u32)>();
    (words, deth(), reth(), atomic_eth(), aeth(), any::<u64>(), any::<[u8; 16]>()).prop_map(
        |(words, deth, reth, atomic_eth, aeth, original, reserved)| ExtHeaders {
            rdeth: Rdeth::parse(&words.0.to_be_bytes()).ok(),
            deth: Some(deth),
            xrceth: Xrceth::parse(&words.1.to_be_bytes()).ok(),
            feth: Some(Feth(words.2)),
            reth: Some(reth),
            atomic_eth: Some(atomic_eth),
            aeth: Some(aeth),
            atomic_ack_eth: Some(AtomicAckEth { original }),
            imm_dt: Some(ImmDt(words.3)),
            ieth: Some(Ieth(RKey(words.4))),
            cnp_reserved: Some(reserved),
        },
    )
}

/// The headers of `all` that are in `set`.
pub(crate) fn only(all: ExtHeaders, set: HeaderSet) -> ExtHeaders {
    fn keep<T>(value: Option<T>, set: HeaderSet, kind: HeaderKind) -> Option<T> {
        value.filter(|_| set.contains(kind))
    }
    ExtHeaders {
        rdeth: keep(all.rdeth, set, HeaderKind::Rdeth),
        deth: keep(all.deth, set, HeaderKind::Deth),
        xrceth: keep(all.xrceth, set, HeaderKind::Xrceth),
        feth: keep(all.feth, set, HeaderKind::Feth),
        reth: keep(all.reth, set, HeaderKind::Reth),
        atomic_eth: keep(all.atomic_eth, set, HeaderKind::AtomicEth),
        aeth: keep(all.aeth, set, HeaderKind::Aeth),
        atomic_ack_eth: keep(all.atomic_ack_eth, set, HeaderKind::AtomicAckEth),
        imm_dt: keep(all.imm_dt, set, HeaderKind::ImmDt),
        ieth: keep(all.ieth, set, HeaderKind::Ieth),
        cnp_reserved: keep(all.cnp_reserved, set, HeaderKind::CnpReserved),
    }
}

pub(crate) fn ipv4() -> impl Strategy<Value = Ipv4> {
    let numbers = any::<(u8, u16, u16, u8, u16)>();
    // Bits 14 and 15 of the flags: a fragment is no frame.
    (numbers, 0..4_u16, any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(
        |((dscp_ecn, total_len, identification, ttl, checksum), flags, src, dst)| Ipv4 {
            dscp_ecn,
            total_len,
            identification,
            flags_fragment: flags << 14,
            ttl,
            protocol: 17,
            checksum,
            src: src.into(),
            dst: dst.into(),
        },
    )
}

pub(crate) fn ipv6() -> impl Strategy<Value = Ipv6> {
    (any::<(u8, u16, u8)>(), 0..1_u32 << 20, any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
        |((traffic_class, payload_len, hop_limit), flow_label, src, dst)| Ipv6 {
            traffic_class,
            flow_label,
            payload_len,
            next_header: 17,
            hop_limit,
            src: src.into(),
            dst: dst.into(),
        },
    )
}

pub(crate) fn udp() -> impl Strategy<Value = Udp> {
    any::<(u16, u16, u16)>().prop_map(|(src_port, length, checksum)| Udp {
        src_port,
        dst_port: 4791,
        length,
        checksum,
    })
}

pub(crate) fn vlans() -> impl Strategy<Value = VlanStack> {
    let tpid = prop_oneof![Just(EtherType::VLAN), Just(EtherType::QINQ), Just(EtherType::QINQ_OLD)];
    let tag = (tpid, any::<u16>()).prop_map(|(tpid, tci)| VlanTag { tpid, tci });
    prop::collection::vec(tag, 0..=VlanStack::MAX).prop_map(|tags| {
        let mut stack = VlanStack::EMPTY;
        for tag in tags {
            assert!(stack.push(tag));
        }
        stack
    })
}

/// A packet whose lengths agree, with its payload.
pub(crate) fn packet() -> impl Strategy<Value = (FrameBuilder, Vec<u8>)> {
    let ip = prop_oneof![ipv4().prop_map(Ip::V4), ipv6().prop_map(Ip::V6)];
    let link = prop::option::of((any::<[u8; 6]>(), any::<[u8; 6]>(), vlans()));
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    (link, ip, udp(), bth(), ext_headers(), any::<[u8; 3]>(), payload).prop_map(
        |(link, ip, udp, bth, ext, mut pad, payload)| {
            let ethernet = link.map(|(dst, src, vlans)| Ethernet {
                dst: MacAddr(dst),
                src: MacAddr(src),
                vlans,
                ethertype: ip.ethertype(),
            });
            let ext = only(ext, bth.opcode.info().headers);
            let mut builder = FrameBuilder { ethernet, ip, udp, bth, ext, pad: [0; 3] };
            builder.set_payload_len(payload.len()).unwrap();
            let pad_len = usize::from(builder.bth.pad_count);
            pad[pad_len..].fill(0);
            builder.pad = pad;
            (builder, payload)
        },
    )
}
