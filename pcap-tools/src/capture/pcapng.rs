//! The block format: sections, each with its byte order and its interfaces.
//!
//! ```text
//! block   type, length, body, length again; padded to four bytes
//! 0A0D0D0A section header       1 interface description     6 enhanced packet
//!        2 packet (obsolete)    3 simple packet             others are skipped
//! ```
//!
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>

use std::io::Read;
use std::ops::Range;

use super::byte_order::ByteOrder;
use super::interface::Interface;
use super::source::Source;
use super::{CaptureError, Damage, Direction, LinkType, MAX_PACKET, Record, size};

pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type and length in front, length behind.
const FRAMING: usize = 12;
const MAX_INTERFACES: usize = 1 << 16;
/// Room for a packet's options; a block that is longer holds no packet we can use.
const MAX_BLOCK: u32 = MAX_PACKET + (1 << 20);

#[derive(Debug)]
pub(super) struct Pcapng {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    pub(super) fn new() -> Self {
        Self { order: ByteOrder::Little, interfaces: Vec::new() }
    }

    /// Takes blocks up to and including the next packet; `None` at the end of the file.
    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        source: &mut Source<R>,
    ) -> Result<Option<Record>, CaptureError> {
        loop {
            let offset = source.offset();
            if source.fill(FRAMING)? == 0 {
                return Ok(None);
            }
            source.require(FRAMING)?;
            if source.bytes().starts_with(&MAGIC) {
                self.order = section_order(source.bytes())
                    .map_err(|damage| CaptureError::Damaged { offset, damage })?;
                self.interfaces.clear();
            }
            let field = |at| self.order.u32(source.bytes(), at).unwrap_or_default();
            let (kind, front) = (field(0), field(4));
            let len = size(front);
            if len < FRAMING || !len.is_multiple_of(4) {
                return Err(CaptureError::Damaged { offset, damage: Damage::BlockLength(front) });
            }
            if !matches!(kind, INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
                source.skip(len - 4)?;
                self.check_back(source, offset, front)?;
                source.take(4);
                continue;
            }
            if front > MAX_BLOCK {
                return Err(CaptureError::Damaged { offset, damage: Damage::BlockLength(front) });
            }
            source.require(len)?;
            let taken = source.take(len - 4);
            self.check_back(source, offset, front)?;
            source.take(4);
            let body = taken.start + 8..taken.end;
            let bytes = source.slice(body.clone());
            let record = if kind == INTERFACE_DESCRIPTION {
                self.add_interface(bytes).map(|()| None)
            } else {
                self.packet(kind, bytes)
                    .map(|packet| Some(packet.at(offset, body.start)))
                    .ok_or(Damage::BlockContents)
            };
            match record {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(damage) => return Err(CaptureError::Damaged { offset, damage }),
            }
        }
    }

    /// Compares the length behind a block, which comes next, with the one in front.
    #[inline]
    fn check_back<R: Read>(
        &self,
        source: &mut Source<R>,
        offset: u64,
        front: u32,
    ) -> Result<(), CaptureError> {
        if source.fill(4)? < 4 {
            let needed = size(front);
            let available = needed - 4 + source.bytes().len();
            return Err(CaptureError::Truncated { offset, needed, available });
        }
        let back = self.order.u32(source.bytes(), 0).unwrap_or_default();
        if back != front {
            let damage = Damage::BlockLengths { front, back };
            return Err(CaptureError::Damaged { offset, damage });
        }
        Ok(())
    }

    fn add_interface(&mut self, body: &[u8]) -> Result<(), Damage> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Damage::TooManyInterfaces);
        }
        let interface = Interface::parse(self.order, body).ok_or(Damage::BlockContents)?;
        self.interfaces.push(interface);
        Ok(())
    }

    /// Reads a packet block's body; `None` if it is too short.
    #[inline]
    fn packet(&self, kind: u32, body: &[u8]) -> Option<InBody> {
        if kind == SIMPLE_PACKET {
            return self.simple_packet(body);
        }
        let number = if kind == PACKET {
            u32::from(self.order.u16(body, 0)?)
        } else {
            self.order.u32(body, 0)?
        };
        let [high, low, captured, orig_len] = [
            self.order.u32(body, 4)?,
            self.order.u32(body, 8)?,
            self.order.u32(body, 12)?,
            self.order.u32(body, 16)?,
        ];
        let data = 20..20_usize.checked_add(size(captured))?;
        body.get(data.clone())?;
        let trailing = body.get(data.end.next_multiple_of(4)..).unwrap_or_default();
        let interface = self.interface(number);
        Some(InBody {
            data,
            orig_len,
            timestamp_ns: interface.map(|interface| interface.timestamp_ns(high, low)),
            interface: number,
            link: interface.map(|interface| interface.link),
            direction: direction(self.order, trailing),
        })
    }

    /// A simple packet block says neither time nor captured length.
    fn simple_packet(&self, body: &[u8]) -> Option<InBody> {
        let orig_len = self.order.u32(body, 0)?;
        let interface = self.interface(0);
        let mut captured = orig_len;
        if let Some(Interface { snaplen: snaplen @ 1.., .. }) = interface {
            captured = captured.min(*snaplen);
        }
        let data = 4..4_usize.checked_add(size(captured))?;
        body.get(data.clone())?;
        Some(InBody {
            data,
            orig_len,
            timestamp_ns: None,
            interface: 0,
            link: interface.map(|interface| interface.link),
            direction: None,
        })
    }

    fn interface(&self, number: u32) -> Option<&Interface> {
        self.interfaces.get(usize::try_from(number).ok()?)
    }
}

