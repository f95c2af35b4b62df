//! What is known of the payload.

use super::{Field, Kind, Shown, Value};

pub(super) static UPPER: &[Field] = &[
    Field::new("upper", "Upper-layer message in short", Kind::Text, |row| {
        row.upper().map(|upper| Value::Text(upper.to_string().into()))
    })
    .shown(Shown::Json),
    Field::new("upper.protocol", "Protocol", Kind::Text, |row| {
        row.upper().map(|upper| Value::Text(upper.protocol.name().into()))
    }),
];
