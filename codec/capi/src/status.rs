//! What a call came to, and why.

use core::ffi::c_char;

use roce_codec::ib::HeaderKind;
use roce_codec::{EmitError, Layer, ParseError};

use crate::pointer;

/// What a call came to. Everything but `ROCE_STATUS_OK` leaves the outputs as they were, except
/// where a function says otherwise.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_status {
    /// Done.
    Ok = 0,
    /// A pointer that must not be NULL is.
    NullPointer = 1,
    /// A value that is none of those a field or parameter may have, a misaligned structure, or a
    /// length above `PTRDIFF_MAX`.
    BadArgument = 2,
    /// Two buffers that must lie apart share bytes.
    Overlap = 3,
    /// The bytes end before a layer does: `layer`, `needed`, `available`.
    Truncated = 16,
    /// Well-formed, but another protocol: `layer`, and `found`, its EtherType, IP version or
    /// protocol, or UDP port.
    NotRoce = 17,
    /// An IPv4 header with options, which RoCEv2 forbids.
    Ipv4Options = 18,
    /// An IPv4 header whose length field is below 20 bytes.
    Ipv4HeaderLength = 19,
    /// An IPv6 extension header where UDP belongs: `found`.
    Ipv6Extension = 20,
    /// An IP fragment.
    Fragment = 21,
    /// More than three VLAN tags.
    TooManyVlanTags = 22,
    /// A length field contradicts another: `layer`, `needed` (what it would have to be, or be at
    /// least), `available` (what it says).
    Length = 23,
    /// A MAD that is none of the messages of `roce_cm_kind`: `found`, its attribute, if that is why.
    NotCm = 24,
    /// Not a RoCEv2 frame for a reason that this version of the interface has no name for.
    Unparsable = 31,
    /// The output buffer is too short: `needed`, `available`.
    NoRoom = 32,
    /// The opcode calls for a header whose bit in `present` is not set: `layer`.
    MissingHeader = 33,
    /// The packet would be longer than IP can carry: `needed`.
    TooLong = 34,
    /// Not to be written for a reason that this version of the interface has no name for.
    Unwritable = 47,
    /// The packet is no request that this answer belongs to.
    NotAnswerable = 48,
}

/// The layer that an error speaks of.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_layer {
    /// The error concerns no layer.
    None = 0,
    /// Ethernet, from the destination MAC to the last EtherType.
    Ethernet = 1,
    /// An 802.1Q or 802.1ad tag.
    Vlan = 2,
    /// IPv4.
    Ipv4 = 3,
    /// IPv6.
    Ipv6 = 4,
    /// UDP.
    Udp = 5,
    /// Base transport header.
    Bth = 6,
    /// Payload and pad.
    Payload = 7,
    /// Invariant CRC.
    Icrc = 8,
    /// Reliable datagram extended transport header.
    Rdeth = 16,
    /// Datagram extended transport header.
    Deth = 17,
    /// XRC extended transport header.
    Xrceth = 18,
    /// FLUSH extended transport header.
    Feth = 19,
    /// RDMA extended transport header.
    Reth = 20,
    /// Atomic extended transport header.
    AtomicEth = 21,
    /// Acknowledge extended transport header.
    Aeth = 22,
    /// Atomic acknowledge extended transport header.
    AtomicAckEth = 23,
    /// Immediate data.
    ImmDt = 24,
    /// Invalidate extended transport header.
    Ieth = 25,
    /// The 16 reserved bytes of a CNP.
    CnpReserved = 26,
    /// One that this version of the interface has no name for.
    Other = 255,
}

/// Why a call failed. Fields that the status does not speak of are 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_error {
    /// What the call returned.
    pub status: roce_status,
    /// The layer it speaks of.
    pub layer: roce_layer,
    /// Bytes that are needed or expected.
    pub needed: usize,
    /// Bytes that there are, or that a length field says.
    pub available: usize,
    /// The protocol selector found.
    pub found: u32,
}

impl roce_error {
    const fn new(status: roce_status, layer: roce_layer) -> Self {
        Self { status, layer, needed: 0, available: 0, found: 0 }
    }
}

impl From<roce_status> for roce_error {
    fn from(status: roce_status) -> Self {
        Self::new(status, roce_layer::None)
    }
}

