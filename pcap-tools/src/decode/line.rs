//! One line a packet.

use std::fmt;
use std::io::{self, Write};

use anstyle::Style;
use roce_codec::ib::{AethKind, Service, VcrcVerdict};
use roce_codec::icrc::{IcrcDiagnosis, IcrcVerdict};
use roce_codec::net::{Ecn, MacControl};
use roce_codec::{Frame, NativeFrame, Transport};

use super::paint::{BAD, MANAGEMENT, NOTICE, NUMBER, PLAIN, Painted};
use crate::dissect::Dissected;
use crate::field::{Row, icrc_word};
use crate::json::Seconds;

/// A line for each packet. Other protocols have one too.
pub(super) fn write(row: &Row<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    start(row, color, out)?;
    match row.dissected() {
        Dissected::Roce(frame) => roce(row, frame, color, out)?,
        Dissected::Native(frame) => native(row, frame, color, out)?,
        Dissected::MacControl(frame) => mac_control(frame, color, out)?,
        Dissected::Malformed(malformed) => {
            let text = format_args!("malformed RoCEv2: {malformed}");
            write!(out, " {}", Painted(color, BAD, text))?;
        }
        Dissected::Other(other) => write!(out, " not RoCEv2: {other}")?,
    }
    for finding in row.findings().unwrap_or_default() {
        let text = format_args!("{} {}", finding.rule, finding.verdict);
        write!(out, " [{}]", Painted(color, BAD, text))?;
    }
    writeln!(out)
}

fn start(row: &Row<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let number = format_args!("{:5}", row.packet().number);
    write!(out, "{}", Painted(color, NUMBER, number))?;
    match row.since_ns() {
        Some(since) => write!(out, " {}", Seconds(since)),
        None => write!(out, " -"),
    }
}

fn roce(row: &Row<'_>, frame: &Frame<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    write!(out, " {} > {}", frame.src(), frame.dst())?;
    bth(frame, color, out)?;
    if Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce {
        write!(out, " {}", Painted(color, NOTICE, "CE"))?;
    }
    headers(frame, out)?;
    if let Some(message) = row.cm() {
        write!(out, " {}", Painted(color, MANAGEMENT, format_args!("CM {message}")))?;
    } else if let Some(mad) = row.mad() {
        let header = mad.header;
        let (class, method, attribute) = (header.class, header.method, header.attribute.0);
        let text = format_args!("MAD {class} {method} attribute {attribute:#06x}");
        write!(out, " {}", Painted(color, MANAGEMENT, text))?;
    }
    if let Some(upper) = row.upper() {
        write!(out, " {}", Painted(color, MANAGEMENT, upper))?;
    }
    icrc(row, color, || frame.diagnose_icrc(), out)
}

fn native(
    row: &Row<'_>,
    frame: &NativeFrame<'_>,
    color: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    match (frame.lrh(), frame.grh()) {
        (Some(lrh), _) => write!(out, " InfiniBand LID {} > {}", lrh.slid.0, lrh.dlid.0)?,
        (None, Some(grh)) => write!(out, " RoCE v1 {} > {}", grh.sgid, grh.dgid)?,
        (None, None) => {}
    }
    bth(frame, color, out)?;
    headers(frame, out)?;
    if let Some(message) = row.cm() {
        write!(out, " {}", Painted(color, MANAGEMENT, format_args!("CM {message}")))?;
    }
    icrc(row, color, || frame.diagnose_icrc(), out)?;
    match frame.verify_vcrc() {
        VcrcVerdict::Invalid { expected, found } => {
            let (found, expected) = (u16::from_be_bytes(found), u16::from_be_bytes(expected));
            let text = format_args!("VCRC {found:04x} invalid, {expected:04x} expected");
            write!(out, " {}", Painted(color, BAD, text))
        }
        VcrcVerdict::Valid => write!(out, " VCRC valid"),
        VcrcVerdict::Absent | VcrcVerdict::Truncated => Ok(()),
    }
}

