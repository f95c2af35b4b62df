//! NVMe over Fabrics.

use super::field;
use crate::field::value::{id, named, number};
use crate::field::{Field, Value};
use crate::upper::nvme::{Command, Kind, Sgl};

fn key(value: impl Into<u64>, digits: usize) -> Value<'static> {
    Value::Key(value.into(), digits)
}

fn opcode(kind: Kind) -> Value<'static> {
    // The opcode of every Fabrics command; which one it is, its type says.
    match kind {
        Kind { fctype: Some(_), opcode, .. } => named(opcode, "Fabrics"),
        Kind { opcode, .. } => named(opcode, kind),
    }
}

/// Dwords 10 to 15, by their place.
fn dword(command: &Command, place: usize) -> Option<Value<'static>> {
    command.dwords.get(place).map(|dword| id(*dword, 8))
}

fn sgl_kind(sgl: Sgl) -> Value<'static> {
    match sgl.kind {
        0 => named(sgl.kind, "data block"),
        4 => named(sgl.kind, "keyed data block"),
        5 => named(sgl.kind, "transport data block"),
        kind => number(kind),
    }
}

pub(in crate::field) static NVME_CM: &[Field] = &[
    field!(NvmeRequest: "nvme-rdma.cm.req.recfmt", "Record format", Number, m =>
        Some(number(m.format))),
    field!(NvmeRequest: "nvme-rdma.cm.req.qid", "Queue ID", Number, m => Some(number(m.queue_id))),
    field!(NvmeRequest: "nvme-rdma.cm.req.hrqsize", "Host receive queue size", Number, m =>
        Some(number(m.host_receive_size))),
    field!(NvmeRequest: "nvme-rdma.cm.req.hsqsize", "Host send queue size", Number, m =>
        Some(number(m.host_send_size))),
    field!(NvmeRequest: "nvme-rdma.cm.req.cntlid", "Controller ID", Number, m =>
        Some(number(m.controller_id))),
    field!(NvmeAccept: "nvme-rdma.cm.rsp.recfmt", "Record format", Number, m =>
        Some(number(m.format))),
    field!(NvmeAccept: "nvme-rdma.cm.rsp.crqsize", "Controller receive queue size", Number, m =>
        Some(number(m.controller_receive_size))),
    field!(NvmeReject: "nvme-rdma.cm.rej.recfmt", "Record format", Number, m =>
        Some(number(m.format))),
    field!(NvmeReject: "nvme-rdma.cm.rej.status", "Status", Named, m =>
    Some(match m.status_name() {
        Some(name) => named(m.status, name),
        None => number(m.status),
    })),
];

