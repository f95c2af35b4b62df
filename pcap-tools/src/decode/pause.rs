//! PAUSE and PFC frames, in each style.

use std::io::{self, Write};

use roce_codec::net::{MacAddr, MacControl};

use super::tree::{self, Tree};
use super::{fields, line};
use crate::capture::Packet;
use crate::json::Object;

pub(super) fn line(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &MacControl,
    out: &mut dyn Write,
) -> io::Result<()> {
    line::start(packet, since_ns, out)?;
    let (name, src, dst) = of(frame);
    write!(out, " {name} {src} > {dst}")?;
    match frame {
        MacControl::Pause(pause) => write!(out, " quanta={}", pause.quanta.0)?,
        MacControl::Pfc(pfc) => {
            for (priority, quanta) in pfc.enabled() {
                write!(out, " priority {priority} quanta={}", quanta.0)?;
            }
        }
    }
    writeln!(out)
}

pub(super) fn tree(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &MacControl,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut tree = Tree(out);
    tree::captured(&mut tree, packet, since_ns)?;
    let (name, src, dst) = of(frame);
    tree.heading(format_args!("Ethernet, {src} > {dst}"))?;
    tree.heading(format_args!("MAC control, {name}"))?;
    match frame {
        MacControl::Pause(pause) => tree.field("Quanta", pause.quanta.0)?,
        MacControl::Pfc(pfc) => {
            tree.field("Class-enable vector", format_args!("{:#04x}", pfc.enabled))?;
            for (priority, quanta) in pfc.enabled() {
                tree.field(&format!("Quanta of priority {priority}"), quanta.0)?;
            }
        }
    }
    writeln!(tree.0)
}

pub(super) fn fields(
    packet: &Packet<'_>,
    frame: &MacControl,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut object = Object::start(out)?;
    fields::frame_fields(&mut object, packet)?;
    let (_, src, dst) = of(frame);
    object.text("eth.src", src)?.text("eth.dst", dst)?;
    match frame {
        MacControl::Pause(pause) => {
            object
                .raw("macc.opcode", MacControl::PAUSE_OPCODE)?
                .raw("macc.pause_time", pause.quanta.0)?;
        }
        MacControl::Pfc(pfc) => {
            let vector = u16::from_be_bytes([pfc.resv8, pfc.enabled]);
            object.raw("macc.opcode", MacControl::PFC_OPCODE)?.raw("macc.cbfc.enbv", vector)?;
            for (priority, quanta) in (0..).zip(pfc.quanta) {
                let priority: u8 = priority;
                object.raw(&format!("macc.cbfc.pause_time.c{priority}"), quanta.0)?;
            }
        }
    }
    object.end()?;
    out.write_all(b"\n")
}

fn of(frame: &MacControl) -> (&'static str, MacAddr, MacAddr) {
    match frame {
        MacControl::Pause(pause) => ("PAUSE", pause.src, pause.dst),
        MacControl::Pfc(pfc) => ("PFC", pfc.src, pfc.dst),
    }
}
