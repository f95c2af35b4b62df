//! A whole packet: [`Frame`], the validated view of one.

mod diagnosis;
mod foreign;

use core::net::IpAddr;
use core::ops::Deref;

use roce_crc::Crc32;

use crate::ib::Bth;
use crate::icrc::{ICRC_LEN, Icrc, IcrcVerdict, Network};
use crate::net::{
    EtherType, Ethernet, Ip, Ipv4, Ipv4Wire, Ipv6, Ipv6Wire, ROCE_V2_PORT, Udp, UdpWire,
    take_ethernet,
};
use crate::transport::{LengthField, Segments, TransportParts};
use crate::wire::take;
use crate::{FrameBuilder, Layer, ParseError, Transport};

/// The layer a packet starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Start {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header; the version nibble tells which.
    Ip,
}

/// What to do with a packet that was cut short behind its headers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Allowed,
    Refused,
}

/// Bytes of the shortest RoCEv2 datagram, its UDP header included.
const SHORTEST: usize = Udp::LEN + Bth::LEN + ICRC_LEN;

#[derive(Debug, Clone, Copy)]
enum IpRef<'a> {
    V4(&'a Ipv4Wire),
    V6(&'a Ipv6Wire),
}

impl IpRef<'_> {
    fn layer(self) -> Layer {
        match self {
            Self::V4(_) => Layer::Ipv4,
            Self::V6(_) => Layer::Ipv6,
        }
    }
}

/// A RoCEv2 packet whose layers have been found and whose lengths agree.
///
/// It borrows the packet and copies nothing; accessors turn a header into a value when asked.
/// BTH, extension headers, payload and ICRC are those of [`Transport`]. The packet may lie in two
/// segments (a jumbo frame is two AF_XDP descriptors), all headers in the first. That the packet
/// is *correct* is another question, for [`Frame::verify_icrc`] and for whoever knows the queue
/// pair.
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
    ip: IpRef<'a>,
    udp: &'a UdpWire,
    transport: Transport<'a>,
}

// A frame is a transport packet with something around it.
impl<'a> Deref for Frame<'a> {
    type Target = Transport<'a>;

    #[inline]
    fn deref(&self) -> &Transport<'a> {
        &self.transport
    }
}

