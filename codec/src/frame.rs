//! A whole packet: [`Frame`], the validated view of one.

mod ext;
mod foreign;
mod segments;

use core::net::IpAddr;

use roce_crc::Crc32;

use crate::ib::{Bth, BthWire, Opcode, OpcodeInfo, Psn, Qpn};
use crate::icrc::{ICRC_LEN, Icrc, IcrcVerdict, NotCheckable};
use crate::net::{
    EtherType, Ethernet, Ip, Ipv4, Ipv4Wire, Ipv6Wire, ROCE_V2_PORT, Udp, UdpWire, take_ethernet,
};
use crate::wire::take;
use crate::{FrameBuilder, Layer, ParseError};
use segments::Segments;

/// The layer a packet starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Start {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header; the version nibble tells which.
    Ip,
}

/// IP's number for UDP.
const UDP: u8 = 17;

/// Bytes of the shortest RoCEv2 datagram, its UDP header included.
const SHORTEST: usize = Udp::LEN + Bth::LEN + ICRC_LEN;

#[derive(Debug, Clone, Copy)]
enum IpRef<'a> {
    V4(&'a Ipv4Wire),
    V6(&'a Ipv6Wire),
}

impl IpRef<'_> {
    /// A UDP header that is not there: left out by the sender, or cut off by the capture (`cut`)?
    #[cold]
    fn too_short(self, len: usize, cut: ParseError) -> ParseError {
        let (layer, header_len) = match self {
            Self::V4(_) => (Layer::Ipv4, Ipv4::LEN),
            // IPv6's length field does not count its own header.
            Self::V6(_) => (Layer::Ipv6, 0),
        };
        if len < Udp::LEN {
            let (field, expected) = (header_len + len, header_len + Udp::LEN);
            ParseError::Length { layer, field, expected }
        } else {
            cut
        }
    }
}

/// A RoCEv2 packet whose layers have been found and whose lengths agree.
///
/// It borrows the packet and copies nothing; accessors turn a header into a value when asked.
/// The packet may lie in two segments (a jumbo frame is two AF_XDP descriptors), all headers in
/// the first. An unknown opcode has no extension headers here: everything behind the BTH is
/// payload. That the packet is *correct* is another question, for [`Frame::verify_icrc`] and for
/// whoever knows the queue pair.
///
/// ```
/// use roce_codec::{Frame, Start, ib::Opcode, icrc::IcrcVerdict};
///
/// let packet = [
///     0x45, 0x02, 0, 0x2c, 0, 1, 0x40, 0, 0x40, 0x11, 0xb6, 0xba, 192, 0, 2, 1, 192, 0, 2, 2,
///     0xc0, 0, 0x12, 0xb7, 0, 0x18, 0, 0,
///     0x04, 0x40, 0xff, 0xff, 0, 0, 1, 0x23, 0x80, 0, 0, 5,
///     0xc9, 0x0e, 0x17, 0x92,
/// ];
/// let frame = Frame::parse([&packet, &[]], Start::Ip)?;
/// assert_eq!(frame.opcode(), Opcode::RC_SEND_ONLY);
/// assert_eq!(frame.payload_len(), 0);
/// assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
/// # Ok::<(), roce_codec::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Everything before the IP header; empty when the packet starts with IP.
    link: &'a [u8],
    /// Everything from the IP header on, what lies behind the packet included.
    l3: Segments<'a>,
    /// Bytes from the IP header to the ICRC, as the lengths say.
    len: usize,
    /// Bytes from the IP header to the payload.
    payload_at: usize,
    ip: IpRef<'a>,
    udp: &'a UdpWire,
    bth: &'a BthWire,
    ext: &'a [u8],
    /// The pad bytes, when they do not lie in the first segment.
    split_pad: [u8; 3],
}

