//! A packet to send: headers as values, and where its payload is.

use core::fmt;
use core::net::IpAddr;

use roce_codec::ib::{Bth, ExtHeaders, Qpn};
use roce_codec::net::{EtherType, Ethernet, Ip, Ipv4, Ipv6, MacAddr, ROCE_V2_PORT, Udp, VlanStack};
use roce_codec::{Crc32, EmitError, FrameBuilder};

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
        let ip = match (self.path.src, self.path.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ip::V4(Ipv4 {
                dscp_ecn: self.path.traffic_class,
                total_len: 0,
                // RFC 6864: atomic datagrams need no identification.
                identification: 0,
                flags_fragment: Ipv4::DONT_FRAGMENT,
                ttl: self.path.hop_limit,
                protocol: 17,
                checksum: 0,
                src,
                dst,
            }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ip::V6(Ipv6 {
                traffic_class: self.path.traffic_class,
                flow_label: self.path.flow_label,
                payload_len: 0,
                next_header: 17,
                hop_limit: self.path.hop_limit,
                src,
                dst,
            }),
            _ => return Err(TransmitError::AddressFamily),
        };
        let ethertype: EtherType = ip.ethertype();
        let mut builder = FrameBuilder {
            ethernet: Some(Ethernet { dst: link.dst, src: link.src, vlans: link.vlans, ethertype }),
            ip,
            udp: Udp {
                src_port: self.path.src_port,
                dst_port: ROCE_V2_PORT,
                length: 0,
                checksum: 0,
            },
            bth: self.bth,
            ext: ExtHeaders::NONE,
            pad: [0; 3],
        };
        let len = usize::try_from(self.body.len()).unwrap_or(usize::MAX);
        builder.set_payload_len(len).map_err(TransmitError::Emit)?;
        let (written, filled) = builder
            .emit_ext_with::<C, _>(&self.ext, len, out, |room, icrc| match self.body {
                Body::Empty => Ok(()),
                Body::Region { addr, .. } => backing.read_crc(addr, room, icrc),
                Body::Gather(gather) => {
                    engine.read_gathered((self.qp, self.bth.psn), gather, backing, room, icrc)
                }
            })
            .map_err(TransmitError::Emit)?;
        filled.map_err(TransmitError::Backing)?;
        Ok(written)
    }
}
