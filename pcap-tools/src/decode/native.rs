//! RoCE v1 and native InfiniBand, in each style.

use std::io::{self, Write};

use roce_codec::NativeFrame;
use roce_codec::ib::{Lrh, VcrcVerdict};
use roce_codec::net::Grh;

use super::fields;
use super::line::{self, Headers};
use super::tree::{self, Tree, hex};
use crate::capture::Packet;
use crate::json::Object;

pub(super) fn line(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &NativeFrame<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    line::start(packet, since_ns, out)?;
    match (frame.lrh(), frame.grh()) {
        (Some(lrh), _) => write!(out, " InfiniBand LID {} > {}", lrh.slid.0, lrh.dlid.0)?,
        (None, Some(grh)) => write!(out, " RoCE v1 {} > {}", grh.sgid, grh.dgid)?,
        (None, None) => {}
    }
    line::bth(frame, out)?;
    write!(out, "{}", Headers(frame))?;
    if frame.info().payload {
        write!(out, " len={}", frame.payload_len())?;
    }
    line::icrc(frame.verify_icrc(), || frame.diagnose_icrc(), out)?;
    match frame.verify_vcrc() {
        VcrcVerdict::Invalid { expected, found } => write!(
            out,
            " VCRC {:04x} invalid, {:04x} expected",
            u16::from_be_bytes(found),
            u16::from_be_bytes(expected)
        )?,
        VcrcVerdict::Valid => write!(out, " VCRC valid")?,
        VcrcVerdict::Absent | VcrcVerdict::Truncated => {}
    }
    writeln!(out)
}

pub(super) fn tree(
    packet: &Packet<'_>,
    since_ns: Option<u64>,
    frame: &NativeFrame<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut tree = Tree(out);
    tree::captured(&mut tree, packet, since_ns)?;
    if let Some(ethernet) = frame.ethernet() {
        tree::ethernet(&mut tree, &ethernet)?;
    }
    if let Some(lrh) = frame.lrh() {
        lrh_tree(&mut tree, &lrh)?;
    }
    if let Some(grh) = frame.grh() {
        grh_tree(&mut tree, &grh)?;
    }
    tree::bth(&mut tree, frame)?;
    tree::extension_headers(&mut tree, frame)?;
    tree::payload(&mut tree, frame)?;
    tree::icrc(&mut tree, frame, frame.verify_icrc(), || frame.diagnose_icrc())?;
    match frame.vcrc() {
        Some(found) => {
            tree.heading(format_args!("VCRC, {}", vcrc_word(frame.verify_vcrc())))?;
            tree.field("Value", hex(&found))?;
            if let VcrcVerdict::Invalid { expected, .. } = frame.verify_vcrc() {
                tree.field("Expected", hex(&expected))?;
            }
        }
        None => tree::trailer(&mut tree, frame.trailer()[0])?,
    }
    writeln!(tree.0)
}

fn lrh_tree(tree: &mut Tree<'_>, lrh: &Lrh) -> io::Result<()> {
    tree.heading("Local route header")?;
    tree.field("Virtual lane", lrh.vl)?;
    tree.field("Link version", lrh.lver)?;
    tree.field("Service level", lrh.sl)?;
    tree.field("Link next header", lrh.lnh.bits())?;
    tree.field("Destination local ID", lrh.dlid.0)?;
    tree.field("Packet length", format_args!("{} ({} bytes)", lrh.pkt_len, 4 * lrh.pkt_len))?;
    tree.field("Source local ID", lrh.slid.0)
}

fn grh_tree(tree: &mut Tree<'_>, grh: &Grh) -> io::Result<()> {
    tree.heading(format_args!("Global route header, {} > {}", grh.sgid, grh.dgid))?;
    tree.field("Traffic class", format_args!("{:#04x}", grh.traffic_class))?;
    tree.field("Flow label", format_args!("{:#07x}", grh.flow_label))?;
    tree.field("Payload length", grh.pay_len)?;
    tree.field("Next header", format_args!("{:#04x}", grh.next_header))?;
    tree.field("Hop limit", grh.hop_limit)
}

pub(super) fn fields(
    packet: &Packet<'_>,
    frame: &NativeFrame<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut object = Object::start(out)?;
    fields::frame_fields(&mut object, packet)?;
    if let Some(ethernet) = frame.ethernet() {
        fields::ethernet_fields(&mut object, &ethernet)?;
    }
    if let Some(lrh) = frame.lrh() {
        object
            .raw("infiniband.lrh.vl", lrh.vl)?
            .raw("infiniband.lrh.lver", lrh.lver)?
            .raw("infiniband.lrh.sl", lrh.sl)?
            .raw("infiniband.lrh.lnh", lrh.lnh.bits())?
            .raw("infiniband.lrh.dlid", lrh.dlid.0)?
            .raw("infiniband.lrh.pktlen", lrh.pkt_len)?
            .raw("infiniband.lrh.slid", lrh.slid.0)?;
    }
    if let Some(grh) = frame.grh() {
        object
            .raw("infiniband.grh.tclass", grh.traffic_class)?
            .raw("infiniband.grh.flowlabel", grh.flow_label)?
            .raw("infiniband.grh.paylen", grh.pay_len)?
            .raw("infiniband.grh.nxthdr", grh.next_header)?
            .raw("infiniband.grh.hoplmt", grh.hop_limit)?
            .text("infiniband.grh.sgid", grh.sgid)?
            .text("infiniband.grh.dgid", grh.dgid)?;
    }
    fields::bth_fields(&mut object, frame)?;
    fields::ext_fields(&mut object, frame)?;
    fields::payload_fields(&mut object, frame, frame.verify_icrc(), || frame.diagnose_icrc())?;
    if let Some(found) = frame.vcrc() {
        let hex = |bytes| format!("0x{:04x}", u16::from_be_bytes(bytes));
        object.text("infiniband.variant.crc", hex(found))?;
        object.text("vcrc.status", vcrc_word(frame.verify_vcrc()))?;
    }
    object.end()?;
    out.write_all(b"\n")
}

/// A VCRC verdict in a word.
fn vcrc_word(verdict: VcrcVerdict) -> &'static str {
    match verdict {
        VcrcVerdict::Valid => "valid",
        VcrcVerdict::Invalid { .. } => "invalid",
        VcrcVerdict::Absent => "absent",
        VcrcVerdict::Truncated => "truncated",
    }
}
