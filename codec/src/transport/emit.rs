//! [`TransportBuilder`]: from the BTH to the ICRC, as every builder writes it.

use roce_crc::Crc32;

use crate::EmitError;
use crate::ib::{Bth, ExtHeaders};
use crate::icrc::{ICRC_LEN, Icrc, Network};

/// The pad count that `payload_len` bytes call for, and the bytes from the BTH to the ICRC.
#[inline]
pub(crate) fn lengths(bth: &Bth, payload_len: usize) -> (u8, usize) {
    let pad_len = payload_len.wrapping_neg() & 3;
    let ext_len = usize::from(bth.opcode.info().headers_len);
    let len = payload_len.saturating_add(Bth::LEN + ext_len + pad_len + ICRC_LEN);
    // At most 3.
    (pad_len.to_le_bytes()[0], len)
}

/// Everything from the BTH to the ICRC, in values: what [`Transport`](crate::Transport) takes
/// apart, put together behind network headers that are there already.
///
/// [`FrameBuilder`](crate::FrameBuilder) and [`NativeBuilder`](crate::NativeBuilder) write whole
/// packets with it. Who sends millions a second writes its network headers from where their values
/// are, and uses this for the rest: nothing is moved to a builder first.
#[derive(Debug, Clone, Copy)]
pub struct TransportBuilder<'v> {
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers; those the opcode calls for are written.
    pub ext: &'v ExtHeaders,
    /// Pad bytes, of which the BTH's pad count are written. Senders write zeroes.
    pub pad: [u8; 3],
    /// Bytes of payload.
    pub payload_len: usize,
}

impl<'v> TransportBuilder<'v> {
    /// With the pad that `payload_len` bytes call for.
    #[inline]
    #[must_use]
    pub fn new(mut bth: Bth, ext: &'v ExtHeaders, payload_len: usize) -> Self {
        (bth.pad_count, _) = lengths(&bth, payload_len);
        Self { bth, ext, pad: [0; 3], payload_len }
    }

    /// Bytes from the BTH to the ICRC.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> usize {
        let ext_len = usize::from(self.bth.opcode.info().headers_len);
        let around = Bth::LEN + ext_len + usize::from(self.bth.pad_count & 3) + ICRC_LEN;
        // A length that no buffer has, should the caller have reckoned wrong.
        self.payload_len.saturating_add(around)
    }

    /// Writes BTH, extension headers, payload, pad and ICRC into `out` behind the headers of
    /// `network`, which are there already. The payload is put in place by `fill`, which must write
    /// and feed to the ICRC exactly the bytes it is given. Returns what `fill` returned.
    ///
    /// Inlined, so that values go from registers to the wire; where it is called from many places,
    /// a function of your own around it saves code.
    ///
    /// # Errors
    /// [`EmitError`]; `out` may be partly written.
    #[inline(always)]
    pub fn emit<C: Crc32, R>(
        &self,
        network: Network,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8], &mut Icrc<C>) -> R,
    ) -> Result<R, EmitError> {
        let bth_at = network.header_len();
        let needed = self.len().saturating_add(bth_at);
        let short = EmitError::NoRoom { needed, available: out.len() };
        let out = out.get_mut(..needed).ok_or(short)?;
        let info = self.bth.opcode.info();
        let ext_at = bth_at + Bth::LEN;
        let payload_at = ext_at + usize::from(info.headers_len);
        let (headers, rest) = out.split_at_mut_checked(payload_at).ok_or(short)?;
        self.bth.emit(headers.get_mut(bth_at..).unwrap_or_default())?;
        self.ext.emit(info, headers.get_mut(ext_at..).unwrap_or_default())?;
        let mut icrc = Icrc::packet(network, headers);
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

/// Copies a payload in two pieces into `room`, for [`TransportBuilder::emit`].
#[inline(always)]
pub(crate) fn copy_payload<C: Crc32>(pieces: [&[u8]; 2], room: &mut [u8], icrc: &mut Icrc<C>) {
    let copied = icrc.copy_update(room, pieces[0]);
    if !pieces[1].is_empty() {
        icrc.copy_update(room.get_mut(copied..).unwrap_or_default(), pieces[1]);
    }
}
