//! Ethernet II with up to three VLAN tags.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                       Destination MAC                         |
//! +-------------------------------+-------------------------------+
//! |                               |                               |
//! +-------------------------------+          Source MAC           |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |  TPID 8100, 88a8 or 9100      | PCP |D|        VID            |  0 to 3 times
//! +-------------------------------+-------------------------------+
//! |           EtherType           |
//! +-------------------------------+
//! ```
//!
//! 14 bytes and 4 a tag. IEEE 802.3, 802.1Q, 802.1ad. None of it is covered by the ICRC.

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::MacAddr;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// An EtherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// 802.1Q customer tag.
    pub const VLAN: Self = Self(0x8100);
    /// 802.1ad service tag.
    pub const QINQ: Self = Self(0x88a8);
    /// The service tag of devices older than 802.1ad.
    pub const QINQ_OLD: Self = Self(0x9100);
    /// MAC control: PAUSE and PFC.
    pub const MAC_CONTROL: Self = Self(0x8808);
    /// RoCE v1: a GRH follows.
    pub const ROCE_V1: Self = Self(0x8915);

    /// Whether a VLAN tag follows.
    #[must_use]
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }
}

/// One VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// The tag protocol identifier that announces it.
    pub tpid: EtherType,
    /// Tag control information: priority (3 bits), drop eligible (1), VLAN identifier (12).
    pub tci: u16,
}

impl VlanTag {
    /// An 802.1Q tag. `pcp` is 0 to 7 and `vid` 0 to 4095; higher bits are dropped.
    #[must_use]
    pub const fn new(pcp: u8, vid: u16) -> Self {
        Self { tpid: EtherType::VLAN, tci: ((pcp as u16 & 7) << 13) | (vid & 0xfff) }
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn pcp(self) -> u8 {
        self.tci.to_be_bytes()[0] >> 5
    }

    /// Drop-eligible indicator.
    #[must_use]
    pub const fn dei(self) -> bool {
        self.tci & 0x1000 != 0
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub const fn vid(self) -> u16 {
        self.tci & 0xfff
    }
}

/// The VLAN tags of a frame, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct VlanStack {
    tags: [Option<VlanTag>; Self::MAX],
}

impl VlanStack {
    /// Tags a frame can carry here.
    pub const MAX: usize = 3;

    /// No tag.
    pub const EMPTY: Self = Self { tags: [None; Self::MAX] };

    /// One tag.
    #[must_use]
    pub const fn one(tag: VlanTag) -> Self {
        Self { tags: [Some(tag), None, None] }
    }

    /// Adds a tag inside those already there; says whether there was room.
    pub fn push(&mut self, tag: VlanTag) -> bool {
        match self.tags.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => {
                *slot = Some(tag);
                true
            }
            None => false,
        }
    }

    /// The tags, outermost first.
    pub fn iter(&self) -> impl Iterator<Item = VlanTag> + '_ {
        self.tags.iter().map_while(|tag| *tag)
    }

    /// Number of tags.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tags[0].is_none()
    }
}

/// An Ethernet header with its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ethernet {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// VLAN tags.
    pub vlans: VlanStack,
    /// What follows the last tag.
    pub ethertype: EtherType,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Addresses {
    dst: [u8; 6],
    src: [u8; 6],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Tag {
    tpid: U16<BE>,
    tci: U16<BE>,
}

impl Ethernet {
    /// A header without tags.
    #[must_use]
    pub const fn new(dst: MacAddr, src: MacAddr, ethertype: EtherType) -> Self {
        Self { dst, src, vlans: VlanStack::EMPTY, ethertype }
    }

    /// Bytes of the header, tags included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        14 + 4 * self.vlans.len()
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] and [`ParseError::TooManyVlanTags`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (addresses, mut rest) = take::<Addresses>(bytes, Layer::Ethernet)?;
        let mut vlans = VlanStack::EMPTY;
        loop {
            let (ethertype, _) = take::<U16<BE>>(rest, Layer::Ethernet)?;
            let ethertype = EtherType(ethertype.get());
            if !ethertype.is_tag() {
                return Ok(Self {
                    dst: MacAddr(addresses.dst),
                    src: MacAddr(addresses.src),
                    vlans,
                    ethertype,
                });
            }
            if vlans.len() == VlanStack::MAX {
                return Err(ParseError::TooManyVlanTags);
            }
            let (tag, after) = take::<Tag>(rest, Layer::Vlan)?;
            vlans.push(VlanTag { tpid: ethertype, tci: tag.tci.get() });
            rest = after;
        }
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let short = EmitError::NoRoom { needed: self.header_len(), available: out.len() };
        // Each address straight to its place: six bytes gathered on the stack first would be read
        // back before they are there.
        let (dst, rest) = out.split_first_chunk_mut().ok_or(short)?;
        let (src, mut rest) = rest.split_first_chunk_mut().ok_or(short)?;
        (*dst, *src) = (self.dst.0, self.src.0);
        for tag in self.vlans.iter() {
            put(&Tag { tpid: tag.tpid.0.into(), tci: tag.tci.into() }, rest)?;
            rest = rest.get_mut(4..).ok_or(short)?;
        }
        put(&U16::<BE>::new(self.ethertype.0), rest)
    }
}

