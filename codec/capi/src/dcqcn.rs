//! DCQCN: when a receiver answers congestion marks, and what rate a sender may send at.

use core::mem::size_of;

use roce_codec::dcqcn::{NotificationPoint, Params, ReactionPoint, may_cause_cnp};
use roce_codec::net::Ecn;
use roce_codec::{FrameBuilder, ib::Opcode};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::dcqcn_params::roce_dcqcn_params;
use crate::headers::roce_packet;
use crate::pointer;
use crate::status::roce_status;

/// A receiver's side of one flow: when to send a CNP. What is in it is the library's.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub struct roce_notification_point {
    /// Do not touch.
    pub state: [u64; 2],
}

/// A sender's side of one flow: its rate. What is in it is the library's.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub struct roce_reaction_point {
    /// Do not touch.
    pub state: [u64; 11],
}

const _: () = assert!(size_of::<NotificationPoint>() <= size_of::<roce_notification_point>());
const _: () = assert!(size_of::<ReactionPoint>() <= size_of::<roce_reaction_point>());

/// `next_timeout_ns` of a flow that is not limited.
pub const ROCE_NEVER: u64 = 0xffff_ffff_ffff_ffff;

/// What a reaction point says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_rate {
    /// What the flow may send at, in bits a second.
    pub rate_bps: u64,
    /// What the rate climbs back to, in bits a second.
    pub target_rate_bps: u64,
    /// When `roce_rp_on_timeout` would next change the rate, in nanoseconds, or `ROCE_NEVER`.
    pub next_timeout_ns: u64,
    /// Increases by time since the last cut.
    pub time_stage: u16,
    /// Increases by bytes since the last cut.
    pub byte_stage: u16,
    /// 1 if the rate is below the greatest.
    pub limited: u8,
}

/// 1 if `packet`, which came for a valid queue pair, may be answered with a CNP, else 0 (also for
/// NULL): it is marked congestion experienced, and neither an ACK nor a CNP nor multicast.
///
/// # Safety
/// `packet` is NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_may_cause_cnp(packet: *const roce_packet) -> u8 {
    // SAFETY: valid by the caller's word.
    let packet = unsafe { pointer::read(packet) };
    let Ok(packet) = packet.and_then(|packet| FrameBuilder::try_from(&packet)) else { return 0 };
    let ecn = Ecn::of_traffic_class(packet.ip.traffic_class());
    let opcode: Opcode = packet.bth.opcode;
    may_cause_cnp(opcode.info(), ecn, packet.ip.dst()).into()
}

/// Makes `point` a flow that no CNP was sent for.
///
/// # Safety
/// `point` is NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_np_init(point: *mut roce_notification_point) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::write_state(point, NotificationPoint::new()) };
    result.err().unwrap_or(roce_status::Ok)
}

/// A packet of the flow has come at `now_ns` (nanoseconds of any clock); `marked` is
/// `roce_may_cause_cnp` of it. `send_cnp` becomes 1 if a CNP is to be sent now, and then counts as
/// sent, else 0.
///
/// # Safety
/// All pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_np_on_packet(
    point: *mut roce_notification_point,
    params: *const roce_dcqcn_params,
    now_ns: u64,
    marked: u8,
    send_cnp: *mut u8,
) -> roce_status {
    let on_packet = || -> Result<(), roce_status> {
        // SAFETY: valid by the caller's word.
        let params = Params::try_from(&unsafe { pointer::read(params) }?)?;
        // SAFETY: valid by the caller's word.
        let mut state: NotificationPoint = unsafe { pointer::read_state(point) }?;
        let sends = state.on_packet(&params, now_ns, marked != 0);
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write(send_cnp, u8::from(sends)) }?;
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write_state(point, state) }
    };
    on_packet().err().unwrap_or(roce_status::Ok)
}

/// Makes `point` a flow that has not seen congestion, on a port of `line_rate_bps` bits a second.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_init(
    point: *mut roce_reaction_point,
    params: *const roce_dcqcn_params,
    line_rate_bps: u64,
) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::read(params) }.and_then(|params| {
        let state = ReactionPoint::new(&Params::try_from(&params)?, line_rate_bps);
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write_state(point, state) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// A CNP for the flow has come.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_on_cnp(
    point: *mut roce_reaction_point,
    params: *const roce_dcqcn_params,
    now_ns: u64,
) -> roce_status {
    // SAFETY: the same contract.
    unsafe { change(point, params, |state, params| state.on_cnp(params, now_ns)) }
}

/// `bytes` of the flow were sent.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_on_bytes_sent(
    point: *mut roce_reaction_point,
    params: *const roce_dcqcn_params,
    now_ns: u64,
    bytes: u32,
) -> roce_status {
    // SAFETY: the same contract.
    unsafe { change(point, params, |state, params| state.on_bytes_sent(params, now_ns, bytes)) }
}

/// The time that `next_timeout_ns` named has come, or any other.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_on_timeout(
    point: *mut roce_reaction_point,
    params: *const roce_dcqcn_params,
    now_ns: u64,
) -> roce_status {
    // SAFETY: the same contract.
    unsafe { change(point, params, |state, params| state.on_timeout(params, now_ns)) }
}

/// What the flow may do now.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_rate(
    point: *const roce_reaction_point,
    rate: *mut roce_rate,
) -> roce_status {
    // SAFETY: valid by the caller's word.
    let state: Result<ReactionPoint, _> = unsafe { pointer::read_state(point) };
    let result = state.and_then(|state| {
        let value = roce_rate {
            rate_bps: state.rate_bps(),
            target_rate_bps: state.target_rate_bps(),
            next_timeout_ns: state.next_timeout().unwrap_or(ROCE_NEVER),
            time_stage: state.time_stage(),
            byte_stage: state.byte_stage(),
            limited: state.is_limited().into(),
        };
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write(rate, value) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// How long a packet of `bytes` takes at the present rate, in nanoseconds, to `gap_ns`: when to
/// send the next. What is rounded off is carried to the next call.
///
/// # Safety
/// Both pointers are NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_rp_gap(
    point: *mut roce_reaction_point,
    bytes: u32,
    gap_ns: *mut u64,
) -> roce_status {
    // SAFETY: valid by the caller's word.
    let state: Result<ReactionPoint, _> = unsafe { pointer::read_state(point) };
    let result = state.and_then(|mut state| {
        let gap = state.gap_ns(bytes);
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write(gap_ns, gap) }?;
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write_state(point, state) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// # Safety
/// Both pointers are NULL or valid.
unsafe fn change(
    point: *mut roce_reaction_point,
    params: *const roce_dcqcn_params,
    what: impl FnOnce(&mut ReactionPoint, &Params),
) -> roce_status {
    let changed = || -> Result<(), roce_status> {
        // SAFETY: valid by the caller's word.
        let params = Params::try_from(&unsafe { pointer::read(params) }?)?;
        // SAFETY: valid by the caller's word.
        let mut state = unsafe { pointer::read_state(point) }?;
        what(&mut state, &params);
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write_state(point, state) }
    };
    changed().err().unwrap_or(roce_status::Ok)
}