pub(in crate::field) static NVME_COMMAND: &[Field] = &[
    field!(NvmeCommand: "nvme.cmd.opc", "Opcode", Named, m => Some(opcode(m.kind))),
    field!(NvmeCommand: "nvme.cmd.fuse_op", "Fused operation", Number, m => Some(number(m.fused))),
    field!(NvmeCommand: "nvme.cmd.psdt", "PRP or SGL", Number, m => Some(number(m.psdt))),
    field!(NvmeCommand: "nvme.cmd.cid", "Command ID", Number, m => Some(id(m.cid.into(), 4))),
    field!(NvmeCommand: "nvme.cmd.nsid", "Namespace ID", Number, m => m.nsid.map(number)),
    field!(NvmeCommand: "nvme.fabrics.cmd.fctype", "Fabrics command type", Named, m =>
        m.kind.fctype.map(|fctype| named(fctype, m.kind))),
    field!(NvmeCommand: "nvme.fabrics.cmd.connect.qid", "Connect: queue ID", Number, m =>
        m.connect().map(|(queue, _)| number(queue))),
    field!(NvmeCommand: "nvme.fabrics.cmd.connect.sqsize", "Connect: submission queue size",
        Number, m => m.connect().map(|(_, size)| number(size))),
    field!(NvmeCommand: "nvme.fabrics.cmd.connect.kato", "Connect: keep-alive timeout in ms",
        Number, m => m.keep_alive_ms().map(number)),
    field!(NvmeCommand: "nvme.fabrics.cmd.prop_get_set.offset", "Property's offset", Number, m =>
        m.property().map(|offset| id(offset, 2))),
    field!(NvmeCommand: "nvme.cmd.sgl.type", "SGL: descriptor type", Named, m =>
        Some(sgl_kind(m.sgl))),
    field!(NvmeCommand: "nvme.cmd.sgl.subtype", "SGL: descriptor subtype", Number, m =>
        Some(number(m.sgl.subtype))),
    field!(NvmeCommand: "nvme.cmd.sgl1.addr", "SGL: address", Key, m =>
        Some(key(m.sgl.address, 16))),
    field!(NvmeCommand: "nvme.cmd.sgl1.len", "SGL: length", Number, m => Some(number(m.sgl.length))),
    field!(NvmeCommand: "nvme.cmd.sgl1.key", "SGL: key", Key, m =>
        m.sgl.key.map(|value| key(value, 8))),
    field!(NvmeCommand: "nvme.cmd.slba", "First logical block", Key, m =>
        m.blocks().map(|(first, _)| key(first, 16))),
    field!(NvmeCommand: "nvme.cmd.nlb", "Logical blocks", Number, m =>
        m.blocks().map(|(_, count)| number(count))),
    field!(NvmeCommand: "nvme.cmd.dword10", "Dword 10", Number, m => dword(m, 0)),
    field!(NvmeCommand: "nvme.cmd.dword11", "Dword 11", Number, m => dword(m, 1)),
    field!(NvmeCommand: "nvme.cmd.dword12", "Dword 12", Number, m => dword(m, 2)),
    field!(NvmeCommand: "nvme.cmd.dword13", "Dword 13", Number, m => dword(m, 3)),
    field!(NvmeCommand: "nvme.cmd.dword14", "Dword 14", Number, m => dword(m, 4)),
    field!(NvmeCommand: "nvme.cmd.dword15", "Dword 15", Number, m => dword(m, 5)),
];

pub(in crate::field) static NVME_COMPLETION: &[Field] = &[
    field!(NvmeCompletion: "nvme.cqe.command", "Answers", Text, m =>
        m.command.map(|command| Value::Text(command.to_string().into()))),
    field!(NvmeCompletion: "nvme.cqe.dword0", "Dword 0", Number, m => Some(id(m.dwords[0], 8))),
    field!(NvmeCompletion: "nvme.cqe.dword1", "Dword 1", Number, m => Some(id(m.dwords[1], 8))),
    field!(NvmeCompletion: "nvme.cqe.sqhd", "SQ head pointer", Number, m =>
        Some(number(m.sq_head))),
    field!(NvmeCompletion: "nvme.cqe.sqid", "SQ identifier", Number, m => Some(number(m.sq_id))),
    field!(NvmeCompletion: "nvme.cqe.cid", "Command ID", Number, m => Some(id(m.cid.into(), 4))),
    field!(NvmeCompletion: "nvme.cqe.status", "Status", Named, m =>
    Some(match m.status_name() {
        Some(name) => named(m.status, name),
        None => id(m.status.into(), 4),
    })),
    field!(NvmeCompletion: "nvme.cqe.status.sc", "Status code", Number, m =>
        Some(id(m.status_code.into(), 2))),
    field!(NvmeCompletion: "nvme.cqe.status.sct", "Status code type", Number, m =>
        Some(number(m.status_type))),
    field!(NvmeCompletion: "nvme.cqe.status.crd", "Command retry delay", Number, m =>
        Some(number(m.retry_delay))),
    field!(NvmeCompletion: "nvme.cqe.status.m", "More", Flag, m => Some(Value::Flag(m.more))),
    field!(NvmeCompletion: "nvme.cqe.status.dnr", "Do not retry", Flag, m =>
        Some(Value::Flag(m.do_not_retry))),
];
