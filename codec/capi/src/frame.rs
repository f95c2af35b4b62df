//! Taking packets apart.

use roce_codec::net::Udp;
use roce_codec::{Frame, FrameBuilder, Start, ib::Bth};

use crate::headers::roce_packet;
use crate::pointer;
use crate::status::{report, roce_error, roce_status};

/// The layer a packet starts with.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum roce_start {
    /// An Ethernet header.
    Ethernet = 1,
    /// An IPv4 or IPv6 header.
    Ip = 2,
}

pub(crate) fn start_from_c(start: u32) -> Result<Start, roce_status> {
    if start == roce_start::Ethernet as u32 {
        Ok(Start::Ethernet)
    } else if start == roce_start::Ip as u32 {
        Ok(Start::Ip)
    } else {
        Err(roce_status::BadArgument)
    }
}

/// A packet taken apart: its header values, and where everything lies in the buffer it was parsed
/// from. Offsets count from the buffer's start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct roce_frame {
    /// The header values, which `roce_emit` turns back into the packet.
    pub packet: roce_packet,
    /// The payload, in the buffer that was parsed: `payload_len` bytes, or what a capture holds
    /// of them.
    pub payload: *const u8,
    /// Bytes of payload, without pad, as the lengths say.
    pub payload_len: usize,
    /// Offset of the IP header.
    pub ip_at: usize,
    /// Offset of the UDP header.
    pub udp_at: usize,
    /// Offset of the BTH.
    pub bth_at: usize,
    /// Offset of the first extension header.
    pub ext_at: usize,
    /// Offset of the payload.
    pub payload_at: usize,
    /// Offset of the pad.
    pub pad_at: usize,
    /// Offset of the ICRC.
    pub icrc_at: usize,
    /// Offset of what follows the IP packet: Ethernet padding, or the buffer's end.
    pub trailer_at: usize,
    /// Bytes that the lengths promise and the buffer does not hold; 0 unless
    /// `roce_parse_captured` filled this.
    pub missing: usize,
    /// The ICRC as the packet carries it; zeroes where it is missing.
    pub icrc: [u8; 4],
}

impl roce_frame {
    fn of(frame: &Frame<'_>) -> Self {
        let values: FrameBuilder = frame.to_builder();
        let ip_at = values.ethernet.map_or(0, |ethernet| ethernet.header_len());
        let udp_at = ip_at + values.ip.header_len();
        let bth_at = udp_at + Udp::LEN;
        let ext_at = bth_at + Bth::LEN;
        let payload_at = ext_at + usize::from(values.bth.opcode.info().headers_len);
        let payload_len = frame.payload_len();
        let pad_at = payload_at + payload_len;
        let icrc_at = pad_at + usize::from(values.bth.pad_count);
        let [payload, _] = frame.payload();
        Self {
            packet: roce_packet::from(&values),
            payload: payload.as_ptr(),
            payload_len,
            ip_at,
            udp_at,
            bth_at,
            ext_at,
            payload_at,
            pad_at,
            icrc_at,
            trailer_at: icrc_at + 4,
            missing: frame.missing(),
            icrc: frame.icrc(),
        }
    }
}

/// Parses the packet at `bytes`, whose first layer is `start` (a `roce_start`), into `frame`:
/// finds the layers and checks that their lengths agree. Whether the ICRC holds is
/// `roce_icrc_verify`'s question, to be asked before anything the packet says is believed.
/// `error` may be NULL.
///
/// # Safety
/// `bytes` is NULL or valid for `len` bytes; `frame` and `error` are NULL or valid.
// SAFETY: the prefix `roce_` is this library's; no other symbol has the name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_parse(
    bytes: *const u8,
    len: usize,
    start: u32,
    frame: *mut roce_frame,
    error: *mut roce_error,
) -> roce_status {
    // SAFETY: the same contract.
    unsafe { parse(bytes, len, start, frame, error, false) }
}

/// As `roce_parse`, for a packet that a capture may have cut short behind its headers: `missing`
/// says how many bytes are not there.
///
/// # Safety
/// As `roce_parse`.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn roce_parse_captured(
    bytes: *const u8,
    len: usize,
    start: u32,
    frame: *mut roce_frame,
    error: *mut roce_error,
) -> roce_status {
    // SAFETY: the same contract.
    unsafe { parse(bytes, len, start, frame, error, true) }
}

/// # Safety
/// As [`roce_parse`].
unsafe fn parse(
    bytes: *const u8,
    len: usize,
    start: u32,
    frame: *mut roce_frame,
    error: *mut roce_error,
    captured: bool,
) -> roce_status {
    let parsed = || -> Result<roce_frame, roce_error> {
        let start = start_from_c(start)?;
        // SAFETY: valid by the caller's word; nothing is written while the slice is in use.
        let bytes = unsafe { pointer::bytes(bytes, len) }?;
        let segments = [bytes, &[]];
        let frame = if captured {
            Frame::parse_captured(segments, start)?
        } else {
            Frame::parse(segments, start)?
        };
        Ok(roce_frame::of(&frame))
    };
    let result = parsed().and_then(|value| {
        // SAFETY: valid by the caller's word; the slice is gone.
        unsafe { pointer::write(frame, value) }.map_err(roce_error::from)
    });
    // SAFETY: valid by the caller's word.
    unsafe { report(result, error) }
}
