use roce_codec::ib::{Answer, OpcodeInfo, Qpn};
use roce_codec::net::{datagram_source_port, flow_label_from_cm_ports};

crate::instantiate! {
    opcode_answer(info: &OpcodeInfo) -> Answer { info.answer() }
    datagram_port(src_qp: Qpn) -> u16 { datagram_source_port(src_qp) }
    label_of_cm_ports(src: u16, dst: u16) -> u32 { flow_label_from_cm_ports(src, dst) }
}
