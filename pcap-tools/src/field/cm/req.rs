//! REQ.

use std::net::IpAddr;

use roce_codec::cm::{Gid, Message, Req};

use super::{comm, field, private, service_name, timeout};
use crate::field::value::{id, named, number};
use crate::field::{Field, Kind, Row, Value};

fn req<'r>(row: &'r Row<'_>) -> Option<&'r Req<'r>> {
    match row.cm()? {
        Message::Req(req) => Some(req),
        _ => None,
    }
}

fn v4(gid: Gid) -> Option<Value<'static>> {
    Some(gid.ip()).filter(IpAddr::is_ipv4).map(Value::Ip)
}

fn v6(gid: Gid) -> Option<Value<'static>> {
    Some(gid.ip()).filter(IpAddr::is_ipv6).map(Value::Ip)
}

fn transport(req: &Req<'_>) -> Value<'static> {
    use roce_codec::cm::TransportType;
    let (code, name): (u8, _) = match req.transport {
        TransportType::Rc => (0, "RC"),
        TransportType::Uc => (1, "UC"),
        TransportType::Rd => (2, "RD"),
        TransportType::Extended => (3, "extended"),
    };
    named(code, name)
}

fn mtu(req: &Req<'_>) -> Value<'static> {
    match req.path_mtu() {
        Some(mtu) => named(req.path_mtu_code, mtu),
        None => number(req.path_mtu_code),
    }
}

fn rnr_retries(count: u8) -> Value<'static> {
    match count {
        7 => named(count, "without end"),
        _ => number(count),
    }
}

pub(in crate::field) static REQ: &[Field] = &[
    field!(Req: "infiniband.cm.req", "Local communication ID", Number, m => comm(m.local_comm_id)),
    field!(Req: "infiniband.cm.req.vendorid", "Vendor ID", Number, m => id(m.vendor_id, 6)),
    field!(Req: "infiniband.cm.req.serviceid", "Service ID", Key, m => Value::Key(m.service_id.0, 16)),
    Field::new("infiniband.cm.req.service", "Service", Kind::Text, |row| match row.cm()? {
        Message::Req(req) => service_name(req.service_id),
        _ => None,
    }),
    field!(Req: "infiniband.cm.req.localcaguid", "Local CA GUID", Key, m => Value::Key(m.local_ca_guid.0, 16)),
    field!(Req: "infiniband.cm.req.localqkey", "Local queue key", Key, m => Value::Key(m.local_qkey.0.into(), 8)),
    field!(Req: "infiniband.cm.req.localqpn", "Local queue pair", Number, m => id(m.local_qpn.get(), 6)),
    field!(Req: "infiniband.cm.req.responderres", "Responder resources", Number, m => number(m.responder_resources)),
    field!(Req: "infiniband.cm.req.localeecn", "Local EECN", Number, m => id(m.local_eecn.get(), 6)),
    field!(Req: "infiniband.cm.req.initdepth", "Initiator depth", Number, m => number(m.initiator_depth)),
    field!(Req: "infiniband.cm.req.remoteeecn", "Remote EECN", Number, m => id(m.remote_eecn.get(), 6)),
    field!(Req: "infiniband.cm.req.remoteresptout", "Remote CM response timeout", Named, m => timeout(m.remote_cm_response_timeout)),
    field!(Req: "infiniband.cm.req.transpsvctype", "Transport service", Named, m => transport(m)),
    field!(Req: "infiniband.cm.req.e2eflowctrl", "End-to-end flow control", Flag, m => Value::Flag(m.end_to_end_flow_control)),
    field!(Req: "infiniband.cm.req.startpsn", "Starting PSN", Number, m => id(m.starting_psn.get(), 6)),
    field!(Req: "infiniband.cm.req.localresptout", "Local CM response timeout", Named, m => timeout(m.local_cm_response_timeout)),
    field!(Req: "infiniband.cm.req.retrcount", "Retry count", Number, m => number(m.retry_count)),
    field!(Req: "infiniband.cm.req.pkey", "Partition key", Number, m => id(m.pkey.0.into(), 4)),
    field!(Req: "infiniband.cm.req.pppmtu", "Path MTU", Named, m => mtu(m)),
    field!(Req: "infiniband.cm.req.rdcexist", "RDC exists", Flag, m => Value::Flag(m.rdc_exists)),
    field!(Req: "infiniband.cm.req.rnrretrcount", "RNR retry count", Named, m => rnr_retries(m.rnr_retry_count)),
    field!(Req: "infiniband.cm.req.maxcmretr", "Most CM retries", Number, m => number(m.max_cm_retries)),
    field!(Req: "infiniband.cm.req.srq", "Shared receive queue", Flag, m => Value::Flag(m.srq)),
    field!(Req: "infiniband.cm.req.ext_transport", "Extended transport", Number, m => number(m.extended_transport)),
    field!(Req: "infiniband.cm.req.prim_locallid", "Primary local LID", Number, m => number(m.primary.local_lid)),
    field!(Req: "infiniband.cm.req.prim_remotelid", "Primary remote LID", Number, m => number(m.primary.remote_lid)),
    Field::new("infiniband.cm.req.prim_localgid", "Primary local GID", Kind::Address, |row| {
        v6(req(row)?.primary.local_gid)
    }),
    Field::new("infiniband.cm.req.prim_localgid_ipv4", "Primary local GID", Kind::Address, |row| {
        v4(req(row)?.primary.local_gid)
    }),
    Field::new("infiniband.cm.req.prim_remotegid", "Primary remote GID", Kind::Address, |row| {
        v6(req(row)?.primary.remote_gid)
    }),
    Field::new(
        "infiniband.cm.req.prim_remotegid_ipv4",
        "Primary remote GID",
        Kind::Address,
        |row| v4(req(row)?.primary.remote_gid),
    ),
    field!(Req: "infiniband.cm.req.prim_flowlabel", "Primary flow label", Number, m => id(m.primary.flow_label, 5)),
    field!(Req: "infiniband.cm.req.prim_pktrate", "Primary packet rate", Number, m => number(m.primary.packet_rate)),
    field!(Req: "infiniband.cm.req.prim_tfcclass", "Primary traffic class", Number, m => id(m.primary.traffic_class.into(), 2)),
    field!(Req: "infiniband.cm.req.prim_hoplim", "Primary hop limit", Number, m => number(m.primary.hop_limit)),
    field!(Req: "infiniband.cm.req.prim_sl", "Primary service level", Number, m => number(m.primary.sl)),
    field!(Req: "infiniband.cm.req.prim_subnetlocal", "Primary subnet local", Flag, m => Value::Flag(m.primary.subnet_local)),
    field!(Req: "infiniband.cm.req.prim_localacktout", "Primary local ACK timeout", Named, m => timeout(m.primary.local_ack_timeout)),
    field!(Req: "infiniband.cm.req.alt_locallid", "Alternate local LID", Number, m => number(m.alternate.local_lid)),
    field!(Req: "infiniband.cm.req.alt_remotelid", "Alternate remote LID", Number, m => number(m.alternate.remote_lid)),
    Field::new("infiniband.cm.req.alt_localgid", "Alternate local GID", Kind::Address, |row| {
        v6(req(row)?.alternate.local_gid)
    }),
    Field::new(
        "infiniband.cm.req.alt_localgid_ipv4",
        "Alternate local GID",
        Kind::Address,
        |row| v4(req(row)?.alternate.local_gid),
    ),
    Field::new("infiniband.cm.req.alt_remotegid", "Alternate remote GID", Kind::Address, |row| {
        v6(req(row)?.alternate.remote_gid)
    }),
    Field::new(
        "infiniband.cm.req.alt_remotegid_ipv4",
        "Alternate remote GID",
        Kind::Address,
        |row| v4(req(row)?.alternate.remote_gid),
    ),
    field!(Req: "infiniband.cm.req.alt_flowlabel", "Alternate flow label", Number, m => id(m.alternate.flow_label, 5)),
    field!(Req: "infiniband.cm.req.alt_pktrate", "Alternate packet rate", Number, m => number(m.alternate.packet_rate)),
    field!(Req: "infiniband.cm.req.alt_tfcclass", "Alternate traffic class", Number, m => id(m.alternate.traffic_class.into(), 2)),
    field!(Req: "infiniband.cm.req.alt_hoplim", "Alternate hop limit", Number, m => number(m.alternate.hop_limit)),
    field!(Req: "infiniband.cm.req.alt_sl", "Alternate service level", Number, m => number(m.alternate.sl)),
    field!(Req: "infiniband.cm.req.alt_subnetlocal", "Alternate subnet local", Flag, m => Value::Flag(m.alternate.subnet_local)),
    field!(Req: "infiniband.cm.req.alt_localacktout", "Alternate local ACK timeout", Named, m => timeout(m.alternate.local_ack_timeout)),
    field!(Req: "infiniband.cm.req.sap", "SAP supported", Flag, m => Value::Flag(m.sap_supported)),
    field!(Req: "infiniband.cm.req.private", "Private data", Bytes, m => private(m.private_data)),
];
