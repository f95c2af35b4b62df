//! iSER and iSCSI.

use super::field;
use crate::field::value::{id, named, number};
use crate::field::{Field, Value};
use crate::upper::{Iscsi, Iser};

fn write(iser: &Iser) -> Option<(u32, u64)> {
    match iser {
        Iser::Control { write, .. } => *write,
        _ => None,
    }
}

fn read(iser: &Iser) -> Option<(u32, u64)> {
    match iser {
        Iser::Control { read, .. } => *read,
        _ => None,
    }
}

fn iscsi(iser: &Iser) -> Option<&Iscsi> {
    match iser {
        Iser::Control { iscsi, .. } => iscsi.as_ref(),
        _ => None,
    }
}

fn kind(iser: &Iser) -> Value<'static> {
    let (code, name): (u8, _) = match iser {
        Iser::Control { .. } => (1, "iSCSI control PDU"),
        Iser::Hello { .. } => (2, "Hello"),
        Iser::HelloReply { .. } => (3, "HelloReply"),
    };
    named(code, name)
}

pub(in crate::field) static ISER: &[Field] = &[
    field!(Iser: "iser.flags.opcode", "Opcode", Named, m => Some(kind(m))),
    field!(Iser: "iser.write_stag", "Write STag", Key, m =>
        write(m).map(|(stag, _)| Value::Key(stag.into(), 8))),
    field!(Iser: "iser.write_base_offset", "Write base offset", Key, m =>
        write(m).map(|(_, offset)| Value::Key(offset, 16))),
    field!(Iser: "iser.read_stag", "Read STag", Key, m =>
        read(m).map(|(stag, _)| Value::Key(stag.into(), 8))),
    field!(Iser: "iser.read_base_offset", "Read base offset", Key, m =>
        read(m).map(|(_, offset)| Value::Key(offset, 16))),
    field!(Iser: "iser.ird", "IRD", Number, m => match m {
        Iser::Hello { ird, .. } => Some(number(*ird)),
        _ => None,
    }),
    field!(Iser: "iser.ord", "ORD", Number, m => match m {
        Iser::HelloReply { ord, .. } => Some(number(*ord)),
        _ => None,
    }),
    field!(Iser: "iser.flags.rej", "Refused", Flag, m => match m {
        Iser::HelloReply { reject, .. } => Some(Value::Flag(*reject)),
        _ => None,
    }),
    field!(Iser: "iscsi.opcode", "iSCSI opcode", Named, m =>
        iscsi(m).map(|pdu| named(pdu.opcode, pdu.name()))),
    field!(Iser: "iscsi.I", "Immediate", Flag, m => Some(Value::Flag(iscsi(m)?.immediate))),
    field!(Iser: "iscsi.flags", "Flags", Number, m => Some(id(iscsi(m)?.flags.into(), 2))),
    field!(Iser: "iscsi.totalahslength", "Additional header length in words", Number, m =>
        Some(number(iscsi(m)?.ahs_len))),
    field!(Iser: "iscsi.datasegmentlength", "Data length", Number, m =>
        Some(number(iscsi(m)?.data_len))),
    field!(Iser: "iscsi.lun", "Logical unit", Key, m => Some(Value::Key(iscsi(m)?.lun, 16))),
    field!(Iser: "iscsi.initiatortasktag", "Initiator task tag", Number, m =>
        Some(id(iscsi(m)?.task_tag, 8))),
    field!(Iser: "iscsi.scsicommand.expecteddatatransferlength", "Bytes expected", Number, m =>
        iscsi(m)?.expected_len.map(number)),
    field!(Iser: "scsi.opcode", "SCSI opcode", Number, m =>
        Some(id(iscsi(m)?.cdb_opcode?.into(), 2))),
    field!(Iser: "iscsi.scsiresponse.response", "Response", Number, m => {
        let pdu = iscsi(m)?;
        (pdu.opcode == 0x21).then(|| number(pdu.response))
    }),
    field!(Iser: "iscsi.scsiresponse.status", "SCSI status", Number, m => {
        let pdu = iscsi(m)?;
        (pdu.opcode == 0x21).then(|| number(pdu.status))
    }),
];
