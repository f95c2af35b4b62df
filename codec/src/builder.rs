//! [`FrameBuilder`]: a whole packet in values, the inverse of [`Frame`](crate::Frame).

use roce_crc::Crc32;

use crate::EmitError;
use crate::ib::{Bth, ExtHeaders, Opcode, Psn, Qpn};
use crate::icrc::{Icrc, Network};
use crate::net::{Ethernet, Ip, Udp};
use crate::transport::{TransportBuilder, copy_payload, lengths};

/// A packet in values: what [`Frame`](crate::Frame) takes apart, put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FrameBuilder {
    /// Ethernet header; `None` for a packet that starts with IP.
    pub ethernet: Option<Ethernet>,
    /// IP header.
    pub ip: Ip,
    /// UDP header.
    pub udp: Udp,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers; those the opcode calls for are written.
    pub ext: ExtHeaders,
    /// Pad bytes, of which the BTH's pad count are written. Senders write zeroes.
    pub pad: [u8; 3],
}

impl FrameBuilder {
    /// The traffic class of a CNP: DSCP 48, which NICs send CNPs with unless told otherwise, and
    /// ECT(0).
    pub const CNP_TRAFFIC_CLASS: u8 = 48 << 2 | 2;

    /// A packet from these headers, with no extension header yet and no payload: set what the
    /// opcode calls for in `ext`, then [`set_payload_len`](Self::set_payload_len).
    #[must_use]
    pub const fn new(ethernet: Option<Ethernet>, ip: Ip, src_port: u16, bth: Bth) -> Self {
        Self { ethernet, ip, udp: Udp::new(src_port), bth, ext: ExtHeaders::NONE, pad: [0; 3] }
    }

    /// A congestion notification packet: BECN set, PSN 0, sixteen zero bytes behind the BTH.
    ///
    /// It tells `dest_qp`, the QP that *sends* the flow whose packets were marked, to slow down.
    /// `ip` has the addresses of that direction, from the marked packet's receiver to its sender;
    /// its traffic class, protocol, lengths and checksum are set here. The source port says
    /// nothing: ConnectX writes 0. Source: IBTA Vol. 1, Annex A17; DSCP by NVIDIA's
    /// `np_cnp_dscp`.
    #[must_use]
    pub fn cnp(ethernet: Option<Ethernet>, mut ip: Ip, src_port: u16, dest_qp: Qpn) -> Self {
        match &mut ip {
            Ip::V4(ip) => {
                ip.dscp_ecn = Self::CNP_TRAFFIC_CLASS;
                ip.protocol = Udp::PROTOCOL;
            }
            Ip::V6(ip) => {
                ip.traffic_class = Self::CNP_TRAFFIC_CLASS;
                ip.next_header = Udp::PROTOCOL;
            }
        }
        let bth = Bth { becn: true, ..Bth::new(Opcode::CNP, dest_qp, Psn::new(0)) };
        let mut cnp = Self::new(ethernet, ip, src_port, bth);
        let set = cnp.set_payload_len(0);
        debug_assert_eq!(set, Ok(()), "40 bytes fit any length field");
        cnp
    }

    /// Bytes before the payload.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.ethernet.map_or(0, |ethernet| ethernet.header_len())
            + self.ip.header_len()
            + Udp::LEN
            + Bth::LEN
            + usize::from(self.bth.opcode.info().headers_len)
    }

    /// Sets the pad count, the UDP and IP lengths and the IPv4 checksum for `payload_len` bytes.
    ///
    /// # Errors
    /// [`EmitError::TooLong`]; the packet is then as it was.
    #[inline]
    pub fn set_payload_len(&mut self, payload_len: usize) -> Result<(), EmitError> {
        let (pad_count, len) = lengths(&self.bth, payload_len);
        let len = len.saturating_add(Udp::LEN);
        let udp_length = u16::try_from(len).map_err(|_| EmitError::TooLong(len))?;
        self.ip.set_payload_len(len)?;
        self.udp.length = udp_length;
        self.bth.pad_count = pad_count;
        Ok(())
    }

    /// Writes the packet into `out`: the headers as they stand, the payload copied, the pad, and
    /// the ICRC computed anew. Says how many bytes. Lengths are written as they stand: call
    /// [`FrameBuilder::set_payload_len`] first unless they came from a [`Frame`](crate::Frame).
    ///
    /// Inlined, so that values go from registers to the wire; where it is called from many places,
    /// a function of your own around it saves code.
    ///
    /// # Errors
    /// [`EmitError`]; `out` may be partly written.
    #[inline(always)]
    pub fn emit<C: Crc32>(&self, payload: [&[u8]; 2], out: &mut [u8]) -> Result<usize, EmitError> {
        let payload_len = payload[0].len() + payload[1].len();
        let (len, ()) = self.emit_with::<C, _>(payload_len, out, |room, icrc| {
            copy_payload(payload, room, icrc);
        })?;
        Ok(len)
    }

    /// As [`FrameBuilder::emit`], with the payload put in place by `fill`, which must write and
    /// feed to the ICRC exactly the bytes it is given. Returns the length and what `fill` returned.
    ///
    /// # Errors
    /// [`EmitError`]; `out` may be partly written.
    #[inline(always)]
    pub fn emit_with<C: Crc32, R>(
        &self,
        payload_len: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8], &mut Icrc<C>) -> R,
    ) -> Result<(usize, R), EmitError> {
        let link_len = self.ethernet.map_or(0, |ethernet| ethernet.header_len());
        let transport =
            TransportBuilder { bth: self.bth, ext: &self.ext, pad: self.pad, payload_len };
        let network = match self.ip {
            Ip::V4(_) => Network::Ipv4,
            Ip::V6(_) => Network::Ipv6,
        };
        let needed = transport.len().saturating_add(link_len + network.header_len());
        let short = EmitError::NoRoom { needed, available: out.len() };
        let out = out.get_mut(..needed).ok_or(short)?;

        let (link, l3) = out.split_at_mut_checked(link_len).ok_or(short)?;
        if let Some(ethernet) = &self.ethernet {
            ethernet.emit(link)?;
        }
        self.ip.emit(l3)?;
        self.udp.emit(l3.get_mut(self.ip.header_len()..).unwrap_or_default())?;
        let filled = transport.emit(network, l3, fill)?;
        Ok((needed, filled))
    }
}