impl From<ParseError> for roce_error {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Truncated { layer, needed, available } => {
                Self { needed, available, ..Self::new(roce_status::Truncated, layer.into()) }
            }
            ParseError::NotRoce { layer, found } => {
                Self { found: found.into(), ..Self::new(roce_status::NotRoce, layer.into()) }
            }
            ParseError::Ipv4Options => Self::new(roce_status::Ipv4Options, roce_layer::Ipv4),
            ParseError::Ipv4HeaderLength => {
                Self::new(roce_status::Ipv4HeaderLength, roce_layer::Ipv4)
            }
            ParseError::Ipv6Extension(number) => Self {
                found: number.into(),
                ..Self::new(roce_status::Ipv6Extension, roce_layer::Ipv6)
            },
            ParseError::Fragment => roce_status::Fragment.into(),
            ParseError::TooManyVlanTags => {
                Self::new(roce_status::TooManyVlanTags, roce_layer::Vlan)
            }
            ParseError::Length { layer, field, expected } => Self {
                needed: expected,
                available: field,
                ..Self::new(roce_status::Length, layer.into())
            },
            _ => roce_status::Unparsable.into(),
        }
    }
}

impl From<EmitError> for roce_error {
    fn from(error: EmitError) -> Self {
        match error {
            EmitError::NoRoom { needed, available } => {
                Self { needed, available, ..roce_status::NoRoom.into() }
            }
            EmitError::MissingHeader(kind) => Self::new(roce_status::MissingHeader, kind.into()),
            EmitError::TooLong(needed) => Self { needed, ..roce_status::TooLong.into() },
            _ => roce_status::Unwritable.into(),
        }
    }
}

impl From<Layer> for roce_layer {
    fn from(layer: Layer) -> Self {
        match layer {
            Layer::Ethernet => Self::Ethernet,
            Layer::Vlan => Self::Vlan,
            Layer::Ipv4 => Self::Ipv4,
            Layer::Ipv6 => Self::Ipv6,
            Layer::Udp => Self::Udp,
            Layer::Bth => Self::Bth,
            Layer::Ext(kind) => kind.into(),
            Layer::Payload => Self::Payload,
            Layer::Icrc => Self::Icrc,
            _ => Self::Other,
        }
    }
}

impl From<HeaderKind> for roce_layer {
    fn from(kind: HeaderKind) -> Self {
        match kind {
            HeaderKind::Rdeth => Self::Rdeth,
            HeaderKind::Deth => Self::Deth,
            HeaderKind::Xrceth => Self::Xrceth,
            HeaderKind::Feth => Self::Feth,
            HeaderKind::Reth => Self::Reth,
            HeaderKind::AtomicEth => Self::AtomicEth,
            HeaderKind::Aeth => Self::Aeth,
            HeaderKind::AtomicAckEth => Self::AtomicAckEth,
            HeaderKind::ImmDt => Self::ImmDt,
            HeaderKind::Ieth => Self::Ieth,
            HeaderKind::CnpReserved => Self::CnpReserved,
            _ => Self::Other,
        }
    }
}

/// Turns a result into what the caller gets: the status, and the reason if it wants to know.
///
/// # Safety
/// `error` is NULL or valid for writes.
pub(crate) unsafe fn report(result: Result<(), roce_error>, error: *mut roce_error) -> roce_status {
    let reason = match result {
        Ok(()) => roce_status::Ok.into(),
        Err(reason) => reason,
    };
    if error.is_null() {
        return reason.status;
    }
    // SAFETY: valid by the caller's word.
    match unsafe { pointer::write(error, reason) } {
        Ok(()) => reason.status,
        Err(status) => status,
    }
}

/// A short text for a `roce_status`, never NULL.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub extern "C" fn roce_status_text(status: u32) -> *const c_char {
    const TEXTS: [(roce_status, &core::ffi::CStr); 19] = [
        (roce_status::Ok, c"ok"),
        (roce_status::NullPointer, c"null pointer"),
        (roce_status::BadArgument, c"bad argument"),
        (roce_status::Overlap, c"buffers overlap"),
        (roce_status::Truncated, c"truncated"),
        (roce_status::NotRoce, c"not RoCEv2"),
        (roce_status::Ipv4Options, c"IPv4 options"),
        (roce_status::Ipv4HeaderLength, c"IPv4 header length below 20"),
        (roce_status::Ipv6Extension, c"IPv6 extension header"),
        (roce_status::Fragment, c"IP fragment"),
        (roce_status::TooManyVlanTags, c"more than three VLAN tags"),
        (roce_status::Length, c"length fields disagree"),
        (roce_status::NotCm, c"no connection manager message"),
        (roce_status::Unparsable, c"not parsable"),
        (roce_status::NoRoom, c"output buffer too short"),
        (roce_status::MissingHeader, c"header missing"),
        (roce_status::TooLong, c"too long for IP"),
        (roce_status::Unwritable, c"not writable"),
        (roce_status::NotAnswerable, c"not a request this answers"),
    ];
    let text = TEXTS.iter().find(|(named, _)| *named as u32 == status);
    pointer::c_string(text.map_or(c"unknown status", |(_, text)| text))
}
