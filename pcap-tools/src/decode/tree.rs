//! Every field of every header, one a line.

use std::fmt::Display;
use std::io::{self, Write};

use super::paint::{HEADING, Painted};
use crate::field::{Layer, Row, Value, icrc_word};

/// Payload bytes shown.
const SHOWN: usize = 64;

pub(super) fn write(row: &Row<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut tree = Tree { out, color };
    for layer in Layer::ALL {
        match layer {
            // Said by the headers themselves.
            Layer::EitherIp => {}
            Layer::Payload => payload(&mut tree, row)?,
            Layer::Judged => judged(&mut tree, row)?,
            layer if layer.may_be_in(row) => fields(&mut tree, *layer, row)?,
            _ => {}
        }
    }
    trailer(&mut tree, row)?;
    writeln!(tree.out)
}

/// Writes lines, headings flush and fields indented.
struct Tree<'w> {
    out: &'w mut dyn Write,
    color: bool,
}

impl Tree<'_> {
    fn heading(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{}", Painted(self.color, HEADING, text))
    }

    fn field(&mut self, name: &str, value: impl Display) -> io::Result<()> {
        writeln!(self.out, "    {name}: {value}")
    }
}

/// A layer's heading, and the fields of it that the packet has.
fn fields(tree: &mut Tree<'_>, layer: Layer, row: &Row<'_>) -> io::Result<()> {
    let mut heading = heading(layer, row);
    // These have a heading even if nothing stands below it.
    if matches!(layer, Layer::Frame | Layer::Ethernet)
        && let Some(text) = heading.take()
    {
        tree.heading(text)?;
    }
    for field in layer.fields().iter().filter(|field| field.is_in_tree()) {
        let mut result = Ok(());
        field.values(row, &mut |value| {
            if result.is_ok() {
                result = match heading.take() {
                    Some(text) => tree.heading(text),
                    None => Ok(()),
                };
            }
            if result.is_ok() {
                result = tree.field(field.label, value);
            }
        });
        result?;
    }
    Ok(())
}

/// What stands above a layer's fields; `None` where they continue the layer before.
fn heading(layer: Layer, row: &Row<'_>) -> Option<String> {
    let name = layer.heading();
    let packet = row.packet();
    Some(match layer {
        Layer::Frame => {
            let (number, len, captured) = (packet.number, packet.orig_len, packet.data.len());
            format!("Frame {number}: {len} bytes on the wire, {captured} captured")
        }
        Layer::Ethernet => format!("{name}, {}", ends(row, "eth.src", "eth.dst")?),
        Layer::Ipv4 => format!("{name}, {}", ends(row, "ip.src", "ip.dst")?),
        Layer::Ipv6 => format!("{name}, {}", ends(row, "ipv6.src", "ipv6.dst")?),
        Layer::Udp => format!("{name}, port {}", ends(row, "udp.srcport", "udp.dstport")?),
        Layer::Grh => format!("{name}, {}", ends(row, "src", "dst")?),
        Layer::MacControl => match row.mac_control()? {
            roce_codec::net::MacControl::Pause(_) => format!("{name}, PAUSE"),
            roce_codec::net::MacControl::Pfc(_) => format!("{name}, PFC"),
        },
        Layer::Reth if row.transport()?.atomic_eth().is_some() => "AtomicETH".into(),
        Layer::Reth => "RETH".into(),
        Layer::AtomicEth => return None,
        Layer::Icrc => format!("{name}, {}", icrc_word(row.icrc()?)),
        Layer::Vcrc => format!("{name}, {}", value(row, "vcrc.status")?),
        _ => name.into(),
    })
}

fn value<'r>(row: &'r Row<'_>, name: &str) -> Option<Value<'r>> {
    let mut found = None;
    crate::field::find(name).ok()?.values(row, &mut |value| found = Some(value));
    found
}

fn ends(row: &Row<'_>, src: &str, dst: &str) -> Option<String> {
    Some(format!("{} > {}", value(row, src)?, value(row, dst)?))
}

fn payload(tree: &mut Tree<'_>, row: &Row<'_>) -> io::Result<()> {
    let Some(transport) = row.transport() else { return Ok(()) };
    let payload = transport.payload()[0];
    if transport.payload_len() > 0 {
        tree.heading(format_args!("Payload, {} bytes", transport.payload_len()))?;
        let shown = payload.get(..SHOWN).unwrap_or(payload);
        let more = if payload.len() > shown.len() { " ..." } else { "" };
        tree.field("Bytes", format_args!("{}{more}", Value::Bytes(shown)))?;
    }
    if !transport.pad().is_empty() {
        tree.field("Pad", Value::Bytes(&transport.pad()))?;
    }
    Ok(())
}

fn trailer(tree: &mut Tree<'_>, row: &Row<'_>) -> io::Result<()> {
    let Some(transport) = row.transport() else { return Ok(()) };
    let trailer = transport.trailer()[0];
    // Behind native InfiniBand it is the VCRC.
    if !trailer.is_empty() && row.native().is_none_or(|frame| frame.vcrc().is_none()) {
        tree.heading(format_args!("Trailer, {} bytes", trailer.len()))?;
    }
    Ok(())
}

fn judged(tree: &mut Tree<'_>, row: &Row<'_>) -> io::Result<()> {
    let Some(verdict) = value(row, "verdict") else { return Ok(()) };
    tree.heading(format_args!("Verdict, {verdict}"))?;
    for finding in row.findings().unwrap_or_default() {
        let severity = finding.rule.severity();
        let said = format_args!("{} ({severity}), {}", finding.verdict, finding.message);
        tree.field(finding.rule.id(), said)?;
    }
    Ok(())
}
