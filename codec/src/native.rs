//! A packet that is not RoCEv2: [`NativeFrame`], native InfiniBand and RoCE v1.

mod builder;
mod diagnosis;

use core::ops::Deref;

use roce_crc::Crc32;

use crate::ib::{Bth, LinkNextHeader, Lrh, LrhWire, VCRC_LEN, Vcrc, VcrcVerdict};
use crate::icrc::{ICRC_LEN, Icrc, IcrcVerdict, Network};
use crate::net::{EtherType, Ethernet, Grh, GrhWire, take_ethernet};
use crate::transport::{LengthField, Segments};
use crate::wire::take;
use crate::{Layer, ParseError, Transport};

pub use builder::{NativeBuilder, Route};

/// The layer a packet starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum NativeStart {
    /// A local route header: native InfiniBand.
    Lrh,
    /// An Ethernet header: RoCE v1, EtherType 0x8915.
    Ethernet,
    /// A global route header.
    Grh,
}

#[derive(Debug, Clone, Copy)]
enum RouteRef<'a> {
    Local(&'a LrhWire),
    Global(Option<&'a LrhWire>, &'a GrhWire),
}

/// A packet of native InfiniBand or RoCE v1 whose layers have been found and whose lengths agree.
///
/// What [`Frame`](crate::Frame) is for RoCEv2: it borrows the packet and copies nothing, BTH,
/// extension headers, payload and ICRC are those of [`Transport`], and the packet may lie in two
/// segments, all headers in the first. It has an LRH, or a GRH, or both:
///
/// ```text
///  native InfiniBand, within a subnet    LRH | BTH ... ICRC | VCRC
///  native InfiniBand, between subnets    LRH | GRH | BTH ... ICRC | VCRC
///  RoCE v1                               Ethernet | GRH | BTH ... ICRC | (Ethernet padding)
/// ```
///
/// What follows the ICRC is the [trailer](Transport::trailer), so a VCRC is the first two bytes of
/// it; a capture may have left it out.
///
/// ```
/// use roce_codec::{NativeFrame, NativeStart, ib::{Opcode, VcrcVerdict}, icrc::IcrcVerdict};
///
/// let packet = [
///     0x00, 0x02, 0x00, 0x07, 0x00, 0x06, 0x00, 0x03,
///     0x04, 0x40, 0xff, 0xff, 0x00, 0x00, 0x01, 0x23, 0x80, 0x00, 0x00, 0x05,
///     0xf3, 0x79, 0xf3, 0xeb, 0x76, 0xcd,
/// ];
/// let frame = NativeFrame::parse([&packet, &[]], NativeStart::Lrh)?;
/// assert_eq!(frame.lrh().map(|lrh| (lrh.slid.0, lrh.dlid.0)), Some((3, 7)));
/// assert_eq!(frame.opcode(), Opcode::RC_SEND_ONLY);
/// assert_eq!(frame.verify_icrc(), IcrcVerdict::Valid);
/// assert_eq!(frame.verify_vcrc(), VcrcVerdict::Valid);
/// # Ok::<(), roce_codec::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NativeFrame<'a> {
    /// What comes before the first byte that the ICRC covers: Ethernet, or an LRH that a GRH
    /// follows.
    link: &'a [u8],
    route: RouteRef<'a>,
    transport: Transport<'a>,
}

impl<'a> Deref for NativeFrame<'a> {
    type Target = Transport<'a>;

    fn deref(&self) -> &Transport<'a> {
        &self.transport
    }
}

