//! The JSON Schema of what `decode` writes, made of the table of fields.

use std::io::{self, Write};

use crate::field::{self, Field, Kind};
use crate::json::Object;

/// Writes the schema of an object of `decode --format jsonl`, and of an element of the array of
/// `--format json`: every field of the table under its long name. With chosen fields an object
/// has just those, under the names asked for, and `null` where a packet has none.
///
/// # Errors
/// What `out` says.
pub fn write_schema(out: &mut dyn Write) -> io::Result<()> {
    let mut root = Object::start(out)?;
    root.text("$schema", "https://json-schema.org/draft/2020-12/schema")?
        .text("title", "A line of roce-pcap decode --format jsonl")?
        .raw("oneOf", "[{\"$ref\":\"#/$defs/packet\"},{\"$ref\":\"#/$defs/summary\"}]")?;
    out_defs(root.value("$defs")?)?;
    root.end()?;
    out.write_all(b"\n")
}

fn out_defs(out: &mut dyn Write) -> io::Result<()> {
    let mut defs = Object::start(out)?;
    let mut packet = Object::start(defs.value("packet")?)?;
    packet
        .text("type", "object")?
        .raw("required", "[\"frame.number\",\"frame.len\",\"frame.cap_len\"]")?
        .raw("additionalProperties", false)?;
    let mut properties = Object::start(packet.value("properties")?)?;
    for field in field::all().filter(|field| field.is_in_json()) {
        property(field, properties.value(field.name)?)?;
    }
    properties.end()?;
    packet.end()?;
    defs.raw(
        "summary",
        "{\"type\":\"object\",\"required\":[\"summary\"],\"additionalProperties\":false,\
         \"properties\":{\"summary\":{\"type\":\"object\",\
         \"additionalProperties\":{\"type\":\"integer\"}}}}",
    )?;
    defs.end()
}

/// What values of a field are in JSON.
fn property(field: &Field, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::start(out)?;
    object.text("description", field.label)?;
    match field.kind {
        Kind::Flag => object.text("type", "boolean")?,
        Kind::Number | Kind::Named => object.text("type", "integer")?,
        // One field has the number, the other the name.
        Kind::Opcode if field.name == "opcode" => object.text("type", "string")?,
        Kind::Opcode => object.text("type", "integer")?,
        Kind::Seconds => object.text("type", "number")?,
        Kind::Key => object.text("type", "string")?.text("pattern", "^0x[0-9a-f]+$")?,
        Kind::Bytes => object.text("type", "string")?.text("pattern", "^([0-9a-f]{2})*$")?,
        Kind::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            object.raw("enum", format_args!("[{}]", words.join(",")))?
        }
        Kind::Address | Kind::Mac | Kind::Text | Kind::Rule => object.text("type", "string")?,
    };
    object.end()
}
