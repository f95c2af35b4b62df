//! [`NativeBuilder`]: a whole packet in values, the inverse of
//! [`NativeFrame`](crate::NativeFrame).

use roce_crc::Crc32;

use crate::EmitError;
use crate::ib::{Bth, ExtHeaders, LinkNextHeader, Lrh, VCRC_LEN, Vcrc};
use crate::icrc::Network;
use crate::net::{Ethernet, Grh};
use crate::transport::{TransportBuilder, copy_payload, lengths};
use crate::wire::put;

/// The headers before the BTH of a packet that is not RoCEv2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Route {
    /// Native InfiniBand within a subnet.
    Local(Lrh),
    /// Native InfiniBand between subnets, and multicast.
    Global(Lrh, Grh),
    /// RoCE v1.
    RoceV1(Ethernet, Grh),
    /// From the GRH on.
    Grh(Grh),
}

impl Route {
    /// Bytes of the headers.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.link_len() + self.network().header_len()
    }

    /// The local route header, if there is one.
    #[must_use]
    pub const fn lrh(&self) -> Option<Lrh> {
        match *self {
            Self::Local(lrh) | Self::Global(lrh, _) => Some(lrh),
            Self::RoceV1(..) | Self::Grh(_) => None,
        }
    }

    /// The Ethernet header, if there is one.
    #[must_use]
    pub const fn ethernet(&self) -> Option<Ethernet> {
        match *self {
            Self::RoceV1(ethernet, _) => Some(ethernet),
            _ => None,
        }
    }

    /// The global route header, if there is one.
    #[must_use]
    pub const fn grh(&self) -> Option<Grh> {
        match *self {
            Self::Local(_) => None,
            Self::Global(_, grh) | Self::RoceV1(_, grh) | Self::Grh(grh) => Some(grh),
        }
    }

    /// Bytes before the first one that the ICRC covers.
    fn link_len(&self) -> usize {
        match self {
            Self::Local(_) | Self::Grh(_) => 0,
            Self::Global(..) => Lrh::LEN,
            Self::RoceV1(ethernet, _) => ethernet.header_len(),
        }
    }

    /// What the ICRC covers before the BTH.
    const fn network(&self) -> Network {
        match self {
            Self::Local(_) => Network::Lrh,
            Self::Global(..) | Self::RoceV1(..) | Self::Grh(_) => Network::Grh,
        }
    }

    /// Bytes behind the ICRC.
    const fn vcrc_len(&self) -> usize {
        match self {
            Self::Local(_) | Self::Global(..) => VCRC_LEN,
            Self::RoceV1(..) | Self::Grh(_) => 0,
        }
    }

    /// The same with lengths and LNH for `len` bytes from the BTH to the ICRC.
    fn with_len(mut self, len: usize) -> Result<Self, EmitError> {
        match &mut self {
            Self::Local(lrh) => set_lrh(lrh, LinkNextHeader::Local, Lrh::LEN, len)?,
            Self::Global(lrh, grh) => {
                set_lrh(lrh, LinkNextHeader::Global, Lrh::LEN + Grh::LEN, len)?;
                set_grh(grh, len)?;
            }
            Self::RoceV1(_, grh) | Self::Grh(grh) => set_grh(grh, len)?,
        }
        Ok(self)
    }
}

/// A packet in values: what [`NativeFrame`](crate::NativeFrame) takes apart, put together.
///
/// ```
/// use roce_codec::ib::{Bth, ExtHeaders, Lid, LinkNextHeader, Lrh, Opcode, Psn, Qpn};
/// use roce_codec::{Crc, NativeBuilder, NativeFrame, NativeStart, Route};
///
/// let lrh = Lrh {
///     vl: 0,
///     lver: 0,
///     sl: 0,
///     resv2: 0,
///     lnh: LinkNextHeader::Local,
///     dlid: Lid(7),
///     resv5: 0,
///     pkt_len: 0,
///     slid: Lid(3),
/// };
/// let mut builder = NativeBuilder {
///     route: Route::Local(lrh),
///     bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x123), Psn::new(5)),
///     ext: ExtHeaders::NONE,
///     pad: [0; 3],
/// };
/// builder.set_payload_len(5)?;
/// let mut packet = [0; 64];
/// let len = builder.emit::<Crc>([b"hello", b""], &mut packet)?;
///
/// let frame = NativeFrame::parse([&packet[..len], &[]], NativeStart::Lrh)?;
/// assert_eq!(frame.payload()[0], b"hello");
/// assert_eq!(frame.to_builder(), builder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NativeBuilder {
    /// The headers before the BTH.
    pub route: Route,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers; those the opcode calls for are written.
    pub ext: ExtHeaders,
    /// Pad bytes, of which the BTH's pad count are written. Senders write zeroes.
    pub pad: [u8; 3],
}

