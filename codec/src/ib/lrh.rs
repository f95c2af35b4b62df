//! The local route header, with which every packet of native InfiniBand starts.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-------+---+---+-------------------------------+
//! |  VL   | LVer  |  SL   |Rsv|LNH|     Destination local ID      |
//! +-------+-------+-------+---+---+-------------------------------+
//! |  Resv   |    Packet length    |        Source local ID        |
//! +---------+---------------------+-------------------------------+
//! ```
//!
//! 8 bytes. IBTA Vol. 1, 7.7. The packet length counts words of four bytes, from this header to
//! the ICRC, both included. In the ICRC the VL counts as ones, and the whole header does if a GRH
//! follows.

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Lid;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LrhWire {
    vl_lver: u8,
    /// Service level, two reserved bits, LNH.
    sl_lnh: u8,
    dlid: U16<BE>,
    /// Five reserved bits, packet length.
    resv_len: U16<BE>,
    slid: U16<BE>,
}

/// What follows the local route header (LNH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LinkNextHeader {
    /// A raw packet: a raw header with an EtherType, no InfiniBand transport.
    RawEtherType,
    /// A raw packet: an IPv6 header, no InfiniBand transport.
    RawIpv6,
    /// A BTH: the packet stays in its subnet.
    Local,
    /// A GRH, then a BTH.
    Global,
}

impl LinkNextHeader {
    /// The meaning of the two bits; higher ones are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::RawEtherType,
            1 => Self::RawIpv6,
            2 => Self::Local,
            _ => Self::Global,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::RawEtherType => 0,
            Self::RawIpv6 => 1,
            Self::Local => 2,
            Self::Global => 3,
        }
    }
}

/// A local route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lrh {
    /// Virtual lane, 4 bits; 15 is that of subnet management.
    pub vl: u8,
    /// Link version, 4 bits; 0 is the only one.
    pub lver: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// Reserved, 2 bits.
    pub resv2: u8,
    /// What follows.
    pub lnh: LinkNextHeader,
    /// Destination.
    pub dlid: Lid,
    /// Reserved, 5 bits.
    pub resv5: u8,
    /// Words of four bytes from here to the ICRC, both included; 11 bits.
    pub pkt_len: u16,
    /// Source.
    pub slid: Lid,
}

impl Lrh {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// The largest packet length, in words.
    pub const MAX_PKT_LEN: u16 = 0x07ff;

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(take::<LrhWire>(bytes, Layer::Lrh)?.0.value())
    }

    /// Writes the header at the front of `out`. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire = LrhWire {
            vl_lver: self.vl << 4 | self.lver & 15,
            sl_lnh: self.sl << 4 | (self.resv2 & 3) << 2 | self.lnh.bits(),
            dlid: self.dlid.0.into(),
            resv_len: (u16::from(self.resv5) << 11 | self.pkt_len & Self::MAX_PKT_LEN).into(),
            slid: self.slid.0.into(),
        };
        put(&wire, out)
    }
}

impl LrhWire {
    pub(crate) fn lnh(&self) -> LinkNextHeader {
        LinkNextHeader::from_bits(self.sl_lnh)
    }

    /// Bytes from this header to the ICRC, both included.
    pub(crate) fn packet_len(&self) -> usize {
        4 * usize::from(self.resv_len.get() & Lrh::MAX_PKT_LEN)
    }

    pub(crate) fn value(&self) -> Lrh {
        let [resv_len, _] = self.resv_len.to_bytes();
        Lrh {
            vl: self.vl_lver >> 4,
            lver: self.vl_lver & 15,
            sl: self.sl_lnh >> 4,
            resv2: self.sl_lnh >> 2 & 3,
            lnh: self.lnh(),
            dlid: Lid(self.dlid.get()),
            resv5: resv_len >> 3,
            pkt_len: self.resv_len.get() & Lrh::MAX_PKT_LEN,
            slid: Lid(self.slid.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_by_hand() {
        let bytes = [0xf1, 0x2e, 0x37, 0x5c, 0xac, 0x0e, 0x17, 0xd2];
        let lrh = Lrh::parse(&bytes).unwrap();
        assert_eq!((lrh.vl, lrh.lver, lrh.sl, lrh.resv2), (15, 1, 2, 3));
        assert_eq!(lrh.lnh, LinkNextHeader::Local);
        assert_eq!((lrh.dlid, lrh.slid), (Lid(0x375c), Lid(0x17d2)));
        assert_eq!((lrh.resv5, lrh.pkt_len), (0b10101, 0x40e));
        let mut out = [0; 8];
        lrh.emit(&mut out).unwrap();
        assert_eq!(out, bytes);
        for len in 0..8 {
            assert!(Lrh::parse(&bytes[..len]).is_err());
            assert!(lrh.emit(&mut [0; 8][..len]).is_err());
        }
    }

    #[test]
    fn values_too_wide_touch_no_other_field() {
        let wide = Lrh {
            vl: 0xf0,
            lver: 0xf0,
            sl: 0xf0,
            resv2: 0xfc,
            lnh: LinkNextHeader::RawEtherType,
            dlid: Lid(0),
            resv5: 0xe0,
            pkt_len: 0xf800,
            slid: Lid(0),
        };
        let mut out = [0xa5; 8];
        wide.emit(&mut out).unwrap();
        assert_eq!(out, [0; 8]);
    }

    #[test]
    fn what_follows_is_two_bits() {
        for (bits, lnh) in [
            (0, LinkNextHeader::RawEtherType),
            (1, LinkNextHeader::RawIpv6),
            (2, LinkNextHeader::Local),
            (3, LinkNextHeader::Global),
        ] {
            assert_eq!(LinkNextHeader::from_bits(bits), lnh);
            assert_eq!(lnh.bits(), bits);
            assert_eq!(LinkNextHeader::from_bits(bits | 0xf4), lnh);
            assert_eq!(Lrh::parse(&[0, bits, 0, 0, 0, 0, 0, 0]).map(|lrh| lrh.lnh), Ok(lnh));
        }
    }
}
