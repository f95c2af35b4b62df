//! The invariant CRC.

use roce_codec::icrc::{ICRC_LEN, IPV4_HEADERS, IPV6_HEADERS, Icrc, IcrcVerdict, NotCheckable};
use roce_codec::{Crc32, Frame};
use zerocopy::FromBytes;

use crate::frame::start_from_c;
use crate::status::{report, roce_error, roce_status};
use crate::{Kernel, pointer};

/// What checking an ICRC found.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_icrc_verdict {
    /// It is right.
    Valid = 0,
    /// It is wrong: drop the packet and count it.
    Invalid = 1,
    /// Not checkable: the capture cut the packet short.
    Truncated = 2,
    /// Not checkable: the field is zero, captured before the sender's hardware filled it in.
    NotFilled = 3,
    /// Not checkable for a reason that this version of the interface has no name for.
    NotCheckable = 255,
}

/// What checking an ICRC found, in full.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_icrc_result {
    /// The verdict.
    pub verdict: roce_icrc_verdict,
    /// What the packet's contents call for, in wire order; zeroes if it cannot be told.
    pub expected: [u8; 4],
    /// What the packet carries, in wire order; zeroes if it is missing.
    pub found: [u8; 4],
}

/// Checks the ICRC of the packet at `bytes`, whose first layer is `start` (a `roce_start`). The
/// packet is parsed for it: whatever `roce_parse_captured` returns for it may be returned.
/// `ROCE_STATUS_OK` says that there is a verdict, not that it is a good one. `error` may be NULL.
///
/// # Safety
/// `bytes` is NULL or valid for `len` bytes; `result` and `error` are NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_icrc_verify(
    bytes: *const u8,
    len: usize,
    start: u32,
    result: *mut roce_icrc_result,
    error: *mut roce_error,
) -> roce_status {
    let verify = || -> Result<roce_icrc_result, roce_error> {
        let start = start_from_c(start)?;
        // SAFETY: valid by the caller's word; nothing is written while the slice is in use.
        let bytes = unsafe { pointer::bytes(bytes, len) }?;
        let frame = Frame::parse_captured([bytes, &[]], start)?;
        let verdict = match frame.verify_icrc_with::<Kernel>() {
            IcrcVerdict::Valid => roce_icrc_verdict::Valid,
            IcrcVerdict::Invalid { .. } => roce_icrc_verdict::Invalid,
            IcrcVerdict::NotCheckable(NotCheckable::Truncated) => roce_icrc_verdict::Truncated,
            IcrcVerdict::NotCheckable(NotCheckable::NotFilled) => roce_icrc_verdict::NotFilled,
            IcrcVerdict::NotCheckable(_) => roce_icrc_verdict::NotCheckable,
        };
        let found = frame.icrc();
        let expected = match verdict {
            roce_icrc_verdict::Valid => found,
            // Off the fast path: computed once more rather than carried through the verdict.
            _ => frame.computed_icrc::<Kernel>().unwrap_or_default(),
        };
        Ok(roce_icrc_result { verdict, expected, found })
    };
    let outcome = verify().and_then(|value| {
        // SAFETY: valid by the caller's word; the slice is gone.
        unsafe { pointer::write(result, value) }.map_err(roce_error::from)
    });
    // SAFETY: valid by the caller's word.
    unsafe { report(outcome, error) }
}

/// A running ICRC, for a sender that computes it while it copies: start it on the headers, feed
/// it what follows the BTH (extension headers, payload, pad), take the four bytes. May be copied.
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct roce_icrc {
    /// The CRC register.
    pub state: u32,
}

