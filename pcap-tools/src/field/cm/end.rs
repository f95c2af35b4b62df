//! MRA, RTU, DREQ, DREP.

use roce_codec::cm::MraedMessage;

use super::{comm, field, private, timeout};
use crate::field::value::{id, named};
use crate::field::{Field, Value};

fn received(message: MraedMessage) -> Value<'static> {
    let (code, name): (u8, _) = match message {
        MraedMessage::Req => (0, "REQ"),
        MraedMessage::Rep => (1, "REP"),
        MraedMessage::Lap => (2, "LAP"),
        MraedMessage::Reserved => (3, "reserved"),
    };
    named(code, name)
}

pub(in crate::field) static MRA: &[Field] = &[
    field!(Mra: "infiniband.cm.mra.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Mra: "infiniband.cm.mra.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Mra: "infiniband.cm.mra.msgmraed", "Message received", Named, m => received(m.message)),
    field!(Mra: "infiniband.cm.mra.servicetimeout", "Service timeout", Named, m =>
        timeout(m.service_timeout)),
    field!(Mra: "infiniband.cm.mra.private", "Private data", Bytes, m => private(m.private_data)),
];

pub(in crate::field) static RTU: &[Field] = &[
    field!(Rtu: "infiniband.cm.rtu.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Rtu: "infiniband.cm.rtu.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Rtu: "infiniband.cm.rtu.private", "Private data", Bytes, m => private(m.private_data)),
];

pub(in crate::field) static DREQ: &[Field] = &[
    field!(Dreq: "infiniband.cm.dreq.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Dreq: "infiniband.cm.dreq.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    // Wireshark files the DREQ's queue pair under the REQ.
    field!(Dreq: "infiniband.cm.req.remoteqpneecn", "Remote queue pair", Number, m =>
        id(m.remote_qpn.get(), 6)),
    field!(Dreq: "infiniband.cm.dreq.private", "Private data", Bytes, m =>
        private(m.private_data)),
];

pub(in crate::field) static DREP: &[Field] = &[
    field!(Drep: "infiniband.cm.drsp.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Drep: "infiniband.cm.drsp.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Drep: "infiniband.cm.drsp.private", "Private data", Bytes, m =>
        private(m.private_data)),
];