/// A packet whose data still counts from the start of its block's body.
struct InBody {
    data: Range<usize>,
    orig_len: u32,
    timestamp_ns: Option<u64>,
    interface: u32,
    link: Option<LinkType>,
    direction: Option<Direction>,
}

impl InBody {
    fn at(self, offset: u64, body: usize) -> Record {
        Record {
            offset,
            range: body + self.data.start..body + self.data.end,
            orig_len: self.orig_len,
            timestamp_ns: self.timestamp_ns,
            interface: self.interface,
            link: self.link,
            direction: self.direction,
        }
    }
}

/// The byte order a section header block states.
fn section_order(block: &[u8]) -> Result<ByteOrder, Damage> {
    match ByteOrder::Little.u32(block, 8) {
        Some(0x1a2b_3c4d) => Ok(ByteOrder::Little),
        Some(0x4d3c_2b1a) => Ok(ByteOrder::Big),
        other => Err(Damage::ByteOrderMagic(other.unwrap_or_default())),
    }
}

/// The direction that `epb_flags` states.
fn direction(order: ByteOrder, trailing: &[u8]) -> Option<Direction> {
    let flags = options(order, trailing).find(|option| option.0 == 2)?;
    match order.u32(flags.1, 0)? & 3 {
        1 => Some(Direction::Inbound),
        2 => Some(Direction::Outbound),
        _ => None,
    }
}

/// The options at the end of a block: code and value. Ends at the first that is cut.
pub(super) fn options(order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let code = order.u16(rest, 0)?;
        let len = usize::from(order.u16(rest, 2)?);
        let value = rest.get(4..4 + len)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_where_they_are_cut() {
        let bytes = [2, 0, 1, 0, 7, 0, 0, 0, 5, 0, 9, 0, 1];
        let seen: Vec<_> = options(ByteOrder::Little, &bytes).collect();
        assert_eq!(seen, [(2, &[7][..])]);
        let ended = [0, 0, 0, 0, 2, 0, 1, 0, 7, 0, 0, 0];
        assert_eq!(options(ByteOrder::Little, &ended).count(), 0);
    }
}
