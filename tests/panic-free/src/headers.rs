use roce_codec::ib::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, Ieth, ImmDt, OpcodeInfo, Rdeth,
    Reth, Xrceth,
};
use roce_codec::net::{Ethernet, Ip, Ipv4, Ipv6, Udp, VlanStack, VlanTag};
use roce_codec::{EmitError, ParseError};

macro_rules! parse_and_emit {
    ($($type:ident: $parse:ident $emit:ident,)*) => {$(
        crate::instantiate! {
            $parse(bytes: &[u8]) -> Result<$type, ParseError> { $type::parse(bytes) }
            $emit(value: &$type, out: &mut [u8]) -> Result<(), EmitError> { value.emit(out) }
        }
    )*};
}

parse_and_emit! {
    Bth: bth_parse bth_emit,
    Reth: reth_parse reth_emit,
    Aeth: aeth_parse aeth_emit,
    AtomicEth: atomic_eth_parse atomic_eth_emit,
    AtomicAckEth: atomic_ack_eth_parse atomic_ack_eth_emit,
    Deth: deth_parse deth_emit,
    ImmDt: imm_dt_parse imm_dt_emit,
    Ieth: ieth_parse ieth_emit,
    Feth: feth_parse feth_emit,
    Rdeth: rdeth_parse rdeth_emit,
    Xrceth: xrceth_parse xrceth_emit,
    Ethernet: ethernet_parse ethernet_emit,
    Ipv4: ipv4_parse ipv4_emit,
    Ipv6: ipv6_parse ipv6_emit,
    Udp: udp_parse udp_emit,
}

crate::instantiate! {
    ext_emit(ext: &ExtHeaders, info: &OpcodeInfo, out: &mut [u8]) -> Result<usize, EmitError> {
        ext.emit(info, out)
    }
    ip_emit(ip: &Ip, out: &mut [u8]) -> Result<(), EmitError> { ip.emit(out) }
    ip_set_payload_len(ip: &mut Ip, len: usize) -> Result<(), EmitError> { ip.set_payload_len(len) }
    ipv4_checksum(ip: &Ipv4) -> u16 { ip.computed_checksum() }
    ethernet_len(ethernet: &Ethernet) -> usize { ethernet.header_len() }
    vlan_push(stack: &mut VlanStack, tag: VlanTag) -> bool { stack.push(tag) }
    vlan_len(stack: &VlanStack) -> usize { stack.len() }
    vlan_last(stack: &VlanStack) -> Option<VlanTag> { stack.iter().last() }
}
