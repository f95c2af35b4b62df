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

/// The extension headers, payload and pad of a packet in values.
pub(crate) struct Body<'b> {
    pub(crate) bth: &'b Bth,
    pub(crate) ext: &'b ExtHeaders,
    pub(crate) pad: [u8; 3],
    pub(crate) payload_len: usize,
}

impl Body<'_> {
    /// Bytes behind the BTH, without the payload.
    #[inline(always)]
    pub(crate) fn around_payload(&self) -> usize {
        let ext_len = usize::from(self.bth.opcode.info().headers_len);
        ext_len + usize::from(self.bth.pad_count & 3) + ICRC_LEN
    }

    /// Writes extension headers, payload, pad and ICRC into `out`, which has their length: anything
    /// else is `short`. `icrc` has been fed up to the BTH.
    #[inline(always)]
    pub(crate) fn emit<C: Crc32, R>(
        &self,
        mut icrc: Icrc<C>,
        out: &mut [u8],
        short: EmitError,
        fill: impl FnOnce(&mut [u8], &mut Icrc<C>) -> R,
    ) -> Result<R, EmitError> {
        let info = self.bth.opcode.info();
        let (ext, rest) = out.split_at_mut_checked(usize::from(info.headers_len)).ok_or(short)?;
        self.ext.emit(info, ext)?;
        icrc.update(ext);
        let (payload, rest) = rest.split_at_mut_checked(self.payload_len).ok_or(short)?;
        let filled = fill(payload, &mut icrc);
        let pad_len = usize::from(self.bth.pad_count & 3);
        let (pad, rest) = rest.split_at_mut_checked(pad_len).ok_or(short)?;
        for (to, byte) in pad.iter_mut().zip(self.pad) {
            *to = byte;
        }
        icrc.update(pad);
        crate::wire::put(&icrc.finish(), rest)?;
        Ok(filled)
    }
}
