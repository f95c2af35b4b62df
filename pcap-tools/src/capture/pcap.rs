//! The classic format: a file header of 24 bytes, then 16 bytes in front of each packet.
//!
//! ```text
//! file    magic, major and minor version, time zone, accuracy, snaplen, link type (upper bits:
//!         length of the FCS)
//! packet  seconds, fraction, captured length, original length
//! ```
//!
//! | magic | fraction | more |
//! |---|---|---|
//! | a1b2c3d4 | microseconds | |
//! | a1b23c4d | nanoseconds | |
//! | a1b2cd34 | microseconds | patched libpcap of Linux 2.2: behind the original length stand interface, protocol, packet type |
//!
//! Any of them in either byte order.

use super::byte_order::ByteOrder;
use super::reader::{Record, Step};
use super::{CaptureError, Damage, Direction, LinkType, MAX_PACKET, size};

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
const PATCHED_HEADER: usize = 24;
/// `PACKET_OUTGOING` of Linux's packet sockets.
const OUTGOING: u8 = 4;

#[derive(Debug, Clone, Copy)]
pub(super) struct Pcap {
    order: ByteOrder,
    /// Nanoseconds of one unit of the fraction.
    fraction_ns: u64,
    packet_header: usize,
    link: LinkType,
    fcs_len: u8,
}

/// What a magic stands for: byte order, nanoseconds of a unit of the fraction, length of a
/// packet's header.
fn magic(bytes: [u8; 4]) -> Option<(ByteOrder, u64, usize)> {
    let (order, number) = match bytes {
        [0xa1, 0xb2, ..] => (ByteOrder::Big, u32::from_be_bytes(bytes)),
        _ => (ByteOrder::Little, u32::from_le_bytes(bytes)),
    };
    match number {
        0xa1b2_c3d4 => Some((order, 1000, PACKET_HEADER)),
        0xa1b2_3c4d => Some((order, 1, PACKET_HEADER)),
        0xa1b2_cd34 => Some((order, 1000, PATCHED_HEADER)),
        _ => None,
    }
}

impl Pcap {
    /// Whether a file that starts so is one.
    pub(super) fn starts(first: [u8; 4]) -> bool {
        magic(first).is_some()
    }

    /// From what a file starts with; also says how long the file's header is.
    pub(super) fn open(bytes: &[u8]) -> Result<(Self, usize), CaptureError> {
        let first = bytes.first_chunk().copied().and_then(magic);
        let (Some((order, fraction_ns, packet_header)), Some(header)) =
            (first, bytes.first_chunk::<FILE_HEADER>())
        else {
            let available = bytes.len();
            return Err(CaptureError::Truncated { offset: 0, needed: FILE_HEADER, available });
        };
        let network = order.u32(header, 20).unwrap_or_default();
        let [low, high, _, upper] = network.to_le_bytes();
        // Bit 26 says that the four bits above it are the FCS's length in 16-bit words.
        let fcs_len = if upper & 4 != 0 { (upper >> 4) * 2 } else { 0 };
        let link = LinkType(u16::from_le_bytes([low, high]));
        Ok((Self { order, fraction_ns, packet_header, link, fcs_len }, FILE_HEADER))
    }

    /// Finds the packet at the start of `bytes`.
    ///
    /// Real files have captured lengths above the snaplen or the original length, and fractions
    /// of a second or more: they are taken as they stand.
    #[inline]
    pub(super) fn step(&self, bytes: &[u8]) -> Result<Step, Damage> {
        let header = self.packet_header;
        if bytes.len() < header {
            return Ok(Step::Need(header));
        }
        let field = |at| self.order.u32(bytes, at).unwrap_or_default();
        let (seconds, fraction, captured, orig_len) = (field(0), field(4), field(8), field(12));
        if captured > MAX_PACKET {
            return Err(Damage::PacketLength(captured));
        }
        let len = header + size(captured);
        if bytes.len() < len {
            return Ok(Step::Need(len));
        }
        let (interface, direction) = match header {
            PATCHED_HEADER => (field(16), packet_type(bytes.get(22).copied())),
            _ => (0, None),
        };
        Ok(Step::Packet(
            len,
            Record {
                offset: 0,
                range: header..len,
                orig_len,
                timestamp_ns: Some(
                    u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns,
                ),
                interface,
                link: Some(self.link),
                direction,
                fcs_len: self.fcs_len,
                link_bps: None,
            },
        ))
    }
}

fn packet_type(value: Option<u8>) -> Option<Direction> {
    match value? {
        OUTGOING => Some(Direction::Outbound),
        0..OUTGOING => Some(Direction::Inbound),
        _ => None,
    }
}
