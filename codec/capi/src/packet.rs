//! Between C's structures and the codec's values.

use core::net::{Ipv4Addr, Ipv6Addr};

use roce_codec::FrameBuilder;
use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Eecn, ExtHeaders, Feth, HeaderKind, HeaderSet, Ieth,
    ImmDt, Msn, Opcode, PKey, Psn, QKey, Qpn, RKey, Rdeth, Reth, Srqn, Syndrome, Xrceth,
};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, Ipv6, MacAddr, Udp, VlanStack, VlanTag};
use zerocopy::FromZeros;

use crate::headers::{
    ROCE_HEADER_AETH, ROCE_HEADER_ATOMIC_ACK_ETH, ROCE_HEADER_ATOMIC_ETH, ROCE_HEADER_CNP_RESERVED,
    ROCE_HEADER_DETH, ROCE_HEADER_FETH, ROCE_HEADER_IETH, ROCE_HEADER_IMM_DT, ROCE_HEADER_RDETH,
    ROCE_HEADER_RETH, ROCE_HEADER_XRCETH, roce_bth, roce_ethernet, roce_ext, roce_ip, roce_packet,
    roce_reth, roce_udp, roce_vlan,
};
use crate::pointer;
use crate::status::roce_status;

/// The bits of `headers`.
pub(crate) fn bits(headers: HeaderSet) -> u16 {
    headers.iter().fold(0, |bits, kind| bits | bit(kind))
}

fn bit(kind: HeaderKind) -> u16 {
    match kind {
        HeaderKind::Rdeth => ROCE_HEADER_RDETH,
        HeaderKind::Deth => ROCE_HEADER_DETH,
        HeaderKind::Xrceth => ROCE_HEADER_XRCETH,
        HeaderKind::Feth => ROCE_HEADER_FETH,
        HeaderKind::Reth => ROCE_HEADER_RETH,
        HeaderKind::AtomicEth => ROCE_HEADER_ATOMIC_ETH,
        HeaderKind::Aeth => ROCE_HEADER_AETH,
        HeaderKind::AtomicAckEth => ROCE_HEADER_ATOMIC_ACK_ETH,
        HeaderKind::ImmDt => ROCE_HEADER_IMM_DT,
        HeaderKind::Ieth => ROCE_HEADER_IETH,
        HeaderKind::CnpReserved => ROCE_HEADER_CNP_RESERVED,
        _ => 0,
    }
}

/// Fills `packet` with what most senders send over IPv4 (`ip_version` 4) or IPv6 (6): no Ethernet
/// header, hop limit 64, don't fragment, ECT(0), source port 0xC000, the default P_Key, all else 0.
///
/// # Safety
/// `packet` is NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_packet_init(packet: *mut roce_packet, ip_version: u8) -> roce_status {
    let ethertype = match ip_version {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return roce_status::BadArgument,
    };
    let mut value: roce_packet = FromZeros::new_zeroed();
    value.ethernet.ethertype = ethertype.0;
    value.ip.version = ip_version;
    value.ip.traffic_class = 2;
    value.ip.hop_limit = 64;
    value.ip.protocol = 17;
    if ip_version == 4 {
        value.ip.flags_fragment = Ipv4::DONT_FRAGMENT;
    }
    value.udp.src_port = 0xc000;
    value.udp.dst_port = roce_codec::net::ROCE_V2_PORT;
    value.bth.pkey = PKey::DEFAULT.0;
    // SAFETY: valid by the caller's word.
    match unsafe { pointer::write(packet, value) } {
        Ok(()) => roce_status::Ok,
        Err(status) => status,
    }
}

impl From<&FrameBuilder> for roce_packet {
    fn from(from: &FrameBuilder) -> Self {
        Self {
            ethernet: ethernet_to_c(from.ethernet.as_ref(), from.ip.ethertype()),
            ip: ip_to_c(&from.ip),
            udp: roce_udp {
                src_port: from.udp.src_port,
                dst_port: from.udp.dst_port,
                length: from.udp.length,
                checksum: from.udp.checksum,
            },
            bth: bth_to_c(&from.bth),
            ext: ext_to_c(&from.ext),
            pad: from.pad,
        }
    }
}

impl TryFrom<&roce_packet> for FrameBuilder {
    type Error = roce_status;

    fn try_from(from: &roce_packet) -> Result<Self, roce_status> {
        Ok(Self {
            ethernet: ethernet_from_c(&from.ethernet)?,
            ip: ip_from_c(&from.ip)?,
            udp: Udp {
                src_port: from.udp.src_port,
                dst_port: from.udp.dst_port,
                length: from.udp.length,
                checksum: from.udp.checksum,
            },
            bth: bth_from_c(&from.bth),
            ext: ext_from_c(&from.ext),
            pad: from.pad,
        })
    }
}

