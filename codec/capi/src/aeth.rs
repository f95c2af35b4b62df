//! AETH syndromes.

use roce_codec::ib::{AethKind, Credits, NakCode, RnrTimer, Syndrome};

use crate::pointer;
use crate::status::roce_status;

/// What a syndrome means.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_aeth_kind {
    /// Everything up to this PSN arrived.
    Ack = 0,
    /// Receiver not ready: try again after the timer.
    RnrNak = 1,
    /// Refused.
    Nak = 2,
    /// A reserved syndrome.
    Reserved = 3,
}

/// Why a request was refused.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_nak_code {
    /// A PSN is missing; the NAK carries the one expected.
    PsnSequenceError = 0,
    /// The request cannot be carried out as it stands.
    InvalidRequest = 1,
    /// Key, range or rights.
    RemoteAccessError = 2,
    /// The responder itself failed.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
    /// The syndrome is no NAK.
    None = 255,
}

/// `credits` of an acknowledgement that states no limit.
pub const ROCE_CREDITS_UNLIMITED: u32 = 0xffff_ffff;

/// A syndrome taken apart.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_syndrome {
    /// What it is.
    pub kind: roce_aeth_kind,
    /// NAK: the code.
    pub nak_code: roce_nak_code,
    /// ACK: messages that may be sent beyond the MSN beside it, or `ROCE_CREDITS_UNLIMITED`; else 0.
    pub credits: u32,
    /// RNR NAK: the timer code, 0 to 31; else 0.
    pub rnr_timer: u8,
    /// RNR NAK: the least time to wait, in nanoseconds; else 0.
    pub rnr_wait_ns: u64,
}

/// What `byte`, an AETH's syndrome, means.
///
/// # Safety
/// `syndrome` is NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_syndrome_read(byte: u8, syndrome: *mut roce_syndrome) -> roce_status {
    let mut value = roce_syndrome {
        kind: roce_aeth_kind::Reserved,
        nak_code: roce_nak_code::None,
        credits: 0,
        rnr_timer: 0,
        rnr_wait_ns: 0,
    };
    match Syndrome(byte).kind() {
        AethKind::Ack(credits) => {
            value.kind = roce_aeth_kind::Ack;
            value.credits = credits.count().map_or(ROCE_CREDITS_UNLIMITED, u32::from);
        }
        AethKind::RnrNak(timer) => {
            value.kind = roce_aeth_kind::RnrNak;
            value.rnr_timer = timer.code();
            value.rnr_wait_ns = timer.wait_ns();
        }
        AethKind::Nak(code) => {
            value.kind = roce_aeth_kind::Nak;
            value.nak_code = match code {
                NakCode::PsnSequenceError => roce_nak_code::PsnSequenceError,
                NakCode::InvalidRequest => roce_nak_code::InvalidRequest,
                NakCode::RemoteAccessError => roce_nak_code::RemoteAccessError,
                NakCode::RemoteOperationalError => roce_nak_code::RemoteOperationalError,
                NakCode::InvalidRdRequest => roce_nak_code::InvalidRdRequest,
            };
        }
        AethKind::Reserved => {}
    }
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::write(syndrome, value) };
    result.err().unwrap_or(roce_status::Ok)
}

/// The syndrome of an ACK that says nothing of credits.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_syndrome_ack() -> u8 {
    Syndrome::ACK.0
}

/// The syndrome of an ACK with as many credits as may be stated for `receives`, the receive work
/// requests posted and not used up.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_syndrome_ack_credits(receives: u32) -> u8 {
    Syndrome::ack(Credits::of_receives(receives)).0
}

/// The syndrome of a receiver-not-ready NAK. `timer` is a code, 0 to 31 (higher bits are dropped):
/// 0 is 655.36 ms, 1 is 10 us, 12 is 0.64 ms, 31 is 491.52 ms.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_syndrome_rnr_nak(timer: u8) -> u8 {
    Syndrome::rnr_nak(RnrTimer::new(timer)).0
}

/// The syndrome of a NAK with `code`, a `roce_nak_code`; 0xFF, which is reserved, for any other.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn roce_syndrome_nak(code: u32) -> u8 {
    match u8::try_from(code).ok().and_then(NakCode::from_code) {
        Some(code) => Syndrome::nak(code).0,
        None => 0xff,
    }
}
