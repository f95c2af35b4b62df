//! The payload's length and the ICRC.

use roce_codec::icrc::{IcrcVerdict, NotCheckable};

use super::value::len;
use super::{Field, Kind, Row, Shown, Value};
use crate::dissect::Dissected;

pub(super) static PAYLOAD: &[Field] = &[
    Field::new("payload.len", "Bytes of payload", Kind::Number, |row| {
        Some(len(row.transport()?.payload_len()))
    })
    .short("len")
    .shown(Shown::Json),
    Field::new("payload", "Payload", Kind::Bytes, |row| {
        // Captures lie in one piece.
        Some(Value::Bytes(row.transport()?.payload()[0]))
    })
    .short("data")
    .shown(Shown::Asked),
];

/// The words for an ICRC's verdict.
const VERDICTS: &[&str] = &["valid", "invalid", "truncated", "not filled in", "not checkable"];

/// A verdict's place among its words.
const fn place(verdict: IcrcVerdict) -> usize {
    match verdict {
        IcrcVerdict::Valid => 0,
        IcrcVerdict::Invalid { .. } => 1,
        IcrcVerdict::NotCheckable(NotCheckable::Truncated) => 2,
        IcrcVerdict::NotCheckable(NotCheckable::NotFilled) => 3,
        IcrcVerdict::NotCheckable(_) => 4,
    }
}

/// An ICRC verdict in a word.
pub(crate) fn icrc_word(verdict: IcrcVerdict) -> &'static str {
    VERDICTS[place(verdict)]
}

fn hex(bytes: [u8; 4]) -> Value<'static> {
    Value::Key(u64::from(u32::from_be_bytes(bytes)), 8)
}

fn diagnosis(row: &Row<'_>) -> Option<String> {
    let Some(IcrcVerdict::Invalid { .. }) = row.icrc() else { return None };
    match row.dissected() {
        Dissected::Roce(frame) => frame.diagnose_icrc().map(|found| found.to_string()),
        Dissected::Native(frame) => frame.diagnose_icrc().map(|found| found.to_string()),
        _ => None,
    }
}

pub(super) static ICRC: &[Field] = &[
    Field::new("infiniband.invariant.crc", "Value", Kind::Key, |row| {
        Some(hex(row.transport()?.icrc()))
    }),
    Field::new("icrc.status", "Verdict", Kind::Word(VERDICTS), |row| {
        Some(Value::Word(VERDICTS, place(row.icrc()?)))
    })
    .short("icrc")
    .shown(Shown::Json),
    Field::new("icrc.expected", "Expected", Kind::Key, |row| match row.icrc()? {
        IcrcVerdict::Invalid { expected, .. } => Some(hex(expected)),
        _ => None,
    }),
    Field::new("icrc.diagnosis", "Diagnosis", Kind::Text, |row| {
        diagnosis(row).map(|text| Value::Text(text.into()))
    }),
];