fn ethernet_to_c(from: Option<&Ethernet>, otherwise: EtherType) -> roce_ethernet {
    let mut to: roce_ethernet = FromZeros::new_zeroed();
    to.ethertype = otherwise.0;
    if let Some(from) = from {
        to.present = 1;
        to.dst = from.dst.0;
        to.src = from.src.0;
        to.ethertype = from.ethertype.0;
        for (to_tag, tag) in to.vlans.iter_mut().zip(from.vlans.iter()) {
            *to_tag = roce_vlan { tpid: tag.tpid.0, tci: tag.tci };
            to.vlan_count += 1;
        }
    }
    to
}

fn ethernet_from_c(from: &roce_ethernet) -> Result<Option<Ethernet>, roce_status> {
    match from.present {
        0 => return Ok(None),
        1 => {}
        _ => return Err(roce_status::BadArgument),
    }
    let tags = from.vlans.get(..usize::from(from.vlan_count)).ok_or(roce_status::BadArgument)?;
    let mut vlans = VlanStack::EMPTY;
    for tag in tags {
        vlans.push(VlanTag { tpid: EtherType(tag.tpid), tci: tag.tci });
    }
    Ok(Some(Ethernet {
        dst: MacAddr(from.dst),
        src: MacAddr(from.src),
        vlans,
        ethertype: EtherType(from.ethertype),
    }))
}

fn ip_to_c(from: &Ip) -> roce_ip {
    let mut to: roce_ip = FromZeros::new_zeroed();
    let v4 = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    match from {
        Ip::V4(ip) => {
            to.version = 4;
            to.traffic_class = ip.dscp_ecn;
            to.hop_limit = ip.ttl;
            to.protocol = ip.protocol;
            to.length = ip.total_len;
            to.identification = ip.identification;
            to.flags_fragment = ip.flags_fragment;
            to.checksum = ip.checksum;
            to.src = v4(ip.src);
            to.dst = v4(ip.dst);
        }
        Ip::V6(ip) => {
            to.version = 6;
            to.traffic_class = ip.traffic_class;
            to.hop_limit = ip.hop_limit;
            to.protocol = ip.next_header;
            to.length = ip.payload_len;
            to.flow_label = ip.flow_label;
            to.src = ip.src.octets();
            to.dst = ip.dst.octets();
        }
    }
    to
}

fn ip_from_c(from: &roce_ip) -> Result<Ip, roce_status> {
    let v4 = |[a, b, c, d, ..]: [u8; 16]| Ipv4Addr::new(a, b, c, d);
    match from.version {
        4 => Ok(Ip::V4(Ipv4 {
            dscp_ecn: from.traffic_class,
            total_len: from.length,
            identification: from.identification,
            flags_fragment: from.flags_fragment,
            ttl: from.hop_limit,
            protocol: from.protocol,
            checksum: from.checksum,
            src: v4(from.src),
            dst: v4(from.dst),
        })),
        6 => Ok(Ip::V6(Ipv6 {
            traffic_class: from.traffic_class,
            flow_label: from.flow_label,
            payload_len: from.length,
            next_header: from.protocol,
            hop_limit: from.hop_limit,
            src: Ipv6Addr::from(from.src),
            dst: Ipv6Addr::from(from.dst),
        })),
        _ => Err(roce_status::BadArgument),
    }
}

fn bth_to_c(from: &Bth) -> roce_bth {
    roce_bth {
        opcode: from.opcode.0,
        solicited: from.solicited.into(),
        mig_req: from.mig_req.into(),
        pad_count: from.pad_count,
        version: from.version,
        fecn: from.fecn.into(),
        becn: from.becn.into(),
        resv6: from.resv6,
        ack_req: from.ack_req.into(),
        resv7: from.resv7,
        pkey: from.pkey.0,
        dest_qp: from.dest_qp.get(),
        psn: from.psn.get(),
    }
}

fn bth_from_c(from: &roce_bth) -> Bth {
    Bth {
        opcode: Opcode(from.opcode),
        solicited: from.solicited != 0,
        mig_req: from.mig_req != 0,
        pad_count: from.pad_count,
        version: from.version,
        pkey: PKey(from.pkey),
        fecn: from.fecn != 0,
        becn: from.becn != 0,
        resv6: from.resv6,
        dest_qp: Qpn::new(from.dest_qp),
        ack_req: from.ack_req != 0,
        resv7: from.resv7,
        psn: Psn::new(from.psn),
    }
}

