//! Putting packets together.

use roce_codec::FrameBuilder;

use crate::headers::roce_packet;
use crate::status::{report, roce_error, roce_status};
use crate::{Kernel, pointer};

/// Where a packet goes: the last arguments of every function that writes one.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    pub(crate) out: *mut u8,
    pub(crate) out_len: usize,
    pub(crate) written: *mut usize,
    pub(crate) error: *mut roce_error,
}

/// How many bytes of `packet` lie before its payload: where to put a payload that is to be sent
/// from where it is (`roce_build` with `payload` NULL).
///
/// # Safety
/// `packet` and `payload_at` are NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_payload_at(
    packet: *const roce_packet,
    payload_at: *mut usize,
) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::read(packet) }.and_then(|packet| {
        let len = FrameBuilder::try_from(&packet)?.header_len();
        // SAFETY: valid by the caller's word.
        unsafe { pointer::write(payload_at, len) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Writes `packet` with `payload` to `out`, and its length to `written`. The lengths of IP and
/// UDP, the IPv4 checksum, the pad count and the ICRC are computed; what `packet` says of them is
/// not looked at. If `payload` is NULL and `payload_len` is not 0, the payload is in `out` already,
/// at `roce_payload_at`. `written` and `error` may be NULL. On an error `out` may be partly written.
///
/// # Safety
/// `packet`, `written` and `error` are NULL or valid and do not lie in `out`; `payload` is NULL or
/// valid for `payload_len` bytes, `out` for `out_len`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_build(
    packet: *const roce_packet,
    payload: *const u8,
    payload_len: usize,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    let output = Output { out, out_len, written, error };
    // SAFETY: valid by the caller's word.
    let builder = unsafe { pointer::read(packet) }
        .and_then(|packet| FrameBuilder::try_from(&packet))
        .map_err(roce_error::from);
    // SAFETY: the same contract.
    unsafe { build(builder, payload, payload_len, output) }
}

/// As `roce_build`, with lengths, checksum and pad count written as `packet` has them: the inverse
/// of `roce_parse`. Only the ICRC is computed.
///
/// # Safety
/// As `roce_build`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_emit(
    packet: *const roce_packet,
    payload: *const u8,
    payload_len: usize,
    out: *mut u8,
    out_len: usize,
    written: *mut usize,
    error: *mut roce_error,
) -> roce_status {
    let output = Output { out, out_len, written, error };
    // SAFETY: valid by the caller's word.
    let builder = unsafe { pointer::read(packet) }
        .and_then(|packet| FrameBuilder::try_from(&packet))
        .map_err(roce_error::from);
    // SAFETY: the same contract.
    unsafe { emit(builder, payload, payload_len, output) }
}

/// Sets the lengths and writes the packet.
///
/// # Safety
/// As [`roce_build`].
pub(crate) unsafe fn build(
    builder: Result<FrameBuilder, roce_error>,
    payload: *const u8,
    payload_len: usize,
    output: Output,
) -> roce_status {
    let builder = builder.and_then(|mut builder| {
        builder.set_payload_len(payload_len)?;
        Ok(builder)
    });
    // SAFETY: the same contract.
    unsafe { emit(builder, payload, payload_len, output) }
}

/// Writes the packet as it stands.
///
/// # Safety
/// As [`roce_build`].
unsafe fn emit(
    builder: Result<FrameBuilder, roce_error>,
    payload: *const u8,
    payload_len: usize,
    output: Output,
) -> roce_status {
    let Output { out, out_len, written, error } = output;
    let emitted = || -> Result<usize, roce_error> {
        let builder = builder?;
        if out.is_null() {
            return Err(roce_status::NullPointer.into());
        }
        if payload.is_null() {
            // SAFETY: valid by the caller's word; the only reference to the caller's memory.
            let room = unsafe { pointer::bytes_mut(out, out_len) }?;
            let (len, ()) =
                builder.emit_with::<Kernel, _>(payload_len, room, |payload, icrc| {
                    icrc.update(payload);
                })?;
            return Ok(len);
        }
        pointer::check_apart(payload, payload_len, out, out_len)?;
        // SAFETY: valid by the caller's word; does not overlap what is written.
        let payload = unsafe { pointer::bytes(payload, payload_len) }?;
        // SAFETY: valid by the caller's word; `payload` lies apart.
        let room = unsafe { pointer::bytes_mut(out, out_len) }?;
        Ok(builder.emit::<Kernel>([payload, &[]], room)?)
    };
    let result = emitted().and_then(|len| {
        if written.is_null() {
            return Ok(());
        }
        // SAFETY: valid by the caller's word; the slices are gone.
        unsafe { pointer::write(written, len) }.map_err(roce_error::from)
    });
    // SAFETY: valid by the caller's word.
    unsafe { report(result, error) }
}