/// Skips the header: its EtherType and what follows. The fast path reads no address.
#[inline]
pub(crate) fn take_ethernet(bytes: &[u8]) -> Result<(EtherType, &[u8]), ParseError> {
    let (_, rest) = take::<Addresses>(bytes, Layer::Ethernet)?;
    let (ethertype, after) = take_ethertype(rest)?;
    // Not a tag, for two comparisons less.
    if ethertype == EtherType::IPV4 { Ok((ethertype, after)) } else { skip_tags(rest) }
}

#[inline]
fn take_ethertype(bytes: &[u8]) -> Result<(EtherType, &[u8]), ParseError> {
    let (ethertype, after) = take::<U16<BE>>(bytes, Layer::Ethernet)?;
    Ok((EtherType(ethertype.get()), after))
}

/// The first EtherType that is no tag, and what follows it.
#[inline]
fn skip_tags(mut rest: &[u8]) -> Result<(EtherType, &[u8]), ParseError> {
    for _ in 0..=VlanStack::MAX {
        let (ethertype, after) = take_ethertype(rest)?;
        if !ethertype.is_tag() {
            return Ok((ethertype, after));
        }
        (_, rest) = take::<Tag>(rest, Layer::Vlan)?;
    }
    Err(ParseError::TooManyVlanTags)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: [u8; 22] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x60, 0x07, 0x81, 0x00, 0xbf, 0xff, 0x08,
        0x00,
    ];

    #[test]
    fn two_tags_parse_and_emit_to_the_same_bytes() {
        let header = Ethernet::parse(&TAGGED).unwrap();
        let tags: [Option<VlanTag>; 2] = {
            let mut it = header.vlans.iter();
            [it.next(), it.next()]
        };
        assert_eq!(tags[0], Some(VlanTag { tpid: EtherType::QINQ, tci: 0x6007 }));
        let inner = tags[1].unwrap();
        assert_eq!((inner.pcp(), inner.dei(), inner.vid()), (5, true, 0xfff));
        assert_eq!(header.ethertype, EtherType::IPV4);
        let mut out = [0x5a; 23];
        header.emit(&mut out).unwrap();
        assert_eq!(&out[..22], &TAGGED);
        assert_eq!(out[22], 0x5a);
    }

    #[test]
    fn every_truncation_is_an_error() {
        for len in 0..TAGGED.len() {
            assert!(matches!(Ethernet::parse(&TAGGED[..len]), Err(ParseError::Truncated { .. })));
            let header = Ethernet::parse(&TAGGED).unwrap();
            assert!(header.emit(&mut [0; 22][..len]).is_err());
        }
    }

    #[test]
    fn a_fourth_tag_is_refused() {
        let mut bytes = [0; 40];
        for tag in 0..4 {
            bytes[12 + 4 * tag] = 0x81;
        }
        assert_eq!(Ethernet::parse(&bytes), Err(ParseError::TooManyVlanTags));
        assert_eq!(take_ethernet(&bytes).unwrap_err(), ParseError::TooManyVlanTags);
    }
}
