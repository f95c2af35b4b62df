//! RPC-over-RDMA and RPC.

use super::field;
use crate::field::value::{id, named, number};
use crate::field::{Field, Kind, Value};
use crate::upper::{RpcBody, RpcRdma, UpperMessage};

pub(in crate::field) static RPC_CM: &[Field] = &[
    field!(RpcConnect: "rpcordma.cm.version", "Version", Number, m => Some(number(m.version))),
    field!(RpcConnect: "rpcordma.cm.remote_invalidation", "Remote invalidation", Flag, m =>
        Some(Value::Flag(m.remote_invalidation))),
    field!(RpcConnect: "rpcordma.cm.send_size", "Bytes sent at once", Number, m =>
        Some(number(m.send_size))),
    field!(RpcConnect: "rpcordma.cm.receive_size", "Bytes received at once", Number, m =>
        Some(number(m.receive_size))),
];

fn call(message: &RpcRdma) -> Option<(&RpcBody, [u32; 3])> {
    let body = &message.rpc.as_ref()?.body;
    match *body {
        RpcBody::Call { program, version, procedure } => {
            Some((body, [program, version, procedure]))
        }
        RpcBody::Reply { .. } => None,
    }
}

pub(in crate::field) static RPC: &[Field] = &[
    field!(RpcRdma: "rpcordma.xid", "XID", Number, m => Some(id(m.xid, 8))),
    field!(RpcRdma: "rpcordma.version", "Version", Number, m => Some(number(m.version))),
    field!(RpcRdma: "rpcordma.flow_control", "Credits", Number, m => Some(number(m.credits))),
    field!(RpcRdma: "rpcordma.msg_type", "Procedure", Named, m => Some(match m.name() {
        Some(name) => named(m.procedure, name),
        None => number(m.procedure),
    })),
    field!(RpcRdma: "rpcordma.reads_count", "Read list", Number, m => Some(number(m.chunks?.reads))),
    field!(RpcRdma: "rpcordma.writes_count", "Write list", Number, m =>
        Some(number(m.chunks?.writes))),
    field!(RpcRdma: "rpcordma.reply_count", "Segments of the reply chunk", Number, m =>
        Some(number(m.chunks?.reply))),
    field!(RpcRdma: "rpcordma.errcode", "Error", Number, m => m.error.map(number)),
    field!(RpcRdma: "rpc.xid", "RPC XID", Number, m => Some(id(m.rpc?.xid, 8))),
    field!(RpcRdma: "rpc.msgtyp", "RPC message", Named, m => Some(match m.rpc?.body {
        RpcBody::Call { .. } => named(0_u8, "call"),
        RpcBody::Reply { .. } => named(1_u8, "reply"),
    })),
    Field::new("rpc.program", "Program", Kind::Named, |row| {
        let Some(UpperMessage::RpcRdma(message)) = &row.upper()?.message else { return None };
        let (body, [program, ..]) = call(message)?;
        Some(match body.program_name() {
            Some(name) => named(program, name),
            None => number(program),
        })
    }),
    field!(RpcRdma: "rpc.programversion", "Program version", Number, m =>
        Some(number(call(m)?.1[1]))),
    field!(RpcRdma: "rpc.procedure", "Procedure of the program", Named, m => {
        let (body, [.., procedure]) = call(m)?;
        Some(match body.procedure_name() {
            Some(name) => named(procedure, name),
            None => number(procedure),
        })
    }),
    field!(RpcRdma: "rpc.replystat", "Reply", Named, m => match m.rpc?.body {
        RpcBody::Reply { accepted: true } => Some(named(0_u8, "accepted")),
        RpcBody::Reply { accepted: false } => Some(named(1_u8, "denied")),
        RpcBody::Call { .. } => None,
    }),
];