impl<'a> Frame<'a> {
    /// Parses a whole packet.
    ///
    /// # Errors
    /// [`ParseError`]: another protocol, a fragment, IP options, lengths that disagree, or a
    /// packet cut short. Bytes after the IP packet (Ethernet padding) are the
    /// [trailer](Self::trailer).
    #[inline]
    pub fn parse(segments: [&'a [u8]; 2], start: Start) -> Result<Self, ParseError> {
        let frame = Self::parse_captured(segments, start)?;
        let missing = frame.missing();
        if missing == 0 {
            Ok(frame)
        } else {
            let needed = frame.udp_payload_len();
            let available = needed.saturating_sub(missing);
            Err(ParseError::Truncated { layer: Layer::Payload, needed, available })
        }
    }

    /// Parses a packet that a capture may have cut short behind its headers: the payload is then
    /// what there is of it, [`missing`](Self::missing) says what there is not, and the ICRC is
    /// not checkable.
    ///
    /// # Errors
    /// As [`Frame::parse`], a cut behind the headers excepted.
    #[inline]
    pub fn parse_captured(segments: [&'a [u8]; 2], start: Start) -> Result<Self, ParseError> {
        let [head, tail] = segments;
        match Self::layers(head, tail, start) {
            // Only headers are taken from the first segment alone.
            Err(ParseError::Truncated { .. }) if !tail.is_empty() => Err(ParseError::SplitHeaders),
            result => result,
        }
    }

    #[inline(always)]
    fn layers(head: &'a [u8], tail: &'a [u8], start: Start) -> Result<Self, ParseError> {
        let (ethertype, l3) = match start {
            Start::Ethernet => take_ethernet(head)?,
            Start::Ip => (ip_version(head)?, head),
        };
        let link = head.get(..head.len() - l3.len()).unwrap_or_default();
        let (ip, rest, len) = match ethertype {
            EtherType::IPV4 => {
                let (ip, rest) = take::<Ipv4Wire>(l3, Layer::Ipv4)?;
                if !ip.is_bare_udp() {
                    return Err(foreign::ipv4(ip, l3));
                }
                let field = usize::from(ip.total_len.get());
                let len = field.checked_sub(Ipv4::LEN).ok_or(ParseError::Length {
                    layer: Layer::Ipv4,
                    field,
                    expected: Ipv4::LEN + Udp::LEN,
                })?;
                (IpRef::V4(ip), rest, len)
            }
            EtherType::IPV6 => {
                let (ip, rest) = take::<Ipv6Wire>(l3, Layer::Ipv6)?;
                ip.check()?;
                if ip.next_header != UDP {
                    return Err(foreign::ipv6(ip.next_header, rest));
                }
                (IpRef::V6(ip), rest, usize::from(ip.payload_len.get()))
            }
            EtherType(found) => {
                return Err(ParseError::NotRoce { layer: Layer::Ethernet, found });
            }
        };
        Self::transport(link, l3, ip, rest, tail, len)
    }

    /// UDP and what follows. `rest` is what the first segment holds behind the IP header, `len`
    /// what the IP header says follows it.
    #[inline(always)]
    fn transport(
        link: &'a [u8],
        l3: &'a [u8],
        ip: IpRef<'a>,
        rest: &'a [u8],
        tail: &'a [u8],
        len: usize,
    ) -> Result<Self, ParseError> {
        // What lies beyond the IP packet is padding and must not be taken for headers.
        let bounded = rest.get(..len).unwrap_or(rest);
        let (udp, after_udp) =
            take::<UdpWire>(bounded, Layer::Udp).map_err(|error| ip.too_short(len, error))?;
        if udp.dst_port.get() != ROCE_V2_PORT {
            return Err(ParseError::NotRoce { layer: Layer::Udp, found: udp.dst_port.get() });
        }
        let field = usize::from(udp.length.get());
        if field != len {
            return Err(ParseError::Length { layer: Layer::Udp, field, expected: len });
        }
        let (bth, after_bth) = take::<BthWire>(after_udp, Layer::Bth)
            .map_err(|error| udp_too_short(len, SHORTEST, error))?;
        let info = Opcode(bth.opcode).info();
        let ext_len = usize::from(info.headers_len);
        let pad_len = usize::from(bth.pad_count());
        let least = Udp::LEN + Bth::LEN + ext_len + pad_len + ICRC_LEN;
        if len < least {
            return Err(ParseError::Length { layer: Layer::Udp, field: len, expected: least });
        }
        let ext = after_bth.get(..ext_len).ok_or_else(|| cut_header(info, after_bth.len()))?;
        let ip_len = l3.len() - rest.len();
        let l3 = Segments([l3, tail]);
        let pad_end = ip_len + len - ICRC_LEN;
        let split_pad =
            if pad_end <= l3.0[0].len() { [0; 3] } else { l3.pad(pad_end - pad_len, pad_len) };
        let payload_at = ip_len + Udp::LEN + Bth::LEN + ext_len;
        Ok(Self { link, l3, len: ip_len + len, payload_at, ip, udp, bth, ext, split_pad })
    }

    /// The Ethernet header with its VLAN tags; `None` when the packet started with IP.
    #[must_use]
    pub fn ethernet(&self) -> Option<Ethernet> {
        Ethernet::parse(self.link).ok()
    }

    /// The IP header.
    #[must_use]
    pub fn ip(&self) -> Ip {
        match self.ip {
            IpRef::V4(ip) => Ip::V4(ip.value()),
            IpRef::V6(ip) => Ip::V6(ip.value()),
        }
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn src(&self) -> IpAddr {
        match self.ip {
            IpRef::V4(ip) => IpAddr::V4(ip.src.into()),
            IpRef::V6(ip) => IpAddr::V6(ip.src.into()),
        }
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn dst(&self) -> IpAddr {
        match self.ip {
            IpRef::V4(ip) => IpAddr::V4(ip.dst.into()),
            IpRef::V6(ip) => IpAddr::V6(ip.dst.into()),
        }
    }

    /// DSCP in the upper six bits, ECN in the lower two.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        match self.ip {
            IpRef::V4(ip) => ip.dscp_ecn,
            IpRef::V6(ip) => ip.traffic_class(),
        }
    }

    /// The UDP header.
    #[must_use]
    pub fn udp(&self) -> Udp {
        self.udp.value()
    }

    /// Bytes of UDP payload, as the lengths say: BTH to ICRC.
    #[inline]
    #[must_use]
    pub fn udp_payload_len(&self) -> usize {
        usize::from(self.udp.length.get()).saturating_sub(Udp::LEN)
    }

    /// The base transport header.
    #[inline]
    #[must_use]
    pub fn bth(&self) -> Bth {
        self.bth.value()
    }

    /// The opcode.
    #[inline]
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.bth.opcode)
    }

