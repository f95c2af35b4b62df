//! One JSON object a packet, under the field names of Wireshark where it has one.
//!
//! Numbers of up to 32 bits are numbers; keys, addresses and 64-bit values are strings in
//! hexadecimal, since many JSON readers keep only 53 bits.

use std::io::{self, Write};

use super::columns::Columns;
use crate::field::{Field, Layer, Row};
use crate::json::Object;

/// Every field that the packet has.
pub(super) fn whole(row: &Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::start(out)?;
    for layer in Layer::ALL {
        if !layer.may_be_in(row) {
            continue;
        }
        for field in layer.fields().iter().filter(|field| field.is_in_json()) {
            let mut has = false;
            field.values(row, &mut |_| has = true);
            if has {
                member(&mut object, field.name, field, row)?;
            }
        }
    }
    object.end()
}

/// The fields asked for, `null` where the packet has none.
pub(super) fn chosen(columns: &Columns, row: &Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::start(out)?;
    for column in columns.iter() {
        member(&mut object, &column.name, column.field, row)?;
    }
    object.end()
}

/// One value, or an array where there may be several.
fn member(object: &mut Object<'_>, name: &str, field: &Field, row: &Row<'_>) -> io::Result<()> {
    let out = object.value(name)?;
    let mut result = Ok(());
    let mut count = 0;
    if field.is_list() {
        out.write_all(b"[")?;
    }
    field.values(row, &mut |value| {
        if result.is_ok() && count > 0 {
            result = out.write_all(b",");
        }
        if result.is_ok() {
            result = value.write_json(out);
        }
        count += 1;
    });
    result?;
    match (field.is_list(), count) {
        (true, _) => out.write_all(b"]"),
        (false, 0) => out.write_all(b"null"),
        (false, _) => Ok(()),
    }
}
