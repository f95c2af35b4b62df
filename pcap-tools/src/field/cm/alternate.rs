//! LAP and APR, SAP and SPR: alternate paths.

use super::{comm, field, private, timeout};
use crate::field::value::{id, named, number};
use crate::field::{Field, Value};

pub(in crate::field) static LAP: &[Field] = &[
    field!(Lap: "infiniband.cm.lap.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Lap: "infiniband.cm.lap.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Lap: "infiniband.cm.lap.remoteqpneecn", "Remote queue pair", Number, m =>
        id(m.remote_qpn.get(), 6)),
    field!(Lap: "infiniband.cm.lap.remoteresptout", "Remote CM response timeout", Named, m =>
        timeout(m.remote_cm_response_timeout)),
    field!(Lap: "infiniband.cm.lap.alt_locallid", "Alternate local LID", Number, m =>
        number(m.alternate.local_lid)),
    field!(Lap: "infiniband.cm.lap.alt_remotelid", "Alternate remote LID", Number, m =>
        number(m.alternate.remote_lid)),
    field!(Lap: "infiniband.cm.lap.alt_localgid", "Alternate local GID", Address, m =>
        Value::Ip(m.alternate.local_gid.ip())),
    field!(Lap: "infiniband.cm.lap.alt_remotegid", "Alternate remote GID", Address, m =>
        Value::Ip(m.alternate.remote_gid.ip())),
    field!(Lap: "infiniband.cm.lap.alt_flowlabel", "Alternate flow label", Number, m =>
        id(m.alternate.flow_label, 5)),
    field!(Lap: "infiniband.cm.lap.alt_tfcclass", "Alternate traffic class", Number, m =>
        id(m.alternate.traffic_class.into(), 2)),
    field!(Lap: "infiniband.cm.lap.alt_hoplim", "Alternate hop limit", Number, m =>
        number(m.alternate.hop_limit)),
    field!(Lap: "infiniband.cm.lap.alt_pktrate", "Alternate packet rate", Number, m =>
        number(m.alternate.packet_rate)),
    field!(Lap: "infiniband.cm.lap.alt_sl", "Alternate service level", Number, m =>
        number(m.alternate.sl)),
    field!(Lap: "infiniband.cm.lap.alt_subnetlocal", "Alternate subnet local", Flag, m =>
        Value::Flag(m.alternate.subnet_local)),
    field!(Lap: "infiniband.cm.lap.alt_localacktout", "Alternate local ACK timeout", Named, m =>
        timeout(m.alternate.local_ack_timeout)),
    field!(Lap: "infiniband.cm.lap.private", "Private data", Bytes, m => private(m.private_data)),
];

pub(in crate::field) static APR: &[Field] = &[
    field!(Apr: "infiniband.cm.apr.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Apr: "infiniband.cm.apr.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Apr: "infiniband.cm.apr.infolen", "Length of the information", Number, m =>
        number(m.info_len)),
    field!(Apr: "infiniband.cm.apr.status", "Status", Named, m => named(m.status.0, m.status)),
    field!(Apr: "infiniband.cm.apr.info", "Additional information", Bytes, m =>
        Value::Bytes(m.info_bytes())),
    field!(Apr: "infiniband.cm.apr.private", "Private data", Bytes, m => private(m.private_data)),
];

pub(in crate::field) static SAP: &[Field] = &[
    field!(Sap: "infiniband.cm.sap.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Sap: "infiniband.cm.sap.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Sap: "infiniband.cm.sap.body", "Bytes", Bytes, m => Value::Bytes(m.body)),
];

pub(in crate::field) static SPR: &[Field] = &[
    field!(Spr: "infiniband.cm.spr.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Spr: "infiniband.cm.spr.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Spr: "infiniband.cm.spr.body", "Bytes", Bytes, m => Value::Bytes(m.body)),
];
