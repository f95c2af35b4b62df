//! REP.

use roce_codec::cm::Failover;

use super::{comm, field, private, timeout};
use crate::field::value::{id, named, number};
use crate::field::{Field, Value};

fn failover(value: Failover) -> Value<'static> {
    let (code, name): (u8, _) = match value {
        Failover::Accepted => (0, "accepted"),
        Failover::NotSupported => (1, "not supported"),
        Failover::Rejected => (2, "rejected"),
        Failover::Reserved => (3, "reserved"),
    };
    named(code, name)
}

fn rnr_retries(count: u8) -> Value<'static> {
    match count {
        7 => named(count, "without end"),
        _ => number(count),
    }
}

pub(in crate::field) static REP: &[Field] = &[
    field!(Rep: "infiniband.cm.rep", "Local communication ID", Number, m => comm(m.local_comm_id)),
    field!(Rep: "infiniband.cm.rep.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Rep: "infiniband.cm.rep.localqkey", "Local queue key", Key, m =>
        Value::Key(m.local_qkey.0.into(), 8)),
    field!(Rep: "infiniband.cm.rep.localqpn", "Local queue pair", Number, m =>
        id(m.local_qpn.get(), 6)),
    field!(Rep: "infiniband.cm.rep.localeecn", "Local EECN", Number, m =>
        id(m.local_eecn.get(), 6)),
    field!(Rep: "infiniband.cm.rep.vendorid", "Vendor ID", Number, m => id(m.vendor_id, 6)),
    field!(Rep: "infiniband.cm.rep.startpsn", "Starting PSN", Number, m =>
        id(m.starting_psn.get(), 6)),
    field!(Rep: "infiniband.cm.rep.respres", "Responder resources", Number, m =>
        number(m.responder_resources)),
    field!(Rep: "infiniband.cm.rep.initdepth", "Initiator depth", Number, m =>
        number(m.initiator_depth)),
    field!(Rep: "infiniband.cm.rep.tgtackdelay", "Target ACK delay", Named, m =>
        timeout(m.target_ack_delay)),
    field!(Rep: "infiniband.cm.rep.failoveracc", "Failover", Named, m => failover(m.failover)),
    field!(Rep: "infiniband.cm.rep.e2eflowctrl", "End-to-end flow control", Flag, m =>
        Value::Flag(m.end_to_end_flow_control)),
    field!(Rep: "infiniband.cm.rep.rnrretrcount", "RNR retry count", Named, m =>
        rnr_retries(m.rnr_retry_count)),
    field!(Rep: "infiniband.cm.rep.srq", "Shared receive queue", Flag, m => Value::Flag(m.srq)),
    field!(Rep: "infiniband.cm.rep.localcaguid", "Local CA GUID", Key, m =>
        Value::Key(m.local_ca_guid.0, 16)),
    field!(Rep: "infiniband.cm.rep.private", "Private data", Bytes, m => private(m.private_data)),
];