fn mac_control(frame: &MacControl, color: bool, out: &mut dyn Write) -> io::Result<()> {
    match frame {
        MacControl::Pause(pause) => {
            let (src, dst) = (pause.src, pause.dst);
            let name = Painted(color, NOTICE, "PAUSE");
            write!(out, " {name} {src} > {dst} quanta={}", pause.quanta.0)
        }
        MacControl::Pfc(pfc) => {
            write!(out, " {} {} > {}", Painted(color, NOTICE, "PFC"), pfc.src, pfc.dst)?;
            for (priority, quanta) in pfc.enabled() {
                write!(out, " priority {priority} quanta={}", quanta.0)?;
            }
            Ok(())
        }
    }
}

/// Opcode, numbers and flags.
fn bth(transport: &Transport<'_>, color: bool, out: &mut dyn Write) -> io::Result<()> {
    let bth = transport.bth();
    let opcode = Painted(color, style_of(transport), bth.opcode);
    write!(out, " {opcode} QP {} PSN {}", bth.dest_qp, bth.psn)?;
    for (set, name) in
        [(bth.ack_req, " A"), (bth.solicited, " SE"), (bth.fecn, " FECN"), (bth.becn, " BECN")]
    {
        if set {
            out.write_all(name.as_bytes())?;
        }
    }
    Ok(())
}

/// What one looks for first: refusals and marks of congestion.
fn style_of(transport: &Transport<'_>) -> Style {
    let refused = transport
        .aeth()
        .is_some_and(|aeth| matches!(aeth.syndrome.kind(), AethKind::Nak(_) | AethKind::RnrNak(_)));
    match transport.info().service {
        Service::Cnp => NOTICE,
        _ if refused => BAD,
        _ => PLAIN,
    }
}

/// The values of the extension headers, and the payload's length.
fn headers(transport: &Transport<'_>, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", Headers(transport))?;
    if transport.info().payload {
        write!(out, " len={}", transport.payload_len())?;
    }
    Ok(())
}

fn icrc(
    row: &Row<'_>,
    color: bool,
    diagnosis: impl FnOnce() -> Option<IcrcDiagnosis>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(verdict) = row.icrc() else { return Ok(()) };
    if !matches!(verdict, IcrcVerdict::Invalid { .. }) {
        return write!(out, " ICRC {}", icrc_word(verdict));
    }
    write!(out, " {}", Painted(color, BAD, format_args!("ICRC {verdict}")))?;
    match diagnosis() {
        Some(diagnosis) => write!(out, ": {diagnosis}"),
        None => Ok(()),
    }
}

/// The values of the extension headers, each behind its name.
struct Headers<'f, 'a>(&'f Transport<'a>);

impl fmt::Display for Headers<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.info().headers.is_empty() {
            return Ok(());
        }
        let ext = self.0.ext_headers();
        if let Some(deth) = ext.deth {
            write!(f, " q_key={:#010x} srcqp={}", deth.qkey.0, deth.src_qp)?;
        }
        if let Some(xrceth) = ext.xrceth {
            write!(f, " srqn={}", xrceth.srqn)?;
        }
        if let Some(feth) = ext.feth {
            write!(f, " plt={} sel={}", feth.placement_type(), feth.selectivity())?;
        }
        if let Some(reth) = ext.reth {
            write!(f, " va={:#x} r_key={:#010x} dmalen={}", reth.va, reth.rkey.0, reth.dma_len)?;
        }
        if let Some(atomic) = ext.atomic_eth {
            write!(f, " va={:#x} r_key={:#010x}", atomic.va, atomic.rkey.0)?;
            write!(f, " swapdt={:#x} cmpdt={:#x}", atomic.swap_add, atomic.compare)?;
        }
        if let Some(aeth) = ext.aeth {
            write!(f, " {} msn={}", aeth.syndrome, aeth.msn.get())?;
        }
        if let Some(ack) = ext.atomic_ack_eth {
            write!(f, " origremdt={:#x}", ack.original)?;
        }
        if let Some(imm) = ext.imm_dt {
            write!(f, " immdt={:#010x}", imm.0)?;
        }
        if let Some(ieth) = ext.ieth {
            write!(f, " ieth={:#010x}", ieth.0.0)?;
        }
        Ok(())
    }
}
