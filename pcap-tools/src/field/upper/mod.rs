//! Messages of the protocols above the transport, under Wireshark's names where it has them.

mod iser;
mod nvme;
mod rpc;
mod smb_direct;

pub(super) use iser::ISER;
pub(super) use nvme::{NVME_CM, NVME_COMMAND, NVME_COMPLETION};
pub(super) use rpc::{RPC, RPC_CM};
pub(super) use smb_direct::SMB_DIRECT;

use super::{Field, Kind, Value};
use crate::upper::Evidence;

/// A field of one kind of message: name, label, kind, and what it is of that message, if anything.
macro_rules! field {
    ($message:ident: $name:literal, $label:literal, $kind:ident, $bound:ident => $value:expr) => {
        crate::field::Field::new($name, $label, crate::field::Kind::$kind, |row| {
            match &row.upper()?.message {
                Some(crate::upper::UpperMessage::$message($bound)) => $value,
                _ => None,
            }
        })
    };
}
use field;

const EVIDENCE: &[&str] = &["payload", "connection"];

pub(super) static UPPER: &[Field] = &[
    Field::new("upper", "Message", Kind::Text, |row| {
        row.upper().map(|upper| Value::Text(upper.to_string().into()))
    }),
    Field::new("upper.protocol", "Protocol", Kind::Text, |row| {
        row.upper().map(|upper| Value::Text(upper.protocol.name().into()))
    })
    .short("protocol"),
    Field::new("upper.evidence", "Proven by", Kind::Word(EVIDENCE), |row| {
        let place = match row.upper()?.evidence {
            Evidence::Payload => 0,
            Evidence::Connection => 1,
        };
        Some(Value::Word(EVIDENCE, place))
    }),
];
