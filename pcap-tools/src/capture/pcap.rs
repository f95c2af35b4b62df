//! The classic format: a file header of 24 bytes, then 16 bytes in front of each packet.
//!
//! ```text
//! file    magic a1b2c3d4 (microseconds) or a1b23c4d (nanoseconds), major and minor version,
//!         time zone, accuracy, snaplen, link type (upper bits: length of the FCS)
//! packet  seconds, fraction, captured length, original length
//! ```

use std::io::Read;

use super::byte_order::ByteOrder;
use super::source::Source;
use super::{CaptureError, Damage, LinkType, MAX_PACKET, Record, size};

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pcap {
    order: ByteOrder,
    /// Nanoseconds of one unit of the fraction.
    fraction_ns: u64,
    link: LinkType,
}

/// The byte order and the unit of the fraction that a magic stands for.
pub(super) fn magic(bytes: [u8; 4]) -> Option<(ByteOrder, u64)> {
    Some(match bytes {
        [0xd4, 0xc3, 0xb2, 0xa1] => (ByteOrder::Little, 1000),
        [0xa1, 0xb2, 0xc3, 0xd4] => (ByteOrder::Big, 1000),
        [0x4d, 0x3c, 0xb2, 0xa1] => (ByteOrder::Little, 1),
        [0xa1, 0xb2, 0x3c, 0x4d] => (ByteOrder::Big, 1),
        _ => return None,
    })
}

impl Pcap {
    /// Takes the file header.
    pub(super) fn open<R: Read>(
        source: &mut Source<R>,
        (order, fraction_ns): (ByteOrder, u64),
    ) -> Result<Self, CaptureError> {
        source.require(FILE_HEADER)?;
        let network = order.u32(source.bytes(), 20).unwrap_or_default();
        source.take(FILE_HEADER);
        let [low, high, ..] = network.to_le_bytes();
        Ok(Self { order, fraction_ns, link: LinkType(u16::from_le_bytes([low, high])) })
    }

    /// Takes the next packet; `None` at the end of the file.
    ///
    /// Real files have captured lengths above the snaplen or the original length, and fractions
    /// of a second or more: they are taken as they stand.
    #[inline]
    pub(super) fn next<R: Read>(
        &self,
        source: &mut Source<R>,
    ) -> Result<Option<Record>, CaptureError> {
        let offset = source.offset();
        if source.fill(PACKET_HEADER)? == 0 {
            return Ok(None);
        }
        source.require(PACKET_HEADER)?;
        let field = |at| self.order.u32(source.bytes(), at).unwrap_or_default();
        let (seconds, fraction, captured, orig_len) = (field(0), field(4), field(8), field(12));
        if captured > MAX_PACKET {
            return Err(CaptureError::Damaged { offset, damage: Damage::PacketLength(captured) });
        }
        let len = PACKET_HEADER + size(captured);
        source.require(len)?;
        let taken = source.take(len);
        Ok(Some(Record {
            offset,
            range: taken.start + PACKET_HEADER..taken.end,
            orig_len,
            timestamp_ns: Some(
                u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns,
            ),
            interface: 0,
            link: Some(self.link),
            direction: None,
        }))
    }
}
