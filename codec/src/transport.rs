//! From the BTH to the ICRC: what a packet says, whichever link carries it.

mod emit;
mod ext;
mod segments;

use crate::ib::{Bth, BthWire, Opcode, OpcodeInfo, Psn, Qpn};
use crate::icrc::{ICRC_LEN, IcrcVerdict, NotCheckable};
use crate::wire::take;
use crate::{Layer, ParseError};
pub use emit::TransportBuilder;
pub(crate) use emit::{copy_payload, lengths};
pub(crate) use segments::Segments;

/// The transport part of a packet: BTH, extension headers, payload, pad, ICRC.
///
/// [`Frame`](crate::Frame) hands it out by `Deref`, so these accessors are the frame's own. The
/// packet may lie in two segments, all headers in the first. An unknown opcode has no extension
/// headers here: everything behind the BTH is payload.
#[derive(Debug, Clone, Copy)]
pub struct Transport<'a> {
    /// What the ICRC covers, the ICRC, and whatever lies behind the packet.
    packet: Segments<'a>,
    /// Bytes from the first one covered to the payload.
    payload_at: usize,
    parts: TransportParts<'a>,
}

/// What is found behind the BTH's first byte, wherever that lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransportParts<'a> {
    bth: &'a BthWire,
    info: &'static OpcodeInfo,
    ext: &'a [u8],
    /// As far as it was captured.
    payload: [&'a [u8]; 2],
    /// Bytes of payload, as the lengths say.
    payload_len: usize,
}

/// The length field that says where a packet ends.
#[derive(Clone, Copy)]
pub(crate) struct LengthField {
    /// Whose it is.
    pub(crate) layer: Layer,
    /// Bytes that it counts before the BTH.
    pub(crate) before_bth: usize,
}

impl<'a> TransportParts<'a> {
    /// Takes apart `behind`, which starts with the BTH and should be `len` bytes to the end of the
    /// ICRC; it holds less, all there is in the first segment, if the packet is split or cut.
    #[inline(always)]
    pub(crate) fn take(
        behind: &'a [u8],
        len: usize,
        field: LengthField,
    ) -> Result<Self, ParseError> {
        let (bth, rest) = match take::<BthWire>(behind, Layer::Bth) {
            Ok(taken) => taken,
            Err(error) => return Err(field.too_short(len, Bth::LEN + ICRC_LEN, error)),
        };
        let info = Opcode(bth.opcode).info();
        let ext_len = usize::from(info.headers_len);
        let least = Bth::LEN + ext_len + usize::from(bth.pad_count()) + ICRC_LEN;
        let Some(payload_len) = len.checked_sub(least) else {
            return Err(field.wrong(len, least));
        };
        let Some((ext, body)) = rest.split_at_checked(ext_len) else {
            return Err(cut_header(info, rest.len()));
        };
        Ok(Self { bth, info, ext, payload: [body, &[]], payload_len })
    }

    /// Of a packet that lies whole in the first segment: what follows the payload is cut off.
    #[inline(always)]
    pub(crate) fn whole(self) -> Self {
        let [body, _] = self.payload;
        Self { payload: [body.get(..self.payload_len).unwrap_or_default(), &[]], ..self }
    }

    /// Of a packet that ends at `end` of `packet`: the payload, wherever it lies.
    pub(crate) fn split_over(self, packet: Segments<'a>, end: usize) -> Self {
        let behind = usize::from(self.bth.pad_count()) + ICRC_LEN;
        let payload_at = end.saturating_sub(behind + self.payload_len);
        Self { payload: packet.range(payload_at, self.payload_len), ..self }
    }
}

impl<'a> Transport<'a> {
    /// Of a `packet` whose BTH is at `bth_at` and whose ICRC ends at `end`, whole, split or cut.
    pub(crate) fn take(
        packet: Segments<'a>,
        bth_at: usize,
        end: usize,
        field: LengthField,
    ) -> Result<Self, ParseError> {
        let head = packet.0[0];
        let part = head.get(..end).unwrap_or(head).get(bth_at..).unwrap_or_default();
        let parts = TransportParts::take(part, end.saturating_sub(bth_at), field)?;
        Ok(Self::new(packet, bth_at, parts.split_over(packet, end)))
    }

    /// Of a `packet` whose BTH is at `bth_at`.
    #[inline(always)]
    pub(crate) fn new(packet: Segments<'a>, bth_at: usize, parts: TransportParts<'a>) -> Self {
        // Headers: no sum here overflows.
        let payload_at = bth_at.wrapping_add(Bth::LEN).wrapping_add(parts.ext.len());
        Self { packet, payload_at, parts }
    }

    /// The base transport header.
    #[inline]
    #[must_use]
    pub fn bth(&self) -> Bth {
        self.parts.bth.value()
    }

