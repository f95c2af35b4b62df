//! A packet to send: headers as values, and where its payload is.

use core::fmt;
use core::net::IpAddr;

use roce_codec::ib::{Bth, ExtHeaders, Qpn};
use roce_codec::icrc::Network;
use roce_codec::net::{EtherType, Ethernet, Ipv4, Ipv6, MacAddr, Udp, VlanStack};
use roce_codec::{Crc32, EmitError, TransportBuilder};

use crate::backing::{Addr, Backing, BackingFault};
use crate::engine::Engine;
use crate::qp::Path;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// No payload.
    Empty,
    /// Bytes of a region: a port that gathers needs no copy, another copies once, fused with the
    /// ICRC.
    Region {
        /// Where they are.
        addr: Addr,
        /// How many; at most the path MTU.
        len: u32,
    },
    /// Bytes in several pieces, or handed over inline: the engine knows where.
    Gather(Gather),
}

/// A part of a work request's memory that is in several pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    pub(crate) wqe: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl Body {
    /// Bytes of payload.
    #[must_use]
    pub const fn len(&self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Region { len, .. } | Self::Gather(Gather { len, .. }) => *len,
        }
    }

    /// Whether there is no payload.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A packet to send, from [`Engine::poll_transmit`](crate::Engine::poll_transmit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The queue pair that sends it.
    pub qp: Qpn,
    /// Addresses, next hop, port, traffic class.
    pub path: Path,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: ExtHeaders,
    /// Payload.
    pub body: Body,
}

/// Why a packet could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransmitError {
    /// The buffer is too short, or the packet too long.
    Emit(EmitError),
    /// The payload's memory is gone: tell
    /// [`Engine::transmit_failed`](crate::Engine::transmit_failed).
    Backing(BackingFault),
    /// Source and destination address are of different families.
    AddressFamily,
}

impl fmt::Display for TransmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emit(error) => error.fmt(f),
            Self::Backing(_) => f.write_str("the payload's memory cannot be read"),
            Self::AddressFamily => f.write_str("addresses of different families"),
        }
    }
}

impl core::error::Error for TransmitError {}

impl From<EmitError> for TransmitError {
    fn from(error: EmitError) -> Self {
        Self::Emit(error)
    }
}

/// The link-layer addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkHeader {
    /// The next hop.
    pub dst: MacAddr,
    /// The port's own.
    pub src: MacAddr,
    /// VLAN tags.
    pub vlans: VlanStack,
}

impl Transmit {
    /// Writes the frame into `out`, payload and ICRC included, with the CRC kernel of your
    /// choice; says how many bytes. `engine` is the one that the packet is from: it knows the
    /// pieces of a [`Body::Gather`].
    ///
    /// # Errors
    /// [`TransmitError`].
    pub fn emit<C: Crc32, B: Backing>(
        &self,
        engine: &Engine<'_>,
        link: &LinkHeader,
        backing: &B,
        out: &mut [u8],
    ) -> Result<usize, TransmitError> {
        let payload_len = usize::try_from(self.body.len()).unwrap_or(usize::MAX);
        let transport = TransportBuilder::new(self.bth, &self.ext, payload_len);
        let (network, ethertype) = match self.path.src {
            IpAddr::V4(_) => (Network::Ipv4, EtherType::IPV4),
            IpAddr::V6(_) => (Network::Ipv6, EtherType::IPV6),
        };
        let ethernet = Ethernet { dst: link.dst, src: link.src, vlans: link.vlans, ethertype };
        let link_len = ethernet.header_len();
        let needed = transport.len().saturating_add(link_len + network.header_len());
        let short = TransmitError::Emit(EmitError::NoRoom { needed, available: out.len() });
        let out = out.get_mut(..needed).ok_or(short)?;

        let (link, packet) = out.split_at_mut_checked(link_len).ok_or(short)?;
        ethernet.emit(link)?;
        self.path.emit(transport.len(), packet)?;
        let filled = transport.emit::<C, _>(network, packet, |room, icrc| match self.body {
            Body::Empty => Ok(()),
            Body::Region { addr, .. } => backing.read_crc(addr, room, icrc),
            Body::Gather(gather) => {
                engine.read_gathered((self.qp, self.bth.psn), gather, backing, room, icrc)
            }
        })?;
        filled.map_err(TransmitError::Backing)?;
        Ok(needed)
    }
}

impl Path {
    /// Writes IP and UDP headers before `len` bytes that lead this way.
    #[inline]
    fn emit(&self, len: usize, out: &mut [u8]) -> Result<(), TransmitError> {
        let udp_len = len.saturating_add(Udp::LEN);
        let length = u16::try_from(udp_len).map_err(|_| EmitError::TooLong(udp_len))?;
        let udp = Udp { length, ..Udp::new(self.src_port) };
        let ip_len = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // RFC 6864: atomic datagrams need no identification.
                let (dscp_ecn, ttl) = (self.traffic_class, self.hop_limit);
                let mut ip = Ipv4 { dscp_ecn, ttl, ..Ipv4::new(src, dst) };
                ip.set_payload_len(udp_len)?;
                ip.emit(out)?;
                Ipv4::LEN
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let Self { traffic_class, flow_label, hop_limit, .. } = *self;
                let mut ip = Ipv6 { traffic_class, flow_label, hop_limit, ..Ipv6::new(src, dst) };
                ip.set_payload_len(udp_len)?;
                ip.emit(out)?;
                Ipv6::LEN
            }
            _ => return Err(TransmitError::AddressFamily),
        };
        udp.emit(out.get_mut(ip_len..).unwrap_or_default())?;
        Ok(())
    }
}
