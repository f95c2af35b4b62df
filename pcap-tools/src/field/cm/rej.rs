//! REJ.

use roce_codec::cm::RejectedMessage;

use super::{comm, field, private};
use crate::field::value::{named, number};
use crate::field::{Field, Value};

fn rejected(message: RejectedMessage) -> Value<'static> {
    let (code, name): (u8, _) = match message {
        RejectedMessage::Req => (0, "REQ"),
        RejectedMessage::Rep => (1, "REP"),
        RejectedMessage::Other => (2, "another, or none"),
        RejectedMessage::Reserved => (3, "reserved"),
    };
    named(code, name)
}

pub(in crate::field) static REJ: &[Field] = &[
    field!(Rej: "infiniband.cm.rej.localcommid", "Local communication ID", Number, m =>
        comm(m.local_comm_id)),
    field!(Rej: "infiniband.cm.rej.remotecommid", "Remote communication ID", Number, m =>
        comm(m.remote_comm_id)),
    field!(Rej: "infiniband.cm.rej.msgrej", "Message rejected", Named, m => rejected(m.rejected)),
    field!(Rej: "infiniband.cm.rej.rejinfolen", "Length of the information", Number, m =>
        number(m.ari_len)),
    field!(Rej: "infiniband.cm.rej.reason", "Reason", Named, m => named(m.reason.0, m.reason)),
    field!(Rej: "infiniband.cm.rej.ari", "Additional information", Bytes, m =>
        Value::Bytes(m.ari_bytes())),
    field!(Rej: "infiniband.cm.rej.private", "Private data", Bytes, m => private(m.private_data)),
];