/// Starts `icrc` on the IP header, the UDP header and the BTH at `headers`, as they are on the
/// wire: 40 bytes on IPv4, 60 on IPv6. Fields that routers change are masked in passing.
///
/// # Safety
/// `headers` is NULL or valid for `len` bytes; `icrc` is NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_icrc_start(
    icrc: *mut roce_icrc,
    headers: *const u8,
    len: usize,
) -> roce_status {
    let state = || -> Result<u32, roce_status> {
        // SAFETY: valid by the caller's word; nothing is written while the slice is in use.
        let headers = unsafe { pointer::bytes(headers, len) }?;
        let version = headers.first().map(|byte| byte >> 4);
        let icrc = if let Ok(headers) = <&[u8; IPV4_HEADERS]>::try_from(headers)
            && version == Some(4)
        {
            Icrc::<Kernel>::ipv4(headers)
        } else if let Ok(headers) = <&[u8; IPV6_HEADERS]>::try_from(headers)
            && version == Some(6)
        {
            Icrc::<Kernel>::ipv6(headers)
        } else {
            return Err(roce_status::BadArgument);
        };
        // The wire carries the register complemented.
        Ok(!u32::from_le_bytes(icrc.finish()))
    };
    let result = state().and_then(|state| {
        // SAFETY: valid by the caller's word; the slice is gone.
        unsafe { pointer::write(icrc, roce_icrc { state }) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Feeds `len` bytes to `icrc`.
///
/// # Safety
/// `bytes` is NULL or valid for `len` bytes; `icrc` is NULL or valid.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_icrc_update(
    icrc: *mut roce_icrc,
    bytes: *const u8,
    len: usize,
) -> roce_status {
    let update = || -> Result<u32, roce_status> {
        // SAFETY: valid by the caller's word.
        let before = unsafe { pointer::read(icrc) }?;
        // SAFETY: valid by the caller's word; nothing is written while the slice is in use.
        let bytes = unsafe { pointer::bytes(bytes, len) }?;
        let mut crc = Kernel::resume(before.state);
        crc.update(bytes);
        Ok(crc.state())
    };
    let result = update().and_then(|state| {
        // SAFETY: valid by the caller's word; the slice is gone.
        unsafe { pointer::write(icrc, roce_icrc { state }) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Copies `len` bytes from `src` to `dst`, which must not overlap, and feeds them to `icrc`, in
/// one pass.
///
/// # Safety
/// `src` and `dst` are NULL or valid for `len` bytes; `icrc` is NULL or valid and lies in neither.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_icrc_copy_update(
    icrc: *mut roce_icrc,
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> roce_status {
    let update = || -> Result<u32, roce_status> {
        // SAFETY: valid by the caller's word.
        let before = unsafe { pointer::read(icrc) }?;
        pointer::check_apart(src, len, dst, len)?;
        // SAFETY: valid by the caller's word; does not overlap what is written.
        let src = unsafe { pointer::bytes(src, len) }?;
        // SAFETY: valid by the caller's word; `icrc` is read and `src` lies apart.
        let dst = unsafe { pointer::bytes_mut(dst, len) }?;
        let mut crc = Kernel::resume(before.state);
        crc.copy_update(dst, src);
        Ok(crc.state())
    };
    let result = update().and_then(|state| {
        // SAFETY: valid by the caller's word; the slices are gone.
        unsafe { pointer::write(icrc, roce_icrc { state }) }
    });
    result.err().unwrap_or(roce_status::Ok)
}

/// Writes to `wire` the four bytes that belong behind what was fed so far. More may be fed.
///
/// # Safety
/// `icrc` is NULL or valid; `wire` is NULL or valid for four bytes.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_icrc_finish(icrc: *const roce_icrc, wire: *mut u8) -> roce_status {
    // SAFETY: valid by the caller's word.
    let result = unsafe { pointer::read(icrc) }.and_then(|icrc| {
        let bytes = Kernel::resume(icrc.state).finish().to_le_bytes();
        // SAFETY: valid for four bytes by the caller's word.
        unsafe { pointer::write(wire.cast::<[u8; ICRC_LEN]>(), bytes) }
    });
    result.err().unwrap_or(roce_status::Ok)
}
