use roce_codec::ib::{
    AethKind, Credits, HeaderKind, HeaderSet, NakCode, Opcode, OpcodeInfo, PKey, PathMtu, Psn, Qpn,
    RnrTimer, Syndrome,
};
use roce_codec::net::{Ecn, VlanTag, flow_label_from_qpns, source_port_from_flow_label};

crate::instantiate! {
    opcode_info(opcode: Opcode) -> &'static OpcodeInfo { opcode.info() }
    opcode_name(opcode: Opcode) -> Option<&'static str> { opcode.name() }
    headers_offset(set: HeaderSet, kind: HeaderKind) -> Option<usize> { set.offset_of(kind) }
    headers_starts_with(set: HeaderSet, kind: HeaderKind) -> bool { set.starts_with(kind) }
    headers_len(set: HeaderSet) -> usize { set.len() }
    headers_last(set: HeaderSet) -> Option<HeaderKind> { set.iter().last() }
    syndrome_kind(syndrome: Syndrome) -> AethKind { syndrome.kind() }
    syndrome_rnr(timer: RnrTimer) -> Syndrome { Syndrome::rnr_nak(timer) }
    syndrome_ack(credits: Credits) -> Syndrome { Syndrome::ack(credits) }
    syndrome_nak(code: NakCode) -> Syndrome { Syndrome::nak(code) }
    rnr_wait(timer: RnrTimer) -> u64 { timer.wait_ns() }
    credits_of(receives: u32) -> Credits { Credits::of_receives(receives) }
    credits_count(credits: Credits) -> Option<u16> { credits.count() }
    pkey_matches(a: PKey, b: PKey) -> bool { a.matches(b) }
    mtu_packets(mtu: PathMtu, len: u32) -> u32 { mtu.packets(len) }
    mtu_from_bytes(bytes: u32) -> Option<PathMtu> { PathMtu::from_bytes(bytes) }
    mtu_from_code(code: u8) -> Option<PathMtu> { PathMtu::from_code(code) }
    mtu_largest(ip_mtu: usize) -> Option<PathMtu> { PathMtu::largest_within(ip_mtu) }
    psn_add(psn: Psn, count: u32) -> Psn { psn.add(count) }
    psn_sub(psn: Psn, count: u32) -> Psn { psn.sub(count) }
    psn_distance(a: Psn, b: Psn) -> i32 { a.distance_from(b) }
    psn_within(psn: Psn, first: Psn, last: Psn) -> bool { psn.is_within(first, last) }
    port_of_label(label: u32) -> u16 { source_port_from_flow_label(label) }
    label_of_qpns(local: Qpn, remote: Qpn) -> u32 { flow_label_from_qpns(local, remote) }
    ecn(class: u8) -> Ecn { Ecn::of_traffic_class(class) }
    vlan_tag(pcp: u8, vid: u16) -> VlanTag { VlanTag::new(pcp, vid) }
}