impl<'a> NativeFrame<'a> {
    /// Parses a whole packet; its VCRC may be missing.
    ///
    /// # Errors
    /// [`ParseError`]: another protocol, a raw packet, lengths that disagree, or a packet cut
    /// short.
    pub fn parse(segments: [&'a [u8]; 2], start: NativeStart) -> Result<Self, ParseError> {
        let frame = Self::parse_captured(segments, start)?;
        let missing = frame.missing();
        if missing == 0 {
            return Ok(frame);
        }
        let needed =
            frame.ext_bytes().len() + Bth::LEN + frame.payload_len() + frame.pad().len() + ICRC_LEN;
        let available = needed.saturating_sub(missing);
        Err(ParseError::Truncated { layer: Layer::Payload, needed, available })
    }

    /// Parses a packet that a capture may have cut short behind its headers: the payload is then
    /// what there is of it, [`missing`](Transport::missing) says what there is not, and neither
    /// CRC is checkable.
    ///
    /// # Errors
    /// As [`NativeFrame::parse`], a cut behind the headers excepted.
    pub fn parse_captured(segments: [&'a [u8]; 2], start: NativeStart) -> Result<Self, ParseError> {
        let [head, tail] = segments;
        let result = match start {
            NativeStart::Lrh => Self::infiniband(head, tail),
            NativeStart::Ethernet => Self::roce_v1(head, tail),
            NativeStart::Grh => Self::global(&[], None, head, tail),
        };
        match result {
            // Only headers are taken from the first segment alone.
            Err(ParseError::Truncated { .. }) if !tail.is_empty() => Err(ParseError::SplitHeaders),
            result => result,
        }
    }

    fn infiniband(head: &'a [u8], tail: &'a [u8]) -> Result<Self, ParseError> {
        let (lrh, rest) = take::<LrhWire>(head, Layer::Lrh)?;
        match lrh.lnh() {
            LinkNextHeader::Local => {
                let len = lrh.packet_len();
                check_lrh_len(len, Lrh::LEN)?;
                let field = LengthField { layer: Layer::Lrh, before_bth: Lrh::LEN };
                let transport = Transport::take(Segments([head, tail]), Lrh::LEN, len, field)?;
                Ok(Self { link: &[], route: RouteRef::Local(lrh), transport })
            }
            LinkNextHeader::Global => {
                let link = head.get(..Lrh::LEN).unwrap_or_default();
                Self::global(link, Some(lrh), rest, tail)
            }
            raw => Err(ParseError::RawPacket(raw)),
        }
    }

    fn roce_v1(head: &'a [u8], tail: &'a [u8]) -> Result<Self, ParseError> {
        let (ethertype, rest) = take_ethernet(head)?;
        if ethertype != EtherType::ROCE_V1 {
            return Err(ParseError::NotRoce { layer: Layer::Ethernet, found: ethertype.0 });
        }
        let link = head.get(..head.len().saturating_sub(rest.len())).unwrap_or_default();
        Self::global(link, None, rest, tail)
    }

    /// `rest` starts with the GRH.
    fn global(
        link: &'a [u8],
        lrh: Option<&'a LrhWire>,
        rest: &'a [u8],
        tail: &'a [u8],
    ) -> Result<Self, ParseError> {
        let (grh, _) = take::<GrhWire>(rest, Layer::Grh)?;
        grh.check()?;
        let len = grh.pay_len();
        if let Some(lrh) = lrh {
            let before = Lrh::LEN + Grh::LEN;
            check_lrh_len(lrh.packet_len(), before)?;
            let expected = lrh.packet_len().saturating_sub(before);
            if len != expected {
                return Err(ParseError::Length { layer: Layer::Grh, field: len, expected });
            }
        }
        let field = LengthField { layer: Layer::Grh, before_bth: 0 };
        let packet = Segments([rest, tail]);
        let transport = Transport::take(packet, Grh::LEN, Grh::LEN + len, field)?;
        Ok(Self { link, route: RouteRef::Global(lrh, grh), transport })
    }

    /// The headers before the BTH.
    #[must_use]
    pub fn route(&self) -> Route {
        match self.route {
            RouteRef::Local(lrh) => Route::Local(lrh.value()),
            RouteRef::Global(Some(lrh), grh) => Route::Global(lrh.value(), grh.value()),
            RouteRef::Global(None, grh) => match Ethernet::parse(self.link) {
                Ok(ethernet) => Route::RoceV1(ethernet, grh.value()),
                Err(_) => Route::Grh(grh.value()),
            },
        }
    }

    /// The local route header of native InfiniBand.
    #[must_use]
    pub fn lrh(&self) -> Option<Lrh> {
        match self.route {
            RouteRef::Local(lrh) | RouteRef::Global(Some(lrh), _) => Some(lrh.value()),
            RouteRef::Global(None, _) => None,
        }
    }

    /// The Ethernet header of RoCE v1, with its VLAN tags.
    #[must_use]
    pub fn ethernet(&self) -> Option<Ethernet> {
        self.route().ethernet()
    }

    /// The global route header.
    #[must_use]
    pub fn grh(&self) -> Option<Grh> {
        match self.route {
            RouteRef::Local(_) => None,
            RouteRef::Global(_, grh) => Some(grh.value()),
        }
    }

    /// The ICRC that the packet's contents call for, by the kernel of your choice; `None` if the
    /// packet is cut.
    #[must_use]
    pub fn computed_icrc<C: Crc32>(&self) -> Option<[u8; ICRC_LEN]> {
        if self.missing() > 0 {
            return None;
        }
        let [head, tail] = self.covered();
        let network = match self.route {
            RouteRef::Local(_) => Network::Lrh,
            RouteRef::Global(..) => Network::Grh,
        };
        let mut icrc = Icrc::<C>::packet(network, head);
        icrc.update(tail);
        Some(icrc.finish())
    }

    /// Checks the ICRC with the default kernel.
    #[must_use]
    pub fn verify_icrc(&self) -> IcrcVerdict {
        self.verify_icrc_with::<roce_crc::Crc>()
    }

    /// Checks the ICRC with the kernel of your choice.
    #[must_use]
    pub fn verify_icrc_with<C: Crc32>(&self) -> IcrcVerdict {
        self.icrc_verdict(self.computed_icrc::<C>())
    }

    /// The VCRC as the packet carries it; `None` if it has no LRH, or none was captured.
    #[must_use]
    pub fn vcrc(&self) -> Option<[u8; VCRC_LEN]> {
        self.lrh()?;
        let [a, b] = self.trailer();
        let mut bytes = a.iter().chain(b).copied();
        Some([bytes.next()?, bytes.next()?])
    }

    /// The VCRC that the packet's contents call for; `None` if it has no LRH or is cut.
    #[must_use]
    pub fn computed_vcrc(&self) -> Option<[u8; VCRC_LEN]> {
        self.lrh()?;
        if self.missing() > 0 {
            return None;
        }
        let mut vcrc = Vcrc::new();
        vcrc.update(self.link);
        for piece in self.covered() {
            vcrc.update(piece);
        }
        vcrc.update(&self.icrc());
        Some(vcrc.finish())
    }

    /// Checks the VCRC.
    #[must_use]
    pub fn verify_vcrc(&self) -> VcrcVerdict {
        match (self.computed_vcrc(), self.vcrc()) {
            (Some(expected), Some(found)) if expected == found => VcrcVerdict::Valid,
            (Some(expected), Some(found)) => VcrcVerdict::Invalid { expected, found },
            (None, _) if self.lrh().is_some() => VcrcVerdict::Truncated,
            _ => VcrcVerdict::Absent,
        }
    }

    /// The values that [`NativeBuilder::emit`] turns back into this packet.
    #[must_use]
    pub fn to_builder(&self) -> NativeBuilder {
        NativeBuilder {
            route: self.route(),
            bth: self.bth(),
            ext: self.ext_headers(),
            pad: self.pad().bytes(),
        }
    }
}

/// Whether an LRH's packet length has room for the headers before the BTH and for the shortest
/// transport.
fn check_lrh_len(field: usize, before_bth: usize) -> Result<(), ParseError> {
    let expected = before_bth + Bth::LEN + ICRC_LEN;
    if field < expected {
        return Err(ParseError::Length { layer: Layer::Lrh, field, expected });
    }
    Ok(())
}
