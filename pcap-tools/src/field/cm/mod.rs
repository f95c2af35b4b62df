//! The connection manager's messages, every field. Names are Wireshark's; of the messages that it
//! does not take apart (MRA, SIDR_REQ, SIDR_REP, LAP, APR, SAP, SPR) they are formed alike.

mod alternate;
mod end;
mod ip_cm;
mod rej;
mod rep;
mod req;
mod sidr;

pub(super) use alternate::{APR, LAP, SAP, SPR};
pub(super) use end::{DREP, DREQ, MRA, RTU};
pub(super) use ip_cm::IP_CM;
pub(super) use rej::REJ;
pub(super) use rep::REP;
pub(super) use req::REQ;
pub(super) use sidr::{SIDR_REP, SIDR_REQ};

use roce_codec::cm::{RdmaCmServiceId, ServiceId, Timeout};

use super::value::{id, named};
use super::{Row, Value};
use crate::upper::Protocol;

/// A field of one message: name, label, kind, and what it is of that message.
macro_rules! field {
    ($message:ident: $name:literal, $label:literal, $kind:ident, $bound:ident => $value:expr) => {
        crate::field::Field::new($name, $label, crate::field::Kind::$kind, |row| {
            match row.cm()? {
                roce_codec::cm::Message::$message($bound) => Some($value),
                _ => None,
            }
        })
    };
}
use field;

/// What the consumers say to each other.
fn private(bytes: &[u8]) -> Value<'_> {
    Value::Bytes(bytes)
}

/// A time of 4.096 µs · 2ⁿ.
fn timeout(timeout: Timeout) -> Value<'static> {
    named(timeout.code(), timeout)
}

/// A communication ID.
fn comm(value: roce_codec::cm::CommunicationId) -> Value<'static> {
    id(value.0, 8)
}

/// A service ID in words: the port, and who is known to listen there.
fn service_name(service: ServiceId) -> Option<Value<'static>> {
    let port = RdmaCmServiceId::from_service_id(service)?;
    let text = match Protocol::of_service(service) {
        Some(protocol) => format!("{port}, {protocol}"),
        None => port.to_string(),
    };
    Some(Value::Text(text.into()))
}

/// The IP CM header of a REQ or SIDR_REQ, and the consumer's bytes behind it.
fn ip_cm<'a>(row: &Row<'a>) -> Option<(roce_codec::cm::IpCmHeader, &'a [u8])> {
    match row.cm()? {
        roce_codec::cm::Message::Req(req) => req.ip_cm(),
        roce_codec::cm::Message::SidrReq(req) => req.ip_cm(),
        _ => None,
    }
}
