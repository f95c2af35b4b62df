//! The extension headers of the transport.

use roce_codec::ib::{AethKind, HeaderKind};

use super::value::{id, named, number};
use super::{Field, Kind, Row, Shown, Value};

fn key(value: impl Into<u64>, digits: usize) -> Value<'static> {
    Value::Key(value.into(), digits)
}

pub(super) static RDETH: &[Field] =
    &[Field::new("infiniband.rdeth.eecnxt", "E2E context", Kind::Number, |row| {
        Some(id(row.transport()?.rdeth()?.eecn.get(), 6))
    })];

pub(super) static DETH: &[Field] = &[
    Field::new("infiniband.deth.q_key", "Queue key", Kind::Key, |row| {
        Some(key(row.transport()?.deth()?.qkey.0, 8))
    })
    .short("qkey"),
    Field::new("infiniband.deth.srcqp", "Source queue pair", Kind::Number, |row| {
        Some(id(row.transport()?.deth()?.src_qp.get(), 6))
    })
    .short("sqpn"),
];

pub(super) static XRCETH: &[Field] =
    &[Field::new("infiniband.xrceth.xrcsrq", "Shared receive queue", Kind::Number, |row| {
        Some(id(row.transport()?.xrceth()?.srqn.get(), 6))
    })
    .short("srqn")];

pub(super) static FETH: &[Field] = &[
    Field::new("infiniband.feth.plt", "Placement type", Kind::Number, |row| {
        Some(number(row.transport()?.feth()?.placement_type()))
    })
    .short("plt"),
    Field::new("infiniband.feth.sel", "Selectivity level", Kind::Number, |row| {
        Some(number(row.transport()?.feth()?.selectivity()))
    })
    .short("sel"),
];

/// Address and key: the AtomicETH begins with the same, under the same names.
fn memory(row: &Row<'_>) -> Option<(u64, u32)> {
    let transport = row.transport()?;
    match (transport.reth(), transport.atomic_eth()) {
        (Some(reth), _) => Some((reth.va, reth.rkey.0)),
        (None, Some(atomic)) => Some((atomic.va, atomic.rkey.0)),
        (None, None) => None,
    }
}

pub(super) static RETH: &[Field] = &[
    Field::new("infiniband.reth.va", "Virtual address", Kind::Key, |row| {
        Some(key(memory(row)?.0, 16))
    })
    .short("va"),
    Field::new("infiniband.reth.r_key", "Remote key", Kind::Key, |row| {
        Some(key(memory(row)?.1, 8))
    })
    .short("rkey"),
    Field::new("infiniband.reth.dmalen", "DMA length", Kind::Number, |row| {
        Some(number(row.transport()?.reth()?.dma_len))
    })
    .short("dmalen"),
];

pub(super) static ATOMIC_ETH: &[Field] = &[
    Field::new("infiniband.atomiceth.swapdt", "Swap or add data", Kind::Key, |row| {
        Some(key(row.transport()?.atomic_eth()?.swap_add, 16))
    })
    .short("swapdt"),
    Field::new("infiniband.atomiceth.cmpdt", "Compare data", Kind::Key, |row| {
        Some(key(row.transport()?.atomic_eth()?.compare, 16))
    })
    .short("cmpdt"),
];

const ACK_KINDS: &[&str] = &["ACK", "RNR", "NAK", "reserved"];

pub(super) static AETH: &[Field] = &[
    Field::new("infiniband.aeth.syndrome", "Syndrome", Kind::Named, |row| {
        let syndrome = row.transport()?.aeth()?.syndrome;
        Some(named(syndrome.0, syndrome))
    }),
    Field::new("syndrome", "Syndrome in words", Kind::Text, |row| {
        let syndrome = row.transport()?.aeth()?.syndrome;
        Some(Value::Text(syndrome.to_string().into()))
    })
    .shown(Shown::Json),
    Field::new("ack", "Kind of acknowledgement", Kind::Word(ACK_KINDS), |row| {
        let place = match row.transport()?.aeth()?.syndrome.kind() {
            AethKind::Ack(_) => 0,
            AethKind::RnrNak(_) => 1,
            AethKind::Nak(_) => 2,
            _ => 3,
        };
        Some(Value::Word(ACK_KINDS, place))
    })
    .shown(Shown::Asked),
    Field::new("infiniband.aeth.msn", "Message sequence number", Kind::Number, |row| {
        Some(number(row.transport()?.aeth()?.msn.get()))
    })
    .short("msn"),
];

pub(super) static ATOMIC_ACK_ETH: &[Field] =
    &[Field::new("infiniband.atomicacketh.origremdt", "Original remote data", Kind::Key, |row| {
        Some(key(row.transport()?.atomic_ack_eth()?.original, 16))
    })
    .short("origremdt")];

pub(super) static IMM_DT: &[Field] =
    &[Field::new("infiniband.immdt", "Immediate data", Kind::Key, |row| {
        Some(key(row.transport()?.imm_dt()?.0, 8))
    })
    .short("imm")];

pub(super) static IETH: &[Field] =
    &[Field::new("infiniband.ieth", "Remote key to invalidate", Kind::Key, |row| {
        Some(key(row.transport()?.ieth()?.0.0, 8))
    })
    .short("invalidate")];

pub(super) static CNP: &[Field] = &[Field::new("cnp.reserved", "Bytes", Kind::Bytes, |row| {
    row.transport()?.ext(HeaderKind::CnpReserved).map(Value::Bytes)
})
.shown(Shown::Tree)];
