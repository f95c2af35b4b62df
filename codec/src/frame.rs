//! A whole packet: [`Frame`], the validated view of one.

mod foreign;

use core::net::IpAddr;
use core::ops::Deref;

use roce_crc::Crc32;

use crate::icrc::{ICRC_LEN, Icrc, IcrcVerdict};
use crate::net::{
    EtherType, Ethernet, Ip, Ipv4, Ipv4Wire, Ipv6Wire, ROCE_V2_PORT, Udp, UdpWire, take_ethernet,
};
use crate::transport::{LengthField, Segments};
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

/// IP's number for UDP.
const UDP: u8 = 17;

#[derive(Debug, Clone, Copy)]
enum IpRef<'a> {
    V4(&'a Ipv4Wire),
    V6(&'a Ipv6Wire),
}

impl IpRef<'_> {
    /// A UDP header that is not there: the sender left it out, or the capture cut it off
    /// (`available` bytes are left of `len`).
    #[cold]
    fn too_short(self, len: usize, available: usize) -> ParseError {
        let (layer, header_len) = match self {
            Self::V4(_) => (Layer::Ipv4, Ipv4::LEN),
            // IPv6's length field does not count its own header.
            Self::V6(_) => (Layer::Ipv6, 0),
        };
        if len < Udp::LEN {
            let (field, expected) = (header_len + len, header_len + Udp::LEN);
            ParseError::Length { layer, field, expected }
        } else {
            ParseError::Truncated { layer: Layer::Udp, needed: Udp::LEN, available }
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
    /// [trailer](Self::trailer).
    #[inline]
    pub fn parse(segments: [&'a [u8]; 2], start: Start) -> Result<Self, ParseError> {
        let frame = Self::parse_captured(segments, start)?;
        if frame.missing() == 0 { Ok(frame) } else { Err(frame.truncated()) }
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
        let udp = match take::<UdpWire>(rest, Layer::Udp) {
            Ok((udp, _)) if len >= Udp::LEN => udp,
            _ => return Err(ip.too_short(len, rest.len())),
        };
        if udp.dst_port.get() != ROCE_V2_PORT {
            return Err(ParseError::NotRoce { layer: Layer::Udp, found: udp.dst_port.get() });
        }
        let field = usize::from(udp.length.get());
        if field != len {
            return Err(ParseError::Length { layer: Layer::Udp, field, expected: len });
        }
        let ip_len = l3.len() - rest.len();
        let length = LengthField { layer: Layer::Udp, before_bth: Udp::LEN };
        let packet = Segments([l3, tail]);
        let transport = Transport::take(packet, ip_len + Udp::LEN, ip_len + len, length)?;
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

    /// The ICRC that the packet's contents call for, by the kernel of your choice; `None` if the
    /// packet is cut.
    #[inline]
    #[must_use]
    pub fn computed_icrc<C: Crc32>(&self) -> Option<[u8; ICRC_LEN]> {
        if self.missing() > 0 {
            return None;
        }
        let [head, tail] = self.covered();
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
