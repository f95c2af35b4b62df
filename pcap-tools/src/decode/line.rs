//! One line a packet.

use std::fmt;
use std::io::{self, Write};

use roce_codec::icrc::{IcrcDiagnosis, IcrcVerdict};
use roce_codec::net::Ecn;
use roce_codec::{Frame, Transport};

use super::cm::Cm;
use super::icrc_word;
use crate::capture::Packet;
use crate::json::Seconds;

pub(super) fn roce(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &Frame<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    start(packet, since_ns, out)?;
    write!(out, " {} > {}", frame.src(), frame.dst())?;
    bth(frame, out)?;
    if Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce {
        write!(out, " CE")?;
    }
    write!(out, "{}", Headers(frame))?;
    if frame.info().payload {
        write!(out, " len={}", frame.payload_len())?;
    }
    if let Some(cm) = Cm::of(frame) {
        write!(out, " {cm}")?;
    }
    icrc(frame.verify_icrc(), || frame.diagnose_icrc(), out)?;
    writeln!(out)
}

/// Opcode, numbers and flags.
pub(super) fn bth(transport: &Transport<'_>, out: &mut dyn Write) -> io::Result<()> {
    let bth = transport.bth();
    write!(out, " {} QP {} PSN {}", bth.opcode, bth.dest_qp, bth.psn)?;
    for (set, name) in
        [(bth.ack_req, "A"), (bth.solicited, "SE"), (bth.fecn, "FECN"), (bth.becn, "BECN")]
    {
        if set {
            write!(out, " {name}")?;
        }
    }
    Ok(())
}

pub(super) fn icrc(
    verdict: IcrcVerdict,
    diagnosis: impl FnOnce() -> Option<IcrcDiagnosis>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if !matches!(verdict, IcrcVerdict::Invalid { .. }) {
        return write!(out, " ICRC {}", icrc_word(verdict));
    }
    write!(out, " ICRC {verdict}")?;
    match diagnosis() {
        Some(diagnosis) => write!(out, ": {diagnosis}"),
        None => Ok(()),
    }
}

pub(super) fn unread(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    start(packet, since_ns, out)?;
    writeln!(out, " {text}")
}

pub(super) fn start(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match since_ns {
        Some(since) => write!(out, "{:5} {}", packet.number, Seconds(since)),
        None => write!(out, "{:5} -", packet.number),
    }
}

/// The values of the extension headers, each behind its name.
pub(super) struct Headers<'f, 'a>(pub(super) &'f Transport<'a>);

impl fmt::Display for Headers<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
