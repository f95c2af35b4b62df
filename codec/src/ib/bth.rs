//! The base transport header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-+-+---+-------+-------------------------------+
//! |    OpCode     |S|M|Pad| TVer  |         Partition key         |
//! +-+-+-----------+-+-+---+-------+-------------------------------+
//! |F|B|   Resv6   |             Destination QP                    |
//! +-+-+-----------+-----------------------------------------------+
//! |A|    Resv7    |           Packet sequence number              |
//! +-+-------------+-----------------------------------------------+
//! ```
//!
//! 12 bytes. IBTA Vol. 1, 9.2. In the ICRC byte 4 (F, B and Resv6) counts as ones.

use zerocopy::byteorder::{BE, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Opcode, PKey, Psn, Qpn};
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct BthWire {
    pub(crate) opcode: u8,
    flags: u8,
    pkey: U16<BE>,
    /// FECN, BECN, Resv6 and the destination QP.
    ecn_qp: U32<BE>,
    /// AckReq, Resv7 and the PSN.
    ack_psn: U32<BE>,
}

/// The base transport header, every bit of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bth {
    /// Operation code.
    pub opcode: Opcode,
    /// Solicited event: the receiver shall wake its consumer.
    pub solicited: bool,
    /// Migration state.
    pub mig_req: bool,
    /// Pad bytes between payload and ICRC, 0 to 3.
    pub pad_count: u8,
    /// Transport header version, 4 bits; 0 is the only one.
    pub version: u8,
    /// Partition key.
    pub pkey: PKey,
    /// Forward explicit congestion notification (native InfiniBand).
    pub fecn: bool,
    /// Backward explicit congestion notification; set in a CNP.
    pub becn: bool,
    /// Reserved, 6 bits.
    pub resv6: u8,
    /// The QP this packet is for.
    pub dest_qp: Qpn,
    /// Acknowledge request.
    pub ack_req: bool,
    /// Reserved, 7 bits.
    pub resv7: u8,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes of the header.
    pub const LEN: usize = 12;

    /// A header with the given opcode, destination and PSN, and everything else as senders set
    /// it by default: default P_Key, no flags.
    #[must_use]
    pub const fn new(opcode: Opcode, dest_qp: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            mig_req: false,
            pad_count: 0,
            version: 0,
            pkey: PKey::DEFAULT,
            fecn: false,
            becn: false,
            resv6: 0,
            dest_qp,
            ack_req: false,
            resv7: 0,
            psn,
        }
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(take::<BthWire>(bytes, Layer::Bth)?.0.value())
    }

    /// Writes the header at the front of `out`. Bits above a field's width are dropped.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire = BthWire {
            opcode: self.opcode.0,
            flags: u8::from(self.solicited) << 7
                | u8::from(self.mig_req) << 6
                | (self.pad_count & 3) << 4
                | self.version & 0x0f,
            pkey: self.pkey.0.into(),
            ecn_qp: byte_and_u24(
                u8::from(self.fecn) << 7 | u8::from(self.becn) << 6 | self.resv6 & 0x3f,
                self.dest_qp.get(),
            ),
            ack_psn: byte_and_u24(u8::from(self.ack_req) << 7 | self.resv7 & 0x7f, self.psn.get()),
        };
        put(&wire, out)
    }
}

/// A byte of flags above a number of 24 bits.
#[inline]
fn byte_and_u24(byte: u8, number: u32) -> U32<BE> {
    U32::new(u32::from(byte) << 24 | number & 0x00ff_ffff)
}

impl BthWire {
    #[inline]
    pub(crate) fn pad_count(&self) -> u8 {
        self.flags >> 4 & 3
    }

    #[inline]
    pub(crate) fn dest_qp(&self) -> Qpn {
        Qpn::new(self.ecn_qp.get())
    }

    #[inline]
    pub(crate) fn psn(&self) -> Psn {
        Psn::new(self.ack_psn.get())
    }

    #[inline]
    pub(crate) fn value(&self) -> Bth {
        let [ecn_resv6, ..] = self.ecn_qp.to_bytes();
        let [ack_resv7, ..] = self.ack_psn.to_bytes();
        Bth {
            opcode: Opcode(self.opcode),
            solicited: self.flags & 0x80 != 0,
            mig_req: self.flags & 0x40 != 0,
            pad_count: self.pad_count(),
            version: self.flags & 0x0f,
            pkey: PKey(self.pkey.get()),
            fecn: ecn_resv6 & 0x80 != 0,
            becn: ecn_resv6 & 0x40 != 0,
            resv6: ecn_resv6 & 0x3f,
            dest_qp: self.dest_qp(),
            ack_req: ack_resv7 & 0x80 != 0,
            resv7: ack_resv7 & 0x7f,
            psn: self.psn(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with something in every field but Resv6; what each holds is typed by hand below.
    const BYTES: [u8; 12] =
        [0x0a, 0x71, 0x0a, 0x1c, 0x40, 0x02, 0x38, 0xf2, 0xfa, 0x05, 0x00, 0x01];

    #[test]
    fn fields_by_hand() {
        let bth = Bth::parse(&BYTES).unwrap();
        assert_eq!(bth.opcode, Opcode::RC_RDMA_WRITE_ONLY);
        assert!(!bth.solicited && bth.mig_req);
        assert_eq!((bth.pad_count, bth.version), (3, 1));
        assert_eq!(bth.pkey, PKey(0x0a1c));
        assert!(!bth.fecn && bth.becn);
        assert_eq!(bth.resv6, 0);
        assert_eq!(bth.dest_qp, Qpn::new(0x0238f2));
        assert!(bth.ack_req);
        assert_eq!(bth.resv7, 0x7a);
        assert_eq!(bth.psn, Psn::new(0x050001));
    }

    #[test]
    fn every_bit_survives() {
        for byte in 0..12 {
            for bit in 0..8 {
                let mut bytes = BYTES;
                bytes[byte] ^= 1 << bit;
                let mut out = [0xee; 12];
                Bth::parse(&bytes).unwrap().emit(&mut out).unwrap();
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn a_setter_touches_only_its_bits() {
        let mut bth = Bth::new(Opcode::RC_ACKNOWLEDGE, Qpn::new(0x118), Psn::new(0));
        bth.becn = true;
        bth.resv6 = 0;
        let mut out = [0; 12];
        bth.emit(&mut out).unwrap();
        assert_eq!(out[4..8], [0x40, 0, 1, 0x18]);
        for len in 0..12 {
            assert!(Bth::parse(&out[..len]).is_err());
            assert!(bth.emit(&mut [0; 12][..len]).is_err());
        }
    }
}
