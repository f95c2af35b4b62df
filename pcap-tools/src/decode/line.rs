//! One line a packet.

use std::fmt;
use std::io::{self, Write};

use roce_codec::Frame;
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::Ecn;

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
    let bth = frame.bth();
    write!(
        out,
        " {} > {} {} QP {} PSN {}",
        frame.src(),
        frame.dst(),
        bth.opcode,
        bth.dest_qp,
        bth.psn
    )?;
    for (set, name) in
        [(bth.ack_req, "A"), (bth.solicited, "SE"), (bth.fecn, "FECN"), (bth.becn, "BECN")]
    {
        if set {
            write!(out, " {name}")?;
        }
    }
    if Ecn::of_traffic_class(frame.traffic_class()) == Ecn::Ce {
        write!(out, " CE")?;
    }
    write!(out, "{}", Headers(frame))?;
    if frame.info().payload {
        write!(out, " len={}", frame.payload_len())?;
    }
    match frame.verify_icrc() {
        verdict @ IcrcVerdict::Invalid { .. } => {
            write!(out, " ICRC {verdict}")?;
            if let Some(diagnosis) = frame.diagnose_icrc() {
                write!(out, ": {diagnosis}")?;
            }
            writeln!(out)
        }
        verdict => writeln!(out, " ICRC {}", icrc_word(verdict)),
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

fn start(packet: &Packet<'_>, since_ns: Option<u64>, out: &mut dyn Write) -> io::Result<()> {
    match since_ns {
        Some(since) => write!(out, "{:5} {}", packet.number, Seconds(since)),
        None => write!(out, "{:5} -", packet.number),
    }
}

/// The values of the extension headers, each behind its name.
struct Headers<'f, 'a>(&'f Frame<'a>);

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
