//! SMB Direct and SMB2.

use super::field;
use crate::field::value::{id, named, number};
use crate::field::{Field, Value};
use crate::upper::{Smb2, SmbDirect};

/// A 16-bit number that several of the messages have.
fn sizes(message: &SmbDirect) -> Option<[u32; 3]> {
    match *message {
        SmbDirect::NegotiateRequest {
            preferred_send_size,
            max_receive_size,
            max_fragmented_size,
            ..
        }
        | SmbDirect::NegotiateResponse {
            preferred_send_size,
            max_receive_size,
            max_fragmented_size,
            ..
        } => Some([preferred_send_size, max_receive_size, max_fragmented_size]),
        SmbDirect::Data { .. } => None,
    }
}

fn versions(message: &SmbDirect) -> Option<[u16; 2]> {
    match *message {
        SmbDirect::NegotiateRequest { min_version, max_version, .. }
        | SmbDirect::NegotiateResponse { min_version, max_version, .. } => {
            Some([min_version, max_version])
        }
        SmbDirect::Data { .. } => None,
    }
}

fn requested(message: &SmbDirect) -> u16 {
    match *message {
        SmbDirect::NegotiateRequest { credits_requested, .. }
        | SmbDirect::NegotiateResponse { credits_requested, .. }
        | SmbDirect::Data { credits_requested, .. } => credits_requested,
    }
}

fn granted(message: &SmbDirect) -> Option<u16> {
    match *message {
        SmbDirect::NegotiateRequest { .. } => None,
        SmbDirect::NegotiateResponse { credits_granted, .. }
        | SmbDirect::Data { credits_granted, .. } => Some(credits_granted),
    }
}

fn smb2(message: &SmbDirect) -> Option<&Smb2> {
    match message {
        SmbDirect::Data { smb2, .. } => smb2.as_ref(),
        _ => None,
    }
}

fn name(message: &SmbDirect) -> Value<'static> {
    let name = match message {
        SmbDirect::NegotiateRequest { .. } => "Negotiate Request",
        SmbDirect::NegotiateResponse { .. } => "Negotiate Response",
        SmbDirect::Data { .. } => "Data Transfer",
    };
    Value::Text(name.into())
}

pub(in crate::field) static SMB_DIRECT: &[Field] = &[
    field!(SmbDirect: "smb_direct.message", "Message", Text, m => Some(name(m))),
    field!(SmbDirect: "smb_direct.version.min", "Lowest version", Number, m =>
        Some(id(versions(m)?[0].into(), 4))),
    field!(SmbDirect: "smb_direct.version.max", "Highest version", Number, m =>
        Some(id(versions(m)?[1].into(), 4))),
    field!(SmbDirect: "smb_direct.version.negotiated", "Version chosen", Number, m => match *m {
        SmbDirect::NegotiateResponse { negotiated_version, .. } => {
            Some(id(negotiated_version.into(), 4))
        }
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.credits.requested", "Credits requested", Number, m =>
        Some(number(requested(m)))),
    field!(SmbDirect: "smb_direct.credits.granted", "Credits granted", Number, m =>
        granted(m).map(number)),
    field!(SmbDirect: "smb_direct.status", "Status", Number, m => match *m {
        SmbDirect::NegotiateResponse { status, .. } => Some(id(status, 8)),
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.max_read_write_size", "Most bytes of an RDMA transfer", Number,
    m => match *m {
        SmbDirect::NegotiateResponse { max_read_write_size, .. } => {
            Some(number(max_read_write_size))
        }
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.preferred_send_size", "Preferred send size", Number, m =>
        Some(number(sizes(m)?[0]))),
    field!(SmbDirect: "smb_direct.max_receive_size", "Most bytes received at once", Number, m =>
        Some(number(sizes(m)?[1]))),
    field!(SmbDirect: "smb_direct.max_fragmented_size", "Most bytes put together", Number, m =>
        Some(number(sizes(m)?[2]))),
    field!(SmbDirect: "smb_direct.flags", "Flags", Number, m => match *m {
        SmbDirect::Data { flags, .. } => Some(id(flags.into(), 4)),
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.remaining_length", "Bytes that follow", Number, m => match *m {
        SmbDirect::Data { remaining_len, .. } => Some(number(remaining_len)),
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.data_offset", "Data offset", Number, m => match *m {
        SmbDirect::Data { data_offset, .. } => Some(number(data_offset)),
        _ => None,
    }),
    field!(SmbDirect: "smb_direct.data_length", "Data length", Number, m => match *m {
        SmbDirect::Data { data_len, .. } => Some(number(data_len)),
        _ => None,
    }),
    field!(SmbDirect: "smb2.cmd", "SMB2 command", Named, m => {
        let smb2 = smb2(m)?;
        Some(match smb2.name() {
            Some(name) => named(smb2.command, name),
            None => number(smb2.command),
        })
    }),
    field!(SmbDirect: "smb2.flags.response", "SMB2 response", Flag, m =>
        Some(Value::Flag(smb2(m)?.is_response))),
    field!(SmbDirect: "smb2.nt_status", "SMB2 status", Number, m => {
        let smb2 = smb2(m)?;
        smb2.is_response.then(|| id(smb2.status, 8))
    }),
    field!(SmbDirect: "smb2.msg_id", "SMB2 message ID", Key, m =>
        Some(Value::Key(smb2(m)?.message_id, 16))),
];