impl<'a> Frame<'a> {
    /// Parses a whole packet.
    ///
    /// # Errors
    /// [`ParseError`]: another protocol, a fragment, IP options, lengths that disagree, or a
    /// packet cut short. Bytes after the IP packet (Ethernet padding) are the
    /// [trailer](Transport::trailer).
    #[inline]
    pub fn parse(segments: [&'a [u8]; 2], start: Start) -> Result<Self, ParseError> {
        Self::layers(segments, start, Cut::Refused)
    }

    /// Parses a packet that a capture may have cut short behind its headers: the payload is then
    /// what there is of it, [`missing`](Transport::missing) says what there is not, and the ICRC is
    /// not checkable.
    ///
    /// # Errors
    /// As [`Frame::parse`], a cut behind the headers excepted.
    #[inline]
    pub fn parse_captured(segments: [&'a [u8]; 2], start: Start) -> Result<Self, ParseError> {
        Self::layers(segments, start, Cut::Allowed)
    }

    #[inline(always)]
    fn layers(segments: [&'a [u8]; 2], start: Start, cut: Cut) -> Result<Self, ParseError> {
        let [head, tail] = segments;
        let (ethertype, l3) = match start {
            Start::Ethernet => take_ethernet(head),
            Start::Ip => ip_version(head),
        }
        .map_err(|error| split(error, tail))?;
        let link = head.get(..head.len() - l3.len()).unwrap_or_default();
        let packet = Segments([l3, tail]);
        match ethertype {
            EtherType::IPV4 => {
                let (ip, _) =
                    take::<Ipv4Wire>(l3, Layer::Ipv4).map_err(|error| split(error, tail))?;
                if !ip.is_bare_udp() {
                    return Err(foreign::ipv4(ip, l3));
                }
                let end = usize::from(ip.total_len.get());
                Self::udp_packet(link, IpRef::V4(ip), packet, Ipv4::LEN, end, cut)
            }
            EtherType::IPV6 => {
                let (ip, rest) =
                    take::<Ipv6Wire>(l3, Layer::Ipv6).map_err(|error| split(error, tail))?;
                ip.check()?;
                if ip.next_header != Udp::PROTOCOL {
                    return Err(foreign::ipv6(ip.next_header, rest));
                }
                let end = Ipv6::LEN + usize::from(ip.payload_len.get());
                Self::udp_packet(link, IpRef::V6(ip), packet, Ipv6::LEN, end, cut)
            }
            EtherType(found) => Err(ParseError::NotRoce { layer: Layer::Ethernet, found }),
        }
    }

    /// An IP packet that ends at `end`, with UDP at `udp_at`.
    #[inline(always)]
    fn udp_packet(
        link: &'a [u8],
        ip: IpRef<'a>,
        packet: Segments<'a>,
        udp_at: usize,
        end: usize,
        cut: Cut,
    ) -> Result<Self, ParseError> {
        let [head, tail] = packet.0;
        let Datagram { udp, parts } = match head.get(..end) {
            Some(whole) if whole.len() >= udp_at + SHORTEST => {
                let datagram = whole.get(udp_at..).unwrap_or_default();
                let (udp, rest, len) = Datagram::head(datagram, datagram.len())?;
                let parts = TransportParts::take(rest, len, LENGTH)?;
                Datagram { udp, parts: parts.whole() }
            }
            _ => Datagram::in_parts(ip.layer(), head, tail, udp_at, end, cut)?,
        };
        let transport = Transport::new(packet, udp_at + Udp::LEN, parts);
        Ok(Self { link, ip, udp, transport })
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

    #[inline]
    fn network(&self) -> Network {
        match self.ip {
            IpRef::V4(_) => Network::Ipv4,
            IpRef::V6(_) => Network::Ipv6,
        }
    }

    /// The ICRC that the packet's contents call for, by the kernel of your choice; `None` if the
    /// packet is cut.
    #[inline]
    #[must_use]
    pub fn computed_icrc<C: Crc32>(&self) -> Option<[u8; ICRC_LEN]> {
        if self.missing() > 0 {
            return None;
        }
        let [head, tail] = self.covered();
        let mut icrc = Icrc::<C>::packet(self.network(), head);
        if !tail.is_empty() {
            icrc.update(tail);
        }
        Some(icrc.finish())
    }

    /// The ICRC that the packet would have if it ended behind the BTH. By it and the ICRC of the
    /// whole, [`combine`](roce_crc::combine) tells whether two packets of one length agree in all
    /// that follows the BTH, although their IP headers differ.
    #[inline]
    #[must_use]
    pub fn icrc_of_headers<C: Crc32>(&self) -> [u8; ICRC_LEN] {
        let [head, _] = self.covered();
        let network = self.network();
        let len = network.header_len() + Bth::LEN;
        Icrc::<C>::packet(network, head.get(..len).unwrap_or(head)).finish()
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
        self.icrc_verdict(self.computed_icrc::<C>())
    }

    /// The values that [`FrameBuilder::emit`] turns back into this packet.
    #[must_use]
    pub fn to_builder(&self) -> FrameBuilder {
        FrameBuilder {
            ethernet: self.ethernet(),
            ip: self.ip(),
            udp: self.udp(),
            bth: self.bth(),
            ext: self.ext_headers(),
            pad: self.pad().bytes(),
        }
    }
}

/// UDP's length field is the one that says where the ICRC ends.
const LENGTH: LengthField = LengthField { layer: Layer::Udp, before_bth: Udp::LEN };

/// What a UDP datagram holds.
struct Datagram<'a> {
    udp: &'a UdpWire,
    parts: TransportParts<'a>,
}

impl<'a> Datagram<'a> {
    /// The UDP header of a datagram of `len` bytes, what `part` of it holds behind the header, and
    /// how many bytes should.
    #[inline(always)]
    fn head(part: &'a [u8], len: usize) -> Result<(&'a UdpWire, &'a [u8], usize), ParseError> {
        let (udp, rest) = take::<UdpWire>(part, Layer::Udp)?;
        if udp.dst_port.get() != ROCE_V2_PORT {
            return Err(ParseError::NotRoce { layer: Layer::Udp, found: udp.dst_port.get() });
        }
        let field = usize::from(udp.length.get());
        if field != len {
            return Err(ParseError::Length { layer: Layer::Udp, field, expected: len });
        }
        Ok((udp, rest, len - Udp::LEN))
    }

    /// A datagram that does not lie whole in the first segment, or is too short to be one.
    #[cold]
    #[inline(never)]
    fn in_parts(
        layer: Layer,
        head: &'a [u8],
        tail: &'a [u8],
        udp_at: usize,
        end: usize,
        cut: Cut,
    ) -> Result<Self, ParseError> {
        let len = end.saturating_sub(udp_at);
        if len < Udp::LEN {
            // IPv6's length field does not count its own header.
            let uncounted = if layer == Layer::Ipv6 { Ipv6::LEN } else { 0 };
            let expected = udp_at + Udp::LEN - uncounted;
            return Err(ParseError::Length { layer, field: end - uncounted, expected });
        }
        let part = head.get(..end).unwrap_or(head).get(udp_at..).unwrap_or_default();
        let found = Self::head(part, len).and_then(|(udp, rest, len)| {
            Ok(Self { udp, parts: TransportParts::take(rest, len, LENGTH)? })
        });
        let packet = Segments([head, tail]);
        let missing = end.saturating_sub(packet.len());
        match found {
            Err(error) => Err(split(error, tail)),
            Ok(_) if missing > 0 && cut == Cut::Refused => {
                let needed = len - Udp::LEN;
                let available = needed.saturating_sub(missing);
                Err(ParseError::Truncated { layer: Layer::Payload, needed, available })
            }
            Ok(Self { udp, parts }) => Ok(Self { udp, parts: parts.split_over(packet, end) }),
        }
    }
}

/// Only headers are taken from the first segment alone.
#[cold]
fn split(error: ParseError, tail: &[u8]) -> ParseError {
    match error {
        ParseError::Truncated { .. } if !tail.is_empty() => ParseError::SplitHeaders,
        error => error,
    }
}

#[inline]
fn ip_version(bytes: &[u8]) -> Result<(EtherType, &[u8]), ParseError> {
    match bytes.first() {
        Some(first) if first >> 4 == 4 => Ok((EtherType::IPV4, bytes)),
        Some(first) if first >> 4 == 6 => Ok((EtherType::IPV6, bytes)),
        Some(first) => {
            Err(ParseError::NotRoce { layer: Layer::Ipv4, found: u16::from(first >> 4) })
        }
        None => Err(ParseError::Truncated { layer: Layer::Ipv4, needed: Ipv4::LEN, available: 0 }),
    }
}
