//! What every builder writes behind the BTH.

use roce_crc::Crc32;

use crate::EmitError;
use crate::ib::{Bth, ExtHeaders};
use crate::icrc::{ICRC_LEN, Icrc};

/// The pad count that `payload_len` bytes call for, and the bytes from the BTH to the ICRC.
#[inline]
pub(crate) fn lengths(bth: &Bth, payload_len: usize) -> (u8, usize) {
    let pad_len = payload_len.wrapping_neg() & 3;
    let ext_len = usize::from(bth.opcode.info().headers_len);
    let len = payload_len.saturating_add(Bth::LEN + ext_len + pad_len + ICRC_LEN);
    // At most 3.
    (pad_len.to_le_bytes()[0], len)
}

/// Everything from the BTH to the pad of a packet, in values.
pub(crate) struct Body<'b> {
    pub(crate) bth: &'b Bth,
    pub(crate) ext: &'b ExtHeaders,
    pub(crate) pad: [u8; 3],
    pub(crate) payload_len: usize,
}

impl Body<'_> {
    /// Bytes from the BTH to the ICRC, without the payload.
    #[inline(always)]
    pub(crate) fn around_payload(&self) -> usize {
        let ext_len = usize::from(self.bth.opcode.info().headers_len);
        Bth::LEN + ext_len + usize::from(self.bth.pad_count & 3) + ICRC_LEN
    }

    /// Writes BTH, extension headers, payload, pad and ICRC behind the `bth_at` bytes of `out`
    /// that are already there; `out` is as long as all that, anything else is `short`. `start`
    /// starts the ICRC on all headers in one piece.
    #[inline(always)]
    pub(crate) fn emit<C: Crc32, R>(
        &self,
        out: &mut [u8],
        bth_at: usize,
        short: EmitError,
        start: impl FnOnce(&[u8]) -> Icrc<C>,
        fill: impl FnOnce(&mut [u8], &mut Icrc<C>) -> R,
    ) -> Result<R, EmitError> {
        let info = self.bth.opcode.info();
        let ext_at = bth_at + Bth::LEN;
        let payload_at = ext_at + usize::from(info.headers_len);
        let (headers, rest) = out.split_at_mut_checked(payload_at).ok_or(short)?;
        self.bth.emit(headers.get_mut(bth_at..).unwrap_or_default())?;
        self.ext.emit(info, headers.get_mut(ext_at..).unwrap_or_default())?;
        let mut icrc = start(headers);
        let (payload, rest) = rest.split_at_mut_checked(self.payload_len).ok_or(short)?;
        let filled = fill(payload, &mut icrc);
        let pad_len = usize::from(self.bth.pad_count & 3);
        let (pad, rest) = rest.split_at_mut_checked(pad_len).ok_or(short)?;
        if !pad.is_empty() {
            for (to, byte) in pad.iter_mut().zip(self.pad) {
                *to = byte;
            }
            icrc.update(pad);
        }
        crate::wire::put(&icrc.finish(), rest)?;
        Ok(filled)
    }
}

/// Copies a payload in two pieces into `room`, for [`Body::emit`].
#[inline(always)]
pub(crate) fn copy_payload<C: Crc32>(pieces: [&[u8]; 2], room: &mut [u8], icrc: &mut Icrc<C>) {
    let copied = icrc.copy_update(room, pieces[0]);
    if !pieces[1].is_empty() {
        icrc.copy_update(room.get_mut(copied..).unwrap_or_default(), pieces[1]);
    }
}
