//! The packet as the capture has it.

use super::value::{len, number};
use super::{Field, Kind, Shown, Value};
use crate::capture::Direction;
use crate::dissect::Dissected;

pub(super) static FIELDS: &[Field] = &[
    Field::new("frame.number", "Number", Kind::Number, |row| Some(number(row.packet().number)))
        .short("number")
        .shown(Shown::Json),
    Field::new("frame.time_epoch", "Time since 1970", Kind::Seconds, |row| {
        row.packet().timestamp_ns.map(Value::Seconds)
    })
    .short("time"),
    Field::new("frame.time_relative", "Time since the first packet", Kind::Seconds, |row| {
        row.since_ns().map(Value::Seconds)
    })
    .short("since")
    .shown(Shown::Tree),
    Field::new("frame.len", "Bytes on the wire", Kind::Number, |row| {
        Some(number(row.packet().orig_len))
    })
    .shown(Shown::Json),
    Field::new("frame.cap_len", "Bytes captured", Kind::Number, |row| {
        Some(len(row.packet().data.len()))
    })
    .short("caplen")
    .shown(Shown::Json),
    Field::new("frame.interface_id", "Interface", Kind::Number, |row| {
        Some(number(row.packet().interface))
    })
    .short("interface")
    .shown(Shown::Tree),
    Field::new("direction", "Direction", Kind::Word(&["inbound", "outbound"]), |row| {
        let place = match row.packet().direction? {
            Direction::Inbound => 0,
            Direction::Outbound => 1,
        };
        Some(Value::Word(&["inbound", "outbound"], place))
    })
    .shown(Shown::Tree),
    Field::new("error", "Why it is not read", Kind::Text, |row| match row.dissected() {
        Dissected::Malformed(malformed) => {
            Some(Value::Text(format!("malformed RoCEv2: {malformed}").into()))
        }
        Dissected::Other(other) => Some(Value::Text(format!("not RoCEv2: {other}").into())),
        _ => None,
    })
    .shown(Shown::Json),
];