    /// The destination QP.
    #[inline]
    #[must_use]
    pub fn dest_qp(&self) -> Qpn {
        self.bth.dest_qp()
    }

    /// The packet sequence number.
    #[inline]
    #[must_use]
    pub fn psn(&self) -> Psn {
        self.bth.psn()
    }

    /// The payload, without pad.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> [&'a [u8]; 2] {
        self.l3.range(self.payload_at, self.payload_len())
    }

    /// Bytes of payload the lengths promise, whether captured or not.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> usize {
        let behind = usize::from(self.bth.pad_count()) + ICRC_LEN;
        self.len.saturating_sub(self.payload_at + behind)
    }

    /// The pad bytes; zeroes where the capture is cut.
    #[must_use]
    pub fn pad(&self) -> &[u8] {
        let len = usize::from(self.bth.pad_count());
        let at = self.payload_at + self.payload_len();
        match self.l3.0[0].get(at..at + len) {
            Some(pad) => pad,
            None => self.split_pad.get(..len).unwrap_or_default(),
        }
    }

    /// The ICRC as the packet carries it; zeroes where the capture is cut.
    #[inline]
    #[must_use]
    pub fn icrc(&self) -> [u8; ICRC_LEN] {
        let mut icrc = [0; ICRC_LEN];
        self.l3.copy_to(self.len.saturating_sub(ICRC_LEN), &mut icrc);
        icrc
    }

    /// Bytes that the lengths promise and the capture does not hold.
    #[inline]
    #[must_use]
    pub fn missing(&self) -> usize {
        self.len.saturating_sub(self.l3.len())
    }

    /// What follows the IP packet: Ethernet padding, or a trailer somebody added.
    #[must_use]
    pub fn trailer(&self) -> [&'a [u8]; 2] {
        self.l3.range(self.len, usize::MAX)
    }

    /// IP to the end of the BTH, as they are on the wire.
    #[must_use]
    pub fn headers(&self) -> &'a [u8] {
        self.l3.range(0, self.payload_at.saturating_sub(self.ext.len()))[0]
    }

    /// The extension headers' bytes.
    #[must_use]
    pub fn ext_bytes(&self) -> &'a [u8] {
        self.ext
    }

    /// The ICRC that the packet's contents call for, by the kernel of your choice; `None` if the
    /// packet is cut.
    #[inline]
    #[must_use]
    pub fn computed_icrc<C: Crc32>(&self) -> Option<[u8; ICRC_LEN]> {
        if self.missing() > 0 {
            return None;
        }
        let [head, tail] = self.l3.range(0, self.len.saturating_sub(ICRC_LEN));
        let mut icrc = match self.ip {
            IpRef::V4(_) => Icrc::<C>::ipv4_packet(head),
            IpRef::V6(_) => Icrc::<C>::ipv6_packet(head),
        };
        if !tail.is_empty() {
            icrc.update(tail);
        }
        Some(icrc.finish())
    }

    /// Checks the ICRC with the default kernel.
    #[inline]
    #[must_use]
    pub fn verify_icrc(&self) -> IcrcVerdict {
        self.verify_icrc_with::<roce_crc::Crc>()
    }

    /// Checks the ICRC with the kernel of your choice.
    #[inline]
    #[must_use]
    pub fn verify_icrc_with<C: Crc32>(&self) -> IcrcVerdict {
        let Some(expected) = self.computed_icrc::<C>() else {
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

    /// The values that [`FrameBuilder::emit`] turns back into this packet.
    #[must_use]
    pub fn to_builder(&self) -> FrameBuilder {
        let mut pad = [0; 3];
        for (to, byte) in pad.iter_mut().zip(self.pad()) {
            *to = *byte;
        }
        FrameBuilder {
            ethernet: self.ethernet(),
            ip: self.ip(),
            udp: self.udp(),
            bth: self.bth(),
            ext: self.ext_headers(),
            pad,
        }
    }
}

#[inline]
fn ip_version(bytes: &[u8]) -> Result<EtherType, ParseError> {
    match bytes.first() {
        Some(first) if first >> 4 == 4 => Ok(EtherType::IPV4),
        Some(first) if first >> 4 == 6 => Ok(EtherType::IPV6),
        Some(first) => {
            Err(ParseError::NotRoce { layer: Layer::Ipv4, found: u16::from(first >> 4) })
        }
        None => Err(ParseError::Truncated { layer: Layer::Ipv4, needed: Ipv4::LEN, available: 0 }),
    }
}

/// A BTH that is not there: left out by the sender, or cut off by the capture (`cut`)?
#[cold]
fn udp_too_short(field: usize, expected: usize, cut: ParseError) -> ParseError {
    if field < expected { ParseError::Length { layer: Layer::Udp, field, expected } } else { cut }
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
