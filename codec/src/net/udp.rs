//! UDP, and the source port that carries a flow's entropy.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source port          |    Destination port (4791)    |
//! +-------------------------------+-------------------------------+
//! |            Length             |           Checksum            |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! 8 bytes. RFC 768; IBTA Annex A17. In the ICRC the checksum counts as ones.

use zerocopy::byteorder::{BE, U16};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ib::Qpn;
use crate::wire::{put, take};
use crate::{EmitError, Layer, ParseError};

/// The UDP destination port of RoCEv2. The source port says nothing: it is entropy.
pub const ROCE_V2_PORT: u16 = 4791;

#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct UdpWire {
    pub(crate) src_port: U16<BE>,
    pub(crate) dst_port: U16<BE>,
    pub(crate) length: U16<BE>,
    checksum: U16<BE>,
}

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Udp {
    /// Source port: any value is legal to receive; senders use 0xC000 to 0xFFFF.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of the datagram, this header included.
    pub length: u16,
    /// Checksum; RoCEv2 senders write 0.
    pub checksum: u16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = 8;
    /// IP's number for UDP.
    pub const PROTOCOL: u8 = 17;

    /// A header to port 4791 with the checksum that RoCEv2 senders write, 0. The length is for
    /// [`FrameBuilder::set_payload_len`](crate::FrameBuilder::set_payload_len).
    #[must_use]
    pub const fn new(src_port: u16) -> Self {
        Self { src_port, dst_port: ROCE_V2_PORT, length: 0, checksum: 0 }
    }

    /// Parses the header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(take::<UdpWire>(bytes, Layer::Udp)?.0.value())
    }

    /// Writes the header at the front of `out`.
    ///
    /// # Errors
    /// [`EmitError::NoRoom`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let wire = UdpWire {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            length: self.length.into(),
            checksum: self.checksum.into(),
        };
        put(&wire, out)
    }
}

impl UdpWire {
    pub(crate) fn value(&self) -> Udp {
        Udp {
            src_port: self.src_port.get(),
            dst_port: self.dst_port.get(),
            length: self.length.get(),
            checksum: self.checksum.get(),
        }
    }
}

/// Folds a 20-bit flow label into the source port range 0xC000 to 0xFFFF, as Linux and the NICs
/// that follow it do.
#[must_use]
pub const fn source_port_from_flow_label(flow_label: u32) -> u16 {
    let folded = (flow_label & 0x3fff) ^ ((flow_label >> 14) & 0x3f);
    let [_, _, high, low] = folded.to_be_bytes();
    u16::from_be_bytes([high | 0xc0, low])
}

/// The flow label of a connection that was given none: a hash of its two QPNs, the same from
/// either side.
#[must_use]
pub const fn flow_label_from_qpns(local: Qpn, remote: Qpn) -> u32 {
    // `u64::from` is not const; both factors are 24-bit, so the product fits.
    let mut hash = local.get() as u64 * remote.get() as u64;
    hash ^= hash >> 20;
    hash ^= hash >> 40;
    let [_, _, _, _, _, a, b, c] = hash.to_be_bytes();
    u32::from_be_bytes([0, a & 0x0f, b, c])
}

/// The flow label that Linux's RDMA CM asks for in its REQ: a hash of the two ports its user named
/// (which are no UDP ports). The connection's source port follows by
/// [`source_port_from_flow_label`].
#[must_use]
pub const fn flow_label_from_cm_ports(src: u16, dst: u16) -> u32 {
    let ([sh, sl], [dh, dl]) = (src.to_be_bytes(), dst.to_be_bytes());
    let [src, dst] = [u32::from_be_bytes([0, 0, sh, sl]), u32::from_be_bytes([0, 0, dh, dl])];
    // At most 65535 times 32: fits.
    src.wrapping_mul(31).wrapping_add(dst) & 0x000f_ffff
}

/// The source port of Linux rxe's datagrams, UD and queue pair 1: a hash of the source QP, by the
/// golden ratio's fraction, in the upper quarter of the ports.
#[must_use]
pub const fn datagram_source_port(src_qp: Qpn) -> u16 {
    let hash = src_qp.get().wrapping_mul(0x61c8_8647) >> 18;
    let [_, _, high, low] = hash.to_be_bytes();
    u16::from_be_bytes([high | 0xc0, low])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 73.
    #[test]
    fn source_ports_seen_on_linux() {
        for (label, port) in
            [(0, 0xc000), (1, 0xc001), (0x3fff, 0xffff), (0x4000, 0xc001), (0xfffff, 0xffc0)]
        {
            assert_eq!(source_port_from_flow_label(label), port, "{label:#x}");
        }
        for (a, b, port) in [
            (1, 1, 0xc001),
            (0x12_3456, 0xab_cdef, 0xc3c8),
            (0x20, 0x21, 0xc420),
            (0x1c, 0x1e, 0xc348),
        ] {
            let (a, b) = (Qpn::new(a), Qpn::new(b));
            assert_eq!(source_port_from_flow_label(flow_label_from_qpns(a, b)), port);
            assert_eq!(flow_label_from_qpns(a, b), flow_label_from_qpns(b, a));
        }
    }

    #[test]
    fn parse_emit() {
        let bytes = [0xc0, 0x01, 0x12, 0xb7, 0, 28, 0xac, 0xa2];
        let header = Udp::parse(&bytes).unwrap();
        assert_eq!(header.dst_port, ROCE_V2_PORT);
        assert_eq!((header.length, header.checksum), (28, 0xaca2));
        let mut out = [0; 8];
        header.emit(&mut out).unwrap();
        assert_eq!(out, bytes);
        for len in 0..8 {
            assert!(Udp::parse(&bytes[..len]).is_err());
        }
    }
}
