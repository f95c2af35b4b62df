//! One JSON object a packet, under the field names of Wireshark where it has one.
//!
//! Numbers of up to 32 bits are numbers; keys, addresses and 64-bit values are strings in
//! hexadecimal, since many JSON readers keep only 53 bits.

use std::io::{self, Write};

use roce_codec::Frame;
use roce_codec::icrc::IcrcVerdict;
use roce_codec::net::Ip;

use super::icrc_word;
use crate::capture::Packet;
use crate::json::{Object, Seconds};

pub(super) fn unread(packet: &Packet<'_>, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::start(out)?;
    frame_fields(&mut object, packet)?;
    object.text("error", text)?;
    object.end()?;
    out.write_all(b"\n")
}

pub(super) fn roce(packet: &Packet<'_>, frame: &Frame<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::start(out)?;
    frame_fields(&mut object, packet)?;
    ip_fields(&mut object, frame)?;
    bth_fields(&mut object, frame)?;
    ext_fields(&mut object, frame)?;
    object.raw("payload.len", frame.payload_len())?;
    let hex = |bytes| format!("0x{:08x}", u32::from_be_bytes(bytes));
    object.text("infiniband.invariant.crc", hex(frame.icrc()))?;
    let verdict = frame.verify_icrc();
    object.text("icrc.status", icrc_word(verdict))?;
    if let IcrcVerdict::Invalid { expected, .. } = verdict {
        object.text("icrc.expected", hex(expected))?;
        if let Some(diagnosis) = frame.diagnose_icrc() {
            object.text("icrc.diagnosis", diagnosis)?;
        }
    }
    object.end()?;
    out.write_all(b"\n")
}

fn frame_fields(object: &mut Object<'_>, packet: &Packet<'_>) -> io::Result<()> {
    object
        .raw("frame.number", packet.number)?
        .option("frame.time_epoch", packet.timestamp_ns.map(Seconds))?
        .raw("frame.len", packet.orig_len)?
        .raw("frame.cap_len", packet.data.len())?;
    Ok(())
}

fn ip_fields(object: &mut Object<'_>, frame: &Frame<'_>) -> io::Result<()> {
    if let Some(ethernet) = frame.ethernet() {
        object.text("eth.src", ethernet.src)?.text("eth.dst", ethernet.dst)?;
        if let Some(tag) = ethernet.vlans.iter().last() {
            object.raw("vlan.id", tag.vid())?.raw("vlan.priority", tag.pcp())?;
        }
    }
    match frame.ip() {
        Ip::V4(ip) => {
            object
                .text("ip.src", ip.src)?
                .text("ip.dst", ip.dst)?
                .raw("ip.dsfield.dscp", ip.dscp_ecn >> 2)?
                .raw("ip.dsfield.ecn", ip.dscp_ecn & 3)?
                .raw("ip.id", ip.identification)?
                .raw("ip.ttl", ip.ttl)?;
        }
        Ip::V6(ip) => {
            object
                .text("ipv6.src", ip.src)?
                .text("ipv6.dst", ip.dst)?
                .raw("ipv6.tclass.dscp", ip.traffic_class >> 2)?
                .raw("ipv6.tclass.ecn", ip.traffic_class & 3)?
                .raw("ipv6.flow", ip.flow_label)?
                .raw("ipv6.hlim", ip.hop_limit)?;
        }
    }
    let udp = frame.udp();
    object
        .raw("udp.srcport", udp.src_port)?
        .raw("udp.dstport", udp.dst_port)?
        .raw("udp.length", udp.length)?;
    Ok(())
}

fn bth_fields(object: &mut Object<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let bth = frame.bth();
    object
        .raw("infiniband.bth.opcode", bth.opcode.0)?
        .text("opcode", bth.opcode)?
        .raw("infiniband.bth.se", bth.solicited)?
        .raw("infiniband.bth.m", bth.mig_req)?
        .raw("infiniband.bth.padcnt", bth.pad_count)?
        .raw("infiniband.bth.tver", bth.version)?
        .raw("infiniband.bth.p_key", bth.pkey.0)?
        .raw("infiniband.bth.fecn", bth.fecn)?
        .raw("infiniband.bth.becn", bth.becn)?
        .raw("infiniband.bth.destqp", bth.dest_qp.get())?
        .raw("infiniband.bth.a", bth.ack_req)?
        .raw("infiniband.bth.psn", bth.psn.get())?;
    Ok(())
}

fn ext_fields(object: &mut Object<'_>, frame: &Frame<'_>) -> io::Result<()> {
    let ext = frame.ext_headers();
    if let Some(rdeth) = ext.rdeth {
        object.raw("infiniband.rdeth.eecnxt", rdeth.ee_context.get())?;
    }
    if let Some(deth) = ext.deth {
        object
            .text("infiniband.deth.q_key", format_args!("{:#010x}", deth.qkey.0))?
            .raw("infiniband.deth.srcqp", deth.src_qp.get())?;
    }
    if let Some(xrceth) = ext.xrceth {
        object.raw("infiniband.xrceth.xrcsrq", xrceth.srqn.get())?;
    }
    if let Some(feth) = ext.feth {
        object
            .raw("infiniband.feth.plt", feth.placement_type())?
            .raw("infiniband.feth.sel", feth.selectivity())?;
    }
    if let Some(reth) = ext.reth {
        object
            .text("infiniband.reth.va", format_args!("{:#018x}", reth.va))?
            .text("infiniband.reth.r_key", format_args!("{:#010x}", reth.rkey.0))?
            .raw("infiniband.reth.dmalen", reth.dma_len)?;
    }
    if let Some(atomic) = ext.atomic_eth {
        object
            .text("infiniband.reth.va", format_args!("{:#018x}", atomic.va))?
            .text("infiniband.reth.r_key", format_args!("{:#010x}", atomic.rkey.0))?
            .text("infiniband.atomiceth.swapdt", format_args!("{:#018x}", atomic.swap_add))?
            .text("infiniband.atomiceth.cmpdt", format_args!("{:#018x}", atomic.compare))?;
    }
    if let Some(aeth) = ext.aeth {
        object
            .raw("infiniband.aeth.syndrome", aeth.syndrome.0)?
            .text("syndrome", aeth.syndrome)?
            .raw("infiniband.aeth.msn", aeth.msn.get())?;
    }
    if let Some(ack) = ext.atomic_ack_eth {
        let original = format_args!("{:#018x}", ack.original);
        object.text("infiniband.atomicacketh.origremdt", original)?;
    }
    if let Some(imm) = ext.imm_dt {
        object.text("infiniband.immdt", format_args!("{:#010x}", imm.0))?;
    }
    if let Some(ieth) = ext.ieth {
        object.text("infiniband.ieth", format_args!("{:#010x}", ieth.0.0))?;
    }
    Ok(())
}
