//! Every field of every header, one a line.

use std::fmt::Display;
use std::io::{self, Write};

use roce_codec::Frame;
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::{Ecn, Ip};

use super::icrc_word;
use crate::capture::{Direction, Packet};
use crate::json::Seconds;

/// Payload bytes shown.
const SHOWN: usize = 64;

/// Writes lines, headings flush and fields indented.
struct Tree<'w>(&'w mut dyn Write);

impl Tree<'_> {
    fn heading(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.0, "{text}")
    }

    fn field(&mut self, name: &str, value: impl Display) -> io::Result<()> {
        writeln!(self.0, "    {name}: {value}")
    }
}

pub(super) fn roce(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &Frame<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut tree = Tree(out);
    captured(&mut tree, packet, since_ns)?;
    outer(&mut tree, frame)?;
    bth(&mut tree, frame)?;
    extension_headers(&mut tree, frame)?;
    payload(&mut tree, frame)?;
    icrc(&mut tree, frame)?;
    writeln!(tree.0)
}

fn captured(tree: &mut Tree<'_>, packet: &Packet<'_>, since_ns: Option<u64>) -> io::Result<()> {
    let (len, captured) = (packet.orig_len, packet.data.len());
    tree.heading(format_args!(
        "Frame {}: {len} bytes on the wire, {captured} captured",
        packet.number
    ))?;
    if let Some(time) = packet.timestamp_ns {
        tree.field("Time since 1970", Seconds(time))?;
    }
    if let Some(since) = since_ns {
        tree.field("Time since the first packet", Seconds(since))?;
    }
    tree.field("Interface", packet.interface)?;
    match packet.direction {
        Some(Direction::Inbound) => tree.field("Direction", "inbound"),
        Some(Direction::Outbound) => tree.field("Direction", "outbound"),
        None => Ok(()),
    }
}

fn outer(tree: &mut Tree<'_>, frame: &Frame<'_>) -> io::Result<()> {
    if let Some(ethernet) = frame.ethernet() {
        tree.heading(format_args!("Ethernet, {} > {}", ethernet.src, ethernet.dst))?;
        for tag in ethernet.vlans.iter() {
            let (vid, pcp) = (tag.vid(), tag.pcp());
            tree.field("VLAN", format_args!("{vid}, priority {pcp}"))?;
        }
    }
    match frame.ip() {
        Ip::V4(ip) => {
            tree.heading(format_args!("IPv4, {} > {}", ip.src, ip.dst))?;
            tree.field("DSCP", ip.dscp_ecn >> 2)?;
            tree.field("ECN", ecn(ip.dscp_ecn))?;
            tree.field("Total length", ip.total_len)?;
            tree.field("Identification", format_args!("{:#06x}", ip.identification))?;
            tree.field("Flags and offset", format_args!("{:#06x}", ip.flags_fragment))?;
            tree.field("Time to live", ip.ttl)?;
            tree.field("Header checksum", format_args!("{:#06x}", ip.checksum))?;
        }
        Ip::V6(ip) => {
            tree.heading(format_args!("IPv6, {} > {}", ip.src, ip.dst))?;
            tree.field("DSCP", ip.traffic_class >> 2)?;
            tree.field("ECN", ecn(ip.traffic_class))?;
            tree.field("Flow label", format_args!("{:#07x}", ip.flow_label))?;
            tree.field("Payload length", ip.payload_len)?;
            tree.field("Hop limit", ip.hop_limit)?;
        }
    }
    let udp = frame.udp();
    tree.heading(format_args!("UDP, port {} > {}", udp.src_port, udp.dst_port))?;
    tree.field("Length", udp.length)?;
    tree.field("Checksum", format_args!("{:#06x}", udp.checksum))
}

fn ecn(traffic_class: u8) -> &'static str {
    match Ecn::of_traffic_class(traffic_class) {
        Ecn::NotEct => "not ECN-capable",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ce => "congestion experienced",
    }
}