fn ext_to_c(from: &ExtHeaders) -> roce_ext {
    let mut to: roce_ext = FromZeros::new_zeroed();
    if let Some(rdeth) = from.rdeth {
        to.present |= ROCE_HEADER_RDETH;
        to.rdeth = u32::from(rdeth.resv8) << 24 | rdeth.eecn.get();
    }
    if let Some(deth) = from.deth {
        to.present |= ROCE_HEADER_DETH;
        to.deth.qkey = deth.qkey.0;
        to.deth.resv8 = deth.resv8;
        to.deth.src_qp = deth.src_qp.get();
    }
    if let Some(xrceth) = from.xrceth {
        to.present |= ROCE_HEADER_XRCETH;
        to.xrceth = u32::from(xrceth.resv8) << 24 | xrceth.srqn.get();
    }
    if let Some(feth) = from.feth {
        to.present |= ROCE_HEADER_FETH;
        to.feth = feth.0;
    }
    if let Some(reth) = from.reth {
        to.present |= ROCE_HEADER_RETH;
        to.reth = roce_reth { va: reth.va, rkey: reth.rkey.0, dma_len: reth.dma_len };
    }
    if let Some(atomic) = from.atomic_eth {
        to.present |= ROCE_HEADER_ATOMIC_ETH;
        to.atomic_eth.va = atomic.va;
        to.atomic_eth.rkey = atomic.rkey.0;
        to.atomic_eth.swap_add = atomic.swap_add;
        to.atomic_eth.compare = atomic.compare;
    }
    if let Some(aeth) = from.aeth {
        to.present |= ROCE_HEADER_AETH;
        to.aeth.syndrome = aeth.syndrome.0;
        to.aeth.msn = aeth.msn.get();
    }
    if let Some(ack) = from.atomic_ack_eth {
        to.present |= ROCE_HEADER_ATOMIC_ACK_ETH;
        to.atomic_original = ack.original;
    }
    if let Some(imm_dt) = from.imm_dt {
        to.present |= ROCE_HEADER_IMM_DT;
        to.imm_dt = imm_dt.0;
    }
    if let Some(ieth) = from.ieth {
        to.present |= ROCE_HEADER_IETH;
        to.ieth = ieth.0.0;
    }
    if let Some(bytes) = from.cnp_reserved {
        to.present |= ROCE_HEADER_CNP_RESERVED;
        to.cnp_reserved = bytes;
    }
    to
}

fn ext_from_c(from: &roce_ext) -> ExtHeaders {
    let has = |bit: u16| from.present & bit != 0;
    ExtHeaders {
        rdeth: has(ROCE_HEADER_RDETH)
            .then_some(Rdeth { resv8: from.rdeth.to_be_bytes()[0], eecn: Eecn::new(from.rdeth) }),
        deth: has(ROCE_HEADER_DETH).then_some(Deth {
            qkey: QKey(from.deth.qkey),
            resv8: from.deth.resv8,
            src_qp: Qpn::new(from.deth.src_qp),
        }),
        xrceth: has(ROCE_HEADER_XRCETH).then_some(Xrceth {
            resv8: from.xrceth.to_be_bytes()[0],
            srqn: Srqn::new(from.xrceth),
        }),
        feth: has(ROCE_HEADER_FETH).then_some(Feth(from.feth)),
        reth: has(ROCE_HEADER_RETH).then_some(Reth {
            va: from.reth.va,
            rkey: RKey(from.reth.rkey),
            dma_len: from.reth.dma_len,
        }),
        atomic_eth: has(ROCE_HEADER_ATOMIC_ETH).then_some(AtomicEth {
            va: from.atomic_eth.va,
            rkey: RKey(from.atomic_eth.rkey),
            swap_add: from.atomic_eth.swap_add,
            compare: from.atomic_eth.compare,
        }),
        aeth: has(ROCE_HEADER_AETH).then_some(Aeth {
            syndrome: Syndrome(from.aeth.syndrome),
            msn: Msn::new(from.aeth.msn),
        }),
        atomic_ack_eth: has(ROCE_HEADER_ATOMIC_ACK_ETH)
            .then_some(AtomicAckEth { original: from.atomic_original }),
        imm_dt: has(ROCE_HEADER_IMM_DT).then_some(ImmDt(from.imm_dt)),
        ieth: has(ROCE_HEADER_IETH).then_some(Ieth(RKey(from.ieth))),
        cnp_reserved: has(ROCE_HEADER_CNP_RESERVED).then_some(from.cnp_reserved),
    }
}
