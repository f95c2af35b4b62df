//! Ethernet with its tags, PAUSE and PFC.

use roce_codec::net::{MacAddr, MacControl};

use super::value::number;
use super::{Field, Kind, Row, Shown, Value};

/// Source and destination.
fn addresses(row: &Row<'_>) -> Option<(MacAddr, MacAddr)> {
    match row.mac_control() {
        Some(MacControl::Pause(pause)) => Some((pause.src, pause.dst)),
        Some(MacControl::Pfc(pfc)) => Some((pfc.src, pfc.dst)),
        None => row.ethernet().map(|ethernet| (ethernet.src, ethernet.dst)),
    }
}

pub(super) static ETHERNET: &[Field] = &[
    Field::new("eth.src", "Source", Kind::Mac, |row| {
        addresses(row).map(|(src, _)| Value::Mac(src))
    })
    .shown(Shown::Json),
    Field::new("eth.dst", "Destination", Kind::Mac, |row| {
        addresses(row).map(|(_, dst)| Value::Mac(dst))
    })
    .shown(Shown::Json),
    Field::new("vlan.id", "VLAN, innermost", Kind::Number, |row| {
        row.ethernet()?.vlans.iter().last().map(|tag| number(tag.vid()))
    })
    .short("vlan.vid")
    .shown(Shown::Json),
    Field::new("vlan.priority", "Its priority", Kind::Number, |row| {
        row.ethernet()?.vlans.iter().last().map(|tag| number(tag.pcp()))
    })
    .shown(Shown::Json),
    Field::many("vlan", "VLAN", Kind::Text, |row, with| {
        for tag in row.ethernet().iter().flat_map(|ethernet| ethernet.vlans.iter()) {
            with(Value::Text(format!("{}, priority {}", tag.vid(), tag.pcp()).into()));
        }
    })
    .shown(Shown::Tree),
];

/// The time of a priority in a PFC frame.
fn quanta(row: &Row<'_>, priority: usize) -> Option<Value<'static>> {
    match row.mac_control()? {
        MacControl::Pfc(pfc) => pfc.quanta.get(priority).map(|quanta| number(quanta.0)),
        MacControl::Pause(_) => None,
    }
}

/// The same, if the frame means that priority.
fn enabled<'r>(row: &'r Row<'_>, with: &mut dyn FnMut(Value<'r>)) {
    if let Some(MacControl::Pfc(pfc)) = row.mac_control() {
        for (priority, quanta) in pfc.enabled() {
            with(Value::Text(format!("{priority}, quanta {}", quanta.0).into()));
        }
    }
}

pub(super) static MAC_CONTROL: &[Field] = &[
    Field::new("macc.opcode", "Opcode", Kind::Number, |row| {
        Some(match row.mac_control()? {
            MacControl::Pause(_) => number(MacControl::PAUSE_OPCODE),
            MacControl::Pfc(_) => number(MacControl::PFC_OPCODE),
        })
    })
    .shown(Shown::Json),
    Field::new("macc.pause_time", "Quanta", Kind::Number, |row| match row.mac_control()? {
        MacControl::Pause(pause) => Some(number(pause.quanta.0)),
        MacControl::Pfc(_) => None,
    }),
    Field::new("macc.cbfc.enbv", "Class-enable vector", Kind::Number, |row| {
        match row.mac_control()? {
            MacControl::Pfc(pfc) => {
                let vector = u16::from_be_bytes([pfc.resv8, pfc.enabled]);
                Some(Value::Id(u64::from(vector), 4))
            }
            MacControl::Pause(_) => None,
        }
    }),
    Field::many("pfc.quanta", "Priority", Kind::Text, enabled).shown(Shown::Tree),
    pause_time("macc.cbfc.pause_time.c0", |row| quanta(row, 0)),
    pause_time("macc.cbfc.pause_time.c1", |row| quanta(row, 1)),
    pause_time("macc.cbfc.pause_time.c2", |row| quanta(row, 2)),
    pause_time("macc.cbfc.pause_time.c3", |row| quanta(row, 3)),
    pause_time("macc.cbfc.pause_time.c4", |row| quanta(row, 4)),
    pause_time("macc.cbfc.pause_time.c5", |row| quanta(row, 5)),
    pause_time("macc.cbfc.pause_time.c6", |row| quanta(row, 6)),
    pause_time("macc.cbfc.pause_time.c7", |row| quanta(row, 7)),
];

const fn pause_time(
    name: &'static str,
    get: for<'r, 'a> fn(&'r Row<'a>) -> Option<Value<'r>>,
) -> Field {
    Field::new(name, "Quanta of a priority", Kind::Number, get).shown(Shown::Json)
}
