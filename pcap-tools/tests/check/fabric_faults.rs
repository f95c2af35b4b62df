//! Faults in what surrounds the transport: keys, ports, marks.

use roce_codec::ib::{Operation, PKey};
use roce_codec::net::Ip;
use roce_pcap::check::Rule;

use crate::faults::{Mutation, Parts, Values, is_ack, is_rc, is_request, mutations, operation};

/// Another type of service; the checksum made anew.
pub(crate) fn traffic_class(parts: &mut Parts, change: impl FnOnce(u8) -> u8) {
    match &mut parts.builder.ip {
        Ip::V4(ip) => {
            ip.dscp_ecn = change(ip.dscp_ecn);
            ip.checksum = ip.computed_checksum();
        }
        Ip::V6(ip) => ip.traffic_class = change(ip.traffic_class),
    }
}

pub(crate) fn fabric_mutations() -> Vec<Mutation> {
    let alone = mutations! {
        "a request of the invalid partition", "rxe-write", is_request,
            Values(|p| p.bth().pkey = PKey(0x8000)), PkeyMatch;
        "an answer of partition 0", "rxe-write", is_ack,
            Values(|p| p.bth().pkey = PKey(0)), PkeyMatch;
        "a request of another partition", "rxe-write", is_request,
            Values(|p| p.bth().pkey = PKey(0x8001)), PkeyMatch;
        "a mark on a request that is not ECN-capable", "rxe-lossy-client", is_request,
            Values(|p| traffic_class(p, |class| class | 3)), EcnCe;
        "a mark on a READ response that is not ECN-capable", "rxe-read",
            |f| operation(f) == Operation::ReadResponse,
            Values(|p| traffic_class(p, |class| class | 3)), EcnCe;
    };
    let paired = mutations! {
        "an answer of another partition", "rxe-ecn-client", is_ack,
            Values(|p| p.bth().pkey = PKey(0x8001)), PkeyMatch;
    };
    let profiled = mutations! {
        "a request from another port", "rxe-send", is_request,
            Values(|p| p.builder.udp.src_port ^= 0x1234), UdpSrcPort;
        "an answer from another port", "rxe-ecn-client", |f| is_rc(f) && is_ack(f),
            Values(|p| p.builder.udp.src_port = 69), UdpSrcPort;
    };
    let paired = paired.into_iter().map(|mutation| Mutation { needs_pair: true, ..mutation });
    let profiled = profiled.into_iter().map(|mutation| Mutation {
        needs_pair: true,
        profile: Some("rxe"),
        ..mutation
    });
    alone.into_iter().chain(paired).chain(profiled).collect()
}