    /// The opcode.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.parts.bth.opcode)
    }

    /// What the opcode means.
    #[inline]
    #[must_use]
    pub fn info(&self) -> &'static OpcodeInfo {
        self.parts.info
    }

    /// The destination QP.
    #[inline]
    #[must_use]
    pub fn dest_qp(&self) -> Qpn {
        self.parts.bth.dest_qp()
    }

    /// The packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        self.parts.bth.psn()
    }

    /// The extension headers' bytes.
    #[inline]
    #[must_use]
    pub fn ext_bytes(&self) -> &'a [u8] {
        self.parts.ext
    }

    /// The payload, without pad, as far as it was captured.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> [&'a [u8]; 2] {
        self.parts.payload
    }

    /// Bytes of payload the lengths promise, whether captured or not.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.parts.payload_len
    }

    /// The pad bytes; zeroes where the capture is cut.
    #[must_use]
    pub fn pad(&self) -> Pad {
        let mut pad = Pad { bytes: [0; 3], len: self.parts.bth.pad_count() };
        let len = usize::from(pad.len);
        let room = pad.bytes.get_mut(..len).unwrap_or_default();
        self.packet.copy_to(self.payload_at.wrapping_add(self.parts.payload_len), room);
        pad
    }

    /// The ICRC as the packet carries it; zeroes where the capture is cut.
    #[inline]
    #[must_use]
    pub fn icrc(&self) -> [u8; ICRC_LEN] {
        let mut icrc = [0; ICRC_LEN];
        self.packet.copy_to(self.covered_len(), &mut icrc);
        icrc
    }

    /// Bytes that the lengths promise and the capture does not hold.
    #[inline]
    #[must_use]
    pub fn missing(&self) -> usize {
        self.end().saturating_sub(self.packet.len())
    }

    /// What follows the packet: Ethernet padding, a VCRC, or a trailer somebody added.
    #[must_use]
    pub fn trailer(&self) -> [&'a [u8]; 2] {
        self.packet.range(self.end(), usize::MAX)
    }

    /// What the ICRC covers before the extension headers, as it is on the wire: network header
    /// to BTH.
    #[must_use]
    pub fn headers(&self) -> &'a [u8] {
        self.packet.range(0, self.payload_at.saturating_sub(self.parts.ext.len()))[0]
    }

    /// Everything that the ICRC covers, the headers whole in the first piece.
    #[inline]
    pub(crate) fn covered(&self) -> [&'a [u8]; 2] {
        self.packet.range(0, self.covered_len())
    }

    /// Compares the ICRC in the packet with `computed`, `None` if the packet is cut.
    #[inline]
    pub(crate) fn icrc_verdict(&self, computed: Option<[u8; ICRC_LEN]>) -> IcrcVerdict {
        let Some(expected) = computed else {
            return IcrcVerdict::NotCheckable(NotCheckable::Truncated);
        };
        let found = self.icrc();
        if expected == found {
            IcrcVerdict::Valid
        } else if found == [0; ICRC_LEN] {
            IcrcVerdict::NotCheckable(NotCheckable::NotFilled)
        } else {
            IcrcVerdict::Invalid { expected, found }
        }
    }

    /// Bytes from the first one covered to the ICRC.
    #[inline]
    fn covered_len(&self) -> usize {
        // The parts of a length that was checked: no sum here overflows.
        let pad_len = usize::from(self.parts.bth.pad_count());
        self.payload_at.wrapping_add(self.parts.payload_len).wrapping_add(pad_len)
    }

    /// Bytes from the first one covered to the end of the ICRC.
    #[inline]
    fn end(&self) -> usize {
        self.covered_len().wrapping_add(ICRC_LEN)
    }
}

/// The pad bytes of a packet: 0 to 3, zeroes unless the sender was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pad {
    bytes: [u8; 3],
    len: u8,
}

impl Pad {
    /// The three bytes that [`FrameBuilder`](crate::FrameBuilder) takes, zeroes behind the pad.
    #[must_use]
    pub const fn bytes(self) -> [u8; 3] {
        self.bytes
    }
}

impl core::ops::Deref for Pad {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl LengthField {
    /// A field that says fewer or more bytes behind the BTH's start than there must be.
    #[cold]
    fn wrong(self, field: usize, expected: usize) -> ParseError {
        ParseError::Length {
            layer: self.layer,
            field: field.saturating_add(self.before_bth),
            expected: expected.saturating_add(self.before_bth),
        }
    }

    /// A BTH that is not there: left out by the sender, or cut off by the capture (`cut`)?
    #[cold]
    fn too_short(self, field: usize, expected: usize, cut: ParseError) -> ParseError {
        if field < expected { self.wrong(field, expected) } else { cut }
    }
}

/// Names the extension header in which `available` bytes end.
#[cold]
fn cut_header(info: &OpcodeInfo, mut available: usize) -> ParseError {
    for kind in info.headers.iter() {
        let needed = kind.len();
        if available < needed {
            return ParseError::Truncated { layer: Layer::Ext(kind), needed, available };
        }
        available -= needed;
    }
    ParseError::Truncated { layer: Layer::Payload, needed: 0, available }
}