impl NativeBuilder {
    /// Bytes before the payload.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.route.header_len() + Bth::LEN + usize::from(self.bth.opcode.info().headers_len)
    }

    /// Sets the pad count, the lengths of LRH and GRH and the LRH's LNH for `payload_len` bytes.
    ///
    /// # Errors
    /// [`EmitError::TooLong`]; the packet is then as it was.
    pub fn set_payload_len(&mut self, payload_len: usize) -> Result<(), EmitError> {
        let (pad_count, len) = lengths(&self.bth, payload_len);
        self.route = self.route.with_len(len)?;
        self.bth.pad_count = pad_count;
        Ok(())
    }

    /// Writes the packet into `out`: the headers as they stand, the payload copied, the pad, the
    /// ICRC and, behind an LRH, the VCRC, both computed anew. Says how many bytes. Lengths are
    /// written as they stand: call [`NativeBuilder::set_payload_len`] first unless they came from
    /// a [`NativeFrame`](crate::NativeFrame).
    ///
    /// # Errors
    /// [`EmitError`]; `out` may be partly written.
    pub fn emit<C: Crc32>(&self, payload: [&[u8]; 2], out: &mut [u8]) -> Result<usize, EmitError> {
        let [first, second] = payload;
        let payload_len = first.len().saturating_add(second.len());
        let transport =
            TransportBuilder { bth: self.bth, ext: &self.ext, pad: self.pad, payload_len };
        let (link_len, kind) = (self.route.link_len(), self.route.network());
        let around = link_len + kind.header_len() + self.route.vcrc_len();
        let needed = transport.len().saturating_add(around);
        let short = EmitError::NoRoom { needed, available: out.len() };
        let out = out.get_mut(..needed).ok_or(short)?;

        let len = needed.saturating_sub(self.route.vcrc_len());
        let (packet, vcrc) = out.split_at_mut_checked(len).ok_or(short)?;
        let (link, network) = packet.split_at_mut_checked(link_len).ok_or(short)?;
        match &self.route {
            Route::Local(lrh) => lrh.emit(network)?,
            Route::Global(lrh, grh) => {
                lrh.emit(link)?;
                grh.emit(network)?;
            }
            Route::RoceV1(ethernet, grh) => {
                ethernet.emit(link)?;
                grh.emit(network)?;
            }
            Route::Grh(grh) => grh.emit(network)?,
        }
        transport.emit::<C, _>(kind, network, |room, icrc| copy_payload(payload, room, icrc))?;
        if !vcrc.is_empty() {
            let mut crc = Vcrc::new();
            crc.update(packet);
            put(&crc.finish(), vcrc)?;
        }
        Ok(needed)
    }
}

fn set_lrh(
    lrh: &mut Lrh,
    lnh: LinkNextHeader,
    before_bth: usize,
    len: usize,
) -> Result<(), EmitError> {
    let len = len.saturating_add(before_bth);
    // Every part of a packet is a multiple of four bytes, payload and pad together.
    lrh.pkt_len = u16::try_from(len / 4)
        .ok()
        .filter(|words| *words <= Lrh::MAX_PKT_LEN)
        .ok_or(EmitError::TooLong(len))?;
    lrh.lnh = lnh;
    Ok(())
}

fn set_grh(grh: &mut Grh, len: usize) -> Result<(), EmitError> {
    grh.pay_len = u16::try_from(len).map_err(|_| EmitError::TooLong(len))?;
    Ok(())
}