fn bth(tree: &mut Tree<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let bth = frame.bth();
    tree.heading("Base transport header")?;
    tree.field("Opcode", format_args!("{} ({:#04x})", bth.opcode, bth.opcode.0))?;
    tree.field("Solicited event", bth.solicited)?;
    tree.field("MigReq", bth.mig_req)?;
    tree.field("Pad count", bth.pad_count)?;
    tree.field("Header version", bth.version)?;
    tree.field("Partition key", format_args!("{:#06x}", bth.pkey.0))?;
    tree.field("FECN", bth.fecn)?;
    tree.field("BECN", bth.becn)?;
    tree.field("Reserved (6 bits)", format_args!("{:#04x}", bth.resv6))?;
    tree.field("Destination queue pair", bth.dest_qp)?;
    tree.field("Acknowledge request", bth.ack_req)?;
    tree.field("Reserved (7 bits)", format_args!("{:#04x}", bth.resv7))?;
    tree.field("Packet sequence number", format_args!("{} ({})", bth.psn, bth.psn.get()))
}

fn extension_headers(tree: &mut Tree<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let ext = frame.ext_headers();
    if let Some(rdeth) = ext.rdeth {
        tree.heading("RDETH")?;
        tree.field("E2E context", rdeth.ee_context)?;
    }
    if let Some(deth) = ext.deth {
        tree.heading("DETH")?;
        tree.field("Queue key", format_args!("{:#010x}", deth.qkey.0))?;
        tree.field("Source queue pair", deth.src_qp)?;
    }
    if let Some(xrceth) = ext.xrceth {
        tree.heading("XRCETH")?;
        tree.field("Shared receive queue", xrceth.srqn)?;
    }
    if let Some(feth) = ext.feth {
        tree.heading("FETH")?;
        tree.field("Placement type", feth.placement_type())?;
        tree.field("Selectivity level", feth.selectivity())?;
    }
    if let Some(reth) = ext.reth {
        tree.heading("RETH")?;
        tree.field("Virtual address", format_args!("{:#018x}", reth.va))?;
        tree.field("Remote key", format_args!("{:#010x}", reth.rkey.0))?;
        tree.field("DMA length", reth.dma_len)?;
    }
    if let Some(atomic) = ext.atomic_eth {
        tree.heading("AtomicETH")?;
        tree.field("Virtual address", format_args!("{:#018x}", atomic.va))?;
        tree.field("Remote key", format_args!("{:#010x}", atomic.rkey.0))?;
        tree.field("Swap or add data", format_args!("{:#018x}", atomic.swap_add))?;
        tree.field("Compare data", format_args!("{:#018x}", atomic.compare))?;
    }
    if let Some(aeth) = ext.aeth {
        tree.heading("AETH")?;
        tree.field("Syndrome", format_args!("{:#04x} ({})", aeth.syndrome.0, aeth.syndrome))?;
        tree.field("Message sequence number", aeth.msn.get())?;
    }
    if let Some(ack) = ext.atomic_ack_eth {
        tree.heading("AtomicAckETH")?;
        tree.field("Original remote data", format_args!("{:#018x}", ack.original))?;
    }
    if let Some(imm) = ext.imm_dt {
        tree.heading("ImmDt")?;
        tree.field("Immediate data", format_args!("{:#010x}", imm.0))?;
    }
    if let Some(ieth) = ext.ieth {
        tree.heading("IETH")?;
        tree.field("Remote key to invalidate", format_args!("{:#010x}", ieth.0.0))?;
    }
    if let Some(reserved) = ext.cnp_reserved {
        tree.heading("Reserved bytes of the CNP")?;
        tree.field("Bytes", hex(&reserved))?;
    }
    Ok(())
}

fn payload(tree: &mut Tree<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let payload = frame.payload()[0];
    if frame.payload_len() > 0 {
        tree.heading(format_args!("Payload, {} bytes", frame.payload_len()))?;
        let shown = payload.get(..SHOWN).unwrap_or(payload);
        let more = if payload.len() > shown.len() { " ..." } else { "" };
        tree.field("Bytes", format_args!("{}{more}", hex(shown)))?;
    }
    if !frame.pad().is_empty() {
        tree.field("Pad", hex(&frame.pad()))?;
    }
    Ok(())
}

fn icrc(tree: &mut Tree<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let verdict = frame.verify_icrc();
    tree.heading(format_args!("ICRC, {}", icrc_word(verdict)))?;
    tree.field("Value", hex(&frame.icrc()))?;
    if let IcrcVerdict::Invalid { expected, .. } = verdict {
        tree.field("Expected", hex(&expected))?;
        if let Some(diagnosis) = frame.diagnose_icrc() {
            tree.field("Diagnosis", diagnosis)?;
        }
    }
    let trailer = frame.trailer()[0];
    if !trailer.is_empty() {
        tree.heading(format_args!("Trailer, {} bytes", trailer.len()))?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
