//! The tunnels around a packet.

use super::value::number;
use super::{Field, Kind, Row, Shown, Value};
use crate::dissect::Tunnel;

/// What `of` says of each tunnel, outermost first.
fn each<'r>(
    row: &'r Row<'_>,
    with: &mut dyn FnMut(Value<'r>),
    of: impl Fn(Tunnel) -> Option<Value<'r>>,
) {
    row.outer().tunnels().filter_map(of).for_each(with);
}

pub(super) static TUNNELS: &[Field] = &[
    Field::many("tunnel", "Tunnel, outermost first", Kind::Text, |row, with| {
        each(row, with, |tunnel| Some(Value::Text(tunnel.to_string().into())));
    })
    .shown(Shown::Tree),
    Field::many("vxlan.vni", "VXLAN network identifier", Kind::Number, |row, with| {
        each(row, with, |tunnel| match tunnel {
            Tunnel::Vxlan(vni) => Some(number(vni)),
            _ => None,
        });
    })
    .shown(Shown::Json),
    Field::many("geneve.vni", "GENEVE network identifier", Kind::Number, |row, with| {
        each(row, with, |tunnel| match tunnel {
            Tunnel::Geneve(vni) => Some(number(vni)),
            _ => None,
        });
    })
    .shown(Shown::Json),
    Field::many("gre.key", "Key of GRE", Kind::Key, |row, with| {
        each(row, with, |tunnel| match tunnel {
            Tunnel::Gre(key) => key.map(|key| Value::Key(key.into(), 8)),
            _ => None,
        });
    })
    .shown(Shown::Json),
    Field::many("erspan.spanid", "Session of ERSPAN", Kind::Number, |row, with| {
        each(row, with, |tunnel| match tunnel {
            Tunnel::Erspan(session) => Some(number(session)),
            _ => None,
        });
    })
    .shown(Shown::Json),
    Field::many("mpls.label", "Outermost label of MPLS", Kind::Number, |row, with| {
        each(row, with, |tunnel| match tunnel {
            Tunnel::Mpls(label) => Some(number(label)),
            _ => None,
        });
    })
    .shown(Shown::Json),
];
