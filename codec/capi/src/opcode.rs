//! The opcode table.

use core::ffi::c_char;

use roce_codec::ib::{Opcode, OpcodeClass, Operation, Position, Service};

use crate::packet::bits;
use crate::pointer;
use crate::status::roce_status;

/// Whether an opcode has a meaning.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_opcode_class {
    /// Defined by the specification.
    Known = 0,
    /// Reserved.
    Reserved = 1,
    /// Left to manufacturers (0xC0 to 0xFF).
    Manufacturer = 2,
}

/// The transport service.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
    /// None of them.
    Other = 255,
}

/// What a packet does.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_operation {
    /// SEND.
    Send = 0,
    /// RDMA WRITE.
    Write = 1,
    /// RDMA READ request.
    ReadRequest = 2,
    /// RDMA READ response; also answers FLUSH and ATOMIC WRITE.
    ReadResponse = 3,
    /// Acknowledge.
    Acknowledge = 4,
    /// Atomic acknowledge.
    AtomicAcknowledge = 5,
    /// COMPARE SWAP.
    CompareSwap = 6,
    /// FETCH ADD.
    FetchAdd = 7,
    /// RESYNC (reliable datagram).
    Resync = 8,
    /// FLUSH.
    Flush = 9,
    /// ATOMIC WRITE.
    AtomicWrite = 10,
    /// Congestion notification packet.
    Cnp = 11,
    /// Not known.
    Other = 255,
}

/// Where a packet stands in its message.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_position {
    /// First of several.
    First = 0,
    /// Neither first nor last.
    Middle = 1,
    /// Last of several.
    Last = 2,
    /// The whole message.
    Only = 3,
}

/// A row of the opcode table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_opcode_info {
    /// The name in the specification, such as `RC_RDMA_WRITE_FIRST`; NULL unless `class` is
    /// known. A constant.
    pub name: *const c_char,
    /// Whether the value has a meaning.
    pub opcode_class: roce_opcode_class,
    /// The service.
    pub service: roce_service,
    /// What the packet does.
    pub operation: roce_operation,
    /// Where it stands in its message.
    pub position: roce_position,
    /// The extension headers behind the BTH: `ROCE_HEADER_*`.
    pub headers: u16,
    /// Bytes of them together.
    pub headers_len: u8,
    /// 1 if payload may follow.
    pub payload: u8,
    /// 1 if a requester sends it.
    pub is_request: u8,
    /// 1 if a responder sends it.
    pub is_response: u8,
}

/// The row of `opcode`; every one of the 256 values has one.
///
/// # Safety
/// `info` is NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_opcode_lookup(
    opcode: u8,
    info: *mut roce_opcode_info,
) -> roce_status {
    let row = Opcode(opcode).info();
    let value = roce_opcode_info {
        name: name(opcode),
        opcode_class: match row.class {
            OpcodeClass::Known => roce_opcode_class::Known,
            OpcodeClass::Reserved => roce_opcode_class::Reserved,
            OpcodeClass::Manufacturer => roce_opcode_class::Manufacturer,
        },
        service: match row.service {
            Service::Rc => roce_service::Rc,
            Service::Uc => roce_service::Uc,
            Service::Rd => roce_service::Rd,
            Service::Ud => roce_service::Ud,
            Service::Cnp => roce_service::Cnp,
            Service::Xrc => roce_service::Xrc,
            Service::Other => roce_service::Other,
        },
        operation: match row.operation {
            Operation::Send => roce_operation::Send,
            Operation::Write => roce_operation::Write,
            Operation::ReadRequest => roce_operation::ReadRequest,
            Operation::ReadResponse => roce_operation::ReadResponse,
            Operation::Acknowledge => roce_operation::Acknowledge,
            Operation::AtomicAcknowledge => roce_operation::AtomicAcknowledge,
            Operation::CompareSwap => roce_operation::CompareSwap,
            Operation::FetchAdd => roce_operation::FetchAdd,
            Operation::Resync => roce_operation::Resync,
            Operation::Flush => roce_operation::Flush,
            Operation::AtomicWrite => roce_operation::AtomicWrite,
            Operation::Cnp => roce_operation::Cnp,
            Operation::Other => roce_operation::Other,
        },
        position: match row.position {
            Position::First => roce_position::First,
            Position::Middle => roce_position::Middle,
            Position::Last => roce_position::Last,
            Position::Only => roce_position::Only,
        },
        headers: bits(row.headers),
        headers_len: row.headers_len,
        payload: row.payload.into(),
        is_request: row.is_request().into(),
        is_response: row.is_response().into(),
    };
    // SAFETY: valid by the caller's word.
    match unsafe { pointer::write(info, value) } {
        Ok(()) => roce_status::Ok,
        Err(status) => status,
    }
}

/// Bytes of all names, each with its NUL.
const NAMES_LEN: usize = {
    let mut len = 0;
    let mut opcode: u8 = 0;
    loop {
        if let Some(name) = Opcode(opcode).name() {
            len += name.len() + 1;
        }
        if opcode == u8::MAX {
            break len;
        }
        opcode += 1;
    }
};

/// What `STARTS` has for an opcode without a name.
const NO_NAME: u16 = u16::MAX;

const _: () = assert!(NAMES_LEN < NO_NAME as usize);

/// The names, one after the other, and where each starts: C wants a NUL behind each.
const TABLE: ([u8; NAMES_LEN], [u16; 256]) = {
    let mut names = [0; NAMES_LEN];
    let mut starts = [NO_NAME; 256];
    let mut at = 0_u16;
    let mut opcode: u8 = 0;
    loop {
        if let Some(name) = Opcode(opcode).name() {
            starts[opcode as usize] = at;
            let name = name.as_bytes();
            let mut index = 0;
            while index < name.len() {
                names[at as usize] = name[index];
                at += 1;
                index += 1;
            }
            at += 1;
        }
        if opcode == u8::MAX {
            break (names, starts);
        }
        opcode += 1;
    }
};
static NAMES: [u8; NAMES_LEN] = TABLE.0;
static STARTS: [u16; 256] = TABLE.1;

fn name(opcode: u8) -> *const c_char {
    match NAMES.get(usize::from(STARTS[usize::from(opcode)])..) {
        Some(name) => name.as_ptr().cast(),
        None => pointer::no_string(),
    }
}
