//! The block format: sections, each with its byte order and its interfaces.
//!
//! ```text
//! block   type, length, body, length again; padded to four bytes
//! 0A0D0D0A section header       1 interface description     6 enhanced packet
//!        2 packet (obsolete)    3 simple packet             others are skipped
//! ```
//!
//! <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>

use super::byte_order::ByteOrder;
use super::interface::Interface;
use super::reader::{Record, Step};
use super::{Damage, Direction, MAX_PACKET, size};

pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Type and length in front, length behind.
const FRAMING: usize = 12;
/// Where a block's body starts.
const BODY: usize = 8;
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

    /// Finds the block at the start of `bytes`.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Step, Damage> {
        if bytes.len() < FRAMING {
            return Ok(Step::Need(FRAMING));
        }
        if bytes.starts_with(&MAGIC) {
            self.start_section(bytes)?;
        }
        let (kind, front) = (self.length_at(bytes, 0), self.length_at(bytes, 4));
        let len = size(front);
        if len < FRAMING || !len.is_multiple_of(4) {
            return Err(Damage::BlockLength(front));
        }
        let known =
            matches!(kind, INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
        if known && front > MAX_BLOCK {
            return Err(Damage::BlockLength(front));
        }
        if bytes.len() < len {
            return Ok(if known { Step::Need(len) } else { Step::Skip(front) });
        }
        let back = self.length_at(bytes, len - 4);
        if back != front {
            return Err(Damage::BlockLengths { front, back });
        }
        let body = bytes.get(8..len - 4).unwrap_or_default();
        match kind {
            INTERFACE_DESCRIPTION => self.add_interface(body).map(|()| Step::Pass(len)),
            PACKET | SIMPLE_PACKET | ENHANCED_PACKET => match self.packet(kind, body) {
                Some(record) => Ok(Step::Packet(len, record)),
                None => Err(Damage::BlockContents),
            },
            _ => Ok(Step::Pass(len)),
        }
    }

    /// The type or length at `at`.
    #[inline]
    pub(super) fn length_at(&self, bytes: &[u8], at: usize) -> u32 {
        self.order.u32(bytes, at).unwrap_or_default()
    }

    /// A new section forgets the interfaces of the one before.
    #[cold]
    fn start_section(&mut self, block: &[u8]) -> Result<(), Damage> {
        self.order = section_order(block)?;
        self.interfaces.clear();
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
    fn packet(&self, kind: u32, body: &[u8]) -> Option<Record> {
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
        let flags = Flags::find(self.order, trailing);
        let interface = self.interface(number);
        Some(Record {
            offset: 0,
            range: BODY + data.start..BODY + data.end,
            orig_len,
            timestamp_ns: interface.map(|interface| interface.timestamp_ns(high, low)),
            interface: number,
            link: interface.map(|interface| interface.link),
            direction: flags.direction(),
            fcs_len: flags.fcs_len().or(interface.map(|it| it.fcs_len)).unwrap_or_default(),
            link_bps: interface.and_then(|interface| interface.link_bps),
        })
    }

    /// A simple packet block says neither time nor captured length.
    fn simple_packet(&self, body: &[u8]) -> Option<Record> {
        let orig_len = self.order.u32(body, 0)?;
        let interface = self.interface(0);
        let mut captured = orig_len;
        if let Some(Interface { snaplen: snaplen @ 1.., .. }) = interface {
            captured = captured.min(*snaplen);
        }
        let data = 4..4_usize.checked_add(size(captured))?;
        body.get(data.clone())?;
        Some(Record {
            offset: 0,
            range: BODY + data.start..BODY + data.end,
            orig_len,
            timestamp_ns: None,
            interface: 0,
            link: interface.map(|interface| interface.link),
            direction: None,
            fcs_len: interface.map_or(0, |interface| interface.fcs_len),
            link_bps: interface.and_then(|interface| interface.link_bps),
        })
    }

    fn interface(&self, number: u32) -> Option<&Interface> {
        self.interfaces.get(usize::try_from(number).ok()?)
    }
}

/// The byte order a section header block states.
pub(super) fn section_order(block: &[u8]) -> Result<ByteOrder, Damage> {
    match ByteOrder::Little.u32(block, 8) {
        Some(0x1a2b_3c4d) => Ok(ByteOrder::Little),
        Some(0x4d3c_2b1a) => Ok(ByteOrder::Big),
        other => Err(Damage::ByteOrderMagic(other.unwrap_or_default())),
    }
}

/// The option `epb_flags`: bits 0 and 1 are the direction, 5 to 8 the length of the FCS.
#[derive(Clone, Copy)]
struct Flags(u32);

impl Flags {
    /// Zero, which says nothing, if it is not among the options.
    #[inline]
    fn find(order: ByteOrder, trailing: &[u8]) -> Self {
        let mut options = options(order, trailing);
        let value = options.find(|option| option.0 == 2).and_then(|option| order.u32(option.1, 0));
        Self(value.unwrap_or_default())
    }

    fn direction(self) -> Option<Direction> {
        match self.0 & 3 {
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => None,
        }
    }

    fn fcs_len(self) -> Option<u8> {
        u8::try_from(self.0 >> 5 & 0xf).ok().filter(|len| *len != 0)
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
