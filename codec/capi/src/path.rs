//! What a path's two ends agree on: entropy and partition.

use roce_codec::ib::{PKey, Qpn};
use roce_codec::net::{flow_label_from_qpns, source_port_from_flow_label};

/// The UDP source port, 0xC000 to 0xFFFF, that a flow label of 20 bits is folded into.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub extern "C" fn roce_source_port(flow_label: u32) -> u16 {
    source_port_from_flow_label(flow_label)
}

/// The flow label of a connection that was given none: a hash of its two queue pair numbers, the
/// same from either side.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_flow_label(local_qp: u32, remote_qp: u32) -> u32 {
    flow_label_from_qpns(Qpn::new(local_qp), Qpn::new(remote_qp))
}

/// 1 if packets with one partition key may reach a queue pair with the other, else 0: the same
/// non-zero 15 bits, and at least one full member.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_pkey_matches(a: u16, b: u16) -> u8 {
    PKey(a).matches(PKey(b)).into()
}
